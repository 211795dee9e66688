"""A Hypothesis state machine: selections among other edits, beside a plain list of arrays."""

import copy

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.random_cases import examples
from support.strategies import LAYOUTS, assert_holds, laid_out, slices

from seqcore import TensorSequence, concat_from_sequence, split_to_sequence

AT_MOST = 4  # sequences alive at once
LONGEST = 40
which = st.integers(0, 1000)
small_shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)
index_types = st.sampled_from([list, "int8", "int16", "int32", "int64"])
mask_types = st.sampled_from([list, "bool"])
layouts = st.sampled_from(["plain", "strided", "reversed", "unaligned"])


class SelectionMachine(RuleBasedStateMachine):
    """int32 tensors of several shapes, whole and split, in sequences that share pieces."""

    dtype = "int32"

    def __init__(self):
        super().__init__()
        self.pairs = []
        self.counter = 0

    # --- drawing ---

    def make(self, shape, layout="plain"):
        """An array of values not seen before."""
        size = int(np.prod(shape, dtype=int))
        self.counter += size
        numbers = np.arange(self.counter - size, self.counter).reshape(shape)
        if self.dtype == "string":
            numbers = np.array([f"text {i}" for i in numbers.flat], object).reshape(shape)
        return laid_out(numbers if self.dtype == "string" else numbers.astype(self.dtype), layout)

    def some(self, data, least=0, most=5):
        drawn = st.lists(
            st.tuples(small_shapes, st.sampled_from(LAYOUTS)), min_size=least, max_size=max(least, most)
        )
        return [self.make(shape, layout) for shape, layout in data.draw(drawn)]

    def pick(self, index):
        return self.pairs[index % len(self.pairs)]

    def add(self, seq, model):
        """Another sequence; the oldest makes room for it."""
        self.pairs = [*self.pairs, (seq[:LONGEST], model[:LONGEST])][-AT_MOST:]

    def indices(self, data, model, most=12):
        """Indices as the list that they stand for, and as one of the forms that they come in."""
        n = len(model)
        found = data.draw(st.lists(st.integers(-n, n - 1), max_size=most)) if n else []
        kind = data.draw(index_types)
        return found, found if kind is list else laid_out(np.array(found, kind), data.draw(layouts))

    def mask(self, data, model):
        found = data.draw(st.lists(st.booleans(), min_size=len(model), max_size=len(model)))
        kind = data.draw(mask_types)
        # An empty list is no mask, but selects nothing just as well.
        return found, found if kind is list else laid_out(np.array(found, kind), data.draw(layouts))

    @initialize(data=st.data())
    def begin(self, data):
        arrays = self.some(data)
        self.add(TensorSequence(arrays, dtype=self.dtype), arrays)

    # --- selections ---

    @rule(at=which, data=st.data())
    def get(self, at, data):
        seq, model = self.pick(at)
        positions, where = self.indices(data, model)
        self.add(
            seq.__getitems__(where) if data.draw(st.booleans()) else seq[where], [model[i] for i in positions]
        )

    @rule(at=which, data=st.data())
    def get_by_mask(self, at, data):
        seq, model = self.pick(at)
        chosen, where = self.mask(data, model)
        self.add(seq[where], [array for array, one in zip(model, chosen, strict=True) if one])

    @rule(at=which, data=st.data(), wrap=st.sampled_from([list, tuple, iter]))
    def set(self, at, data, wrap):
        seq, model = self.pick(at)
        positions, where = self.indices(data, model, most=5)
        new = self.some(data, least=len(positions), most=len(positions))[: len(positions)]
        seq[where] = wrap(new)
        for i, array in zip(positions, new, strict=True):
            model[i] = array

    @rule(at=which, data=st.data())
    def set_by_mask(self, at, data):
        seq, model = self.pick(at)
        chosen, where = self.mask(data, model)
        positions = [i for i, one in enumerate(chosen) if one]
        new = [self.make((i % 3,)) for i in positions]
        seq[where] = TensorSequence(new, dtype=self.dtype)
        for i, array in zip(positions, new, strict=True):
            model[i] = array

    @rule(at=which, other=which, data=st.data())
    def set_to_a_selection(self, at, other, data):
        """From another sequence, or from the same one."""
        (seq, model), (seq2, model2) = self.pick(at), self.pick(other)
        positions, where = self.indices(data, model)
        if model2:
            bounds = st.integers(-len(model2), len(model2) - 1)
            source = data.draw(st.lists(bounds, min_size=len(positions), max_size=len(positions)))
            new = [model2[i] for i in source]
            seq[where] = seq2[source]
            for i, array in zip(positions, new, strict=True):
                model[i] = array

    @rule(at=which, data=st.data())
    def delete(self, at, data):
        seq, model = self.pick(at)
        positions, where = self.indices(data, model, most=6)
        del seq[where]
        for i in sorted({i % len(model) for i in positions}, reverse=True):
            del model[i]

    @rule(at=which, data=st.data())
    def delete_by_mask(self, at, data):
        seq, model = self.pick(at)
        gone, where = self.mask(data, model)
        del seq[where]
        model[:] = [array for array, one in zip(model, gone, strict=True) if not one]

    @rule(at=which, data=st.data(), action=st.sampled_from(["get", "set", "delete"]))
    def outside(self, at, data, action):
        seq, model = self.pick(at)
        positions, _ = self.indices(data, model)
        wrong = data.draw(st.sampled_from([len(model), -len(model) - 1, 10**6]))
        where = [*positions, wrong]
        act = {
            "get": lambda: seq[where],
            "set": lambda: seq.__setitem__(where, [self.make(()) for _ in where]),
            "delete": lambda: seq.__delitem__(where),
        }[action]
        with pytest.raises(IndexError):
            act()

    @rule(at=which, data=st.data(), more=st.sampled_from([-1, 1, 3]))
    def set_to_another_count(self, at, data, more):
        seq, model = self.pick(at)
        positions, where = self.indices(data, model, most=4)
        if len(positions) + more >= 0:
            with pytest.raises(ValueError, match=r"\d"):
                seq[where] = [self.make(()) for _ in range(len(positions) + more)]

    # --- other edits ---

    @rule(at=which, position=which, shape=small_shapes)
    def insert(self, at, position, shape):
        seq, model = self.pick(at)
        position, array = position % (len(model) + 1), self.make(shape)
        seq.insert(position, array)
        model.insert(position, array)

    @rule(at=which, data=st.data())
    def extend(self, at, data):
        seq, model = self.pick(at)
        arrays = self.some(data)
        if len(model) < LONGEST:
            seq.extend(arrays[1:])
            model.extend(arrays[1:])
            for array in arrays[:1]:
                seq.append(array)
                model.append(array)

    @rule(at=which, position=which, how=st.sampled_from(["erase", "pop"]))
    def take(self, at, position, how):
        seq, model = self.pick(at)
        if model:
            getattr(seq, how)(position % len(model))
            del model[position % len(model)]

    @rule(at=which, data=st.data(), action=st.sampled_from(["get", "delete"]))
    def by_slice(self, at, data, action):
        seq, model = self.pick(at)
        where = data.draw(slices(len(model)))
        if action == "get":
            self.add(seq[where], model[where])
        else:
            del seq[where]
            del model[where]

    @rule(at=which, how=st.sampled_from(["reverse", "compact", "copy", "copy.copy"]))
    def turn_or_copy(self, at, how):
        seq, model = self.pick(at)
        if how == "reverse":
            seq.reverse()
            model.reverse()
        elif how == "compact":
            seq.compact()
        else:
            self.add(seq.copy() if how == "copy" else copy.copy(seq), [*model])

    @rule(
        shape=st.tuples(st.integers(0, 5), st.integers(0, 2)), keepdims=st.booleans(), axis=st.integers(0, 1)
    )
    def split(self, shape, keepdims, axis):
        table = self.make(shape)
        model = [table.take([i] if keepdims else i, axis) for i in range(shape[axis])]
        self.add(split_to_sequence(table, axis=axis, keepdims=int(keepdims)), model)

    # --- what holds ---

    @rule(at=which)
    def join_and_measure(self, at):
        seq, model = self.pick(at)
        if model and all(array.ndim for array in model):
            assert seq.lengths().tolist() == [len(array) for array in model]
            assert seq.offsets().tolist() == np.cumsum([0, *map(len, model)]).tolist()
            if len({array.shape[1:] for array in model}) == 1:
                assert np.array_equal(seq.values(), np.concatenate(model))
                assert np.array_equal(seq.values(), concat_from_sequence(seq, 0))

    @invariant()
    def each_is_its_model(self):
        for seq, model in self.pairs:
            assert_holds(seq, model)
            assert seq.nbytes == sum(array.nbytes for array in model)


class StringMachine(SelectionMachine):
    """The same with strings, which are always copied in."""

    dtype = "string"


several = settings(
    max_examples=examples(100),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestSelections = SelectionMachine.TestCase
TestSelections.settings = several
TestStrings = StringMachine.TestCase
TestStrings.settings = settings(several, max_examples=examples(40))
