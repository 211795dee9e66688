"""Selections by indices and masks: what they give, set and take out, and what is none."""

import array

import numpy as np
import pytest
from support.strategies import assert_holds, same, unedited

from seqcore import TensorSequence, split_to_sequence

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NEW, OTHER = (np.full((2, k), 90 + k, "int32") for k in range(2))


def tensors(count):
    """Tensors of several ranks and shapes, each told apart by its value."""
    return [np.full((i % 3 + 1,) * (i % 4), i, "int32") for i in range(count)]


def whole():
    """A sequence of arrays of their own, and the list that it stands for."""
    model = tensors(5)
    return TensorSequence(model), model


def rows():
    table = np.arange(10, dtype="int32").reshape(5, 2)
    return split_to_sequence(table, keepdims=0), list(table)


def columns():
    table = np.arange(15, dtype="int32").reshape(3, 5)
    return split_to_sequence(table, axis=1), [table[:, i : i + 1] for i in range(5)]


def numbers():
    model = [np.array(i, "int32") for i in range(5)]
    return TensorSequence(model), model


def mixed():
    """Pieces of a split, whole arrays and a number, with the gap of an edit among them."""
    table = np.arange(12, dtype="int32").reshape(6, 2)
    seq = split_to_sequence(table, 2)
    seq.insert(1, NEW)
    seq.insert(3, np.int32(7))
    return seq, [table[:2], NEW, table[2:4], np.array(7, "int32"), table[4:]]


kinds = pytest.mark.parametrize("make", [whole, rows, columns, numbers, mixed])


# --- what selects ---


@kinds
@pytest.mark.parametrize("dtype", INTEGERS)
def test_arrays_of_each_integer_type(make, dtype):
    seq, model = make()
    where = np.array([4, 0, 2, 2], dtype)
    assert_holds(seq[where], [model[i] for i in (4, 0, 2, 2)])
    assert_holds(seq[where[:0]], [])
    if dtype.startswith("int"):
        assert_holds(seq[np.array([-1, -5, 1], dtype)], [model[i] for i in (-1, -5, 1)])
    assert_holds(seq[where.astype(where.dtype.newbyteorder())], [model[i] for i in (4, 0, 2, 2)])


def test_an_array_of_rank_0_is_a_position():
    seq, model = whole()
    for where in (np.array(2), np.array(-3, "int32"), np.int8(2), np.uint64(2)):
        assert same(seq[where], model[2])
        assert type(seq[where]) is np.ndarray
    seq[np.array(2)] = NEW
    del seq[np.array(0)]
    assert_holds(seq, [model[1], NEW, *model[3:]])


@pytest.mark.parametrize(
    "where", [range(4, 0, -2), range(0), array.array("q", [3, 1]), array.array("B", [0])]
)
def test_other_holders_of_integers_select_or_are_refused(where):
    seq, model = whole()
    with unedited(seq):
        try:
            found = seq[where]
        except TypeError:
            return
        assert_holds(found, [model[i] for i in where])


def test_pytorch_tensors():
    torch = pytest.importorskip("torch")
    seq, model = whole()
    for dtype in (torch.int64, torch.int32, torch.uint8):
        assert_holds(seq[torch.tensor([3, 1, 3], dtype=dtype)], [model[i] for i in (3, 1, 3)])
    assert_holds(seq[torch.tensor([-1])], model[-1:])
    assert_holds(seq[torch.tensor([True, False, False, True, False])], [model[0], model[3]])
    assert_holds(seq[torch.arange(5)], model)
    assert same(seq[torch.tensor(2)], model[2])
    with unedited(seq):
        for wrong in (torch.tensor([1.0]), torch.tensor(1.0), torch.tensor([[1]]), torch.tensor([])):
            with pytest.raises(TypeError):
                seq[wrong]
        with pytest.raises(IndexError, match="7"):
            seq[torch.tensor([7])]
        with pytest.raises(IndexError):
            seq[torch.tensor([True])]
    seq[torch.tensor([0, 1])] = [NEW, OTHER]
    del seq[torch.tensor([2, 2])]
    assert_holds(seq, [NEW, OTHER, *model[3:]])


# --- what comes out ---


def test_subclasses():
    class Frames(TensorSequence):
        pass

    seq = Frames(tensors(5))
    assert isinstance(seq[[1, 0]], TensorSequence)
    assert_holds(seq[np.array([1, 0])], [tensors(5)[i] for i in (1, 0)])

    class Indices(list):
        pass

    class Array(np.ndarray):
        pass

    for where in (Indices([2, 2]), np.array([2, 2]).view(Array)):
        assert_holds(seq[where], [tensors(5)[2]] * 2)
