"""What a script of edits is made of: pairs of a sequence and a list, and what its steps draw."""

import weakref

import numpy as np
from hardening.fuzz.tape import HUGE, Tape, bits
from support.strategies import NAMES

from seqcore import TensorSequence

MOST_STEPS = 60
MOST_PAIRS = 4  # sequences alive at once
LONGEST = 120  # from 64 slots on, buffers give memory back
STEPS = []


class Named(TensorSequence):
    """A subclass, whose attributes travel with its copies."""


class Meddler:
    """A tensor that takes a step of the script when it is asked for its array."""

    def __init__(self, script, array):
        self.script = script
        self.array = array

    def __array__(self, dtype=None, copy=None):
        self.script.nested_step()
        return self.array


class Place:
    """A position that takes a step of the script when it is asked for its number."""

    def __init__(self, script, number):
        self.script = script
        self.number = number

    def __index__(self):
        self.script.nested_step()
        return self.number


def step(method):
    STEPS.append(method)
    return method


class Pairs:
    """Pairs of a sequence and a list, and iterators on both.

    The arrays of a list are views of the memory that the sequence shares by contract, so that what is
    written to a source has to show in both, or in neither.
    """

    def __init__(self, data):
        self.tape = Tape(data)
        self.name = self.tape.pick(NAMES)
        self.pairs = []
        self.iterators = []
        self.sources = []
        self.watchers = []
        self.errors = []
        self.depth = 0
        kind = self.tape.pick([TensorSequence, Named])
        seq = kind(dtype=self.name)
        if kind is Named:
            seq.label = "label"
        self.add(seq, [])

    def run(self):
        for _ in range(MOST_STEPS):
            if not self.tape:
                break
            self.tape.pick(STEPS)(self)
            self.compare()
        for theirs, ours in self.iterators:
            assert [bits(one) for one in theirs] == [bits(one) for one in ours]

    def compare(self):
        if self.errors:
            raise self.errors[0]
        for seq, model in self.pairs:
            seq._check()
            assert len(seq) == len(model)
            assert [bits(one) for one in seq] == [bits(one) for one in model]

    def nested_step(self):
        if not self.depth:
            self.depth = 1
            try:
                self.tape.pick(STEPS)(self)
                self.compare()
            finally:
                self.depth = 0

    # --- what steps draw ---

    def add(self, seq, model):
        self.pairs = [*self.pairs, (seq, model)][-MOST_PAIRS:]

    def pair(self):
        return self.tape.pick(self.pairs)

    def tensor(self):
        """An array, and what a sequence is to show for it."""
        array = self.tape.array(self.name)
        if self.name == "string":
            return array, array.copy()
        if self.tape.chance(6):  # memory of which nobody knows how long it is
            array = np.lib.stride_tricks.as_strided(array)
        if self.tape.chance(3):
            # Only the sequence refers to it, so releasing it runs foreign code.
            self.watchers.append(weakref.ref(array, self.meddle))
            return array, array.copy()
        if array.flags.writeable:
            self.sources.append(array)
        return array, array.view()

    def meddle(self, _):
        """What a finalizer may do: look, and edit to and fro."""
        try:
            for seq, _ in self.pairs:
                seq._check()
                before = len(seq)
                seq.append(np.zeros(1, seq.dtype) if self.name != "string" else ["text"])
                list(seq)
                seq.pop()
                assert len(seq) == before
        except BaseException as error:
            self.errors.append(error)

    def tensors(self, most=4):
        pairs = [self.tensor() for _ in range(self.tape.between(0, most))]
        return [array for array, _ in pairs], [shown for _, shown in pairs]

    def several(self):
        """What `extend` and slice assignment take, as a function of no arguments, and a list of the model."""
        way = self.tape.below(6)
        if way >= 4:
            seq, model = self.pair()
            if len(model) <= LONGEST // 2:
                return (seq if way == 4 else list(seq)), list(model)
        arrays, shown = self.tensors()
        if way == 3 and arrays:
            arrays[-1] = Meddler(self, arrays[-1])
        return [arrays, tuple(arrays), iter(arrays), arrays][min(way, 3)], shown

    def position(self, model, beyond=2):
        if self.tape.chance(20):
            return self.tape.pick(HUGE)
        return self.tape.between(-len(model) - beyond, len(model) + beyond)

    def given(self, number):
        """A position in one of the forms that it may have."""
        way = self.tape.below(6)
        fits = -(1 << 63) <= number < 1 << 63
        if way == 1 and fits:
            return np.int64(number)
        if way == 2 and fits:
            return np.array([number])
        if way == 3:
            return Place(self, number)
        return number

    def slice(self, model):
        bounds = [None if self.tape.chance(4) else self.position(model) for _ in range(2)]
        step = self.tape.pick([None, 1, 1, -1, 2, -2, 3, 0, *HUGE[:1], HUGE[-1]])
        return slice(*bounds, step)

    def wanted(self, model):
        """A tensor to look for: one of the sequence's, or any."""
        if model and self.tape.chance(2):
            shown = self.tape.pick(model)
            return shown.copy(), shown
        array = self.tape.array(self.name)
        return array, array.copy()
