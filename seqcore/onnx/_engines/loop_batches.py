"""Batches: onnxruntime runs a few hundred iterations of a loop at a time, while its sequences are short.

A step of ours with a session's run in it costs 5 µs or more, an iteration of onnxruntime's own Loop 2 to 4
µs, plus a copy of the sequences at every edit. So a loop is given to onnxruntime in batches of iterations: a
model that holds the Loop alone, fed with the states and the number of iterations, gives the states back. How
long a batch may be follows from what copies cost; once a sequence has grown beyond what pays, the plan goes
on step by step. A sequence that the body only appends to starts each batch empty, and what the batch gives
is added to it: such a loop stays in onnxruntime to the end. A batch that fails is thrown away, and its
iterations run as steps, which name the node.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.attempts import Attempts
from seqcore.onnx._engines.checked_model import (
    BYTE,
    CROSS,
    Costs,
    add_checks,
    costs_of,
    limit_of,
    why_not_whole,
)
from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry, Frame
from seqcore.onnx._engines.tensor_part import cut_out, is_heavy
from seqcore.onnx._lists.trace import Trace
from seqcore.onnx._model.graph import Graph, Node, fresh_name
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of, one_line
from seqcore.onnx._model.types import SEQUENCE, TENSOR, tensor, to_type_proto
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.sessions import REFUSALS, SILENT, Refused, native, refusing_run

# The cost of a batch, in µs.
_BATCH = 15.0
# A batch is worth building, which takes some ms, after so many iterations without.
_PAYS = 64
_SHORTEST, _LONGEST = 16, 1024
# Why there may be no session for batches.
_REASONS: tuple[type[Exception], ...] = (Declined, *REFUSALS)


def plan_batches(entry: Entry, planner: Planner) -> LoopBatches:
    """Return how a Loop runs in batches; its `why_not` says where it can't, or would be slow."""
    (node,) = entry.nodes
    prepared = planner.prepared
    holder = Graph("loop", [], [], [node])
    costs = Costs()
    try:
        costs = costs_of(entry.inner["body"], planner)
        why_not = why_not_whole(holder, prepared)
    except Declined as why:
        why_not = str(why)
    captures = [name for name in node.body.free_names() if not prepared.is_constant(name)]
    for name in (*captures, *parts_of(node).states):
        why_not = why_not or _why_not_across(prepared, name)
    model = cut_out([node], {}, [], prepared, "loop")
    if is_heavy(model):
        why_not = why_not or "its weights would be held twice"
    return LoopBatches(node, captures, planner, costs, why_not)


def _why_not_across(prepared: Prepared, name: str) -> str:
    type_ = prepared.type(name)
    is_ours = type_.kind in (TENSOR, SEQUENCE) and dtype_of(type_.number) is not None
    if is_ours and type_.number != TensorProto.BFLOAT16:
        return ""
    return f"'{name}' does not go into onnxruntime or out of it in Python"


def is_only_appended(prepared: Prepared, loop: Node, k: int) -> bool:
    """Return whether a loop only appends to its state k."""
    try:
        trace = Trace(prepared, loop, k, None)
    except Declined:
        return False
    return not any(ends.front for ends in trace.ends.values()) and not trace.lengths and not trace.reads


