"""Selections, values and padding on several threads beside edits: each call sees one state."""

import contextlib
import sys

import numpy as np
import pytest
from support.races import together
from test_threads import ROUNDS, numbers, repeat, tensor

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.usefixtures("frequent_switches")


def ragged(*lengths):
    """Elements whose items are all their own length."""
    return TensorSequence([np.full((n, 2), n) for n in lengths], dtype="int64")


def test_a_selection_sees_one_state():
    seq = numbers(8)
    seq[:] = [tensor(0)] * 8
    where, mask = np.array([7, 0, 3, 3]), [True, False] * 4

    def read():
        for _ in range(ROUNDS):
            for found in (seq[where], seq[mask], seq[[1, -1]], seq.__getitems__([2, 5])):
                assert len({int(t[0]) for t in found}) == 1
                found._check()

    together(
        lambda: [seq.__setitem__(slice(None), [tensor(i)] * 8) for i in range(ROUNDS)],
        lambda: [seq.__setitem__([*range(8)], [tensor(-i)] * 8) for i in range(ROUNDS)],
        lambda: [seq.__setitem__(np.ones(8, bool), [tensor(ROUNDS + i)] * 8) for i in range(ROUNDS)],
        read,
        read,
    )
    seq._check()


def test_an_assignment_is_seen_whole_or_not_at_all():
    seq = numbers(9)
    seq[[0, 4, 8]] = [tensor(0)] * 3

    def read():
        for _ in range(ROUNDS):
            one, other, third = (int(t[0]) for t in seq[[8, 0, 4]])
            assert one == other == third

    together(
        lambda: [seq.__setitem__([4, 8, 0], [tensor(i)] * 3) for i in range(ROUNDS)],
        lambda: [seq.__setitem__(np.array([0, 8, 4, 0]), [tensor(-i)] * 4) for i in range(ROUNDS)],
        repeat(seq.compact),
        read,
        read,
    )
    seq._check()


def test_a_permutation_of_itself_loses_nothing():
    """Each call reads a state and writes another; two of them may write over each other, but only whole."""
    seq = numbers(10)
    order = np.random.default_rng(0).permutation(10)

    def permute():
        for _ in range(ROUNDS):
            seq[:] = seq[order]

    def read():
        for _ in range(ROUNDS):
            assert sorted(int(t[0]) for t in seq[[*range(10)]]) == [*range(10)]

    together(permute, permute, read)
    seq._check()


