"""Several threads on one sequence: each method is atomic, and what is counted must balance."""

import contextlib
import gc
import pickle
import sys
import weakref

import numpy as np
import pytest
from support.races import together

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.usefixtures("frequent_switches")

ROUNDS = 300


def repeat(action):
    return lambda: [action() for _ in range(ROUNDS)]


def tensor(value):
    return np.full(3, value, np.int64)


def numbers(n):
    return TensorSequence([tensor(i) for i in range(n)], dtype="int64")


def test_nothing_is_lost_between_writers():
    seq = TensorSequence(dtype="int64")
    together(
        lambda: [seq.append(tensor(i)) for i in range(ROUNDS)],
        lambda: [seq.insert(0, tensor(ROUNDS + i)) for i in range(ROUNDS)],
        lambda: [seq.extend([tensor(2 * ROUNDS + i), tensor(3 * ROUNDS + i)]) for i in range(ROUNDS)],
        repeat(seq.reverse),
    )
    seq._check()
    assert sorted(int(t[0]) for t in seq) == list(range(4 * ROUNDS))


def test_each_element_is_popped_once():
    seq, popped = numbers(3 * ROUNDS), []

    def pop(position):
        return lambda: popped.extend(int(seq.pop(position)[0]) for _ in range(ROUNDS))

    together(pop(0), pop(-1), pop(0), repeat(seq.compact))
    assert sorted(popped) == list(range(3 * ROUNDS))
    assert len(seq) == 0
    seq._check()


def test_a_slice_never_shows_half_an_assignment():
    seq = numbers(8)
    seq[2:6] = [tensor(0)] * 4

    def read():
        for _ in range(ROUNDS):
            values = {int(t[0]) for t in seq[2:6]}
            assert len(values) == 1
            assert len(seq[:].shapes) == 8

    together(
        lambda: [seq.__setitem__(slice(2, 6), [tensor(i)] * 4) for i in range(ROUNDS)],
        lambda: [seq.__setitem__(slice(2, 6), numbers(0) + [tensor(-i)] * 4) for i in range(ROUNDS)],
        read,
        read,
    )


def test_iterators_beside_erases():
    seq = sq.split_to_sequence(np.arange(4000).reshape(-1, 4))

    def drain(items):
        for t in items:
            assert t.shape in ((1, 4), (3,))
            t.sum()

    together(
        lambda: [drain(seq) for _ in range(5)],
        lambda: [drain(reversed(seq)) for _ in range(5)],
        lambda: [seq.erase(i % 7) for i in range(ROUNDS)],
        lambda: [seq.insert(5, tensor(i)) for i in range(ROUNDS)],
    )
    assert len(seq) == 1000
    seq._check()


def test_a_map_works_on_the_elements_at_its_call():
    seq = numbers(200)

    def edit():
        for _ in range(ROUNDS):
            del seq[:100]
            seq.extend([tensor(-1)] * 100)

    def total():
        for _ in range(20):
            assert len(sq.sequence_map(lambda t: t.sum(), seq, max_workers=2)) in (100, 200)

    together(edit, total)


def test_elements_outlive_what_happens_elsewhere():
    seq = sq.split_to_sequence(np.arange(800).reshape(200, 4))
    kept = []

    def keep():
        for i in range(200):
            try:
                kept.append((seq[i], seq[i].tolist()))
            except IndexError:
                return

    together(keep, keep, lambda: [seq.pop(-1) for _ in range(150)], repeat(seq.compact))
    assert all(element.tolist()[0][0] % 4 == 0 for element, _ in kept)