class LoopBatches:
    """A Loop as a model of its own, for runs of some of its iterations.

    Attributes
    ----------
    why_not : str
        Why it isn't run so, "" where it is.
    appended, carried, captured : list of int
        The places of the sequences among its states that it only appends to, of the others, and of those that
        the body takes from outside.
    attempts : Attempts
    """

    def __init__(self, node: Node, captures: list[str], planner: Planner, costs: Costs, why_not: str) -> None:
        self._node, self._planner = node, planner
        self.costs, self.why_not = costs, why_not
        prepared, parts = planner.prepared, parts_of(node)
        self.runs_out = parts.going_in == parts.going_out
        self._counts = bool(prepared.readers[parts.iteration])
        self._captures = captures
        self._states = [
            (name, planner.place(name), dtype_of(prepared.element_number(name))) for name in parts.states
        ]
        appended = {
            name
            for k, name in enumerate(parts.states)
            if prepared.is_sequence(name) and is_only_appended(prepared, node, k)
        }
        sequences = [name for name in parts.states if prepared.is_sequence(name)]
        self.appended = [planner.place(name) for name in sequences if name in appended]
        self.carried = [planner.place(name) for name in sequences if name not in appended]
        self.captured = [planner.place(name) for name in captures if prepared.is_sequence(name)]
        self.asked = 0  # iterations without a batch; threads may lose some, which only delays the building
        self.attempts = Attempts()
        self._built: Once[_Built | None] = Once(self._build)

    def start(self, frame: Frame, trips: int | None) -> _Course | None:
        """Return what decides about the batches of one run of the loop, None if there won't be any."""
        if self.why_not or not self.attempts.is_due():
            return None
        return _Course(self, frame, trips)

    def is_built(self) -> bool:
        """Return whether there is a session, which is made once there have been iterations enough."""
        return self.asked >= _PAYS and self._built.get_unless_busy() is not None

    def _build(self) -> _Built | None:
        try:
            return _Built(self._node, self._captures, self._counts, self.runs_out, self._planner)
        except _REASONS as refusal:
            self.why_not = one_line(refusal)
            return None

    def run(self, frame: Frame, first: int, length: int) -> tuple[int, bool, list[np.ndarray]]:
        """Run iterations from `first` on, and put the states that they give into the frame.

        Returns
        -------
        int
            How many ran.
        bool
            Whether the condition still holds.
        list of np.ndarray
            The scan outputs of these iterations.

        Raises
        ------
        Refused
            The frame is as it was.
        """
        built = self._built.get()
        assert built is not None  # `is_built` was asked
        feed: dict[str, Any] = {built.trips: np.array(length)}
        if self._counts:
            feed[built.start] = np.array(first)
        for name, place in built.feeds:
            value = frame[place]
            if type(value) is TensorSequence:
                value = [] if place in self.appended else list(value)
            feed[name] = value
        results = built.run(built.names, feed, frame[0] or SILENT)
        scans = [native(value) for value in results[len(self._states) :]]
        ran, going = length, True
        if not self.runs_out:
            went_on = scans.pop()
            ran, going = len(went_on), bool(went_on[-1])
        values = [
            TensorSequence(value, dtype=dtype) if isinstance(value, list) else native(value)
            for value, (_, _, dtype) in zip(results, self._states, strict=False)
        ]
        for value, (_, place, _) in zip(values, self._states, strict=True):
            if place in self.appended:
                frame[place].extend(value)
            else:
                frame[place] = value
        return ran, going, scans


class _Built:
    """The session of a loop's batches.

    The states go in under other names than inside, where they are inputs of the body.
    """

    def __init__(
        self, node: Node, captures: list[str], counts: bool, runs_out: bool, planner: Planner
    ) -> None:
        prepared = planner.prepared
        loop = node.copy()
        parts, body = parts_of(loop), loop.body
        taken = prepared.model.names()
        self.trips, self.start, count, went_on = (
            fresh_name(f"seqcore/{word}", taken) for word in ("trips", "start", "count", "went_on")
        )
        outer = {name: fresh_name(f"{name} (initial)", taken) for name in parts.states}
        names = [*captures, *parts.states]
        inputs = {self.trips: _scalar(TensorProto.INT64)}
        inputs |= {
            outer.get(name, name): to_type_proto(prepared.type(name), with_shape=True) for name in names
        }
        if counts:
            # The body counts from where the batch starts.
            inputs[self.start] = _scalar(TensorProto.INT64)
            body.inputs[0] = count
            body.nodes.insert(0, Node("Add", [count, self.start], [parts.iteration], count))
            body.declared[count] = body.declared.pop(parts.iteration, _scalar(TensorProto.INT64))
        if not runs_out:
            body.nodes.append(Node("Identity", [parts.going_out], [went_on], went_on))
            body.outputs.append(went_on)
            body.declared[went_on] = _scalar(TensorProto.BOOL)
        loop.inputs = [self.trips, "", *outer.values()]
        # Numbered, since the body may give a value twice.
        self.names = [fresh_name(f"{name} (final) {k}", taken) for k, name in enumerate(body.outputs[1:])]
        loop.outputs = list(self.names)  # checks may add to it
        model = cut_out([loop], inputs, self.names, prepared, "batch")
        add_checks(model, prepared, limit_of(model.graph, prepared), unlimited=loop)
        session = planner.sessions.make(to_message(model), prepared.weights, spins=False, arena=False)
        self.feeds = [(outer.get(name, name), planner.place(name)) for name in names]
        self.run = refusing_run(session)


