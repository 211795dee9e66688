"""concat_from_sequence: types, layouts, edited sequences and what can't be joined; the oracle is NumPy."""

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import strategies as st
from support.strategies import NAMES, dtype_of, filled, names, types_and_layouts
from test_split import LAYOUTS, assert_same, laid_out, native

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(3)


def joined(tensors, axis, new_axis=0):
    """Join by NumPy, with the type that goes into a sequence."""
    return native((np.stack if new_axis else np.concatenate)(tensors, axis))


@pytest.mark.parametrize(("name", "layout"), types_and_layouts(LAYOUTS))
class TestTypesAndLayouts:
    @pytest.mark.mostly_slow(13)
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -3])
    def test_along_an_axis(self, name, layout, axis):
        tensors = []
        for seed, extent in enumerate([2, 1, 0, 3]):
            shape = [2, 3, 4]
            shape[axis] = extent
            tensors.append(laid_out(filled(name, shape, 10 * seed), layout))
        assert_same(sq.concat_from_sequence(sq.TensorSequence(tensors), axis), joined(tensors, axis))

    @pytest.mark.mostly_slow(13)
    @pytest.mark.parametrize("axis", [0, 1, 2, -1, -2, -3])
    def test_along_a_new_axis(self, name, layout, axis):
        tensors = [laid_out(filled(name, (3, 2), 10 * seed), layout) for seed in range(4)]
        seq = sq.TensorSequence(tensors)
        assert_same(sq.concat_from_sequence(seq, axis, new_axis=1), joined(tensors, axis, 1))

    @pytest.mark.mostly_slow(7)
    def test_zero_length(self, name, layout):
        tensors = [laid_out(filled(name, shape), layout) for shape in [(0, 3), (2, 3), (0, 3)]]
        seq = sq.TensorSequence(tensors)
        assert_same(sq.concat_from_sequence(seq, 0), joined(tensors, 0))
        assert_same(sq.concat_from_sequence(seq[::2], -1), joined(tensors[::2], -1))
        assert_same(sq.concat_from_sequence(seq[::2], 1, 1), joined(tensors[::2], 1, 1))

    @pytest.mark.mostly_slow(7)
    def test_elements_stay_as_they_are(self, name, layout):
        tensors = [laid_out(filled(name, (2, 3), 10 * seed), layout) for seed in range(3)]
        before = [tensor.copy() for tensor in tensors]
        seq = sq.TensorSequence(tensors)
        result = sq.concat_from_sequence(seq, 0)
        result[...] = result[::-1].copy()
        for tensor, element, old in zip(tensors, seq, before, strict=True):
            assert np.array_equal(tensor, old)
            assert np.array_equal(element, old)


@pytest.mark.parametrize("kind", [list, tuple, sq.TensorSequence])
def test_each_kind_of_sequence(kind):
    tensors = [np.arange(4).reshape(2, 2), np.ones((1, 2), int)]
    assert_same(sq.concat_from_sequence(kind(tensors), 0), joined(tensors, 0))


def test_lists_of_python_values():
    assert_same(sq.concat_from_sequence([[1, 2], [3]], 0), np.array([1, 2, 3]))
    assert_same(sq.concat_from_sequence([1.5, 2], 0, new_axis=1), np.array([1.5, 2.0]))


@pytest.mark.parametrize("name", NAMES)
def test_scalars_on_a_new_axis(name):
    tensors = [filled(name, (), seed) for seed in range(3)]
    for axis in (0, -1):
        assert_same(sq.concat_from_sequence(tensors, axis, new_axis=1), joined(tensors, axis, 1))


@pytest.mark.parametrize("new_axis", [0, 1])
def test_result_of_one_element_is_a_writable_copy(new_axis):
    tensor = np.arange(6.0).reshape(2, 3)
    result = sq.concat_from_sequence([tensor], 0, new_axis)
    result[...] = -1
    assert tensor[1, 2] == 5


def test_result_outlives_its_strings():
    words = [np.array([f"{number:040}" for number in range(start, start + 50)], object) for start in (0, 50)]
    result = sq.concat_from_sequence(sq.TensorSequence(words), 0)
    del words
    assert [int(word) for word in result] == [*range(100)]


class TestPiecesOfOneSource:
    """Neighbours in memory may be copied at once; those that only look like neighbours may not."""

    tensor = np.arange(48).reshape(4, 6, 2)

    def test_two_splits_of_one_array(self):
        square = np.arange(16).reshape(4, 4)
        mixed = sq.split_to_sequence(square) + sq.split_to_sequence(square.T) + sq.split_to_sequence(square)
        assert_same(sq.concat_from_sequence(mixed, 0), joined([square, square.T, square], 0))

    def test_rows_that_are_contiguous_with_another_array(self):
        halves = self.tensor[:2], self.tensor[2:]
        seq = sq.split_to_sequence(halves[0]) + sq.split_to_sequence(halves[1])
        assert_same(sq.concat_from_sequence(seq, 0), self.tensor)


