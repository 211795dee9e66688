"""split_to_sequence: types, layouts, every form of `split` and what is none; the oracle is slicing."""

import re
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import strategies
from support.random_cases import examples
from support.strategies import NAMES, assert_holds, dtype_of, filled, types_and_layouts

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(2)

INTEGERS = [name for name in NAMES if "int" in name]
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


@pytest.mark.parametrize(("name", "layout"), types_and_layouts(LAYOUTS))
class TestTypesAndLayouts:
    @pytest.mark.mostly_slow(13)
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_in_ones(self, name, layout, axis):
        tensor = laid_out(filled(name, (3, 4, 2)), layout)
        count = tensor.shape[axis]
        assert_holds(sq.split_to_sequence(tensor, axis=axis), cut(tensor, [1] * count, axis))
        assert_holds(
            sq.split_to_sequence(tensor, axis=axis, keepdims=0),
            [native(tensor).take(i, axis) for i in range(count)],
        )

    @pytest.mark.mostly_slow(13)
    @pytest.mark.parametrize("axis", [0, -2])
    def test_by_lengths(self, name, layout, axis):
        tensor = laid_out(filled(name, (5, 2)), layout)
        seq = sq.split_to_sequence(tensor, [2, 0, 3], axis)
        assert seq.dtype == dtype_of(name)
        assert_holds(seq, cut(tensor, [2, 0, 3], axis))

    @pytest.mark.mostly_slow(13)
    @pytest.mark.parametrize("shape", [(0,), (0, 3), (3, 0), (0, 0)])
    def test_zero_length(self, name, layout, shape):
        tensor = laid_out(filled(name, shape), layout)
        for keepdims in (0, 1):
            seq = sq.split_to_sequence(tensor, keepdims=keepdims)
            assert (len(seq), seq.dtype) == (shape[0], dtype_of(name))
        assert_holds(sq.split_to_sequence(tensor, [0, shape[0], 0]), cut(tensor, [0, shape[0], 0]))

    @pytest.mark.mostly_slow(13)
    def test_input_is_untouched(self, name, layout):
        tensor = laid_out(filled(name, (4, 3)), layout)
        before = tensor.copy(), tensor.dtype, tensor.shape, tensor.strides, tensor.flags.writeable
        sq.split_to_sequence(tensor, axis=1)
        assert np.array_equal(tensor, before[0])
        assert (tensor.dtype, tensor.shape, tensor.strides, tensor.flags.writeable) == before[1:]


@pytest.mark.parametrize("dtype", INTEGERS)
@pytest.mark.parametrize("lengths", [[6], [2, 4], [0, 0, 6, 0], [1] * 6])
def test_lengths_of_each_integer_type(lengths, dtype):
    tensor = np.arange(12).reshape(2, 6)
    split = np.array(lengths, dtype)
    assert_holds(sq.split_to_sequence(tensor, split, axis=1), cut(tensor, lengths, 1))
    assert_holds(sq.split_to_sequence(tensor, [*split], axis=1), cut(tensor, lengths, 1))


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


@pytest.mark.parametrize("layout", LAYOUTS)
def test_lengths_in_each_layout(layout):
    tensor = np.arange(9)
    split = laid_out(np.array([3, 3, 3] if layout == "broadcast" else [1, 3, 5]), layout)
    assert_holds(sq.split_to_sequence(tensor, split), cut(tensor, split.tolist()))


@pytest.mark.parametrize("split", [[], np.array([], np.int64)], ids=repr)
def test_no_lengths(split):
    seq = sq.split_to_sequence(np.zeros((0, 2), np.int16), split)
    assert (len(seq), seq.dtype) == (0, np.int16)
    with pytest.raises(ValueError, match="3"):
        sq.split_to_sequence(np.zeros((3, 2), np.int16), split)