def _scalar(number: int) -> TypeProto:
    return to_type_proto(tensor(number, ()), with_shape=True)


class _Course:
    """The batches of one run of a loop."""

    def __init__(self, batches: LoopBatches, frame: Frame, trips: int | None) -> None:
        self._batches = batches
        self._trips = trips
        self._next: float = 0  # no earlier iteration is looked at
        # By how much an iteration makes the sequences longer: at most, or as in the last batch.
        self._grown: float = max(batches.costs.grows, 0)
        self._replayed: int | None = None  # where the iterations of a failed batch end
        self._refusal: BaseException | None = None
        self._captured = 0.0
        for place in batches.captured:
            self._captured += CROSS * len(frame[place]) + BYTE * frame[place].nbytes

    def due(self, frame: Frame, i: int) -> int:
        """Return how many iterations onnxruntime should run now, 0 for none."""
        batches = self._batches
        if i < self._next:
            batches.asked += 1
            return 0
        if self._replayed is not None:
            batches.attempts.failed(self._refusal)  # what onnxruntime could not do went well as steps
            self._next = float("inf")
            return 0
        self._next = i + _SHORTEST
        batches.asked += 1
        left = _LONGEST if self._trips is None else self._trips - i
        total = sum(len(frame[place]) for place in batches.carried)
        nbytes = sum(frame[place].nbytes for place in batches.carried)
        costs = batches.costs
        gain = costs.saved - costs.price(total, nbytes) - CROSS * len(batches.appended)
        length = left
        per_element = costs.price(1, nbytes / max(total, 1)) or 1e-9
        if batches.carried:
            # As long as the mean price of the batch is below the gain.
            length = int(min(left, _LONGEST, max(_SHORTEST, gain / per_element / max(self._grown, 1 / 16))))
        if batches.appended:
            # A batch costs its start once, and at each iteration a copy of the elements that it appended.
            length = min(length, math.ceil(math.sqrt(2 * _BATCH / per_element)))
        crossing = 2 * (CROSS * total + BYTE * nbytes) + self._captured + _BATCH
        if gain * length / 2 < crossing or not batches.is_built():
            return 0
        return length

    def run(self, frame: Frame, i: int, length: int, stacks: list[Any]) -> tuple[int, bool]:
        """Run a batch; return how many iterations ran, none if it failed, and whether the loop goes on."""
        batches = self._batches
        before = sum(len(frame[place]) for place in batches.carried)
        try:
            ran, going, scans = batches.run(frame, i, length)
        except Refused as refusal:
            self._refusal = refusal.__cause__
            self._next = self._replayed = i + length
            return 0, True
        batches.attempts.succeeded()
        after = sum(len(frame[place]) for place in batches.carried)
        self._grown = max(0.0, (after - before) / ran)
        self._next = i + ran
        for stack, values in zip(stacks, scans, strict=True):
            stack.extend(values)
        return ran, going
