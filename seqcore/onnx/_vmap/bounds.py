"""How many numbers a value in a loop's body has at most, where its shape isn't known.

row: (x[1])    part: (?) = Slice (row, 0, k)        at most x[1]
both: (?) = Concat (row, w)                         at most x[1] + w[0]
wide: (?, ?) = Expand (row, shape)                  who knows: not at once
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.record import axis_from_front, record_of
from seqcore.onnx._vmap.shapes import LoopShapes, Size

# A sum of sizes.
Bound = list[Size]
# So many terms are looked at.
_MOST_TERMS = 16

# What makes no more than its first input has.
_NO_MORE = {
    *("Reshape", "Flatten", "Squeeze", "Unsqueeze", "Transpose", "Slice", "Split", "Identity", "CumSum"),
    *("Softmax", "LogSoftmax", "Hardmax", "ArgMax", "ArgMin", "TopK", "Trilu", "ScatterElements", "LRN"),
    *("LayerNormalization", "InstanceNormalization", "DepthToSpace", "SpaceToDepth", "AveragePool"),
    *("GlobalAveragePool", "GlobalMaxPool"),
}


class SizeBounds:
    """The bounds of what a body makes.

    Parameters
    ----------
    body : Graph
    shapes : LoopShapes
        Of its values.
    integers : callable
        Returns the integers of input k of a node, None where only a run tells.
    """

    def __init__(
        self, body: Graph, shapes: LoopShapes, integers: Callable[[Node, int], list[int] | None]
    ) -> None:
        self._shapes, self._integers = shapes, integers
        self._makers = {name: node for node in body.all_nodes() for name in node.outputs}
        self._found: dict[str, Bound | None] = {}

    def of(self, name: str) -> Bound | None:
        """Return at most how many numbers a value has, None where that isn't known."""
        if name not in self._found:
            size = self._shapes.size(name)
            self._found[name] = [size] if size else self._by_axes(name) or self._by_maker(name)
        return self._found[name]

    def behind_first(self, name: str) -> Bound | None:
        """Return at most how many numbers an item on the first axis has."""
        return self._by_axes(name, 1)

    def _by_axes(self, name: str, first: int = 0) -> Bound | None:
        rank = self._shapes.types[name].rank if name in self._shapes.types else None
        if rank is None:
            return None
        axes = [self._axis(name, k) for k in range(first, rank)]
        return None if None in axes else _product([axis for axis in axes if axis])

    def _axis(self, name: str, k: int) -> Bound | None:
        """Return at most how long an axis is."""
        type_ = self._shapes.types.get(name)
        if type_ is None or type_.shape is None or not 0 <= k < len(type_.shape):
            return None
        length = type_.shape[k]
        if isinstance(length, int):
            return [Size(length)]
        if length in self._shapes.lengths:
            return [Size(1, (length,))]
        node = self._makers.get(name)
        return None if node is None else self._axis_made(node, k, len(type_.shape))

    def _axis_made(self, node: Node, k: int, rank: int) -> Bound | None:
        record = record_of(node)
        if record.by_number or node.is_op("Slice", "Softmax", "LayerNormalization", "Clip", "CumSum"):
            return self._axis(node.inputs[0], k)
        if record.broadcasts:
            own = []
            for name in node.inputs:
                shape = self._shapes.types[name].shape if name in self._shapes.types else None
                if shape is None:
                    return None
                if k >= rank - len(shape):
                    own.append(self._axis(name, k - rank + len(shape)))
            return _sum(own, is_once=True)
        if node.is_op("Concat"):
            bounds = [self._axis(name, k) for name in node.inputs]
            if axis_from_front(node.attribute("axis", 0), rank) == k:
                return _sum(bounds)
            return next(filter(None, bounds), None)
        if node.is_op("Pad", "Expand") and len(node.inputs) > 1:
            return self._axis_grown(node, k, rank)
        if node.is_op("MatMul"):
            return self._axis_of_product(node, k - rank)
        if node.is_op("Transpose"):
            return self._axis(node.inputs[0], node.attribute("perm", list(range(rank))[::-1])[k])
        return None

    def _axis_grown(self, node: Node, k: int, rank: int) -> Bound | None:
        numbers = self._integers(node, 1)
        if numbers is None:
            return None
        if node.is_op("Expand"):
            own = k - rank + len(numbers)
            if own >= 0 and numbers[own] != 1:
                return [Size(numbers[own])]
            shape = self._shapes.types[node.inputs[0]].shape
            return None if shape is None else self._axis(node.inputs[0], k - rank + len(shape))
        if len(numbers) != 2 * rank:
            return None
        more = max(numbers[k] + numbers[k + rank], 0)
        return _sum([self._axis(node.inputs[0], k), [Size(more)]])

    def _axis_of_product(self, node: Node, k: int) -> Bound | None:
        shapes = [self._shapes.types[name].shape for name in node.inputs]
        if None in shapes or any(shape is not None and len(shape) != 2 for shape in shapes):
            return None
        return self._axis(node.inputs[0 if k == -2 else 1], 2 + k)

    def _by_maker(self, name: str) -> Bound | None:
        node = self._makers.get(name)
        if node is None:
            return None
        if node.is_op("If"):
            k = node.outputs.index(name)
            return _sum([self.of(branch.outputs[k]) for branch in node.graphs.values()])
        if record_of(node).by_number or node.op_type in _NO_MORE or node.op_type.startswith("Reduce"):
            return self.of(node.inputs[0])
        if record_of(node).broadcasts:
            large = {one for one in node.inputs if self._shapes.size(one) != Size(1)}
            return self.of(large.pop()) if len(large) == 1 else None
        if node.is_op("GatherElements"):
            return self.of(node.inputs[1])
        if node.is_op("Concat"):
            return _sum([self.of(one) for one in node.inputs])
        if node.is_op("Conv", "ConvTranspose"):
            return self._by_weights(node)
        return None

    def _by_weights(self, node: Node) -> Bound | None:
        """Channels become others; padding is seen to by twice as many numbers."""
        types, made = self._shapes.types, self.of(node.inputs[0])
        weights = self._axis(node.inputs[1], int(node.is_op("ConvTranspose")))
        if made is None or weights is None:
            return None
        groups = node.attribute("group", 1) if node.is_op("ConvTranspose") else 1
        times = 2 * groups * math.prod(node.attribute("strides", [1]) if node.is_op("ConvTranspose") else [1])
        shape = types[node.inputs[0]].shape
        channels = shape[1] if shape is not None and len(shape) > 1 else None
        whole = _product([made, weights])
        if whole is None or not isinstance(channels, int) or not channels:
            return None if whole is None else [one._replace(number=times * one.number) for one in whole]
        return [one._replace(number=-(-times * one.number // channels)) for one in whole]


def _sum(bounds: list[Bound | None], is_once: bool = False) -> Bound | None:
    """Return the sum of bounds; of what is the same once, if so asked."""
    numbers: dict[tuple[str, ...], int] = {}
    for bound in bounds:
        if bound is None:
            return None
        for one in bound:
            own = numbers.get(one.names, 0)
            numbers[one.names] = max(own, one.number) if is_once else own + one.number
    if is_once and len(numbers) > 1 and numbers.get((), 0) == 1:
        del numbers[()]  # an axis of length 1 is broadcast
    return [Size(number, names) for names, number in numbers.items()] if len(numbers) <= _MOST_TERMS else None


def _product(bounds: list[Bound]) -> Bound | None:
    if math.prod(map(len, bounds)) > _MOST_TERMS:
        return None
    terms = []
    for chosen in product(*bounds):
        names = tuple(sorted(name for one in chosen for name in one.names))
        terms.append(Size(math.prod(one.number for one in chosen), names))
    return _sum([terms])