def test_one_iterator_between_threads():
    for _ in range(ROUNDS // 3):
        items, seen = iter(numbers(20)), []  # the iterator alone keeps the sequence
        together(*[lambda items=items, seen=seen: seen.extend(int(t[0]) for t in items)] * 2)
        assert sorted(seen) == list(range(20))
        assert next(items, None) is None


# -- readers beside writers ---------------------------------------------------------------------------


def test_readers_see_one_moment():
    """Writers turn the sequence round: who reads it sees all numbers, in one order or the other."""
    seq, forth = numbers(40), numbers(40)
    back = forth[::-1]
    nbytes = forth.nbytes

    def read(look):
        def check():
            for _ in range(ROUNDS // 3):
                assert look()

        return check

    together(
        repeat(seq.reverse),
        lambda: [seq.__setitem__(slice(None), back if i % 2 else forth) for i in range(ROUNDS)],
        read(lambda: pickle.loads(pickle.dumps(seq)) in (forth, back)),
        read(lambda: seq.copy() in (forth, back)),
        read(lambda: seq.nbytes == nbytes and seq.count(tensor(7)) == 1 and tensor(7) in seq),
        read(lambda: seq.index(tensor(39)) in (0, 39) and len(repr(seq)) < 200),
        read(lambda: sq.concat_from_sequence(seq, 0)[::3].tolist() in ([*range(40)], [*range(39, -1, -1)])),
        read(lambda: seq.pinned_nbytes == nbytes and seq.shapes == [(3,)] * 40),
    )
    seq._check()
    assert seq in (forth, back)


# -- what keeps memory alive --------------------------------------------------------------------------


def test_a_source_lives_as_long_as_its_pieces_anywhere():
    for _ in range(ROUNDS // 10):
        array = np.zeros((100, 4), np.int64)
        alive = weakref.ref(array)
        first = sq.split_to_sequence(array)
        others = [TensorSequence(dtype="int64") for _ in range(3)]

        def scatter(into, first=first):
            return lambda: [into.append(first[i]) for i in range(100)] and into.extend(first[::3])

        together(*map(scatter, others), lambda first=first: [first.copy() for _ in range(100)])
        del array, first
        assert alive() is not None
        assert [len(other) for other in others] == [134] * 3
        together(*[other.clear for other in others])
        del others, scatter
        gc.collect()
        assert alive() is None


class Memory:
    """Memory of three integers that does something when it is let go."""

    def __init__(self, value, at_end):
        self.array, self.at_end = tensor(value), at_end
        self.__array_interface__ = self.array.__array_interface__

    def __del__(self):
        self.at_end()


def test_finalizers_that_come_back_in():
    """Each element that goes puts another one in and looks around, wherever that happens."""
    seq, ended = TensorSequence(dtype="int64"), []

    def at_end():
        ended.append(len(seq))
        seq.append(tensor(-1))
        seq.erase(0)
        assert len(seq[:5].shapes) <= 5
        repr(seq)

    def work():
        for i in range(ROUNDS):
            seq.append(Memory(i, at_end))
            if i % 3 == 0:
                seq[len(seq) // 2] = tensor(i)
            if i % 50 == 0:
                seq.clear()

    def put():
        return [seq.append(tensor(i)) for i in range(2 * ROUNDS)]

    def guarded(body):
        def run():
            for _ in range(3):
                with contextlib.suppress(IndexError):  # another thread has emptied it
                    body()

        return run

    errors = []
    hook, sys.unraisablehook = sys.unraisablehook, lambda what: errors.append(what.exc_value)
    try:
        together(
            guarded(work), guarded(work), guarded(put), guarded(lambda: [seq.pop(0) for _ in range(ROUNDS)])
        )
        seq.clear()
        gc.collect()
    finally:
        sys.unraisablehook = hook
    assert ended
    assert {type(error) for error in errors} <= {IndexError}
    seq._check()


def test_what_is_put_in_may_edit_meanwhile():
    seq = numbers(10)

    def items():
        for i in range(5):
            seq.erase(0)
            seq.append(tensor(i))
            yield tensor(i)

    together(*[lambda: [seq.extend(items()) for _ in range(ROUNDS // 10)]] * 3)
    assert len(seq) == 10 + 3 * 5 * (ROUNDS // 10)
    seq._check()
