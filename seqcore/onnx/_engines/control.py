"""If and Loop, where sequences or optionals are in their graphs, as steps of a plan."""

from __future__ import annotations

from typing import Any

import numpy as np

from seqcore._arguments.shown import add_note
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING
from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry, Step
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._runtimes.errors import RunStopped
from seqcore.onnx._thresholds import ITERATIONS_UNSEEN
from seqcore.operators import concat_from_sequence


def if_step(entry: Entry, planner: Planner, in_loop: bool) -> Step:
    (node,) = entry.nodes
    condition = planner.place(node.inputs[0])

    def branch(schedule):
        plan = planner.plan_of(schedule, in_loop)
        outputs = planner.outputs_of(schedule.graph)
        places = [planner.place(name) for name in node.outputs]
        return plan, [(i, read) for i, read in zip(places, outputs, strict=True) if i]

    branches = branch(entry.inner["else_branch"]), branch(entry.inner["then_branch"])

    def step(frame):
        plan, outputs = branches[bool(only_item(frame[condition], "the condition"))]
        plan.run(frame)
        for i, read in outputs:
            frame[i] = read(frame)

    return step


# Conditions and scan outputs of loops.


def only_item(tensor, what):
    """Return the one item of a tensor that ONNX wants to have one, as a value of Python."""
    try:
        return tensor.item()
    except ValueError:
        raise ValueError(f"{what} is one value, not a tensor of shape {tensor.shape}") from None


class Stacked:
    """Values of one shape, which become the rows of one tensor.

    Parameters
    ----------
    name : str
        The name for errors.
    dtype : np.dtype or None
        The element type, which a loop without iterations needs.
    shape : list of (int, str or None), or None
        The known part of a value's shape, for the same case. Lengths that aren't known count as 0.
    """

    def __init__(self, name, dtype, shape):
        self._name = name
        self._dtype = dtype
        self._shape = shape
        self._rows: Any = None

    def append(self, value):
        """Add the value of an iteration."""
        if self._rows is None:
            self._rows = TensorSequence([value])
        else:
            self._rows.append(value)

    def result(self):
        """Return the tensor, in memory of its own.

        Raises
        ------
        ValueError
            If the values differ in shape.
        """
        if self._rows is not None:
            return self._joined()
        if self._dtype is None:
            raise ValueError(f"the scan output '{self._name}' has no values, and its type is not known")
        lengths = [length if isinstance(length, int) else 0 for length in self._shape or ()]
        return np.full([0, *lengths], "" if self._dtype == STRING else 0, self._dtype)

    def _joined(self):
        try:
            return concat_from_sequence(self._rows, axis=0, new_axis=1)
        except ValueError as error:
            raise ValueError(
                f"the values of the scan output '{self._name}' differ in shape: {error}"
            ) from None


# Loop, where sequences or optionals are among its values, as a step of a plan.


class LoopStep:
    """A Loop: it runs its body's plan for each iteration.

    The body reads its inputs at their places in the frame, where the loop puts the states that the last
    iteration gave.
    """

    def __init__(self, entry: Entry, planner: Planner) -> None:
        (node,) = entry.nodes
        body, parts = node.body, parts_of(node)
        prepared = planner.prepared
        self.name = node.name
        self._trips, self._condition = planner.place(parts.trips), planner.place(parts.condition)
        self._initial = [planner.reader(node, name) for name in parts.initial]
        self._inner = [planner.place(name) for name in parts.states]
        self._iteration = planner.place(parts.iteration) if prepared.readers[parts.iteration] else 0
        self._going_in = planner.place(parts.going_in)
        # A body may declare its iteration's number and the condition with one axis, as onnxruntime has it.
        self._counts_in_vectors = prepared.shape(parts.iteration) == (1,)
        self._going = np.full((1,) if prepared.shape(parts.going_in) == (1,) else (), True)
        self._going.flags.writeable = False
        # A loop over a range passes its condition on.
        self.runs_out = parts.passes_condition_on
        self._going_out, *outputs = planner.outputs_of(body)
        self._next = outputs[: len(parts.states)]
        self._scans = outputs[len(parts.states) :]
        self._expected = [planner.expected(name, body) for name in parts.scans]
        self._to = [planner.place(name) for name in node.outputs]
        self._plan = planner.plan_of(entry.inner["body"], in_loop=True)

    def __call__(self, frame):
        trips = only_item(frame[self._trips], "the number of trips") if self._trips else None
        going = bool(only_item(frame[self._condition], "the condition")) if self._condition else True
        self._put(frame, [read(frame) for read in self._initial])
        stacks = [Stacked(*what) for what in self._expected]
        i = 0
        try:
            while going and (trips is None or i < trips):
                if i % ITERATIONS_UNSEEN == 0:
                    stop_if_told(frame[0])
                going = self._iterate(frame, i, stacks)
                i += 1
        except Exception as error:
            add_note(error, f"in iteration {i} of Loop '{self.name}'")
            raise
        results = []
        for place in self._inner:
            results.append(frame[place])
            frame[place] = None
        results += [stack.result() for stack in stacks]
        for place, value in zip(self._to, results, strict=False):
            if place:
                frame[place] = value

    def _iterate(self, frame, i, stacks):
        if self._iteration:
            frame[self._iteration] = np.array([i] if self._counts_in_vectors else i)
        if self._going_in:
            frame[self._going_in] = self._going
        self._plan.run(frame)
        going = True if self.runs_out else bool(only_item(self._going_out(frame), "the body's condition"))
        # All are read before the first state is put in its place: that may be what another output is.
        states = [read(frame) for read in self._next]
        for stack, read in zip(stacks, self._scans, strict=True):
            stack.append(read(frame))
        self._put(frame, states)
        return going

    def _put(self, frame, values):
        for place, value in zip(self._inner, values, strict=True):
            frame[place] = value


def stop_if_told(options):
    """Raise RunStopped where a run's options say that it should stop."""
    if options is not None and options.terminate:
        raise RunStopped("the run was told to stop: its RunOptions have terminate set")
