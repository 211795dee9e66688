"""Arrays whose shape or type somebody sets while they are read: NumPy lets everybody do so in place."""

import contextlib
import sys
import warnings

import numpy as np
import pytest

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.thread_unsafe  # a profile function is asked for one thread


def set_in_place(array, **how):
    """Set attributes of an array, of which later versions of NumPy disapprove."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        for name, value in how.items():
            setattr(array, name, value)


class Numbers:
    """Integers that set something of another array when they are read."""

    def __init__(self, values, array, how):
        self.values, self.array, self.how = values, array, how

    def __array__(self, dtype=None, copy=None):
        set_in_place(self.array, **self.how)
        return np.array(self.values)


HOW = {
    "no axis": {"shape": ()},
    "more axes": {"shape": (1, 1, 1)},
    "smaller items": {"dtype": np.int8},
    "another type": {"dtype": np.float64},
}


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize(
    ("make", "shape", "numbers"),
    [
        (TensorSequence.from_lengths, (1,), [1]),
        (TensorSequence.from_offsets, (1,), [0, 1]),
        (TensorSequence.from_padded, (1, 1), [1]),
    ],
)
def test_lengths_that_set_what_is_cut(make, shape, numbers, how):
    array = np.full(shape, 7)
    seq = make(array, Numbers(numbers, array, HOW[how]))
    assert all(getattr(array, name) == value for name, value in HOW[how].items())
    assert (seq.dtype, seq.shapes, seq.tolist()) == (np.int64, [(1,)], [[7]])


def test_lengths_that_fit_only_what_the_array_becomes():
    array = np.full(1, 7)
    with pytest.raises(ValueError, match=r"lengths\[0\] is 8.*exceeds axis 0, which has length 1"):
        TensorSequence.from_lengths(array, Numbers([8], array, HOW["smaller items"]))


def after(function, call, array, time=1, how=HOW["smaller items"]):
    """What a call gives where an array is set when a function of seqcore returns the first time, or later."""
    returns = []

    def profile(frame, event, arg):
        if event == "return" and frame.f_code.co_name == function:
            returns.append(function)
            if len(returns) == time:
                set_in_place(array, **how)

    sys.setprofile(profile)
    try:
        return call()
    finally:
        sys.setprofile(None)
        assert len(returns) >= time


def of_a_type_to_be_compared():
    """An array whose type is equal to an element type, but another object."""
    return np.full(2, 7, np.dtype(np.int64, metadata={"unit": "m"}))


def test_a_tensor_that_becomes_another_type_does_not_go_in():
    seq, array = TensorSequence([[1]]), of_a_type_to_be_compared()
    for put in (seq.append, lambda a: seq.insert(0, a), lambda a: seq.__setitem__(0, a)):
        array = of_a_type_to_be_compared()
        with pytest.raises(TypeError, match="changed from int64 to int8 while it was read"):
            after("as_tensor", lambda put=put, array=array: put(array), array)
        assert seq.tolist() == [[1]]


def test_a_split_goes_by_the_type_that_it_cuts():
    for split in (None, [1, 1]):
        array = np.full(2, 7)
        # The first time it is asked by as_tensor, which hands the array itself on.
        seq = after(
            "element_type",
            lambda array=array, split=split: sq.split_to_sequence(array, split),
            array,
            time=2,
        )
        assert (seq.dtype, seq.tolist()) == (np.int64, [[7], [7]])


def test_a_part_of_a_pickle_that_becomes_another_type():
    make, (cls, name, _, runs), *_ = sq.split_to_sequence(np.arange(2)).__reduce_ex__(5)
    for part in (("even", 0, 1), ("whole",), ("offsets", 0, np.array([0, 1, 2]))):
        for time in (1, 2):
            array = of_a_type_to_be_compared()
            parts = [(part[0], array, *part[1:])]
            seq = None
            with contextlib.suppress(TypeError, ValueError):
                seq = after("as_tensor", lambda parts=parts: make(cls, name, parts, runs), array, time)
            if seq is not None:  # the array had been read
                assert (seq.dtype, seq.tolist()) == (np.int64, [[7], [7]])
                seq._check()


@pytest.mark.parametrize("time", [1, 2, 3, 4])
def test_a_part_of_a_pickle_keeps_the_shape_that_it_had(time):
    make, (cls, name, *_), *_ = sq.split_to_sequence(np.arange(2)).__reduce_ex__(5)
    array, other = np.full((2, 2), 7), np.full(2, 8)
    parts = [("even", array, 0, 2), ("even", other, 0, 2)]
    seq = after(
        "as_tensor",
        lambda: make(cls, name, parts, ((0, 0, 1, 1), (1, 0, 1, 1))),
        array,
        time,
        how={"shape": (4,)},
    )
    assert array.shape == (4,)
    assert seq.tolist() in ([[[7, 7], [7, 7]], [8, 8]], [[7, 7], [8, 8]])
    seq._check()
    assert time < 3 or seq.shapes[0] == (2, 2)  # after its part has been read
