"""Sequences of which some elements are damaged: each call that uses one says so, and no other call minds."""

import copy
import re

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

# Calls that read each element by itself; `absent` is a tensor that is no element.
READERS = {
    "iterate": lambda seq, absent: list(seq),
    "tolist": lambda seq, absent: seq.tolist(),
    "shapes": lambda seq, absent: seq.shapes,
    "lengths": lambda seq, absent: seq.lengths(),
    "uint8 offsets": lambda seq, absent: seq.offsets("uint8"),
    "to_padded": lambda seq, absent: seq.to_padded(),
    "to_padded and cast": lambda seq, absent: seq.to_padded(dtype="float64"),
    "reduce": lambda seq, absent: seq.reduce(np.max, axis=None, initial=0),
    "reduce backwards": lambda seq, absent: seq[::-1][::-1].reduce(np.add, axis=None, dtype="float64"),
    "segment_ids": lambda seq, absent: seq.segment_ids(),
    "count": lambda seq, absent: seq.count(absent),
    "in": lambda seq, absent: absent in seq,
    "index of": lambda seq, absent: seq.index(absent),
    "remove": lambda seq, absent: seq.copy().remove(absent),
    "map": lambda seq, absent: sq.sequence_map(lambda t: np.asarray(t.sum()), seq),
}

# Calls that are given an element alone.
READERS_OF_ONE = {
    "index": lambda seq, at: seq[at],
    "index from the back": lambda seq, at: seq[at - len(seq)],
    "sequence_at": lambda seq, at: sq.sequence_at(seq, at),
    "values": lambda seq, at: seq[at : at + 1].values(),
    "join": lambda seq, at: sq.concat_from_sequence(seq[at : at + 1], 0),
    "join of it twice": lambda seq, at: sq.concat_from_sequence(seq[[at, at]], 0),
    "stack": lambda seq, at: sq.concat_from_sequence(seq[at : at + 1], 0, 1),
    "lengths": lambda seq, at: seq[[at]].lengths(),
    "nbytes": lambda seq, at: seq[at : at + 1].nbytes,
    "to_padded": lambda seq, at: seq[[at]].to_padded(),
    "reduce": lambda seq, at: seq[[at]].reduce(np.add, axis=None),
    "reduce of a slice": lambda seq, at: seq[at : at + 1].reduce(np.fmax, axis=None, initial=0),
    "astype": lambda seq, at: seq[at : at + 1].astype("float64"),
    "deepcopy": lambda seq, at: copy.deepcopy(seq[[at]]),
    "compact": lambda seq, at: seq[[at]].compact(),
    "Arrow": lambda seq, at: seq[[at]].__arrow_c_array__(),
    "Arrow of a slice": lambda seq, at: seq[at : at + 1].__arrow_c_array__(),
    "np.array": lambda seq, at: np.array(seq[[at]]),
    "map": lambda seq, at: sq.sequence_map(np.negative, seq[at : at + 1]),
    "batches": lambda seq, at: sq.map_batches(np.negative, seq[at : at + 1]),
}


def one_more(seq):
    return np.zeros(2, seq.dtype)


def edited(edit):
    def make(seq):
        seq = seq.copy()
        edit(seq)
        return seq

    return make


# Calls that look at no element, and so get past a damaged one; each makes the same elements.
PASSERS = {
    "slice": lambda seq: seq[:],
    "twice backwards": lambda seq: seq[::-1][::-1],
    "selection": lambda seq: seq[np.arange(len(seq))],
    "mask": lambda seq: seq[np.ones(len(seq), bool)],
    "+": lambda seq: seq[:1] + seq[1:],
    "extend": lambda seq: edited(lambda one: one.extend(seq[1:]))(seq[:1]),
    "insert and erase": edited(lambda seq: (seq.insert(1, one_more(seq)), seq.erase(1))),
    "append and del": edited(lambda seq: (seq.append(one_more(seq)), seq.__delitem__(-1))),
    "reverse": edited(lambda seq: (seq.reverse(), seq.reverse())),
    "slice assignment": edited(lambda seq: seq.__setitem__(slice(0, 1), seq[:1])),
    "many edits": edited(
        lambda seq: [(seq.insert(i % 2, one_more(seq)), seq.erase(i % 2)) for i in range(99)]
    ),
    "operators": lambda seq: sq.sequence_erase(sq.sequence_insert(seq, one_more(seq), 1), 1),
}


