"""at, insert, erase, construct, empty, length: positions and types; the oracle is `list`."""

import numpy as np
import pytest
from support.strategies import assert_holds, filled, types_and_layouts
from test_split import LAYOUTS, laid_out, native

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(2)


def three(kind=sq.TensorSequence):
    """A sequence that tells its positions by its values."""
    return kind([np.array([i]) for i in range(3)])


KINDS = [sq.TensorSequence, list, tuple]


@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 2), (2, 0)])
@pytest.mark.parametrize(("name", "layout"), types_and_layouts(LAYOUTS))
class TestTypesAndLayouts:
    @pytest.mark.mostly_slow(13)
    def test_at_is_a_writable_copy(self, name, shape, layout):
        tensor = laid_out(filled(name, shape), layout)
        seq = sq.sequence_construct(tensor, tensor)
        copy = sq.sequence_at(seq, 0)
        assert copy.flags.writeable
        assert not np.shares_memory(copy, tensor)
        before = tensor.copy()
        copy[...] = filled(name, shape, 1)
        assert_holds(seq, [native(before)] * 2)


def test_nothing_to_construct_a_sequence_of():
    with pytest.raises(ValueError, match="needs at least one tensor: sequence_empty makes an empty"):
        sq.sequence_construct()


def test_tensors_are_taken_by_reference():
    tensor = np.zeros(3)
    for seq in (sq.sequence_construct(tensor), sq.sequence_insert([np.zeros(1)], tensor)):
        assert np.shares_memory(seq[-1], tensor)
        with pytest.raises(ValueError, match="read-only"):
            seq[-1][0] = 1


def test_strings_are_copied_in():
    tensor = np.array(["a", "b"], object)
    sequences = (
        sq.sequence_construct(tensor),
        sq.sequence_insert([tensor], tensor),
        sq.split_to_sequence(tensor),
    )
    tensor[0] = "changed"
    assert [seq[0].flat[0] for seq in sequences] == ["a"] * 3


def test_any_type_goes_into_an_empty_list():
    for tensor in (True, 3, 1.5, "word", [[1, 2]], np.float16([1])):
        for position in (None, 0, np.array([0])):
            for nothing in ([], ()):
                assert sq.sequence_insert(nothing, tensor, position) == sq.TensorSequence([tensor])
    with pytest.raises(IndexError, match="position 1 "):
        sq.sequence_insert([], 3, 1)
    with pytest.raises(TypeError, match="int8"):
        sq.sequence_insert(sq.sequence_empty("int8"), np.zeros(1))


class TestEmptyAndLength:
    def test_default_is_float32(self):
        assert sq.sequence_empty().dtype == np.float32

    @pytest.mark.parametrize("kind", KINDS)
    def test_length(self, kind):
        length = sq.sequence_length(three(kind))
        assert (length, type(length)) == (3, int)
        assert sq.sequence_length(sq.sequence_empty("bool")) == 0


class TestPositionErrors:
    @pytest.mark.parametrize(
        "position",
        [1.0, np.float64(1), "1", 1j, [1], (1,), slice(1), np.array(1.0), np.array([1.0]), np.array("1")],
    )
    def test_not_an_integer(self, position):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises(TypeError):
                operator(three(), position)
        with pytest.raises(TypeError):
            sq.sequence_insert(three(), np.array([9]), position)

    @pytest.mark.parametrize("position", [np.array([0, 1]), np.array([], np.int64)])
    def test_not_one_integer(self, position):
        for operator in (sq.sequence_at, sq.sequence_erase):
            with pytest.raises((TypeError, ValueError)):
                operator(three(), position)

    def test_at_needs_a_position(self):
        with pytest.raises(TypeError, match="None"):
            sq.sequence_at(three(), None)


OPERATORS = {
    "at": lambda seq: sq.sequence_at(seq, 0),
    "insert": lambda seq: sq.sequence_insert(seq, np.zeros(1)),
    "erase": sq.sequence_erase,
    "length": sq.sequence_length,
}


@pytest.mark.parametrize("seq", [np.zeros((2, 3)), np.zeros(0), np.float32(1), None, 3, "ab"])
@pytest.mark.parametrize("operator", OPERATORS)
def test_not_a_sequence(operator, seq):
    with pytest.raises(TypeError, match=type(seq).__name__):
        OPERATORS[operator](seq)
