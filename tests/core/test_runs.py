"""A Hypothesis state machine: sequences begin as runs of every kind and are edited until they are slots."""

import copy
import itertools
import os
import pickle
import tempfile

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from seqcore.core.maps import chained
from support.random_cases import examples
from support.strategies import same, slices

import seqcore as sq
from seqcore import TensorSequence

try:
    import pyarrow as pa
except ImportError:
    pa = None  # then without Arrow's kinds of runs, and without files

LONGEST = 400
indices = st.integers(0, 10_000)
few_lengths = st.lists(st.integers(0, 4), min_size=1, max_size=30)


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
        shapes = [(n, i % 3, 2) for i, n in enumerate(lengths)]
        flat = [numbers.array(int(np.prod(shape))) for shape in shapes]
        values = np.concatenate(flat)
        data = pa.ListArray.from_arrays(
            pa.array(np.cumsum([0, *map(len, flat)]), pa.int32()), pa.array(values)
        )
        extents = pa.FixedSizeListArray.from_arrays(pa.array(np.ravel(shapes), pa.int32()), 3)
        struct = pa.StructArray.from_arrays([data, extents], ["data", "shape"])
        text = "{}" if permutation is None else f'{{"permutation": {permutation}}}'
        marks = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": text}
        field = pa.field("t", struct.type, metadata=marks)
        table = pa.Table.from_arrays([struct], schema=pa.schema([field]))
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


class RunsMachine(RuleBasedStateMachine):
    def __init__(self):
        super().__init__()
        self.numbers = Numbers()
        self.pairs = []
        self.folder = tempfile.TemporaryDirectory()
        self.files = 0

    def teardown(self):
        self.pairs.clear()
        self.folder.cleanup()

    def add(self, seq, model):
        self.pairs = [*self.pairs, (seq[:LONGEST], model[:LONGEST])][-4:]

    def pick(self, which):
        return self.pairs[which % len(self.pairs)]

    @initialize(kind=st.sampled_from([*KINDS]), lengths=few_lengths)
    def begin(self, kind, lengths):
        self.add(*KINDS[kind](self.numbers, lengths))

    @rule(kind=st.sampled_from([*KINDS]), lengths=few_lengths)
    def another(self, kind, lengths):
        self.add(*KINDS[kind](self.numbers, lengths))

    @rule(which=indices, data=st.data(), how=st.sampled_from(["one", "parts", "several"]))
    def through_files(self, which, data, how):
        seq, model = self.pick(which)
        if pa is None or not model or len({one.ndim for one in model}) > 1:
            return
        self.files += 2
        paths = [os.path.join(self.folder.name, f"{self.files + i}.arrow") for i in range(2)]
        if how == "several":
            at = data.draw(st.integers(0, len(seq)))
            sq.save(paths[0], seq[:at])
            sq.save(paths[1], seq[at:])
            loaded = sq.load(paths)
        else:
            sq.save(paths[0], seq if how == "one" else (seq[i : i + 3] for i in range(0, len(seq), 3)))
            loaded = sq.load(paths[0])
        back = pickle.loads(pickle.dumps(loaded))
        back._check()
        assert len(back) == len(model)
        some = data.draw(st.lists(st.integers(0, len(model) - 1), max_size=5))
        assert all(map(same, pickle.loads(pickle.dumps(loaded[some])), [model[i] for i in some]))
        self.add(loaded, list(model))

    @rule(which=indices, data=st.data())
    def slice(self, which, data):
        seq, model = self.pick(which)
        where = data.draw(slices(len(model)) | st.just(slice(None, None, -1)))
        self.add(seq[where], model[where])

    @rule(which=indices, other=indices, how=st.sampled_from(["+", "extend", "chained"]))
    def join(self, which, other, how):
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        if len(model) + len(model2) > LONGEST:
            return
        if how == "+":
            self.add(seq + seq2, model + model2)
        elif how == "chained":
            self.add(chained([seq2, seq[::-1], seq2]), model2 + model[::-1] + model2)
        else:
            seq.extend(seq2)
            model.extend(list(model2))

    @rule(which=indices)
    def reverse(self, which):
        seq, model = self.pick(which)
        seq.reverse()
        model.reverse()

    @rule(which=indices, data=st.data(), mask=st.booleans(), removes=st.booleans())
    def select(self, which, data, mask, removes):
        seq, model = self.pick(which)
        n = len(model)
        if mask:
            key = np.array(data.draw(st.lists(st.booleans(), min_size=n, max_size=n)), bool)
            chosen = np.flatnonzero(key).tolist()
        else:
            key = data.draw(st.lists(st.integers(-n, n - 1), max_size=6)) if n else []
            chosen = [i % n for i in key]
            key = np.array(key, int)
        if removes:
            del seq[key]
            model[:] = [one for i, one in enumerate(model) if i not in set(chosen)]
        else:
            self.add(seq[key], [model[i] for i in chosen])

    @rule(
        which=indices, at=indices, count=st.integers(1, 70), how=st.sampled_from(["insert", "erase", "set"])
    )
    def edit(self, which, at, count, how):
        """One after the other, more of them than runs stand."""
        seq, model = self.pick(which)
        for i in range(count):
            n = len(model)
            place = (at + 7 * i) % (n + 1)
            if how == "insert" and n < LONGEST:
                one = self.numbers.array(2)
                seq.insert(place, one)
                model.insert(place, one)
            elif how == "erase" and n:
                seq.erase(place % n)
                del model[place % n]
            elif how == "set" and n:
                one = self.numbers.array(1)
                seq[place % n] = one
                model[place % n] = one

    @rule(which=indices, other=indices, data=st.data(), few=st.booleans())
    def assign(self, which, other, data, few):
        """A slice for a slice of another or the same one, or for arrays."""
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        where = data.draw(slices(len(model)))
        if few:
            news = [self.numbers.array(1) for _ in range(data.draw(st.integers(0, 20)))]
            shown = news
        else:
            cut = data.draw(slices(len(model2)))
            news, shown = seq2[cut], model2[cut]
        if where.step not in (None, 1):
            shown = shown[: len(model[where])]
            news = news[: len(model[where])]
            if len(shown) < len(model[where]):
                return
        if len(model) + len(shown) <= LONGEST:
            seq[where] = news
            model[where] = shown

    @rule(which=indices, data=st.data())
    def pop(self, which, data):
        seq, model = self.pick(which)
        if model:
            at = data.draw(st.integers(-len(model), len(model) - 1))
            assert same(seq.pop(at), model.pop(at))

    @rule(which=indices)
    def compact(self, which):
        self.pick(which)[0].compact()

    @invariant()
    def each_is_its_model(self):
        for seq, model in self.pairs:
            seq._check()
            assert len(seq) == len(model)
            assert all(map(same, seq, model))
        if self.pairs:
            read_in_each_way(*self.pairs[-1])