def outcomes(iterator):
    """The elements of an iterator that goes on after an error; None for each that can't be read."""
    found = []
    while True:
        try:
            found.append(next(iterator))
        except StopIteration:
            return found
        except ValueError as error:
            assert "can't be read" in str(error)  # noqa: PT017
            found.append(None)


def assert_elements(seq, damaged, elements):
    seq._check()
    assert len(seq) == len(elements)
    for found in (outcomes(iter(seq)), outcomes(reversed(seq))[::-1]):
        assert [i for i, one in enumerate(found) if one is None] == sorted(damaged)
    for at, element in enumerate(elements):
        if at in damaged:
            with pytest.raises(ValueError, match=rf"^element {at}\b.* can't be read.*damaged"):
                seq[at]
        else:
            assert seq[at].shape == element.shape
            assert np.array_equal(seq[at], element)


def assert_damaged(seq, damaged, elements):
    """These elements of a sequence are damaged, and the others as given; None stands for a damaged one."""
    assert_elements(seq, damaged, elements)
    for make in PASSERS.values():
        assert_elements(make(seq), damaged, elements)
    absent = np.full(77, 1).astype(seq.dtype)
    for made, order in ((seq, 1), (seq[::-1], -1), (seq[np.arange(len(seq))], 1)):
        first = min(damaged) if order > 0 else len(seq) - 1 - max(damaged)
        for name, read in READERS.items():
            with pytest.raises(ValueError, match=r"can't be read") as caught:
                read(made, absent)
            assert f"element {first}" in str(caught.value), (name, caught.value)
    for made in (seq, seq[::-1], seq[np.arange(len(seq))], seq[::-1][np.arange(len(seq))]):
        assert_joins(made)
    for at in damaged:
        for name, read in READERS_OF_ONE.items():
            with pytest.raises(ValueError, match=r"can't be read"):
                raise AssertionError(f"{name} of {at}: {read(seq, at)}")
        assert_pop_changes_nothing(seq, at, damaged, elements)
    whole = [element for at, element in enumerate(elements) if at not in damaged]
    for remove in (remove_one_by_one, remove_selected, remove_masked):
        rest = seq.copy()
        remove(rest, sorted(damaged))
        assert_elements(rest, (), whole)
    mended = seq.copy()
    for at in damaged:
        mended[at] = one_more(seq)
    filled = [one_more(seq) if at in damaged else one for at, one in enumerate(elements)]
    assert_elements(mended, (), filled)
    if seq.dtype.kind in "iuf":
        for pair in ((seq, mended), (mended, seq)):
            with pytest.raises(ValueError, match=r"can't be read"):
                sq.sequence_map(np.maximum, *pair)
    if whole and all(len(one.shape) == len(whole[0].shape) for one in whole):
        other = TensorSequence(
            [one_more(seq) if at in damaged else one for at, one in enumerate(elements)], seq.dtype
        )
        for left, right in ((seq, other), (other, seq)):
            with pytest.raises(ValueError, match=rf"element {min(damaged)}\b"):
                _ = left == right


def assert_joins(seq):
    """What takes elements of one table together reads the ends alone, and then has what is in between."""
    for join in (TensorSequence.values, lambda seq: sq.concat_from_sequence(seq, 0)):
        try:
            joined = join(seq)
        except ValueError as error:
            assert re.match(r"element \d+\b.* can't be read", str(error))  # noqa: PT017
        else:
            low, high = (seq[at].__array_interface__["data"][0] for at in (0, -1))
            rows = (high - low) // joined.strides[0] + len(seq[-1])
            assert joined.shape == (rows, *seq[0].shape[1:])
            around = np.lib.stride_tricks.as_strided(seq[0], joined.shape, seq[0].strides)
            assert np.array_equal(joined, around)


def assert_pop_changes_nothing(seq, at, damaged, elements):
    made = seq.copy()
    with pytest.raises(ValueError, match="can't be read"):
        made.pop(at)
    with pytest.raises(ValueError, match="can't be read"):
        made.pop(at - len(seq))
    assert_elements(made, damaged, elements)


def remove_one_by_one(seq, positions):
    for at in reversed(positions):
        seq.erase(at)


def remove_selected(seq, positions):
    del seq[positions]


def remove_masked(seq, positions):
    mask = np.zeros(len(seq), bool)
    mask[positions] = True
    del seq[mask]
