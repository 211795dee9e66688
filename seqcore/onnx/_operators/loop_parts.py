"""What stands where among the inputs and outputs of a Loop and its body.

(trips, condition, *initial)  ──▶  body (iteration, going_in, *states)
                                   ──▶ (going_out, *next_states, *scans)  ──▶  (*final, *stacked)
"""

from typing import NamedTuple

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
