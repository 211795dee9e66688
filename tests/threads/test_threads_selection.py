"""Selections, values and padding on several threads beside edits: each call sees one state."""

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
