"""Rounds: onnxruntime runs some hundred iterations of a loop at a time, while its sequences are short.

A step of ours with a session's run in it costs 5 µs or more, an iteration of onnxruntime's own Loop 2 to 4
µs, plus a copy of the sequences at every edit. So a loop is given to onnxruntime in rounds: a model that
holds the Loop alone, fed with the states and the number of iterations, gives the states back. How long a
round may be follows from what copies cost; once a sequence has grown beyond what pays, the plan goes on step
by step. A sequence that the body only appends to starts each round empty, and what the round gives is added
to it: such a loop stays in onnxruntime to the end. A round that fails is thrown away, and its iterations run
as steps, which name the node.
"""

import math
import threading

import numpy as np
from onnx import NodeProto, TensorProto, TypeProto, helper

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._models.graphs import dtype_of, free_names, subgraphs
from seqcore.onnx._models.runners import native
from seqcore.onnx._plans.attempts import Attempts
from seqcore.onnx._plans.costs import BYTE, CROSS, costs_of
from seqcore.onnx._plans.guards import guard
from seqcore.onnx._plans.head import SILENT
from seqcore.onnx._plans.parts import cut_out

# What a round costs, in µs.
_ROUND = 15.0
# A round is worth building, which takes some ms, after so many iterations without.
_PAYS = 64
_SHORTEST, _LONGEST = 16, 1024


def plan_rounds(entry, planner, runs_out):
    """Return the `Rounds` of a Loop, None where onnxruntime can't run it, or would be slow."""
    (node,) = entry.nodes
    (schedule,) = entry.inner
    facts = planner.facts
    body = schedule.graph
    costs = costs_of(schedule, planner)
    if costs is None or planner.departures.among([node]):
        return None
    captures = [name for name in free_names(body) if name not in facts.constants]
    kinds = {name: _plain_type(name, facts) for name in captures}
    kinds |= {value.name: _plain_type(value.name, facts) for value in body.input[2:]}
    if any(kind is None for kind in kinds.values()):
        return None
    return Rounds(node, body, captures, kinds, planner, runs_out, costs)


def _plain_type(name, facts):
    """Return a value's type without shapes, which may change; None where onnxruntime takes no such value."""
    kind = facts.types.get(name)
    number = facts.element_number(name)
    if kind is None or not number or number == TensorProto.BFLOAT16 or dtype_of(number) is None:
        return None
    plain = TypeProto()
    which = kind.WhichOneof("value")
    if which == "tensor_type":
        plain.tensor_type.elem_type = number
    elif which == "sequence_type":
        plain.sequence_type.elem_type.tensor_type.elem_type = number
    else:
        return None
    return plain


def _is_appended(state, output, facts):
    """Return whether a body makes its output of a state by appends alone, and does nothing else with it."""
    links = {}  # the values between them → the nodes that may read them
    ends = [output]  # what the body gives, and on the way the branches of an If

    def leads_back(name):
        if name == state:
            return True
        node, _ = facts.producers.get(name, (None, None))
        if node is None or node.domain not in ("", "ai.onnx"):
            return False
        if node.op_type == "Identity" or (node.op_type == "SequenceInsert" and not any(node.input[2:])):
            links.setdefault(node.input[0], []).append(node)
            return leads_back(node.input[0])
        if node.op_type == "If":
            k = list(node.output).index(name)
            given = [graph.output[k].name for graph in subgraphs(node)]
            ends.extend(given)
            return all(leads_back(one) for one in given)
        return False

    if not leads_back(output):
        return False
    allowed = {id(node) for nodes in links.values() for node in nodes}
    values = {state, *ends, *links}
    readers = [(name, reader) for name in values for reader, _ in facts.readers[name]]
    given = sorted(name for name, reader in readers if reader is None)
    return given == sorted(ends) and all(reader is None or id(reader) in allowed for _, reader in readers)


