"""What comes out is what PyTorch takes, whatever the sequence.

No array that a call gives has a stride below zero, or one of a part of an item. Only values, elements, and
views of offsets and columns are read-only.
"""

import copy
import pickle

import numpy as np
import pytest
from support.strategies import filled, laid_out

import seqcore as sq
from seqcore import TensorSequence

RECORDS = np.zeros(6, [("x", "f8"), ("flag", "i1")])
RECORDS["x"] = np.arange(6)
BLOCK = filled("float32", (6, 4, 3))

# Arrays of rank 1 to 3, also such as PyTorch refuses.
ARRAYS = {
    **{
        f"{layout} of rank 1": laid_out(filled("int64", 6), layout) for layout in ("c", "strided", "reversed")
    },
    **{
        f"{layout} of rank 3": laid_out(BLOCK, layout)
        for layout in ("fortran", "strided", "reversed", "unaligned")
    },
    "mirrored": BLOCK[:, :, ::-1],
    "upside down": BLOCK[:, ::-1],
    "falling": BLOCK[::-1],
    "one falling row": BLOCK[:1][::-1],
    "a field": RECORDS["x"],
    "a falling field": RECORDS["x"][::-2],
    "broadcast": np.broadcast_to(np.float32(2), (6, 4)),
    "without items": np.zeros((6, 0, 2))[::-1],
    "strings": np.array(list("abcdef"), object)[::-1],
    "bools": np.array([True, False, True, True, False, True])[::-1],
}
MAKERS = {
    "rows": sq.split_to_sequence,
    "parts": lambda array: sq.split_to_sequence(array, [len(array) // 3, 0, len(array) - len(array) // 3]),
    "numbers": lambda array: sq.split_to_sequence(array, keepdims=0),
    "columns": lambda array: sq.split_to_sequence(array, axis=-1),
    "views": lambda array: TensorSequence(list(array)),
    "arrays": lambda array: TensorSequence([array, array[:1], array[len(array) // 2 :]]),
    "copies": lambda array: TensorSequence([array, array[:1]], copy=True),
    "offsets": lambda array: TensorSequence.from_offsets(array, np.array([0, 1, 1, len(array)], np.int32)),
    "padded": lambda array: TensorSequence.from_padded(
        array, [min(2, array.shape[1])] * len(array), side="left"
    ),
}
SELECTED = {
    "all": lambda seq: seq,
    "reversed": lambda seq: seq[::-1],
    "each second": lambda seq: seq[::2],
    "falling": lambda seq: seq[list(range(len(seq)))[::-1]],
    "two falling": lambda seq: seq[[-1, 0]],
    "rising": lambda seq: seq[list(range(len(seq)))],
    "one": lambda seq: seq[[0]],
    "again": lambda seq: seq[[0, 0]],
    "none": lambda seq: seq[[]],
    "edited": lambda seq: seq[1:] + seq[:1],
    "turned round": lambda seq: (lambda other: other.reverse() or other)(seq.copy()),
    "pickled": lambda seq: pickle.loads(pickle.dumps(seq[::-1])),
    "copied": lambda seq: copy.deepcopy(seq[::-1]),
}

# Each call that gives arrays, and whether they may be written to; None where either is promised.
CALLS = {
    "values": (False, lambda seq: [seq.values()]),
    "elements": (False, list),
    "an element taken out": (False, lambda seq: [seq.copy().pop()]),
    "sequence_at": (True, lambda seq: [sq.sequence_at(seq, 0)]),
    "lengths": (True, lambda seq: [seq.lengths(), seq.lengths("int32")]),
    "offsets": (None, lambda seq: [seq.offsets(), seq.offsets("int32")]),
    "segment_ids": (True, lambda seq: [seq.segment_ids(), seq.segment_ids("int16")]),
    "position_ids": (True, lambda seq: [seq.position_ids(), seq.position_ids("int32")]),
    "to_padded": (True, lambda seq: [seq.to_padded(), *seq.to_padded(side="left", return_mask=True)]),
    "stacked": (True, lambda seq: [np.asarray(seq), np.array(seq)]),
    "objects": (True, lambda seq: [np.asarray(seq, dtype=object)]),
    "joined": (True, lambda seq: [sq.concat_from_sequence(seq, axis) for axis in (0, -1)]),
    "stacked by axes": (True, lambda seq: [sq.concat_from_sequence(seq, axis, 1) for axis in (0, -1)]),
    "sums": (True, lambda seq: [seq.reduce(np.sum, axis=None), seq.reduce(np.add), seq.reduce(np.mean)]),
    "others": (True, lambda seq: [seq.reduce(np.std), seq.reduce(np.argmax, empty=-1)]),
    "maxima": (True, lambda seq: [seq.reduce(np.max, axis=-1, empty=0), seq.reduce(np.any, axis=None)]),
    "xor": (True, lambda seq: [seq.reduce(np.fmax, axis=None, empty=0)]),
    "results": (False, lambda seq: [sq.sequence_map(np.copy, seq).values()]),
    "the column": (None, lambda seq: [column_of(seq)]),
    "columns' arrays": (True, lambda seq: [column_of(seq, key) for key in keys_of(seq)]),
}


def keys_of(seq):
    n = len(seq)
    return [range(n), [*range(n)], [*range(n)][::-1], [], np.ones(n, bool), np.arange(n) % 2 == 0, [0, 0]]


def column_of(seq, key=None):
    """The array of Columns of the stacked elements, or of a selection of its rows."""
    columns = sq.Columns({"x": sq.concat_from_sequence(seq, 0, 1)[:, ::-1]})
    return (columns if key is None else columns[key])["x"]


def holds(array, strings):
    """Whether the array is one of PyTorch's, apart from its type."""
    return all(stride >= 0 and (strings or stride % array.itemsize == 0) for stride in array.strides)


def sequences():
    for name, array in ARRAYS.items():
        for maker, make in MAKERS.items():
            if (array.ndim > 1 or maker not in ("padded", "columns")) and not (
                array.size == 0 and maker == "columns"
            ):
                yield f"{maker} of {name}", make(array)


@pytest.mark.parametrize("call", CALLS)
def test_strides_and_flags(call):
    writable, run = CALLS[call]
    given = 0
    for name, seq in sequences():
        for way, select in SELECTED.items():
            one = select(seq)
            before = one.copy()
            try:
                arrays = run(one)
            except (TypeError, ValueError, IndexError):
                continue  # elements that differ in shape, of rank 0, strings, or none
            for array in arrays:
                given += 1
                assert "element" in call or holds(array, seq.dtype == object), (name, way)
                if writable is not None:
                    assert array.flags.writeable == writable, (name, way)
                if writable and array.size:
                    array.fill(0)  # spoils nothing
            assert one == before, (name, way)
    assert given > 300


@pytest.mark.parametrize("name", ["falling", "mirrored", "upside down", "a falling field"])
def test_elements_have_the_strides_of_what_was_put_in_until_they_are_copied(name):
    array = ARRAYS[name]
    seq = TensorSequence([array])
    assert seq[0].strides == array.strides
    assert np.shares_memory(seq[0], array)
    assert holds(TensorSequence([array], copy=True)[0], False)
    assert holds(seq[0].copy(), False)
    seq.compact()
    assert holds(seq[0], False)
    np.testing.assert_array_equal(seq[0], array)


def test_values_are_views_wherever_pytorch_takes_them():
    array = np.arange(12.0).reshape(6, 2)
    for seq in (
        sq.split_to_sequence(array),
        sq.split_to_sequence(array[::2]),
        sq.split_to_sequence(array)[1:4],
    ):
        assert np.shares_memory(seq.values(), array)
    for seq in (sq.split_to_sequence(array)[::-1], sq.split_to_sequence(array[:, ::-1])):
        assert not np.shares_memory(seq.values(), array)
        np.testing.assert_array_equal(seq.values(), np.concatenate(list(seq)))


def test_whether_arrays_of_columns_may_be_written_to_does_not_depend_on_the_positions():
    columns = sq.Columns({"x": [[1], [2, 3], [4], []], "y": np.arange(4), "z": np.ones((4, 2), np.float32)})
    for key in ([0, 1, 2], [3, 1], [2], [], [1, 1], np.array([True, False, False, False])):
        for selected in (columns[key], pickle.loads(pickle.dumps(columns[key])), columns[key][:2]):
            for name in "yz":
                assert selected[name].flags.writeable
                selected[name][...] = 7
                assert columns["y"].tolist() == [0, 1, 2, 3]
                assert len(selected) == 0 or selected[name].tolist() != [7] * len(selected)
    assert not columns["y"].flags.writeable
    assert not columns[1:]["y"].flags.writeable
