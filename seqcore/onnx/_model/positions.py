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
