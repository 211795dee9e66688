"""The inputs and outputs of a Loop and its body, by their roles.

(trips, condition, *initial)  ──▶  body (iteration, going_in, *states)
                                   ──▶ (going_out, *next_states, *scans)  ──▶  (*final, *stacked)
"""

from typing import Any, NamedTuple

from onnx import TypeProto

from seqcore.onnx._model.graph import Node


class LoopParts(NamedTuple):
    """The names of a Loop's values. Trips and condition are "" where they are left out."""

    trips: str
    condition: str
    initial: list[str]
    iteration: str
    going_in: str
    states: list[str]
    going_out: str
    next_states: list[str]
    scans: list[str]
    final: list[str]
    stacked: list[str]

    @property
    def passes_condition_on(self) -> bool:
        """True if an iteration doesn't decide whether there is another."""
        return self.going_out == self.going_in

    # `known` is a `Prepared` or an `Inference`: both say which integers and conditions are known.

    def begins(self, known: Any) -> bool:
        """Return whether the condition before the first iteration holds in every run."""
        return not self.condition or known.condition(self.condition) is True

    def runs_at_least_once(self, known: Any) -> bool:
        return self.begins(known) and (not self.trips or (known.integer(self.trips) or 0) > 0)

    def trip_count(self, known: Any) -> int | None:
        """Return how many iterations there are in every run, None where that isn't known."""
        trips = known.integer(self.trips) if self.trips else None
        if trips is None or not self.passes_condition_on or not self.begins(known):
            return None
        return max(trips, 0)

    def why_not_a_range(self, known: Any) -> str:
        """Return why the number of iterations isn't known before the first, "" if it is the trip count."""
        if not self.passes_condition_on:
            return "decides in each iteration whether to go on"
        if not self.trips or known.shape(self.trips) not in ((), (1,)):
            return "has no number of iterations"
        return "" if self.begins(known) else "begins under a condition"


def parts_of(node: Node) -> LoopParts:
    """Return the parts of a Loop."""
    body = node.body
    n = len(body.inputs) - 2
    return LoopParts(
        node.input(0),
        node.input(1),
        node.inputs[2:],
        body.inputs[0],
        body.inputs[1],
        body.inputs[2:],
        body.outputs[0],
        body.outputs[1 : 1 + n],
        body.outputs[1 + n :],
        node.outputs[:n],
        node.outputs[n:],
    )


def add_state(node: Node, initial: str, before: str, after: str, final: str, type_: TypeProto) -> None:
    """Give a Loop a state more: it comes behind the others, and before the scan outputs."""
    body, n = node.body, len(node.body.inputs) - 2
    node.inputs.append(initial)
    body.inputs.append(before)
    body.outputs.insert(1 + n, after)
    node.outputs.insert(n, final)
    body.declared[before] = body.declared[after] = type_


def keep_outputs(node: Node, kept: list[int]) -> None:
    """Leave a Loop some of its outputs alone, with the states that they are the last of."""
    parts, body = parts_of(node), node.body
    states = [k for k in kept if k < len(parts.states)]
    node.inputs = [*node.inputs[:2], *(parts.initial[k] for k in states)]
    node.outputs = [node.outputs[k] for k in kept if k < len(node.outputs)]
    body.inputs = [*body.inputs[:2], *(parts.states[k] for k in states)]
    body.outputs = [body.outputs[0], *(body.outputs[1 + k] for k in kept)]
