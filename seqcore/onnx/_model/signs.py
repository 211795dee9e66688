"""Which integers of a model are never negative, as lengths are."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Graph, Node

# Operators whose integers are never negative: always, if their first input is, if all inputs are.
_NEVER = ("Shape", "Size", "SequenceLength", "ArgMax", "ArgMin", "NonZero")
_LIKE_FIRST = ("Gather", "Squeeze", "Unsqueeze", "Reshape", "Cast", "Identity", "Slice", "Expand", "CumSum")
_LIKE_ALL = ("Add", "Mul", "Div", "Concat", "Min")


def never_negative(
    graph: Graph,
    iterations: set[str],
    number_of: Callable[[str], int],
    constant: Callable[[str], np.ndarray | None],
) -> set[str]:
    """Return the names of the integers that are known not to be negative, as numbers of iterations are.

    Each node is looked at once, in order: chains of nodes are longer than Python's stack.
    """
    found = set(iterations)

    def is_one(name: str) -> bool:
        if name in found:
            return True
        array = constant(name)
        return array is not None and array.dtype.kind in "iu" and bool((array >= 0).all())

    for node in graph.all_nodes():
        for name in node.outputs:
            is_integer = bool(name) and number_of(name) in (TensorProto.INT64, TensorProto.INT32)
            if is_integer and _gives(node, name, number_of, is_one):
                found.add(name)
    return found


def _gives(node: Node, name: str, number_of: Callable[[str], int], is_one: Callable[[str], bool]) -> bool:
    if node.is_op(*_NEVER) or (node.is_op("TopK") and name == node.outputs[1]):
        return True
    if node.is_op("Cast") and number_of(name) != TensorProto.INT64:
        return False  # it may wrap around
    if node.is_op("Mod"):  # the sign is the divisor's, with fmod the dividend's
        return is_one(node.inputs[not node.attribute("fmod", 0)])
    if node.is_op(*_LIKE_FIRST):
        return is_one(node.inputs[0])
    if node.is_op("Range"):  # from a start, by steps
        return is_one(node.inputs[0]) and is_one(node.inputs[2])
    if node.is_op("Max"):  # of these one is enough
        return any(map(is_one, node.inputs))
    return node.is_op(*_LIKE_ALL) and all(map(is_one, node.inputs))
