"""Positions, as the operators on sequences get them."""

from __future__ import annotations

from typing import Any, NamedTuple

from onnx import TensorProto

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.prepared import Prepared


class Position(NamedTuple):
    """A position: the name, the number and the rank where they are known."""

    name: str
    value: int | None
    rank: int | None


def position_of(prepared: Prepared, name: str) -> Position:
    """Return the `Position` that a tensor is."""
    return Position(name, prepared.integer(name), prepared.type(name).rank)


def is_iteration_over(prepared: Prepared, name: str, sequence: str) -> bool:
    """Return whether a position is the iteration of a loop of no more trips than a sequence's length."""
    return any(
        node.is_op("Loop")
        and node.body.inputs[0] == name
        and _is_in_length(prepared, node.input(0), sequence)
        for node in prepared.model.graph.all_nodes()
    )


def _is_in_length(prepared: Prepared, name: str, sequence: str) -> bool:
    """Return whether of some integers, in a tensor of rank 0 or 1, the least is in a sequence's length."""
    node = prepared.producer(name)
    if node is None:
        return False
    if node.is_op("SequenceLength"):
        return node.inputs[0] == sequence
    # PyTorch exports `enumerate` and `zip` as loops of the least of some lengths.
    if node.is_op("Identity", "Unsqueeze", "Squeeze", "Reshape", "ReduceMin"):
        return _is_in_length(prepared, node.inputs[0], sequence)
    return node.is_op("Concat", "Min") and any(_is_in_length(prepared, one, sequence) for one in node.inputs)


def is_never_negative(prepared: Prepared, name: str) -> bool:
    """Return whether integers are known not to be negative, as lengths are."""
    constant = prepared.constant(name)
    if constant is not None:
        return bool((constant >= 0).all())
    node = prepared.producer(name)
    if node is None:
        return False
    if node.is_op("Shape", "Size", "SequenceLength"):
        return True
    if node.is_op("Cast") and node.attribute("to") != TensorProto.INT64:
        return False  # it may wrap around
    if node.is_op("Gather", "Squeeze", "Unsqueeze", "Reshape", "Cast", "Identity", "Slice"):
        return is_never_negative(prepared, node.inputs[0])
    return node.is_op("Add", "Mul") and all(is_never_negative(prepared, one) for one in node.inputs)


def guard_position(node: Node, k: int, prepared: Prepared, checks: Any) -> None:
    """Let a node fail whose input k may be no single position.

    onnxruntime takes the first of several, and what lies in memory where there is none.
    """
    if node.input(k):
        checks.want_one_item(node, k, prepared)
