"""Nodes about places in tensors: where cuts are, and what lies on either side."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto, helper

from seqcore.onnx._model.positions import Position
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import Shape
from seqcore.onnx._rewrite.emit import AFTER_ALL, Nodes

if TYPE_CHECKING:
    from collections.abc import Sequence

# Those that ConstantOfShape makes and Expand takes, in all opsets.
EXPANDED = (
    *(TensorProto.FLOAT16, TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.BOOL),
    *(TensorProto.INT8, TensorProto.INT16, TensorProto.INT32, TensorProto.INT64),
    *(TensorProto.UINT8, TensorProto.UINT16, TensorProto.UINT32, TensorProto.UINT64),
)


def head(nodes: Nodes, tensor: str, end: str, out: str = "", axis: int = 0) -> str:
    """Return what lies before a place of an axis, of shape [1]."""
    return nodes.slice(tensor, nodes.constant([0]), end, axis, out=out)


def tail(nodes: Nodes, tensor: str, start: str, out: str = "", axis: int = 0) -> str:
    """Return what lies from a place of an axis on."""
    return nodes.slice(tensor, start, nodes.constant([AFTER_ALL]), axis, out=out)


def cut_out(nodes: Nodes, shape: str, axis: int, rank: int) -> tuple[list[str], list[str]]:
    """Return the lengths of a shape before an axis and those behind it, each where there are any."""
    before, behind = [], []
    if axis:
        before.append(head(nodes, shape, nodes.constant([axis])))
    if axis + 1 < rank:
        behind.append(nodes.slice(shape, nodes.constant([axis + 1]), nodes.constant([rank]), 0))
    return before, behind


def sum_of(nodes: Nodes, vector: str) -> str:
    """Return the sum of a vector, in shape [1]."""
    return nodes.op("ReduceSum", vector, keepdims=1)


def from_front(nodes: Nodes, position: Position, count: str) -> str:
    """Return a position counted from the front, in shape [1], as the count is."""
    if position.value is not None:
        at = nodes.constant([position.value])
        return at if position.value >= 0 else nodes.op("Add", at, count)
    at = nodes.op("Cast", nodes.position(position, 1), to=TensorProto.INT64)
    if position.is_from_front:
        return at
    is_back = nodes.op("Cast", nodes.op("Less", at, nodes.constant([0])), to=TensorProto.INT64)
    return nodes.op("Add", at, nodes.op("Mul", is_back, count))


def place_of(nodes: Nodes, position: Position, count: str, is_gap: bool) -> str:
    """Return a position counted from the front, in shape [1], of nodes that fail where it is out of range.

    The count of elements is a scalar. If `is_gap`, it is a position between elements: there is one more of
    these.
    """
    if not nodes.builder.has_checks:
        return from_front(nodes, position, nodes.unsqueeze(count, 0))
    at = nodes.position(position, 1)
    if is_gap:
        count = nodes.op("Add", count, nodes.constant(1))
        if not position.is_from_front:
            # Of the gaps, the last is none from the back.
            at = nodes.op("Cast", at, to=TensorProto.INT64)
            is_back = nodes.op("Cast", nodes.op("Less", at, nodes.constant([0])), to=TensorProto.INT64)
            at = nodes.op("Sub", at, is_back)
    places = nodes.op("Range", nodes.constant(0), count, nodes.constant(1))
    return nodes.op("Gather", places, at, axis=0)


def make_empty(nodes: Nodes, element_type: int, shape: Sequence[int], out: str = "") -> str:
    """Return a tensor without items.

    As a constant it would come to nothing in OpenVINO (2026.4), which takes one without items for a scalar.
    """
    return zeros(nodes, element_type, nodes.constant(list(shape)), out)


def zeros(nodes: Nodes, element_type: int, lengths: str, out: str = "") -> str:
    """Return a tensor of zeros, in a shape that comes at run time."""
    if element_type in EXPANDED:
        value = helper.make_tensor("value", element_type, [1], [0])
        return nodes.op("ConstantOfShape", lengths, value=value, out=out)
    return nodes.op("Cast", nodes.op("ConstantOfShape", lengths), to=element_type, out=out)


def flat_places(nodes: Nodes, lengths: str, outer: str, inner: str) -> str:
    """Return where the numbers of a joined tensor stand in pieces that lie one behind the other, each flat.

    Parameters
    ----------
    nodes : Nodes
    lengths : str
        (n,), the pieces' lengths on the axis on which they are joined.
    outer, inner : str
        [1], how many numbers the axes before it and behind it make.

    Returns
    -------
    str
        (outer * sum of the lengths * inner,), in the order of the joined tensor.
    """
    zero, one = nodes.constant(0), nodes.constant(1)
    ends = nodes.op("CumSum", lengths, zero)
    steps = nodes.op("Range", zero, nodes.op("ReduceSum", lengths, keepdims=0), one)
    # The piece that each step of the axis is in: so many end before it.
    is_behind = nodes.op("Not", nodes.op("Less", nodes.unsqueeze(steps, 1), nodes.unsqueeze(ends, 0)))
    behind = nodes.op("Cast", is_behind, to=TensorProto.INT64)
    piece = nodes.op("ReduceSum", behind, nodes.constant([1]), keepdims=0)
    length = nodes.op("Gather", lengths, piece, axis=0)
    start = nodes.op("Sub", nodes.op("Gather", ends, piece, axis=0), length)
    # outer * inner * start + inner * (step - start) + inner * length * i + j
    base = nodes.op("Mul", nodes.op("Mul", outer, inner), start)
    base = nodes.op("Add", base, nodes.op("Mul", inner, nodes.op("Sub", steps, start)))
    i, j = (nodes.op("Range", zero, nodes.squeeze(count, 0), one) for count in (outer, inner))
    rows = nodes.op("Mul", nodes.unsqueeze(i, 1), nodes.op("Mul", inner, length))
    places = nodes.op("Add", nodes.unsqueeze(nodes.op("Add", rows, base), 2), j)
    return nodes.op("Reshape", places, nodes.constant([-1]))


def shape_tensor(nodes: Nodes, prepared: Prepared, shape: Shape) -> str:
    """Return a known shape as a tensor. A name in it is a length that an input of the model gives."""
    if all(isinstance(length, int) for length in shape or ()):
        return nodes.constant(list(shape or ()))
    parts: list[str | list[int]] = []
    for length in shape or ():
        if isinstance(length, int):
            parts.append([length])
            continue
        place = prepared.fed_axis(length)
        assert place is not None, length
        shape_of_input = nodes.op("Shape", place[0])
        parts.append(nodes.op("Gather", shape_of_input, nodes.constant([place[1]]), axis=0))
    return nodes.join_axes(*parts)
