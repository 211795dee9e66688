"""Numbers for each row of the values, and sequences of single numbers: as arrays and as masks."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqcore as sq
from seqcore import TensorSequence

LENGTHS = st.lists(st.integers(0, 5), max_size=20)


def ragged(lengths):
    return TensorSequence.from_lengths(np.arange(sum(lengths)), lengths)


@given(LENGTHS, st.sampled_from(["int64", "int32", "uint8", "int16", "uint64"]))
def test_ids_are_those_of_each_row(lengths, dtype):
    seq = ragged(lengths)
    for shuffled in (seq, seq[::-1], seq[list(range(len(seq)))]):
        own = shuffled.lengths().tolist()
        segments, positions = shuffled.segment_ids(dtype), shuffled.position_ids(dtype)
        assert segments.dtype == positions.dtype == dtype
        assert segments.tolist() == [i for i, length in enumerate(own) for _ in range(length)]
        assert positions.tolist() == [k for length in own for k in range(length)]


def test_ids_that_do_not_fit():
    seq = ragged([1] * 130 + [0] * 200)
    assert seq.segment_ids("uint8")[-1] == 129
    with pytest.raises(OverflowError, match=r"segment_ids of element 128 go up to 128, .* \(-128 to 127\)"):
        seq.segment_ids("int8")
    with pytest.raises(OverflowError, match="position_ids of element 1 go up to 299"):
        ragged([2, 300]).position_ids("uint8")
    with pytest.raises(TypeError, match="must be an integer type, got float32"):
        seq.position_ids("float32")
    with pytest.raises(ValueError, match="element 0 has rank 0"):
        TensorSequence([1, 2]).segment_ids()
    endless = np.lib.stride_tricks.as_strided(np.zeros(1, np.int8), (1 << 62,), (0,))
    with pytest.raises(OverflowError, match="first 2 elements sum to more"):
        TensorSequence([endless, endless]).segment_ids()


@pytest.mark.parametrize("rows", [2**60, 2**62])
def test_ids_that_no_memory_holds(rows):
    """Elements without items may be of any length."""
    seq = TensorSequence([np.empty((rows, 0), "int8")])
    assert seq.lengths().tolist() == [rows]
    for call in (seq.segment_ids, seq.position_ids, lambda: seq.segment_ids("int32")):
        with pytest.raises(MemoryError):
            call()
    with pytest.raises(OverflowError, match="sum to more than fits int64"):
        (seq + seq + seq)[[0, 1, 2, 0, 1, 2, 0, 1] * 4].segment_ids()


@given(st.lists(st.booleans(), max_size=9))
def test_sequences_of_bools_are_masks(bools):
    seq, mask = ragged([1] * len(bools)), TensorSequence(list(map(np.bool_, bools)), bool)
    model = [i for i, one in enumerate(bools) if one]
    assert seq[mask].tolist() == [[i] for i in model]
    marked = seq.copy()
    marked[mask] = [[-1]] * len(model)
    assert marked.tolist() == [[-1] if one else [i] for i, one in enumerate(bools)]
    del marked[mask]
    assert marked.tolist() == [[i] for i, one in enumerate(bools) if not one]


def test_a_mask_from_a_map():
    seq = ragged([3, 0, 2])
    long = sq.sequence_map(lambda element: element.size > 1, seq)
    assert seq[long].lengths().tolist() == [3, 2]
    with pytest.raises(IndexError, match="the mask has length 3, but the sequence has length 2"):
        seq[:2][long]


def test_other_sequences_are_no_masks():
    seq = ragged([3, 0, 2])
    for other in (TensorSequence([0, 1]), TensorSequence([[True, False, True]]), seq):
        with pytest.raises(TypeError, match="the index is"):
            seq[other]