def test_one_length_is_a_list_of_one():
    tensor = np.arange(6)
    assert_holds(sq.split_to_sequence(tensor, np.array([6])), [tensor])
    with pytest.raises(ValueError, match=r"3.*6|6.*3"):
        sq.split_to_sequence(tensor, np.array([3]))


@pytest.mark.parametrize("split", [4, 2**31, 2**63 - 1, np.uint32(2**32 - 1)])
def test_number_past_the_axis(split):
    assert_holds(sq.split_to_sequence(np.arange(3), split), [np.arange(3)])


@pytest.mark.parametrize("split", [2**63, 2**64, 2**70, np.uint64(2**64 - 1)])
def test_number_past_64_bits(split):
    """One piece or an error that says so, nothing else."""
    try:
        seq = sq.split_to_sequence(np.arange(3), split)
    except (ValueError, OverflowError):
        return
    assert_holds(seq, [np.arange(3)])


@pytest.mark.parametrize("split", [1, np.array(1), [1, 1, 1]], ids=repr)
def test_keepdims_is_ignored_where_split_is_given(split):
    assert sq.split_to_sequence(np.zeros((3, 2)), split, keepdims=0).shapes == [(1, 2)] * 3


@pytest.mark.parametrize("tensor", [[[1, 2], [3, 4]], ((1.5, 2), (3, 4)), [["a", "b"], ["c", "d"]]])
def test_nested_lists_are_tensors(tensor):
    expected = np.array(tensor)
    expected = expected.astype(object) if expected.dtype.kind == "U" else expected
    assert_holds(sq.split_to_sequence(tensor, axis=1), cut(expected, [1, 1], 1))


def test_pieces_are_read_only_and_share_memory():
    tensor = np.arange(6.0).reshape(2, 3)
    seq = sq.split_to_sequence(tensor, axis=1)
    for piece in seq:
        assert np.shares_memory(piece, tensor)
        with pytest.raises(ValueError, match="read-only"):
            piece[...] = 0
        with pytest.raises(ValueError, match="WRITEABLE"):
            piece.flags.writeable = True
    tensor[1, 2] = 9
    assert seq[2][1, 0] == 9


def test_pieces_outlive_the_array():
    seq = sq.split_to_sequence(np.arange(10**5), 10)
    piece = seq[-1]
    del seq
    np.zeros(10**5)
    assert piece.tolist() == [*range(10**5 - 10, 10**5)]


@pytest.mark.parametrize("axis", [0, 63, -1, -64])
def test_rank_64(axis):
    tensor = np.full((1,) * 64, 7, np.int8)
    assert_holds(sq.split_to_sequence(tensor, axis=axis), [tensor])
    assert_holds(sq.split_to_sequence(tensor, axis=axis, keepdims=0), [tensor.squeeze(axis)])


class TestHugeViews:
    """Axes longer than memory: cheap to cut into few pieces, an error to cut into many."""

    view = np.broadcast_to(np.int8(1), (2**62,))

    @pytest.mark.parametrize("split", [None, 1, 2, 2**20])
    def test_too_many_pieces(self, split):
        with pytest.raises((MemoryError, ValueError, OverflowError)):
            sq.split_to_sequence(self.view, split)

    @pytest.mark.parametrize("split", [2**61, [2**61, 2**61], np.array([2**61, 2**61], np.uint64)], ids=str)
    def test_few_pieces(self, split):
        seq = sq.split_to_sequence(self.view, split)
        assert seq.shapes == [(2**61,)] * 2
        assert seq[-1][-1] == 1


