"""split_to_sequence: types, layouts, every form of `split` and what is none; the oracle is slicing."""

from itertools import accumulate

import numpy as np
import pytest
from support import strategies
from support.strategies import assert_holds

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(2)

LAYOUTS = [*strategies.LAYOUTS, "foreign_endian", "read_only"]


def laid_out(array, layout):
    """Lay an array out in memory in some way; its shape stays, and so do its values unless broadcast."""
    if layout == "broadcast":
        return np.broadcast_to(array[(..., *[slice(1)] * array.ndim)], array.shape)
    if layout == "foreign_endian":
        return array.astype(array.dtype.newbyteorder()) if array.dtype.kind in "iufc" else array
    if layout == "read_only":
        array = array.copy()
        array.flags.writeable = False
        return array
    return strategies.laid_out(array, layout)


def native(array):
    """The array as it stands in a sequence: in the machine's own byte order."""
    return array if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="))


def assert_same(got, expected):
    assert type(got) is np.ndarray
    assert (got.dtype, got.shape) == (expected.dtype, expected.shape)
    assert np.array_equal(got, expected)


def cut(tensor, lengths, axis=0):
    moved = np.moveaxis(native(tensor), axis, 0)
    starts = accumulate(lengths, initial=0)
    return [np.moveaxis(moved[start : start + n], 0, axis) for start, n in zip(starts, lengths, strict=False)]


def test_lengths_of_several_integer_types():
    """Of signed and unsigned ones NumPy makes floats."""
    tensor = np.arange(6)
    lengths = [np.uint64(1), np.int64(2), 3]
    assert_holds(sq.split_to_sequence(tensor, lengths), cut(tensor, [1, 2, 3]))
    array = np.array(lengths, object)
    assert_holds(sq.split_to_sequence(tensor, array), cut(tensor, [1, 2, 3]))
    assert [*map(type, array)] == [np.uint64, np.int64, int]
    for wrong in ([np.int64(1), 2**70], [np.uint64(2**64 - 1), np.int64(-1), 6]):
        with pytest.raises(ValueError, match=r"split\[\d\] is \d{20}"):
            sq.split_to_sequence(tensor, wrong)
    with pytest.raises(TypeError, match="split"):
        sq.split_to_sequence(tensor, [2**64, np.timedelta64(1, "s")])


@pytest.mark.parametrize("tensor", [[[1, 2], [3, 4]], ((1.5, 2), (3, 4)), [["a", "b"], ["c", "d"]]])
def test_nested_lists_are_tensors(tensor):
    expected = np.array(tensor)
    expected = expected.astype(object) if expected.dtype.kind == "U" else expected
    assert_holds(sq.split_to_sequence(tensor, axis=1), cut(expected, [1, 1], 1))


class TestErrors:
    @pytest.mark.parametrize("lengths", [[1, 1], [2, 2], [3, 1], [0], [2**31, 1], [2**62, 1], [2**64]])
    def test_sum_is_not_the_axis(self, lengths):
        for split in (lengths, np.array(lengths)):
            with pytest.raises(ValueError, match=r"axis 0.*\b3\b"):
                sq.split_to_sequence(np.arange(3), split)

    @pytest.mark.parametrize("lengths", [[-1, 4], [0, -1, 4], [-(2**63), 3], [1, -(2**62), 2**62]])
    def test_negative_length(self, lengths):
        for split in (lengths, np.array(lengths)):
            with pytest.raises(ValueError, match=rf"{min(lengths)}.*negative"):
                sq.split_to_sequence(np.arange(3), split)

    @pytest.mark.parametrize("split", [None, 1, [3]])
    @pytest.mark.parametrize("axis", [2, -3, 64, 2**31, 2**63, -(2**63) - 1, 2**70])
    def test_axis_out_of_range(self, axis, split):
        with pytest.raises(ValueError, match=rf"axis {axis} .*-2.*\b1\b"):
            sq.split_to_sequence(np.zeros((3, 3)), split, axis)
