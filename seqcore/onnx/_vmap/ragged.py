"""Batching rules for values whose first axis differs in length between iterations.

Such values are padded: lengths beside a tensor that is as long as the longest. The padding is arbitrary; a
reduction along the axis fills it first.

    part = Slice (x, starts[i], ends[i])         part: (n, longest, 8), lengths: (n)
    y = ReduceSum (part, axis 0)           ──▶   y = ReduceSum (Where (position < length, part, 0), axis 1)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.record import axis_from_front
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._vmap import rules
from seqcore.onnx._vmap.tracer import Tracer, Value

# onnxruntime's Where takes these alone.
_FILLED = ("float32", "float64", "int32", "int64")


def _lengths(node: Node, body: Tracer) -> str:
    """Return the lengths of what a node gets, which have to be the same of all."""
    found = {body.lengths(name) for name in node.inputs} - {""}
    if len(found) > 1:
        raise rules.declined(node, "puts elements of several lengths together")
    return found.pop()


def behind_first(rule: rules.Rule, axes_of: Callable[[Node, Tracer], Sequence[int] | None]) -> rules.Rule:
    """Return the rule of an operator that works behind the first axis, along what `axes_of` returns."""

    def ragged(node: Node, body: Tracer) -> list[Value]:
        axes = axes_of(node, body)
        rank = body.rank(node.inputs[0]) + len(axes or ()) * node.is_op("Unsqueeze")
        if axes is None or not all(axis_from_front(int(axis), rank) for axis in axes):
            raise rules.declined(node, "has elements of several lengths")
        lengths = _lengths(node, body)
        return [value._replace(lengths=lengths) for value in rule(node, body)]

    return ragged


elementwise = behind_first(rules.elementwise, lambda node, body: ())
along_last = behind_first(rules.along_last, lambda node, body: [node.attribute("axis", -1)])
unsqueeze = behind_first(rules.unsqueeze, lambda node, body: body.integers(node, 1))
squeeze = behind_first(rules.squeeze, lambda node, body: body.integers(node, 1) if node.input(1) else None)
slice_ = behind_first(rules.slice_, lambda node, body: body.integers(node, 3) if node.input(3) else None)


def _axis_of_concat(node: Node, body: Tracer) -> Sequence[int] | None:
    return [node.attribute("axis", 0)] if all(map(body.lengths, node.inputs)) else None


def _moved_axes(node: Node, body: Tracer) -> Sequence[int] | None:
    return None if node.attribute("perm", [-1])[0] else ()


concat = behind_first(rules.concat, _axis_of_concat)
transpose = behind_first(rules.transpose, _moved_axes)


def broadcast(node: Node, body: Tracer) -> list[Value]:
    """Other inputs must not reach the first axis, or have length 1 there."""
    lengths = _lengths(node, body)
    rank = max(body.rank(name) for name in node.inputs)
    for name in node.inputs:
        own = body.rank(name)
        if body.lengths(name):
            is_fine = own == rank
        else:
            shape = body.types[name].shape
            is_fine = own < rank or (shape is not None and shape[0] == 1)
        if not is_fine:
            raise rules.declined(node, "has elements of several lengths")
    return [value._replace(lengths=lengths) for value in rules.broadcast(node, body)]


def softmax(node: Node, body: Tracer) -> list[Value]:
    name = node.inputs[0]
    axis = axis_from_front(node.attribute("axis", -1), body.rank(name))
    lengths, behind = body.lengths(name), (axis or 0) + 1

    def along(tensor: str, is_filled: bool = False) -> str:
        return body.again(node, [tensor], axis=behind)[0]

    made = body.with_filled(name, -np.inf, along) if axis == 0 else along(body.name(name))
    return [Value(made, True, lengths)]


def _bounds_of(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "f":
        return -np.inf, np.inf
    return np.iinfo(dtype).min, np.iinfo(dtype).max


def reduce(node: Node, body: Tracer) -> list[Value]:
    name = node.inputs[0]
    axes = node.attribute("axes")
    if axes is None and node.input(1):
        axes = body.integers(node, 1)
        if axes is None:
            raise rules.declined(node, "reduces axes that only a run tells")
    if not axes and node.attribute("noop_with_empty_axes", 0):
        raise rules.declined(node, "may reduce no axes")
    rank = body.rank(name)
    own = rules.places_of(node, axes or range(rank), rank)
    if 0 not in own:
        return [one._replace(lengths=body.lengths(name)) for one in rules.reduce(node, body)]
    dtype = dtype_of(body.types[name].number)
    if dtype is None or dtype.name not in _FILLED:
        raise rules.declined(node, "has elements of several lengths and of such a type")
    lowest, highest = _bounds_of(dtype)
    neutral = {
        **dict.fromkeys(("ReduceSum", "ReduceMean", "ReduceL1", "ReduceL2", "ReduceSumSquare"), 0),
        **{"ReduceMax": lowest, "ReduceMin": highest, "ReduceProd": 1, "ReduceLogSumExp": lowest},
    }
    if node.op_type not in neutral or (node.op_type == "ReduceMean" and dtype.kind != "f"):
        raise rules.declined(node, "has elements of several lengths")
    body.wants_filled()  # what comes out for none, runtimes don't agree on

    def reduced(tensor: str, is_filled: bool) -> str:
        if node.op_type != "ReduceMean" or not is_filled:
            return rules.reduce_rows(node, body, tensor)[0]
        # The mean is over the own length.
        nodes, places = body.nodes, [place + 1 for place in sorted(own)]
        keeps = node.attribute("keepdims", 1)
        total = nodes.op("ReduceSum", tensor, nodes.constant(places), keepdims=keeps)
        count = nodes.op("Cast", body.lengths(name), to=body.types[name].number)
        if len(places) > 1:
            # Of the other axes all items count.
            shape = nodes.op("Shape", tensor)
            behind = nodes.constant([place for place in places if place > 1])
            others = nodes.op("Gather", shape, behind, axis=0)
            items = nodes.op("Cast", nodes.product(others), to=body.types[name].number)
            count = nodes.op("Mul", count, items)
        if left := rank if keeps else rank - len(places):
            count = nodes.unsqueeze(count, *range(1, 1 + left))
        return nodes.op("Div", total, count)

    return [Value(body.with_filled(name, neutral[node.op_type], reduced), True)]


def matmul(node: Node, body: Tracer) -> list[Value]:
    a, b = node.inputs
    ranks = body.rank(a), body.rank(b)
    if body.lengths(a) and not body.lengths(b) and ranks[0] >= 2 and ranks[1] <= 2:
        lengths = body.lengths(a)
        return [value._replace(lengths=lengths) for value in rules.matmul(node, body)]
    # A sum over the first axis of both.
    if body.lengths(a) == body.lengths(b) and ranks in ((1, 2), (1, 1)):
        _lengths(node, body)
        return rules.matmul_rows(node, body, body.filled(a, 0), body.filled(b, 0))
    raise rules.declined(node, "has elements of several lengths")


def shape(node: Node, body: Tracer) -> list[Value]:
    """It varies: its first number is the length."""
    nodes = body.nodes
    rank = body.rank(node.inputs[0])
    start, end = rules.ends_of_shape(node, rank)
    lengths = nodes.unsqueeze(body.lengths(node.inputs[0]), 1)
    both = nodes.op("Shape", body.name(node.inputs[0]))
    others = nodes.slice(both, nodes.constant([2]), nodes.constant([rank + 1]), 0)
    many = nodes.op("Expand", nodes.unsqueeze(others, 0), nodes.join_axes(body.count, [1]))
    whole = nodes.op("Concat", lengths, many, axis=1)
    if (start, end) != (0, rank):
        whole = nodes.slice(whole, nodes.constant([start]), nodes.constant([end]), 1)
    if not start:
        body.shapes_of_several[node.outputs[0]] = body.lengths(node.inputs[0])
    return [Value(whole, True)]


def gather(node: Node, body: Tracer) -> list[Value]:
    data, indices = node.inputs
    if body.lengths(indices) and not body.varies(data):
        return _look_up(node, body)
    return _gather(node, body)


def _axis_of_gather(node: Node, body: Tracer) -> Sequence[int] | None:
    return None if body.varies(node.inputs[1]) else [node.attribute("axis", 0)]


_gather = behind_first(rules.gather, _axis_of_gather)


def _look_up(node: Node, body: Tracer) -> list[Value]:
    """Indices of several lengths: behind their ends the first item is looked up."""
    data, indices = node.inputs
    if node.attribute("axis", 0) != 0:
        raise rules.declined(node, "has elements of several lengths")
    body.wants_filled()  # where nothing is looked up, there may be no item at all
    made = body.again(node, [body.name(data), body.filled(indices, 0)])
    return [Value(made[0], True, body.lengths(indices))]


def gemm(node: Node, body: Tracer) -> list[Value]:
    a, b, c = node.inputs[0], node.inputs[1], node.input(2)
    if body.lengths(b) or node.attribute("transA", 0) or (c and (body.lengths(c) or body.rank(c) > 1)):
        raise rules.declined(node, "has elements of several lengths")
    return [value._replace(lengths=body.lengths(a)) for value in rules.gemm(node, body)]
