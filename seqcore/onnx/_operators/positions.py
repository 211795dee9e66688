"""Positions, as the operators on sequences get them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seqcore.onnx._model.graph import Node

if TYPE_CHECKING:
    from seqcore.onnx._engines.checked_model import Checks
    from seqcore.onnx._model.prepared import Prepared


class Position(NamedTuple):
    """A position: the name, the number and the rank where they are known."""

    name: str
    value: int | None
    rank: int | None


def position_of(prepared: Prepared, name: str) -> Position:
    """Return the `Position` that a tensor is."""
    constant = prepared.constant(name)
    if constant is not None and constant.size == 1 and constant.dtype.kind in "iu":
        return Position(name, int(constant.reshape(-1)[0]), constant.ndim)
    return Position(name, None, prepared.type(name).rank)


def secure_position(node: Node, k: int, prepared: Prepared, checks: Checks) -> None:
    """Let a node fail whose input k may be no single position.

    onnxruntime takes the first of several, and what lies in memory where there is none.
    """
    if node.input(k):
        checks.want_one_item(node, k, prepared)
