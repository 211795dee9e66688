"""Several threads on one sequence: each method is atomic, and what is counted must balance."""

import sys
import threading

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

ROUNDS = 300


@pytest.fixture(autouse=True)
def frequent_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*bodies):
    """Run the bodies on a thread each, from one moment on; what one of them raises is raised here."""
    barrier, failures = threading.Barrier(len(bodies)), []

    def run(body):
        try:
            barrier.wait(10)
            body()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=run, args=(body,), daemon=True) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a thread is stuck"
    if failures:
        raise failures[0]


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


def test_copies_and_joins_beside_edits():
    seq = sq.split_to_sequence(np.ones((2000, 4)))

    def join():
        for _ in range(ROUNDS // 10):
            rows = sq.concat_from_sequence(seq, 0)
            assert rows.shape[1] == 4
            assert rows.all()

    def copy():
        for _ in range(ROUNDS):
            other = seq.copy()
            other.append(np.ones((1, 4)))
            other.erase(0)
            other._check()
            assert len(other) == len(other.shapes)

    together(
        join,
        copy,
        lambda: [(seq.append(np.ones((2, 4))), seq.erase(0)) for _ in range(ROUNDS)],
        repeat(seq.compact),
    )
    assert len(seq) == 2000
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
