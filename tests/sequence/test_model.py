"""A Hypothesis state machine: sequences that share pieces, each beside a plain list of arrays."""

import copy
import pickle
from itertools import pairwise

import numpy as np
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.random_cases import examples
from support.strategies import LAYOUTS, assert_holds, laid_out, same, slices

from seqcore import TensorSequence, concat_from_sequence, split_to_sequence

AT_MOST = 5  # sequences alive at once
LONGEST = 40
indices = st.integers(0, 1000)
small_shapes = st.lists(st.integers(0, 3), max_size=2).map(tuple)


class NumberMachine(RuleBasedStateMachine):
    """Edits, slices, copies and splits of int32 tensors.

    Where the contract says that memory is shared, the model's arrays are views of the same sources, so that
    writing to a source has to show in both, or in neither.
    """

    dtype = "int32"

    def __init__(self):
        super().__init__()
        self.pairs = []
        self.sources = []
        self.counter = 0

    # --- drawing ---

    def make(self, shape, layout):
        """An array of values not seen before."""
        size = int(np.prod(shape, dtype=int))
        self.counter += size + 1
        array = laid_out(np.arange(self.counter - size, self.counter, dtype="int32").reshape(shape), layout)
        if array.flags.writeable:
            self.sources.append(array)
        return array

    def put(self, array):
        """What a sequence is to show for an array that was put in."""
        return array

    def pick(self, index):
        return self.pairs[index % len(self.pairs)]

    def add(self, seq, model):
        """Another sequence; the oldest makes room for it."""
        if len(model) > LONGEST:
            seq, model = seq[:LONGEST], model[:LONGEST]
        self.pairs = [*self.pairs, (seq, model)][-AT_MOST:]

    def some(self, data, most=4):
        drawn = st.lists(st.tuples(small_shapes, st.sampled_from(LAYOUTS)), max_size=most)
        return [self.make(shape, layout) for shape, layout in data.draw(drawn)]

    @initialize(data=st.data())
    def begin(self, data):
        arrays = self.some(data)
        self.add(TensorSequence(arrays, dtype=self.dtype), [self.put(a) for a in arrays])

    # --- edits ---

    @rule(which=indices, at=indices, data=st.data())
    def insert(self, which, at, data):
        seq, model = self.pick(which)
        position = at % (2 * len(model) + 1) - len(model)
        for array in self.some(data, most=2):
            seq.insert(position, array)
            model.insert(position, self.put(array))

    @rule(which=indices, shape=small_shapes, layout=st.sampled_from(LAYOUTS))
    def append(self, which, shape, layout):
        seq, model = self.pick(which)
        array = self.make(shape, layout)
        seq.append(array)
        model.append(self.put(array))

    @rule(which=indices, data=st.data(), how=st.sampled_from(["pop", "erase", "del"]))
    def take(self, which, data, how):
        seq, model = self.pick(which)
        if model:
            position = data.draw(st.integers(-len(model), len(model) - 1))
            expected = model.pop(position)
            if how == "pop":
                assert same(seq.pop(position), expected)
            elif how == "erase":
                seq.erase(position)
            else:
                del seq[position]

    @rule(which=indices, other=indices, data=st.data())
    def move(self, which, other, data):
        """Take an element of one sequence and put it into another, or the same one."""
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        if model:
            position = data.draw(st.integers(-len(model), len(model) - 1))
            to = data.draw(st.integers(-len(model2), len(model2)))
            seq2.insert(to, seq[position])
            model2.insert(to, model[position])

    @rule(which=indices, data=st.data())
    def set_element(self, which, data):
        seq, model = self.pick(which)
        if model:
            position = data.draw(st.integers(-len(model), len(model) - 1))
            array = self.make(*data.draw(st.tuples(small_shapes, st.sampled_from(LAYOUTS))))
            seq[position] = array
            model[position] = self.put(array)

    @rule(which=indices, data=st.data())
    def set_slice(self, which, data):
        seq, model = self.pick(which)
        arrays = self.some(data)
        self.assign(seq, model, data.draw(slices(len(model))), arrays, [self.put(a) for a in arrays])

    @rule(which=indices, other=indices, data=st.data())
    def set_slice_to_slice(self, which, other, data):
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        where = data.draw(slices(len(model2)))
        if len(model) + len(model2) < LONGEST:
            self.assign(seq, model, data.draw(slices(len(model))), seq2[where], model2[where])

    @rule(which=indices, other=indices, data=st.data())
    def set_slice_to_sequence(self, which, other, data):
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        if len(model) + len(model2) < LONGEST:
            self.assign(seq, model, data.draw(slices(len(model))), seq2, list(model2))

    def assign(self, seq, model, where, new, new_model):
        failed = False
        try:
            model[where] = new_model
        except ValueError:
            failed = True
        try:
            seq[where] = new
        except ValueError:
            assert failed
        else:
            assert not failed

    @rule(which=indices, data=st.data())
    def delete_slice(self, which, data):
        seq, model = self.pick(which)
        where = data.draw(slices(len(model)))
        del seq[where]
        del model[where]

    @rule(which=indices, other=indices, in_place=st.booleans())
    def extend(self, which, other, in_place):
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        if len(model) + len(model2) < LONGEST:
            if in_place:
                seq += seq2
            else:
                seq.extend(iter(list(seq2)))
            model.extend(list(model2))

    @rule(which=indices)
    def reverse(self, which):
        seq, model = self.pick(which)
        seq.reverse()
        model.reverse()

    @rule(which=indices)
    def compact(self, which):
        seq, model = self.pick(which)
        seq.compact()
        model[:] = [array.copy() for array in model]

    @precondition(lambda self: len(self.pairs) == AT_MOST)
    @rule(which=indices)
    def clear(self, which):
        seq, model = self.pick(which)
        seq.clear()
        model.clear()

    @precondition(lambda self: len(self.pairs) > 1)
    @rule(which=indices)
    def drop(self, which):
        del self.pairs[which % len(self.pairs)]

    @rule(which=indices, wrong=st.sampled_from([None, 1.5, np.zeros(2, "float16"), [1, None]]), at=indices)
    def fail(self, which, wrong, at):
        """Failed edits change nothing, which the invariant sees."""
        seq, model = self.pick(which)
        for edit in (
            lambda: seq.append(wrong),
            lambda: seq.extend([*seq[:1], wrong]),
            lambda: seq.__setitem__(slice(at % 5, None), [*seq[:2], wrong]),
            lambda: seq.insert(len(model) + 1, seq[0] if model else wrong),
            lambda: seq.pop(len(model)),
        ):
            try:
                edit()
            except (TypeError, IndexError):
                continue
            raise AssertionError("nothing was raised")

    # --- more sequences ---

    @rule(
        layout=st.sampled_from(LAYOUTS[:6]),
        axis=st.sampled_from([0, 1]),
        keepdims=st.booleans(),
        data=st.data(),
    )
    def split(self, layout, axis, keepdims, data):
        shape = data.draw(st.tuples(st.integers(0, 5), st.integers(0, 3)))
        size = shape[axis]
        cut = data.draw(st.none() | st.integers(1, 6) | st.lists(st.integers(0, size), max_size=3))
        if isinstance(cut, list):
            ends = [*sorted(cut), size]
            cut = np.diff([0, *ends])
        else:
            ends = [*range(cut or 1, size, cut or 1), size] if size else []
        source = self.make(shape, layout)
        shown = np.moveaxis(self.put(source), axis, 0)
        model = [np.moveaxis(shown[a:b], 0, axis) for a, b in pairwise([0, *ends])]
        if cut is None and not keepdims:
            model = list(shown)
        self.add(split_to_sequence(source, cut, axis, int(keepdims)), model)

    @rule(which=indices, data=st.data())
    def slice(self, which, data):
        seq, model = self.pick(which)
        where = data.draw(slices(len(model)))
        self.add(seq[where], model[where])

    @rule(which=indices, how=st.sampled_from([TensorSequence.copy, copy.copy, lambda seq: seq + seq[:0]]))
    def shallow_copy(self, which, how):
        seq, model = self.pick(which)
        self.add(how(seq), list(model))

    @rule(
        which=indices,
        how=st.sampled_from(
            [
                copy.deepcopy,
                lambda seq: TensorSequence(seq, dtype=seq.dtype, copy=True),
                lambda seq: pickle.loads(pickle.dumps(seq)),
                lambda seq: pickle.loads(pickle.dumps(seq, protocol=2)),
            ]
        ),
    )
    def deep_copy(self, which, how):
        seq, model = self.pick(which)
        self.add(how(seq), [array.copy() for array in model])

    @rule(which=indices, other=indices)
    def concatenate(self, which, other):
        (seq, model), (seq2, model2) = self.pick(which), self.pick(other)
        self.add(seq + seq2, model + model2)

    # --- looking ---

    @rule(which=indices, data=st.data())
    def find(self, which, data):
        seq, model = self.pick(which)
        if model:
            tensor = data.draw(st.sampled_from(model))
            places = [i for i, array in enumerate(model) if same(array, tensor)]
            assert seq.index(tensor) == places[0]
            assert seq.count(tensor) == len(places)
            assert tensor in seq

    @rule(which=indices)
    def join(self, which):
        seq, model = self.pick(which)
        flat = TensorSequence([element.reshape(-1) for element in seq], dtype=self.dtype)
        if model:
            assert same(concat_from_sequence(flat, 0), np.concatenate([array.reshape(-1) for array in model]))

    @rule(which=indices, value=st.integers(-100, -1))
    def write(self, which, value):
        """Writing to a source shows wherever memory is shared, and only there."""
        if self.sources:
            self.sources[which % len(self.sources)][...] = value

    @invariant()
    def each_is_its_model(self):
        for seq, model in self.pairs:
            assert_holds(seq, model)
            assert seq.nbytes == sum(array.nbytes for array in model)


class StringMachine(NumberMachine):
    """The same with strings, which are always copied in."""

    dtype = "string"

    def make(self, shape, layout):
        numbers = super().make(shape, "plain")
        self.sources.pop()
        texts = laid_out(np.array([f"text {i}" for i in numbers.flat], object).reshape(shape), layout)
        if texts.flags.writeable:
            self.sources.append(texts)
        return texts

    def put(self, array):
        return array.copy()

    @rule(which=indices, value=st.text(max_size=3))
    def write(self, which, value):
        if self.sources:
            self.sources[which % len(self.sources)][...] = value


several = settings(
    max_examples=examples(120),
    stateful_step_count=40,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestNumbers = NumberMachine.TestCase
TestNumbers.settings = several
TestStrings = StringMachine.TestCase
TestStrings.settings = settings(several, max_examples=examples(50))