TestRuns = RunsMachine.TestCase
TestRuns.settings = settings(
    max_examples=examples(25),
    stateful_step_count=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    deadline=None,
)


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_each_kind_in_each_way(kind):
    """As it comes, from behind, with steps, selected, joined with itself, and behind many edits."""
    numbers = Numbers()
    seq, model = kind(numbers, [3, 0, 1, 4, 2, 0, 0, 1, 2, 3, 1, 1, 4])
    n = len(model)
    order = np.arange(n) * 5 % n
    for one, expected in (
        (seq, model),
        (seq[::-1], model[::-1]),
        (seq[::3], model[::3]),
        (seq[n - 2 :: -2], model[n - 2 :: -2]),
        (seq[1:-1][::2][::-1], model[1:-1][::2][::-1]),
        (seq[order], [model[i] for i in order]),
        (seq + seq[::-1] + seq[order], model + model[::-1] + [model[i] for i in order]),
        (seq[:0], []),
        (seq[n // 2 : n // 2 + 1], model[n // 2 : n // 2 + 1]),
    ):
        read_in_each_way(one, list(expected))
        edited, changed = one.copy(), list(expected)
        for i in range(90):
            new = numbers.array(1)
            edited.insert(i % (len(changed) + 1), new)
            changed.insert(i % (len(changed) + 1), new)
            if i % 3 == 0:
                edited.erase(-1)
                changed.pop()
        read_in_each_way(edited, changed)
        read_in_each_way(one, list(expected))
