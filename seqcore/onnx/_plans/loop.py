"""Loop, where sequences or optionals are among its values, as a step of a plan."""

import numpy as np

from seqcore.onnx._plans.rounds import plan_rounds
from seqcore.onnx._plans.stacked import Stacked
from seqcore.onnx._plans.steps import only_item

# After so many iterations the loop looks at how it is run, and whether it was told to stop.
_LOOK = 32


def loop_step(entry, planner, in_loop):
    """Return the step of a Loop, in another loop or not."""
    return LoopStep(entry, planner)


class LoopStep:
    """A Loop: it runs its body's plan for each iteration, or onnxruntime runs many iterations at a time.

    The body reads its inputs at their places in the frame, where the loop puts the states that the last
    iteration gave. See `rounds` for who runs what.
    """

    def __init__(self, entry, planner):
        (node,) = entry.nodes
        (schedule,) = entry.inner
        body = schedule.graph
        facts = planner.facts
        self.name = node.name
        trips, condition, *states = (*node.input, "", "")[: max(2, len(node.input))]
        self._trips, self._condition = planner.place(trips), planner.place(condition)
        self._initial = [planner.reader(node, name) for name in states]
        iteration, going, *inner = (value.name for value in body.input)
        self._inner = [planner.place(name) for name in inner]
        self._iteration = planner.place(iteration) if facts.readers[iteration] else 0
        self._going_in = planner.place(going)
        # A body may declare its iteration's number and the condition with one axis, as onnxruntime has it.
        self._counts_in_vectors = facts.shape(iteration) == [1]
        self._going = np.full(facts.shape(going) or (), True)
        self._going.flags.writeable = False
        # A loop over a range passes its condition on.
        self.runs_out = body.output[0].name == going
        self._going_out, *outputs = planner.outputs_of(body)
        self._next = outputs[: len(states)]
        self._scans = outputs[len(states) :]
        self._expected = [planner.expected(value.name) for value in body.output[1 + len(states) :]]
        self._to = [planner.place(name) for name in node.output]
        self._plan = planner.plan_of(schedule, in_loop=True)
        self._rounds = planner.rounds[id(node)] = plan_rounds(entry, planner, self.runs_out)

    def __call__(self, frame):
        trips = only_item(frame[self._trips], "the number of trips") if self._trips else None
        going = bool(only_item(frame[self._condition], "the condition")) if self._condition else True
        self._put(frame, [read(frame) for read in self._initial])
        stacks = [Stacked(*what) for what in self._expected]
        rounds = self._rounds and self._rounds.start(frame, trips)
        i = 0
        try:
            while going and (trips is None or i < trips):
                if i % _LOOK == 0:
                    stop_if_told(frame[0])
                if rounds and (length := rounds.due(frame, i)):
                    ran, going = rounds.run(frame, i, length, stacks)
                    i += ran
                    if ran:
                        continue
                going = self._iterate(frame, i, stacks)
                i += 1
        except Exception as error:
            error.add_note(f"in iteration {i} of Loop '{self.name}'")
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
    """Raise RuntimeError where a run's options say that it should stop."""
    if options is not None and options.terminate:
        raise RuntimeError("the run was told to stop: its RunOptions have terminate set")
