"""Checks of loops whose states are tensors in place of lists: copying them must not get slow.

A loop copies such a tensor at each edit. So a run fails where one has too many numbers, and another engine
runs instead: before the loop, where each iteration appends a known number at most, else after an iteration.
"""

from __future__ import annotations

import math
from collections.abc import Set
from functools import reduce
from typing import NamedTuple

from onnx import TensorProto

from seqcore.onnx._engines.checked_model import go_on_with
from seqcore.onnx._model.loop_parts import LoopParts, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.types import Shape
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._thresholds import MOST_COPIED_IN_LOOPS


class _State(NamedTuple):
    """The names of a state of a loop."""

    initial: str
    before: str
    after: str
    final: str


def limit_sizes(prepared: Prepared, given_states: Set[str]) -> bool:
    """Let loops fail that carry large tensors of unknown size; return whether there are such.

    The states of the given model are none of lists.

    Raises
    ------
    Declined
        If a loop carries a tensor that is always large.
    """
    builder = Builder(prepared.model, "check")
    loops = [node for node in prepared.model.graph.all_nodes() if node.is_op("Loop")]
    large = {id(loop): _large_states(parts_of(loop), given_states, prepared) for loop in loops}
    finals = {one.final: _origin(one.initial, prepared) for states in large.values() for one in states}
    for loop in loops:
        parts, states = parts_of(loop), large[id(loop)]
        is_told = not parts.why_not_a_range(prepared) and prepared.type(parts.trips).rank == 0
        growths = {one: _growth(one.before, one.after, prepared) for one in states}
        told = [one for one in states if growths[one] == 0 or (is_told and growths[one])]
        nodes = builder.before(loop)
        initial = [one.initial for one in told if _size_of(prepared.shape(one.initial)) != 0]
        sizes = [nodes.op("Size", one) for one in initial]
        if growth := sum(growths[one] or 0 for one in told):
            sizes.append(nodes.op("Mul", parts.trips, nodes.constant(growth)))
        if sizes:
            total = reduce(lambda one, other: nodes.op("Add", one, other), sizes)
            check = nodes.is_at_most(total, MOST_COPIED_IN_LOOPS)
            loop.inputs[1] = check if parts.begins(prepared) else nodes.op("And", parts.condition, check)
        left = [one for one in states if one not in told and not _is_checked(one, finals, prepared)]
        if names := _largest(left, prepared):
            nodes = Nodes(builder, "check", loop.body.nodes)
            sizes = [nodes.op("Size", one) for one in names]
            size = nodes.op("Max", *sizes) if len(sizes) > 1 else sizes[0]
            go_on_with(loop, nodes.is_at_most(size, MOST_COPIED_IN_LOOPS), nodes, prepared)
    builder.apply()
    return bool(finals)


def _is_checked(state: _State, finals: dict[str, str], prepared: Prepared) -> bool:
    """Return whether a loop inside checks what a state becomes, even where that has no iteration."""
    initial = finals.get(_origin(state.after, prepared))
    if initial is None:
        return False
    return _size_of(prepared.shape(initial)) is not None or _growth(state.before, initial, prepared) == 0


def _large_states(parts: LoopParts, given_states: Set[str], prepared: Prepared) -> list[_State]:
    states = map(_State, parts.initial, parts.states, parts.next_states, parts.final)
    return [one for one in states if one.before not in given_states and not _is_small(one.after, prepared)]


def _growth(before: str, after: str, prepared: Prepared) -> int | None:
    """Return how many numbers a state gets in each iteration at most, None if that isn't known."""
    shape = prepared.shape(before)
    if after == before or (shape is not None and None not in shape):  # a named length is always the same
        return 0
    if (size := _size_of(prepared.shape(after))) is not None:
        return size
    node = prepared.producer(after)
    if node is None:
        return None
    if node.is_op("Identity", "Slice", "Compress"):
        return _growth(before, node.inputs[0], prepared)
    if node.is_op("Concat"):
        sizes = {name: _size_of(prepared.shape(name)) for name in node.inputs}
        grown = [name for name in node.inputs if sizes[name] is None]
        growth = _growth(before, grown[0], prepared) if len(grown) == 1 else None
        return None if growth is None else growth + sum(sizes[name] or 0 for name in node.inputs)
    if node.is_op("If"):
        k = node.outputs.index(after)
        growths = [_growth(before, graph.outputs[k], prepared) for graph in node.graphs.values()]
        return None if None in growths else max(filter(None, growths), default=0)
    return None


