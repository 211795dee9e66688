"""Elements compared in plain C, against what NumPy says of the same arrays."""

import gc
import sys

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.strategies import LAYOUTS, NAMES, dtype_of, filled, laid_out, layouts, names, same, shapes

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.mostly_slow(2)

SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]


def check(left, right):
    """All that compares two arrays of one type says what NumPy does."""
    expected = same(left, right)
    seq = TensorSequence([left])
    assert (seq == TensorSequence([right])) == expected
    assert (right in seq) == expected
    assert seq.count(right) == expected


@st.composite
def pairs(draw):
    """Two arrays of one type and layouts of their own, most often of one shape and nearly alike."""
    name = draw(names)
    left = filled(name, draw(shapes), start=draw(st.integers(0, 99)))
    right = left.copy()
    if left.size and draw(st.booleans()):
        if left.dtype.kind in "fc" or name == "bfloat16":
            for array in (left, right):
                at = draw(st.integers(0, left.size - 1))
                array.reshape(-1)[at] = draw(st.sampled_from(SPECIAL))
        else:
            right.reshape(-1)[draw(st.integers(0, left.size - 1))] = filled(
                name, 1, draw(st.integers(0, 99))
            )[0]
    elif draw(st.booleans()):
        right = filled(name, draw(shapes))
    return laid_out(left, draw(layouts)), laid_out(right, draw(layouts))


@given(pairs())
def test_as_numpy_compares(pair):
    check(*pair)


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("n", [1, 63, 64, 65, 200])
def test_any_item_may_differ(name, layout, n):
    plain = filled(name, (n, 3))
    array = laid_out(plain, layout)
    check(array, laid_out(plain, "plain") if layout != "broadcast" else np.stack([plain, plain]))
    for at in {0, n // 2, 3 * n - 1}:
        other = plain.copy()
        old = other.reshape(-1)[at]
        other.reshape(-1)[at] = "other" if name == "string" else not old if name == "bool" else old + 1
        check(laid_out(other, layout), array)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_parts_of_each_layout(layout):
    """Parts that lie one behind the other, against such that may not."""
    array = laid_out(filled("int64", (8, 4)), layout)
    alike, other = array.copy(), array.copy()
    other[(-1,) * other.ndim] += 1
    for split in (1, len(array), [len(array)], [1, len(array) - 1]):
        ours, theirs = sq.split_to_sequence(array, split), sq.split_to_sequence(alike, split)
        assert (ours == theirs, theirs == ours) == (True, True)
        theirs = sq.split_to_sequence(other, split)
        assert (ours == theirs, theirs == ours) == (False, False)


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_every_number_of_16_bits(dtype):
    numbers = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    seq = sq.split_to_sequence(numbers, keepdims=0)
    for number in numbers[::2749].tolist() + SPECIAL:
        number = np.array(number, dtype)
        with np.errstate(invalid="ignore"):
            assert seq.count(number) == np.count_nonzero(numbers == number)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_nan_and_zeros(dtype):
    values = np.array(SPECIAL)
    if dtype.startswith("complex"):
        values = np.array([complex(real, imaginary) for real in SPECIAL for imaginary in SPECIAL])
    values = values.astype(dtype_of(dtype))
    for left in values:
        for right in values:
            check(np.array(left), np.array(right))


def test_bools_of_other_bytes():
    check(np.array([1, 2, 0], np.uint8).view(bool), np.array([255, 1, 0], np.uint8).view(bool))
    check(np.array([1, 2, 0], np.uint8).view(bool), np.array([255, 1, 3], np.uint8).view(bool))
    odd, plain = np.array([0, 1, 2, 255], np.uint8).view(bool), np.array([False, True, True, True])
    assert TensorSequence([odd]) == TensorSequence([plain])
    assert TensorSequence([odd[::2]]) == TensorSequence([plain[::2]])


def test_strings_of_other_kinds():
    texts = ["", "a", "é", "€", "\U0001f600", "a" * 1000, "a" * 999 + "b"]
    for left in texts:
        for right in texts:
            check(np.array([left], object), np.array(["".join(right)], object))


# -- more than is compared without a pause --------------------------------------------------------------


def windows(array):
    """A hundred million items of 20,000."""
    return np.lib.stride_tricks.sliding_window_view(array, len(array) // 2)


@pytest.mark.slow
@pytest.mark.parametrize("at", [None, 0, 9_999, 19_999])
def test_pauses_within_an_element(at):
    ours, theirs = np.arange(20_000, dtype=np.int16), np.arange(20_000, dtype=np.int16)
    if at is not None:
        theirs[at] += 1
    seq = TensorSequence([windows(ours)] * 2)
    assert (windows(theirs) in seq) == (at is None)
    assert (seq == TensorSequence([windows(theirs)] * 2)) == (at is None)
    flipped = windows(theirs)[::-1].T
    assert seq.count(flipped[::-1].T[::-1]) == 0
    assert TensorSequence([windows(ours)[::-1].T]).count(flipped) == (at is None)


@pytest.mark.parametrize("at", [0, 29_999_999])
def test_pauses_within_a_row(at):
    ours, theirs = np.zeros(30_000_000, np.float32), np.zeros(30_000_000, np.float32)
    assert theirs in TensorSequence([ours])
    theirs[at] = 1
    assert theirs not in TensorSequence([ours])
    assert theirs[::-1] not in TensorSequence([ours])
    assert np.zeros(30_000_000, np.float32) in TensorSequence([theirs[::-1], ours[::-1]])


@pytest.mark.slow
@pytest.mark.at_night
def test_pauses_between_elements():
    n = 3_000_000
    rows = sq.split_to_sequence(np.arange(5, dtype=np.float64))
    seq = rows[np.r_[np.zeros(n, int), 3, np.zeros(n, int), 3]]
    assert seq.index([3.0]) == n
    assert seq.index([3.0], n + 1) == len(seq) - 1
    assert seq.count([3.0]) == 2
    assert seq.count([0.0]) == 2 * n
    assert [4.0] not in seq
    other = seq.copy()
    assert seq == other
    other[-1] = np.array([4.0])
    assert seq != other
    other.remove([4.0])
    assert other == seq[:-1]


@pytest.mark.thread_unsafe  # a profile function is asked for one thread
@pytest.mark.parametrize("name", NAMES)
def test_comparisons_run_no_python_code(name):
    """Some are made under the lock of a sequence, and with a GIL Python code is where others come in."""
    seq = TensorSequence([filled(name, (2,), start=1)])
    other, tensor, calls = seq.copy(), seq[0], []
    acts = [lambda: seq == other]
    if name != "string":  # which is read in Python before
        acts += [lambda: seq.count(tensor), lambda: tensor in seq, lambda: seq.remove(tensor)]
    gc.disable()  # others have callbacks there
    try:
        for act in acts:
            sys.setprofile(lambda frame, event, arg: event == "call" and calls.append(frame.f_code.co_name))
            try:
                act()
            finally:
                sys.setprofile(None)
    finally:
        gc.enable()
    assert calls == ["<lambda>"] * len(acts)
    assert len(seq) == (name == "string")


def test_elements_of_one_table_that_differ_in_length():
    """Their layout is one, so their lengths alone tell them apart."""
    seq = sq.split_to_sequence(np.zeros(9), [2, 3, 1, 3])
    assert seq[[0]] != seq[[1]]
    assert seq[[1, 0]] != seq[[1, 2]]
    assert seq[[1, 0]] == seq[[3, 0]]
    assert seq[1:2] != seq[2:3]
