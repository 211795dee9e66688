"""The parts of batching rules that say whether a node may fail.

Each takes a node of a loop's body and the `Tracer`; see `BatchRule`.
"""

from __future__ import annotations

from collections.abc import Sequence

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.record import axis_from_front
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import Length, Shape
from seqcore.onnx._vmap.shapes import LoopShapes
from seqcore.onnx._vmap.tracer import Tracer


def broadcast_adds_none(node: Node, shapes: LoopShapes) -> bool:
    """Return whether the result is as large as an input: of a column and a row it would be larger."""
    ranks = sorted(
        -1 if type_.rank is None else type_.rank for type_ in map(shapes.types.get, node.inputs) if type_
    )
    return len(ranks) == len(node.inputs) and ranks[0] >= 0 and (ranks[-1] < 2 or not any(ranks[:-1]))


# Whether shapes fit


def broadcast_fits(node: Node, body: Tracer) -> bool:
    return _are_broadcast([_shape(name, body) for name in dict.fromkeys(filter(None, node.inputs))])


def matmul_fits(node: Node, body: Tracer) -> bool:
    one, other = (_shape(name, body) for name in node.inputs)
    return one is not None and other is not None and _multiply(one, other)


def gemm_fits(node: Node, body: Tracer) -> bool:
    one, other = (_shape(name, body) for name in node.inputs[:2])
    if one is None or other is None or len(one) != 2 or len(other) != 2:
        return False
    one = one[::-1] if node.attribute("transA", 0) else one
    other = other[::-1] if node.attribute("transB", 0) else other
    more = _shape(node.input(2), body) if node.input(2) else ()
    whole = (one[0], other[1])
    is_bias = more is not None and all(
        length == 1 or (length is not None and length == own)
        for length, own in zip(more[::-1], whole[::-1], strict=False)
    )
    return is_bias and _multiply(one, other)


def concat_fits(node: Node, body: Tracer) -> bool:
    shapes = [_shape(name, body) for name in dict.fromkeys(filter(None, node.inputs))]
    first = shapes[0]
    if first is None or any(shape is None or len(shape) != len(first) for shape in shapes):
        return False
    axis = axis_from_front(node.attribute("axis", 0), len(first))
    lengths = (one for k, one in enumerate(zip(*filter(None, shapes), strict=True)) if k != axis)
    return axis is not None and all(len(set(ones)) == 1 and None not in ones for ones in lengths)


def _shape(name: str, body: Tracer) -> Shape:
    return body.types[name].shape if name in body.types else None


def _are_broadcast(shapes: list[Shape]) -> bool:
    if len(shapes) < 2:
        return True  # a value with itself
    lengths: dict[int, set[int | str | None]] = {}
    for shape in shapes:
        if shape is None:
            return all(one == () for one in shapes if one is not shape) and shapes.count(None) == 1
        for k, length in enumerate(reversed(shape)):
            if length is None and k in lengths and lengths[k] - {1}:
                return False
            if length != 1:
                lengths.setdefault(k, set()).add(length)
    return all(len(ones) < 2 for ones in lengths.values())


def _multiply(one: Sequence[Length], other: Sequence[Length]) -> bool:
    """Return whether matrices fit, and batches of them."""
    if not one or not other:
        return False
    inner = one[-1], other[-2] if len(other) > 1 else other[0]
    return (
        inner[0] == inner[1] and inner[0] is not None and _are_broadcast([tuple(one[:-2]), tuple(other[:-2])])
    )


def is_shape(node: Node, body: Tracer) -> bool:
    """Return whether the first input is known to have no negative length."""
    lengths = body.integers(node, 0)
    return lengths is not None and min(lengths, default=0) >= 0


# Whether a node runs without an iteration


def gather_runs_empty(node: Node, body: Tracer) -> bool:
    """Indices that vary are empty then; others have to be in range."""
    if body.varies(node.inputs[1]):
        return True
    shape, at = _shape(node.inputs[0], body), body.integers(node, 1)
    axis = axis_from_front(node.attribute("axis", 0), None if shape is None else len(shape))
    if shape is None or at is None or axis is None:
        return False
    length = shape[axis]
    return isinstance(length, int) and all(-length <= k < length for k in at)


def squeeze_runs_empty(node: Node, body: Tracer) -> bool:
    """The axes have to be of length 1."""
    shape = _shape(node.inputs[0], body)
    axes = body.integers(node, 1) if node.input(1) else []
    places = [axis_from_front(axis, None if shape is None else len(shape)) for axis in axes or ()]
    return shape is not None and all(place is not None and shape[place] == 1 for place in places)


# Whether a node fails in no iteration that would not have come to it


def gather_in_branch(node: Node, body: Tracer) -> bool:
    """Positions that vary are seen to by the rule."""
    return body.varies(node.inputs[1]) and not body.varies(node.inputs[0])


def extreme_in_branch(node: Node, body: Tracer) -> bool:
    """The largest and the smallest of no items alone are an error."""
    shape = _shape(node.inputs[0], body)
    is_full = shape is not None and all(isinstance(n, int) and n > 0 for n in shape)
    return is_full or bool(body.lengths(node.inputs[0]))


def divides(node: Node, body: Tracer) -> bool:
    """Return whether an integer may be divided by 0."""
    dtype = dtype_of(body.types[node.inputs[0]].number)
    divisor = body.prepared.constant(node.inputs[1])
    return (dtype is None or dtype.kind != "f") and (divisor is None or not divisor.all())
