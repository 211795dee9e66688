"""Sequences that are runs of every kind, beside lists, and all readers of a sequence."""

import copy
import itertools
import pickle

import numpy as np
from support.strategies import same

import seqcore as sq
from seqcore import TensorSequence

try:
    import pyarrow as pa
except ImportError:
    pa = None  # then without Arrow's kinds of runs, and without files


class Numbers:
    """Values never seen before, so that an element in a wrong place is seen."""

    def __init__(self):
        self.next = 0

    def array(self, *shape):
        size = int(np.prod(shape, dtype=int))
        self.next += size
        return np.arange(self.next - size, self.next, dtype=np.int32).reshape(shape)


def parts_of(values, lengths):
    return [values[a:b] for a, b in itertools.pairwise([0, *itertools.accumulate(lengths)])]


def even(numbers, lengths):
    values = numbers.array(sum(lengths) + 1)
    return sq.split_to_sequence(values, 3), [values[i : i + 3] for i in range(0, len(values), 3)]


def rows(numbers, lengths):
    values = numbers.array(len(lengths) * 3)
    return sq.split_to_sequence(values), list(values.reshape(-1, 1))


def dropped(numbers, lengths):
    values = numbers.array(2, len(lengths))
    return sq.split_to_sequence(values, axis=1, keepdims=0), list(values.T)


def uneven(numbers, lengths):
    values = numbers.array(sum(lengths))
    return sq.split_to_sequence(values, lengths), parts_of(values, lengths)


def offsets(numbers, lengths):
    values = numbers.array(sum(lengths) + 4, 2)
    ends = np.cumsum([1, *lengths])
    return TensorSequence.from_offsets(values, ends), [values[a:b] for a, b in itertools.pairwise(ends)]


def padded(side):
    def make(numbers, lengths):
        width = max(lengths) + 1
        batch = numbers.array(len(lengths), width)
        cut = slice(None) if side == "right" else slice(None, None, -1)
        model = [row[cut][:n][cut] for row, n in zip(batch, lengths, strict=True)]
        return TensorSequence.from_padded(batch, lengths, side=side), model

    return make


def arrow(kind):
    def make(numbers, lengths):
        values = numbers.array(sum(lengths))
        ends = np.cumsum([0, *lengths])
        items = pa.array(values)
        if kind == "list":
            array = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)
        elif kind == "large_list":
            array = pa.LargeListArray.from_arrays(pa.array(ends), items)
        elif kind == "list_view":
            order = np.argsort(lengths, kind="stable")[::-1]
            starts, sizes = ends[:-1][order], np.array(lengths)[order]
            array = pa.ListViewArray.from_arrays(
                pa.array(starts, pa.int32()), pa.array(sizes, pa.int32()), items
            )
            return TensorSequence.from_arrow(array), [parts_of(values, lengths)[i] for i in order]
        elif kind == "chunks":
            array = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), items)
            array = pa.chunked_array([array[:3], array[3:4], array[4:]])
        else:
            values = numbers.array(len(lengths), 2)
            array = pa.FixedSizeListArray.from_arrays(pa.array(values.ravel()), 2)
            return TensorSequence.from_arrow(array), list(values)
        return TensorSequence.from_arrow(array), parts_of(values, lengths)

    return make


def tensors(permutation):
    """Of shapes of their own, in C order or with axes in another order in memory."""

    def make(numbers, lengths):
        from support.saved import shaped_table

        shapes = [(n, i % 3, 2) for i, n in enumerate(lengths)]
        flat = [numbers.array(int(np.prod(shape))) for shape in shapes]
        table = shaped_table(np.concatenate(flat), np.cumsum([0, *map(len, flat)]), shapes, permutation)
        model = [one.reshape(shape) for one, shape in zip(flat, shapes, strict=True)]
        if permutation is not None:
            model = [one.transpose(permutation) for one in model]
        return TensorSequence.from_arrow(table), model

    return make


KINDS = {
    "even": even,
    "rows": rows,
    "dropped axis": dropped,
    "uneven": uneven,
    "offsets": offsets,
    "padded on the right": padded("right"),
    "padded on the left": padded("left"),
    **{name: arrow(name) for name in ("list", "large_list", "list_view", "fixed size", "chunks")},
    "tensors": tensors(None),
    "tensors in another order": tensors([2, 0, 1]),
}
if pa is None:
    KINDS = {
        name: make
        for name, make in KINDS.items()
        if make.__qualname__.split(".")[0] not in ("arrow", "tensors")
    }


def read_in_each_way(seq, model):
    """By every reader: what each of them says is what the list says."""
    seq._check()
    n = len(model)
    assert len(seq) == n
    assert all(map(same, seq, model))
    assert all(map(same, reversed(seq), model[::-1]))
    for at in {0, n // 2, n - 1} if n else ():
        assert same(seq[at], model[at])
        assert same(seq[at - n], model[at])
    assert seq.shapes == [one.shape for one in model]
    assert seq.nbytes == sum(one.nbytes for one in model)
    assert seq.tolist() == [one.tolist() for one in model]
    assert seq == TensorSequence(model, seq.dtype)
    assert TensorSequence(model, seq.dtype) == seq
    if not n:
        return
    assert (seq == TensorSequence([*model[:-1], model[-1] + 1], seq.dtype)) == (model[-1].size == 0)
    if all(one.ndim for one in model):
        lengths = [len(one) for one in model]
        assert seq.lengths().tolist() == lengths
        assert seq.offsets().tolist() == [0, *itertools.accumulate(lengths)]
        if len({one.shape[1:] for one in model}) == 1:
            assert same(np.array(seq.values()), np.concatenate(model))
            assert same(sq.concat_from_sequence(seq, 0), np.concatenate(model))
    if len({one.ndim for one in model}) == 1:
        batch = seq.to_padded(-1)
        assert batch.shape == (n, *np.max([one.shape for one in model], axis=0, initial=0))
        for row, one in zip(batch, model, strict=True):
            assert np.array_equal(row[tuple(map(slice, one.shape))], one)
            assert (row != -1).sum() == one.size
        if len({one.shape for one in model}) == 1:
            assert same(sq.concat_from_sequence(seq, 0, 1), np.stack(model))
        assert TensorSequence.from_arrow(seq).tolist() == seq.tolist()
    for other in (pickle.loads(pickle.dumps(seq)), copy.deepcopy(seq), seq.astype("int64").astype("int32")):
        other._check()
        assert all(map(same, other, model))
    assert all(map(same, sq.sequence_map(np.negative, seq), map(np.negative, model)))
