"""from_offsets and from_lengths: sequences cut from values, and the way back."""

import itertools
import warnings

import numpy as np
import pytest
from support.strategies import assert_holds, laid_out

from seqcore import TensorSequence

VALUES = np.arange(20, dtype="int32").reshape(10, 2)


def cut(values, offsets):
    return [values[start:stop] for start, stop in itertools.pairwise(offsets)]


# --- offsets ---


@pytest.mark.parametrize("layout", ["strided", "reversed", "offset", "unaligned"])
def test_numbers_of_each_layout(layout):
    offsets = laid_out(np.array([0, 3, 4, 10]), layout)
    assert_holds(TensorSequence.from_offsets(VALUES, offsets), cut(VALUES, [0, 3, 4, 10]))
    lengths = laid_out(np.array([3, 1, 6], np.int16), layout)
    assert_holds(TensorSequence.from_lengths(VALUES, lengths), cut(VALUES, [0, 3, 4, 10]))
    swapped = offsets.astype(offsets.dtype.newbyteorder())
    assert_holds(TensorSequence.from_offsets(VALUES, swapped), cut(VALUES, [0, 3, 4, 10]))


def test_values_are_taken_by_reference_and_numbers_are_not():
    values, offsets, lengths = VALUES.copy(), np.array([0, 4, 10]), np.array([4, 6])
    seqs = [TensorSequence.from_offsets(values, offsets), TensorSequence.from_lengths(values, lengths)]
    offsets[...] = 99
    lengths[...] = -1
    for seq in seqs:
        assert_holds(seq, cut(values, [0, 4, 10]))
    values[5] = 77
    for seq in seqs:
        assert (seq[1][1] == 77).all()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of NumPy 2.5, which still does it
        values.shape = (20,)
    for seq in seqs:
        assert seq.shapes == [(4, 2), (6, 2)]


def test_strings_are_copied():
    words = np.array(["to", "be", "or"], object)
    seqs = [TensorSequence.from_offsets(words, [0, 1, 3]), TensorSequence.from_lengths(words, [1, 2])]
    words[...] = "not"
    for seq in seqs:
        assert_holds(seq, [np.array(["to"], object), np.array(["be", "or"], object)])
    for fixed in (np.array(["to", "be", "or"]), ["to", "be", "or"]):
        assert TensorSequence.from_lengths(fixed, [1, 2]) == seqs[0]


def test_other_values():
    assert_holds(TensorSequence.from_offsets(VALUES.astype(">i4"), [0, 4, 10]), cut(VALUES, [0, 4, 10]))
    assert_holds(
        TensorSequence.from_lengths([1.5, 2.0, 3.0], [1, 2]), [np.array([1.5]), np.array([2.0, 3.0])]
    )
    frozen = VALUES.copy()
    frozen.flags.writeable = False
    assert_holds(TensorSequence.from_lengths(frozen, [4, 6]), cut(VALUES, [0, 4, 10]))


def test_of_pytorch():
    torch = pytest.importorskip("torch")
    values = torch.arange(10.0)
    seq = TensorSequence.from_offsets(values, torch.tensor([0, 4, 10]))
    assert_holds(seq, cut(values.numpy(), [0, 4, 10]))
    assert TensorSequence.from_lengths(values, torch.tensor([4, 6], dtype=torch.int32)) == seq


# --- errors ---

BOTH = TensorSequence.from_offsets, TensorSequence.from_lengths


WRONG = [[0, 4, 3], [1, 0], [0, 11], [11], [5, 11, 11], [-1, 9], [-1], [0, -1], [0, 9**9], [0, 2**63 - 1, 9]]
OTHER_SUMS = [[9], [11], [4, 5], [4, 7], [0], [-1, 11], [11, -1], [5, -5, 10], [-10]]


@pytest.mark.parametrize(("name", "all_numbers"), [("offsets", WRONG), ("lengths", OTHER_SUMS)])
def test_offsets_outside_of_the_values_and_lengths_that_do_not_sum_up(name, all_numbers):
    for numbers in (*all_numbers, *map(np.array, all_numbers)):
        with pytest.raises(ValueError, match=r"\d"):
            getattr(TensorSequence, f"from_{name}")(VALUES, numbers)


@pytest.mark.parametrize(
    "huge",
    [
        *([2**62] * 4 + [10], [2**63, 2**63, 10], [2**64 - 1, 11], [2**64 + 10]),
        *([0, 2**64 - 1], [2**63, 2**63 + 1], [2**64 - 1, 4]),
    ],
)
def test_numbers_that_wrap(huge):
    forms = [huge] if max(huge) >= 2**64 else [huge, np.array(huge, np.uint64)]
    for make, numbers in itertools.product(BOTH, forms):
        with pytest.raises((ValueError, OverflowError)):
            make(VALUES, numbers)


@pytest.mark.parametrize(("offsets", "may_be"), [([6, 4], True), ([6, 5], False), ([6, 5, -1], False)])
def test_numbers_that_may_be_lengths(offsets, may_be):
    with pytest.raises(ValueError, match="offsets can't decrease") as caught:
        TensorSequence.from_offsets(VALUES, offsets)
    assert ("did you pass lengths?" in str(caught.value)) == may_be


def test_no_offsets():
    for none in ([], (), np.array([], np.int64)):
        with pytest.raises(ValueError, match=r"offset"):
            TensorSequence.from_offsets(VALUES, none)


@pytest.mark.parametrize(
    "numbers",
    [
        [0.0, 10.0],
        np.array([0.0, 10.0]),
        np.array([0, 10], object) * 1.0,
        ["0", "10"],
        [None],
        "10",
        None,
        1j,
        np.array([True] * 10),
    ],
)
def test_numbers_that_are_no_integers(numbers):
    for make in BOTH:
        with pytest.raises(TypeError):
            make(VALUES, numbers)


@pytest.mark.parametrize("numbers", [np.array([[0, 10]]), [[0, 10]], np.array(10), 10])
def test_numbers_of_another_rank(numbers):
    for make in BOTH:
        with pytest.raises((ValueError, TypeError)):
            make(VALUES, numbers)


@pytest.mark.parametrize("values", [np.array(1), 3, np.array("a", object)])
def test_values_of_rank_0(values):
    for make in BOTH:
        with pytest.raises(ValueError, match="rank"):
            make(values, [0, 1])


@pytest.mark.parametrize(
    "values", [np.array([1, 2], "M8[s]"), None, np.array([b"a"]), np.ma.array([1, 2]), np.array([None])]
)
def test_values_of_other_types(values):
    for make in BOTH:
        with pytest.raises(TypeError):
            make(values, [0, 1])
