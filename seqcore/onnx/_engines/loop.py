"""Loop, where sequences or optionals are among its values, as a step of a plan."""

from __future__ import annotations

import numpy as np

from seqcore._shown import add_note
from seqcore.onnx._engines.loop_batches import plan_batches
from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry
from seqcore.onnx._engines.stacked import Stacked, only_item
from seqcore.onnx._model.loop_parts import parts_of

# After so many iterations the loop looks at how it is run, and whether it was told to stop.
_LOOK = 32


class LoopStep:
    """A Loop: it runs its body's plan for each iteration, or onnxruntime runs many iterations at a time.

    The body reads its inputs at their places in the frame, where the loop puts the states that the last
    iteration gave. See `loop_batches` for who runs what.
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
        self.runs_out = parts.going_out == parts.going_in
        self._going_out, *outputs = planner.outputs_of(body)
        self._next = outputs[: len(parts.states)]
        self._scans = outputs[len(parts.states) :]
        self._expected = [planner.expected(name, body) for name in parts.scans]
        self._to = [planner.place(name) for name in node.outputs]
        self._plan = planner.plan_of(entry.inner["body"], in_loop=True)
        self._counts = planner.counts
        self._batches = planner.loops[node] = plan_batches(entry, planner)

    def __call__(self, frame):
        trips = only_item(frame[self._trips], "the number of trips") if self._trips else None
        going = bool(only_item(frame[self._condition], "the condition")) if self._condition else True
        self._put(frame, [read(frame) for read in self._initial])
        stacks = [Stacked(*what) for what in self._expected]
        batches = self._batches.start(frame, trips)
        i = 0
        try:
            while going and (trips is None or i < trips):
                if i % _LOOK == 0:
                    stop_if_told(frame[0])
                if batches and (length := batches.due(frame, i)):
                    ran, going = batches.run(frame, i, length, stacks)
                    i += ran
                    if ran:
                        continue
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
        self._counts.iterations += 1
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
    """Raise RuntimeError where a run's options say that it should stop."""
    if options is not None and options.terminate:
        raise RuntimeError("the run was told to stop: its RunOptions have terminate set")