@pytest.mark.parametrize("axis", [0, 63, -64, -1])
def test_rank_64(axis):
    tensors = [np.full((1,) * 64, i, np.int8) for i in range(3)]
    assert_same(sq.concat_from_sequence(tensors, axis), joined(tensors, axis))


@pytest.mark.parametrize("axis", [0, 63, -64, -1])
def test_rank_63_on_a_new_axis(axis):
    tensors = [np.full((1,) * 63, i, np.int8) for i in range(3)]
    assert_same(sq.concat_from_sequence(tensors, axis, 1), joined(tensors, axis, 1))


class TestErrors:
    @pytest.mark.parametrize("new_axis", [0, 1])
    @pytest.mark.parametrize("name", NAMES)
    def test_nothing_to_join(self, name, new_axis):
        with pytest.raises(ValueError, match="empty"):
            sq.concat_from_sequence(sq.sequence_empty(dtype_of(name)), 0, new_axis)

    @pytest.mark.parametrize("kind", [list, tuple])
    def test_nothing_to_join_in_a_list(self, kind):
        with pytest.raises(ValueError, match=r"empty|no tensors"):
            sq.concat_from_sequence(kind(), 0)

    @pytest.mark.parametrize("misfit", [(2, 4), (0, 4), (2, 3, 1), (3,), ()])
    @pytest.mark.parametrize("position", [1, 2])
    def test_shape_does_not_fit(self, position, misfit):
        tensors = [np.zeros((2, 3))] * 2
        tensors.insert(position, np.zeros(misfit))
        with pytest.raises(ValueError, match=rf"\b{position}\b"):
            sq.concat_from_sequence(tensors, 0)

    @pytest.mark.parametrize("misfit", [(2, 4), (1, 3), (3, 2), (2, 3, 1), (6,)])
    def test_shape_does_not_fit_on_a_new_axis(self, misfit):
        with pytest.raises(ValueError, match=r"\b2\b"):
            sq.concat_from_sequence([np.zeros((2, 3)), np.zeros((2, 3)), np.zeros(misfit)], 0, new_axis=1)

    def test_empty_elements_have_to_fit_too(self):
        with pytest.raises(ValueError, match=r"\b1\b"):
            sq.concat_from_sequence([np.zeros((2, 3)), np.zeros(0)], 0)

    def test_pieces_that_do_not_fit(self):
        seq = sq.split_to_sequence(np.zeros((5, 3)), [2, 3])
        with pytest.raises(ValueError, match=r"\b1\b"):
            sq.concat_from_sequence(seq, 1)

    def test_scalars_need_a_new_axis(self):
        with pytest.raises(ValueError, match="new_axis"):
            sq.concat_from_sequence([np.array(1), np.array(2)], 0)

    @pytest.mark.parametrize("axis", [2, -3, 64, 2**31, 2**63, -(2**63) - 1, 2**70])
    def test_axis_out_of_range(self, axis):
        with pytest.raises(ValueError, match=rf"axis {axis} .*-2.*\b1\b"):
            sq.concat_from_sequence([np.zeros((2, 3))] * 2, axis)

    @pytest.mark.parametrize("axis", [3, -4, 2**63])
    def test_new_axis_out_of_range(self, axis):
        with pytest.raises(ValueError, match=rf"axis {axis} .*-3.*\b2\b"):
            sq.concat_from_sequence([np.zeros((2, 3))] * 2, axis, new_axis=1)

    @pytest.mark.parametrize("axis", [0.0, "0", None, [0, 1]], ids=repr)
    def test_axis_is_not_an_integer(self, axis):
        with pytest.raises(TypeError, match=type(axis).__name__):
            sq.concat_from_sequence([np.zeros(2)], axis)

    def test_axis_is_needed(self):
        with pytest.raises(TypeError, match="axis"):
            sq.concat_from_sequence([np.zeros(2)])

    @pytest.mark.parametrize("new_axis", [2, -1, 2**64, 0.5, "1", None], ids=repr)
    def test_new_axis_is_neither_0_nor_1(self, new_axis):
        with pytest.raises((ValueError, TypeError), match=f"new_axis.*{new_axis}"):
            sq.concat_from_sequence([np.zeros(2)], 0, new_axis)

    def test_rank_64_has_no_place_for_a_new_axis(self):
        with pytest.raises(ValueError, match="64"):
            sq.concat_from_sequence([np.zeros((1,) * 64)] * 2, 0, new_axis=1)

    def test_types_differ(self):
        with pytest.raises(TypeError, match=r"(?s)(float64.*int64|int64.*float64)"):
            sq.concat_from_sequence([np.zeros(2), np.zeros(2, np.int64)], 0)

    @pytest.mark.parametrize("seq", [np.zeros((2, 3)), np.zeros(0), np.float32(1), None, 3, "ab"], ids=repr)
    def test_not_a_sequence(self, seq):
        with pytest.raises(TypeError, match=type(seq).__name__):
            sq.concat_from_sequence(seq, 0)

    @pytest.mark.parametrize("new_axis", [0, 1])
    @pytest.mark.parametrize("count", [1, 2, 4])
    @pytest.mark.parametrize("shape", [(2**62,), (2**31, 2**31), (2**62, 1)])
    def test_larger_than_memory(self, shape, count, new_axis):
        views = [np.broadcast_to(np.int8(1), shape)] * count
        with pytest.raises((MemoryError, ValueError, OverflowError)):
            sq.concat_from_sequence(views, 0, new_axis)

    def test_bytes_overflow(self):
        views = [np.broadcast_to(np.complex128(1), (2**59 - 1,))] * 40
        with pytest.raises((MemoryError, ValueError, OverflowError)):
            sq.concat_from_sequence(views, 0)

    @pytest.mark.parametrize("count", [2, 4])
    def test_extent_overflows_in_an_array_without_bytes(self, count):
        with pytest.raises((ValueError, OverflowError)):
            sq.concat_from_sequence([np.zeros((2**62, 0), np.int8)] * count, 0)