def test_each_element_is_deleted_once():
    seq = numbers(4 * ROUNDS)
    together(
        lambda: [seq.__delitem__([0, 0, -1]) for _ in range(ROUNDS // 2)],
        lambda: [seq.__delitem__(np.array([1, 0])) for _ in range(ROUNDS // 2)],
        lambda: [seq.__delitem__([-1]) for _ in range(ROUNDS)],
        repeat(lambda: seq[[0, 5, -1]]),
    )
    assert len(seq) == ROUNDS
    left = [int(t[0]) for t in seq]
    assert left == sorted(set(left))
    seq._check()


def test_masks_beside_edits_of_the_length():
    """A mask fits the sequence as it is, or is an error; never anything else."""
    seq = numbers(100)

    def select():
        for _ in range(ROUNDS):
            try:
                found = seq[np.arange(100) % 2 == 0]
            except IndexError:
                continue
            assert len(found) == 50

    def delete():
        for _ in range(ROUNDS):
            mask = [True] * 3 + [False] * 97
            try:
                del seq[mask]
            except IndexError:
                continue
            seq.extend([tensor(1)] * 3)

    together(
        select,
        select,
        delete,
        lambda: [(seq.insert(50, tensor(-1)), seq.erase(50)) for _ in range(ROUNDS)],
    )
    assert len(seq) == 100
    seq._check()


def test_indices_beside_clear():
    seq = numbers(20)

    def fill():
        for _ in range(ROUNDS):
            seq.clear()
            seq.extend([tensor(i) for i in range(20)])

    def use(action):
        for _ in range(ROUNDS):
            with contextlib.suppress(IndexError):
                action()

    together(
        fill,
        lambda: use(lambda: [t.sum() for t in seq[[19, 0, 7]]]),
        lambda: use(lambda: seq.__setitem__([0, 19], [tensor(5), tensor(6)])),
        lambda: use(lambda: seq.__delitem__(np.array([3, -3]))),
    )
    seq._check()


def test_values_lengths_and_offsets_beside_edits():
    seq = ragged(1, 2, 3, 4)
    states = {(1, 2, 3, 4), (4, 3, 2, 1), (5, 0, 7), (7, 0, 5)}
    shown = {tuple(n for n in state if n) for state in states}

    def edit(*lengths):
        def run():
            for _ in range(ROUNDS):
                seq[:] = ragged(*lengths)

        return run

    def read():
        for _ in range(ROUNDS):
            values = seq.values()
            assert tuple(dict.fromkeys(values[:, 0].tolist())) in shown
            assert tuple(seq.lengths().tolist()) in states
            offsets = seq.offsets()
            assert tuple(np.diff(offsets).tolist()) in states
            assert offsets[0] == 0

    together(edit(4, 3, 2, 1), edit(5, 0, 7), repeat(seq.reverse), repeat(seq.compact), read)
    seq._check()
    assert tuple(seq.lengths().tolist()) in states


def test_values_that_are_views_beside_edits():
    table = np.arange(2000).reshape(-1, 2)
    seq = sq.split_to_sequence(table)

    def read():
        for _ in range(ROUNDS):
            values = seq.values()
            assert values.shape[1] == 2
            assert (values[:, 1] - values[:, 0] == 1).all()
            assert not values.flags.writeable

    together(
        read,
        read,
        lambda: [(seq.pop(0), seq.append(table[:1])) for _ in range(ROUNDS)],
        lambda: [seq.__delitem__([5, 5]) for _ in range(ROUNDS)],
        repeat(seq.compact),
    )
    assert len(seq) == 1000 - ROUNDS
    seq._check()


@pytest.mark.parametrize("side", ["right", "left"])
def test_padding_beside_edits(side):
    seq = ragged(1, 2, 3, 4)

    def edit(*lengths):
        return lambda: [seq.__setitem__(slice(None), ragged(*lengths)) for _ in range(ROUNDS)]

    def pad():
        for _ in range(ROUNDS):
            batch, mask = seq.to_padded(-1, side=side, return_mask=True)
            lengths = tuple(mask.sum(1).tolist())
            assert lengths in {(1, 2, 3, 4), (9, 0), (2, 2, 2, 2, 2)}
            assert batch.shape == (len(lengths), max(lengths), 2)
            for row, n in zip(batch, lengths, strict=True):
                assert sorted(row[:, 0].tolist()) == sorted([n] * n + [-1] * (max(lengths) - n))

    def pad_into():
        out = np.zeros((4, 4, 2), np.int64)
        for _ in range(ROUNDS):
            try:
                seq.to_padded(side=side, out=out)
            except ValueError:
                continue
            assert out[:, :, 0].max(1).tolist() == [1, 2, 3, 4]

    together(edit(9, 0), edit(2, 2, 2, 2, 2), edit(1, 2, 3, 4), pad, pad_into)
    seq._check()


def test_batches_and_flat_maps_beside_edits():
    seq = numbers(200)

    def edit():
        for i in range(ROUNDS):
            del seq[[0, -1]]
            seq.extend([tensor(i)] * 2)

    def use():
        for _ in range(ROUNDS // 30):
            for result in (
                sq.map_batches(np.negative, seq, batch_size=7, max_workers=2),
                sq.map_batches(np.negative, seq, new_axis=1, max_workers=2),
                sq.sequence_map(np.negative, seq, max_workers=2),
            ):
                assert len(result) in (198, 200)
                assert all((t == t[0]).all() and t[0] <= 0 for t in result)
                result._check()

    together(edit, use, use)
    assert len(seq) == 200
    seq._check()


def test_no_call_waits_for_ever_beside_edits():
    """Readers of a long sequence come to an end though it's edited all the while."""
    seq, stop = sq.split_to_sequence(np.arange(40_000)), []

    def edit():
        while not stop:
            seq.append(np.array([1]))
            seq.erase(0)

    def read():
        try:
            for _ in range(5):
                assert len(seq[np.arange(40_000) % 7]) == 40_000
                assert len(seq.values()) in (40_000, 40_001)
                assert seq.lengths().sum() in (40_000, 40_001)
                assert seq.to_padded().shape[1] == 1
                assert len(seq[[*range(0, 40_000, 3)]]) == 13_334
        finally:
            stop.append(True)

    together(edit, read)
    seq._check()
    assert len(seq) == 40_000


def test_references_balance():
    source = np.zeros((500, 2))
    before = sys.getrefcount(source)
    seq = sq.split_to_sequence(source)

    def select():
        for _ in range(ROUNDS):
            seq[[3, 3, 0]].append(source)
            seq.values()
            seq[np.array([1, 2])] = [source[:1], source[1:2]]

    together(select, select, lambda: [seq.__delitem__([0, 1]) for _ in range(100)], repeat(seq.copy))
    seq._check()
    seq.clear()
    assert sys.getrefcount(source) <= before + 1