class Rounds:
    """A Loop as a model of its own, for runs of some of its iterations."""

    def __init__(self, node, body, captures, kinds, planner, runs_out, costs):
        self._node, self._body, self._kinds = node, body, kinds
        self._facts, self._runtime = planner.facts, planner.runtime
        self.costs = costs
        self.runs_out = runs_out
        self._counts = bool(self._facts.readers[body.input[0].name])
        states = [value.name for value in body.input[2:]]
        self._states = [(name, planner.place(name), self._dtype(name)) for name in states]
        self._captures = [(name, planner.place(name)) for name in captures]
        appended = [
            name
            for name, value in zip(states, body.output[1:], strict=False)
            if self._is_sequence(name) and _is_appended(name, value.name, self._facts)
        ]
        self.appended = [place for name, place, _ in self._states if name in appended]
        self.carried = [
            place for name, place, _ in self._states if self._is_sequence(name) and name not in appended
        ]
        self.captured = [place for name, place in self._captures if self._is_sequence(name)]
        self.asked = 0  # iterations without a round; threads may lose some, which only delays the building
        self.attempts = Attempts()
        self._is_hopeless = False
        self._building = threading.Lock()
        self._session = None

    def _is_sequence(self, name):
        return self._kinds[name].WhichOneof("value") == "sequence_type"

    def _dtype(self, name):
        return dtype_of(self._facts.element_number(name))

    def start(self, frame, trips):
        """Return what decides about the rounds of one run of the loop, None if there won't be any."""
        if self._is_hopeless or not self.attempts.is_due():
            return None
        return _Course(self, frame, trips)

    def is_built(self):
        """Return whether there is a session, which is made once there have been iterations enough."""
        if self._session is not None:
            return True
        if self._is_hopeless or self.asked < _PAYS or not self._building.acquire(blocking=False):
            return False
        try:
            if self._session is None:
                self._build()
        except Exception:  # onnxruntime has no kernels for all types
            self._is_hopeless = True
        finally:
            self._building.release()
        return self._session is not None

    def _build(self):
        loop = NodeProto()
        loop.CopyFrom(self._node)
        body = next(attribute.g for attribute in loop.attribute if attribute.name == "body")
        going_in, going_out = body.input[1].name, body.output[0].name
        inputs = {_TRIPS: _tensor_type(TensorProto.INT64)} | self._kinds
        if self._counts:
            inputs[_START] = _tensor_type(TensorProto.INT64)
            counted, body.input[0].name = body.input[0].name, _COUNT
            body.node.insert(0, helper.make_node("Add", [_COUNT, _START], [counted]))
        if self.runs_out:
            # It stays true: no node has to compute that anew.
            body.output[0].name = going_in
        else:
            body.node.append(helper.make_node("Identity", [going_out], [_WENT_ON]))
            body.output.add(name=_WENT_ON).type.CopyFrom(_tensor_type(TensorProto.BOOL))
        states = [name for name, _, _ in self._states]
        # The states go in under the names of the values in the body: inside, they are inputs of the body.
        outer = {name: f"{name} {_INITIAL}" for name in states}
        inputs = {outer.get(name, name): kind for name, kind in inputs.items()}
        loop.input[:] = [_TRIPS, "", *(outer[name] for name in states)]
        # Numbered, since the body may give a value twice.
        names = [f"{value.name} {_FINAL} {k}" for k, value in enumerate(body.output[1:])]
        loop.output[:] = names
        model = cut_out([loop], inputs, names, self._facts, "round")
        guard(model.graph, self._facts, skip=names[:1])
        session = self._runtime.busy_session(model.SerializeToString())
        self._feeds = [(outer[name], place) for name, place, _ in self._states]
        self._feeds += self._captures
        self._names = names
        self._session = getattr(session, "_sess", session)

    def run(self, frame, first, length):
        """Run iterations from `first` on, and put the states that they give into the frame.

        Returns
        -------
        int
            How many ran.
        bool
            Whether the condition still holds.
        list of np.ndarray
            The scan outputs of these iterations.
        """
        feed = {_TRIPS: np.array(length)}
        if self._counts:
            feed[_START] = np.array(first)
        for name, place in self._feeds:
            value = frame[place]
            if type(value) is TensorSequence:
                value = [] if place in self.appended else list(value)
            feed[name] = value
        results = self._session.run(self._names, feed, frame[0] or SILENT)
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


_TRIPS, _START, _COUNT, _WENT_ON = "seqcore/trips", "seqcore/start", "seqcore/count", "seqcore/went_on"
_INITIAL, _FINAL = "(initial)", "(final)"


def _tensor_type(number):
    return helper.make_tensor_type_proto(number, [])


class _Course:
    """The rounds of one run of a loop."""

    def __init__(self, rounds, frame, trips):
        self._rounds = rounds
        self._trips = trips
        self._next = 0  # no earlier iteration is looked at
        # By how much an iteration makes the sequences longer: at most, or as in the last round.
        self._grown = max(rounds.costs.grows, 0)
        self._replayed = None  # where the iterations of a failed round end
        self._captured = 0.0
        for place in rounds.captured:
            self._captured += CROSS * len(frame[place]) + BYTE * frame[place].nbytes

    def due(self, frame, i):
        """Return how many iterations onnxruntime should run now, 0 for none."""
        rounds = self._rounds
        if i < self._next:
            rounds.asked += 1
            return 0
        if self._replayed is not None:
            rounds.attempts.failed()  # what onnxruntime could not do went well as steps
            self._next = float("inf")
            return 0
        self._next = i + _SHORTEST
        rounds.asked += 1
        left = _LONGEST if self._trips is None else self._trips - i
        total = sum(len(frame[place]) for place in rounds.carried)
        nbytes = sum(frame[place].nbytes for place in rounds.carried)
        costs = rounds.costs
        gain = costs.saved - costs.price(total, nbytes) - CROSS * len(rounds.appended)
        length = left
        per_element = costs.price(1, nbytes / max(total, 1)) or 1e-9
        if rounds.carried:
            # As long as the mean price of the round is below the gain.
            length = int(min(left, _LONGEST, max(_SHORTEST, gain / per_element / max(self._grown, 1 / 16))))
        if rounds.appended:
            # A round costs its start once, and what has been appended in it again at each iteration.
            length = min(length, math.ceil(math.sqrt(2 * _ROUND / per_element)))
        crossing = 2 * (CROSS * total + BYTE * nbytes) + self._captured + _ROUND
        if gain * length / 2 < crossing or not rounds.is_built():
            return 0
        return length

    def run(self, frame, i, length, stacks):
        """Run a round; return how many iterations ran, none if it failed, and whether the loop goes on."""
        rounds = self._rounds
        before = sum(len(frame[place]) for place in rounds.carried)
        try:
            ran, going, scans = rounds.run(frame, i, length)
        except Exception:
            self._next = self._replayed = i + length
            return 0, True
        rounds.attempts.succeeded()
        after = sum(len(frame[place]) for place in rounds.carried)
        self._grown = max(0.0, (after - before) / ran)
        self._next = i + ran
        for stack, values in zip(stacks, scans, strict=True):
            stack.extend(values)
        return ran, going