@st.composite
def edited(draw):
    """A sequence of splits and whole arrays after some edits, and a list that went through the same."""
    rank = draw(st.integers(1, 3))
    axis = draw(st.integers(0, rank - 1))
    shape = draw(st.lists(st.integers(0, 3), min_size=rank, max_size=rank))
    name = draw(names)

    def tensor(extent):
        whole = filled(name, [*shape[:axis], extent, *shape[axis + 1 :]], draw(st.integers(0, 99)))
        return laid_out(whole, draw(st.sampled_from(LAYOUTS)))

    seq, model = sq.sequence_empty(dtype_of(name)), []
    for _ in range(draw(st.integers(1, 3))):
        source = tensor(draw(st.integers(0, 6)))
        pieces = sq.split_to_sequence(source, axis=axis)
        seq.extend(pieces)
        model.extend(np.split(source, len(pieces), axis) if pieces else [])
    edits = st.sampled_from(["insert", "erase", "set", "delete", "reverse", "double"])
    for edit in draw(st.lists(edits, max_size=8)):
        at = draw(st.integers(0, len(model)))
        match edit:
            case "insert":
                new = tensor(draw(st.integers(0, 2)))
                seq.insert(at, new)
                model.insert(at, new)
            case "erase" if at < len(model):
                seq.erase(at)
                del model[at]
            case "set" if at < len(model):
                seq[at] = model[at] = tensor(draw(st.integers(0, 2)))
            case "delete":
                cut = slice(at, draw(st.integers(0, len(model))), draw(st.sampled_from([1, 2, -1])))
                del seq[cut]
                del model[cut]
            case "reverse":
                seq.reverse()
                model.reverse()
            case "double":
                seq += seq[at:]
                model += model[at:]
    return axis, seq, model


STACKS = """
import numpy as np
import seqcore as sq

for shape in ((3, 1000, 1000), (3, 1000, 0), (3, 0, 1000)):
    seq = sq.TensorSequence.from_lengths(np.ones(shape), [0, 1, 0, 2, 0])
    for some in (seq[:1], seq[::2], seq[[4, 0, 2]], sq.TensorSequence([seq[0], seq[2].copy()]), seq[4:]):
        n = len(some)
        assert sq.concat_from_sequence(some, 0, 1).shape == (n, 0, *shape[1:])
        assert sq.concat_from_sequence(some, 1, 1).shape == (0, n, *shape[1:])
        assert sq.concat_from_sequence(some, 0).shape == (0, *shape[1:])
        assert some.to_padded().shape == (n, 0, *shape[1:])
        assert some.values().shape == (0, *shape[1:])
        some.copy().compact()
    if 0 in shape:
        assert sq.concat_from_sequence(seq, 0).shape == shape
        assert sq.concat_from_sequence(seq[[3, 1, 3]], 0).shape == (5, *shape[1:])
        assert sq.concat_from_sequence(seq[[1, 1]], 0, 1).shape == (2, 1, *shape[1:])
"""


@pytest.mark.slow
def test_stacks_of_elements_without_items():
    """Of a table that has some: nothing is copied. In a process of its own, which a copy would end."""
    ended = subprocess.run([sys.executable, "-c", STACKS], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