class TestErrors:
    @pytest.mark.parametrize("split", [0, -1, -(2**63), np.array(0), np.int8(-3)], ids=repr)
    def test_number_not_positive(self, split):
        with pytest.raises(ValueError, match=str(int(split))):
            sq.split_to_sequence(np.arange(3), split)

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

    @pytest.mark.parametrize("dtype", [None, np.uint64])
    @pytest.mark.parametrize("lengths", [[2**62] * 4, [2**63] * 2, [2**64 - 1, 1], [2**63, 2**62, 2**62]])
    @pytest.mark.parametrize("rest", [0, 3])
    def test_sum_wraps_to_the_axis(self, rest, lengths, dtype):
        split = [*lengths, rest] if dtype is None else np.array([*lengths, rest], dtype)
        with pytest.raises((ValueError, OverflowError)):
            sq.split_to_sequence(np.arange(rest), split)

    @pytest.mark.parametrize("split", [np.ones((1, 3), int), [[1, 2]], [[1], [2]]], ids=repr)
    def test_rank_2_split(self, split):
        with pytest.raises(ValueError, match="split"):
            sq.split_to_sequence(np.arange(3), split)

    @pytest.mark.parametrize(
        "split",
        [2.0, np.float32(1), np.array(1.0), [1, 2.0], np.array([1.0, 2]), "1", ["1", "2"], [1, None], 1j, {}],
        ids=repr,
    )
    def test_split_is_not_integral(self, split):
        with pytest.raises(TypeError, match="split"):
            sq.split_to_sequence(np.arange(3), split)

    def test_split_is_bool(self):
        with pytest.raises(TypeError, match="split"):
            sq.split_to_sequence(np.arange(3), np.array([True, True, True]))

    @pytest.mark.parametrize("tensor", [np.array(1), np.float32(2), 3, np.array("a", object)], ids=repr)
    def test_rank_0(self, tensor):
        for split in (None, 1, [1]):
            with pytest.raises(ValueError, match="rank"):
                sq.split_to_sequence(tensor, split)

    @pytest.mark.parametrize("split", [None, 1, [3]])
    @pytest.mark.parametrize("axis", [2, -3, 64, 2**31, 2**63, -(2**63) - 1, 2**70])
    def test_axis_out_of_range(self, axis, split):
        with pytest.raises(ValueError, match=rf"axis {axis} .*-2.*\b1\b"):
            sq.split_to_sequence(np.zeros((3, 3)), split, axis)

    @pytest.mark.parametrize("axis", [0.0, "0", None, 1j, [0, 1]], ids=repr)
    def test_axis_is_not_an_integer(self, axis):
        with pytest.raises(TypeError, match=type(axis).__name__):
            sq.split_to_sequence(np.zeros((3, 3)), axis=axis)

    @pytest.mark.parametrize("keepdims", [2, -1, 2**64, 0.5, "1", None], ids=repr)
    def test_keepdims_is_neither_0_nor_1(self, keepdims):
        with pytest.raises((ValueError, TypeError), match=f"keepdims.*{re.escape(str(keepdims))}"):
            sq.split_to_sequence(np.zeros((3, 3)), keepdims=keepdims)


@st.composite
def tensors(draw):
    shape = draw(st.lists(st.integers(0, 5), min_size=1, max_size=4))
    return laid_out(filled(draw(strategies.names), shape), draw(st.sampled_from(LAYOUTS)))


@settings(max_examples=examples(150))
@given(data=st.data(), tensor=tensors())
def test_random_splits(data, tensor):
    axis = data.draw(st.integers(-tensor.ndim, tensor.ndim - 1))
    length = tensor.shape[axis]
    bounds = data.draw(st.lists(st.integers(0, length)).map(lambda cuts: [0, *sorted(cuts), length]))
    lengths = np.diff(bounds)
    split = lengths.astype(data.draw(st.sampled_from(INTEGERS)))
    seq = sq.split_to_sequence(tensor, split, axis)
    assert_holds(seq, cut(tensor, lengths.tolist(), axis))
    assert_same(sq.concat_from_sequence(seq, axis), native(tensor))

    number = data.draw(st.integers(1, 7))
    chunks = [min(number, length - start) for start in range(0, length, number)]
    assert_holds(sq.split_to_sequence(tensor, number, axis), cut(tensor, chunks, axis))
