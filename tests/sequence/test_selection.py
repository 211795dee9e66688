"""Selections by indices and masks: what they give, set and take out, and what is none."""

import array
from itertools import chain

import numpy as np
import pytest
from support.strategies import NAMES, assert_holds, dtype_of, filled, same

from seqcore import TensorSequence, split_to_sequence

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
NEW, OTHER, THIRD = (np.full((2, k), 90 + k, "int32") for k in range(3))


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


class Unchanged:
    """Checks that a sequence is as it was when the block began."""

    def __init__(self, seq):
        self.seq, self.before = seq, seq.copy()

    def __enter__(self):
        return self

    def __exit__(self, *failure):
        self.seq._check()
        assert self.seq == self.before


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


def test_nothing_is_selected_by_what_is_empty():
    seq, _ = whole()
    nothing = TensorSequence(dtype="int32")
    for where in ([], np.array([], int), np.array([], np.uint8), np.zeros(5, bool)):
        with Unchanged(seq):
            assert_holds(seq[where], [])
            assert seq[where].dtype == np.int32
            seq[where] = []
            del seq[where]
    for where in ([], np.array([], int), np.array([], bool)):
        assert_holds(nothing[where], [])
        nothing[where] = []
        del nothing[where]
    with Unchanged(seq), pytest.raises(ValueError, match="1"):
        seq[[]] = [NEW]


def test_an_array_of_rank_0_is_a_position():
    seq, model = whole()
    for where in (np.array(2), np.array(-3, "int32"), np.int8(2), np.uint64(2)):
        assert same(seq[where], model[2])
        assert type(seq[where]) is np.ndarray
    seq[np.array(2)] = NEW
    del seq[np.array(0)]
    assert_holds(seq, [model[1], NEW, *model[3:]])


def test_an_array_of_one_index_is_a_selection():
    seq, model = whole()
    for where in (np.array([1]), np.array([-4], "int32"), [1]):
        assert_holds(seq[where], model[1:2])
    with Unchanged(seq), pytest.raises((TypeError, ValueError)):
        seq[np.array([1])] = np.zeros((3, 3), "int32")
    seq[np.array([1])] = [NEW]
    del seq[np.array([0])]
    assert_holds(seq, [NEW, *model[2:]])


def test_methods_still_take_an_array_of_one_as_a_position():
    seq, model = whole()
    seq.insert(np.array([1]), NEW)
    seq.erase(np.array([0]))
    assert same(seq.pop(np.array([-1], "int32")), model[-1])
    assert_holds(seq, [NEW, *model[1:-1]])


@pytest.mark.parametrize(
    "where", [range(4, 0, -2), range(0), array.array("q", [3, 1]), array.array("B", [0])]
)
def test_other_holders_of_integers_select_or_are_refused(where):
    seq, model = whole()
    with Unchanged(seq):
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
    with Unchanged(seq):
        for wrong in (torch.tensor([1.0]), torch.tensor([[1]]), torch.tensor([])):
            with pytest.raises(TypeError):
                seq[wrong]
        with pytest.raises(IndexError, match="7"):
            seq[torch.tensor([7])]
        with pytest.raises(IndexError):
            seq[torch.tensor([True])]
    seq[torch.tensor([0, 1])] = [NEW, OTHER]
    del seq[torch.tensor([2, 2])]
    assert_holds(seq, [NEW, OTHER, *model[3:]])


def test_a_data_loader_fetches_batches():
    data = pytest.importorskip("torch.utils.data")
    seq, model = rows()
    loader = data.DataLoader(seq, batch_size=2, collate_fn=lambda batch: [np.array(one) for one in batch])
    batches = list(loader)
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert all(same(one, other) for one, other in zip(chain(*batches), model, strict=True))


# --- what comes out ---


@pytest.mark.parametrize("name", NAMES)
def test_each_type(name):
    model = [filled(name, shape, i) for i, shape in enumerate([(2, 3), (), (0, 2), (5,)])]
    seq = TensorSequence(model)
    found = seq[[3, 1, 1, 0]]
    assert found.dtype == dtype_of(name)
    assert_holds(found, [model[i] for i in (3, 1, 1, 0)])
    del seq[[True, False, True, False]]
    assert_holds(seq, [model[1], model[3]])
    seq[[1, 0]] = model[:2]
    assert_holds(seq, [model[1], model[0]])


@pytest.mark.parametrize("name", ["float64", "string"])
def test_memory_is_shared(name):
    table = filled(name, (6, 3))
    seq = split_to_sequence(table)
    seq.append(filled(name, (4,)))
    for where, positions in (([5, 0, 0],) * 2, (np.array([-1, -2]), [-1, -2]), ([True] * 7, range(7))):
        found = seq[where]
        for one, i in zip(found, positions, strict=True):
            assert np.shares_memory(one, seq[i])
            assert one.__array_interface__["data"] == seq[i].__array_interface__["data"]
    if name != "string":
        found = seq[[4, 2]]
        table[2] = -1
        assert (found[1] == -1).all()


def test_what_was_selected_outlives_the_sequence():
    seq = split_to_sequence(np.arange(10**5), 10)
    found = seq[[-1, 0]]
    seq.clear()
    del seq
    np.zeros(10**5)
    assert_holds(found, [np.arange(10**5 - 10, 10**5), np.arange(10)])


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


def test_many():
    table = np.arange(200_000).reshape(-1, 2)
    seq = split_to_sequence(table, keepdims=0)
    order = np.random.default_rng(0).permutation(100_000)
    found = seq[order]
    found._check()
    assert found[12345].tolist() == table[order[12345]].tolist()
    assert np.array_equal(found.values().reshape(-1, 2), table[order])
    mask = order % 2 == 0
    del seq[mask]
    seq._check()
    assert np.array_equal(seq.values().reshape(-1, 2), table[~mask])