def _largest(states: list[_State], prepared: Prepared) -> list[str]:
    """Return what states become, without those that are as small as another, whatever is appended."""
    largest: dict[str, tuple[float, str]] = {}
    for initial, before, after, _ in states:
        factor, counted = 1.0, after
        node = prepared.producer(_origin(after, prepared))
        is_empty = _size_of(prepared.shape(initial)) == 0
        is_append = node is not None and node.is_op("Concat") and len(node.inputs) == 2
        if node and is_empty and is_append and _origin(node.inputs[0], prepared) == before:
            factor, counted = _times(node.inputs[1], prepared)
        if factor > largest.get(counted, (0, ""))[0]:
            largest[counted] = (factor, after)
    return [after for _, after in largest.values()]


def _origin(name: str, prepared: Prepared) -> str:
    """Return the name of a value that nodes only hand on."""
    node = prepared.producer(name)
    return _origin(node.inputs[0], prepared) if node and node.is_op("Identity") else name


def _times(name: str, prepared: Prepared) -> tuple[float, str]:
    """Return a number and a tensor, maybe itself: a tensor has so many times as many numbers as that one."""
    node = prepared.producer(name)
    if node is None:
        return 1, name
    if node.is_op("Gather") and (shape := prepared.shape(node.inputs[0])):
        axis = node.attribute("axis", 0)
        if rest := _size_of(shape[:axis] + shape[axis:][1:]):
            factor, counted = _times(node.inputs[1], prepared)
            return rest * factor, counted
    elif node.is_op("ConstantOfShape") or (
        node.is_op("Expand") and _size_of(prepared.shape(node.inputs[0])) == 1
    ):
        return _times_of_shape(node.inputs[-1], prepared) or (1, name)
    elif node.is_op("Squeeze", "Unsqueeze", "Identity") or record_of(node).elementwise:
        return _times(node.inputs[0], prepared)
    elif record_of(node).broadcasts:
        several = [one for one in node.inputs if _size_of(prepared.shape(one)) != 1]
        if len(several) == 1:
            return _times(several[0], prepared)
    return 1, name


def _times_of_shape(vector: str, prepared: Prepared) -> tuple[float, str] | None:
    """Return the same for a tensor of this shape: that of another tensor, or one of its lengths."""
    node = prepared.producer(vector)
    if node is None:
        return None
    if node.is_op("Shape") and not node.attribute_names():
        return _times(node.inputs[0], prepared)
    if node.is_op("Unsqueeze") or (node.is_op("Concat") and len(node.inputs) == 1):
        return _times_of_shape(node.inputs[0], prepared)
    read = prepared.length_read(vector)
    shape = prepared.shape(read[0]) if read else None
    if not read or not shape or not -len(shape) <= read[1] < len(shape):
        return None
    axis = read[1] % len(shape)
    row = _size_of(shape[:axis] + shape[axis + 1 :])
    factor, counted = _times(read[0], prepared)
    return (factor / row, counted) if row else None


def _is_small(name: str, prepared: Prepared) -> bool:
    """Return whether a tensor is small in every run; raise Declined where a copy of it takes too long.

    A copy of a string takes 13 ns, as one of 70 numbers. onnxruntime's lists copy pointers to their elements.
    """
    size = _size_of(prepared.shape(name))
    if size is None and prepared.element_number(name) == TensorProto.STRING:
        raise Declined("its loops would copy strings")
    if size is not None and size > MOST_COPIED_IN_LOOPS:
        raise Declined("its loops would copy large tensors")
    return size is not None


def _size_of(shape: Shape) -> int | None:
    """Return how many numbers a tensor of a shape has, None where that isn't known."""
    if shape is None:
        return None
    lengths = [length for length in shape if isinstance(length, int)]
    return math.prod(lengths) if len(lengths) == len(shape) or 0 in lengths else None
