"""The sizes of the values of an iteration, and whether all iterations fit in memory at once."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from itertools import product

from onnx import TensorProto

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.record import Declined, axis_from_front, record_of
from seqcore.onnx._rewrite.emit import Nodes
from seqcore.onnx._vmap.shapes import LoopShapes, Size
from seqcore.onnx._vmap.tracer import BatchRule, Tracer

# Up to so many numbers an iteration costs more for being one than for its work.
_SMALL = 2048
_SMALL_TO_FILL = 512
# From so many on it gains nothing: it reads and writes them elsewhere than in the nearest cache.
_LARGE = 1 << 13
# So many numbers at once are in a cache still.
_MOST_AT_ONCE = 1 << 18
# So many numbers may be padded at once, and so many items more than there are.
_MOST_PADDED, _MOST_EXTRA = 1 << 22, 1 << 12
_MOST_UNPACKED = 1 << 26
# How many times as much as comes in or out an iteration may make on the way.
_TIMES = 4


class LoopSizes:
    """The sizes of the values of an iteration."""

    def __init__(self, made: list[Size], within: list[Size], shapes: LoopShapes, has_scans: bool) -> None:
        self._shapes = shapes
        self._largest = list(largest(made))
        # onnxruntime keeps a few hundred bytes for each value of a scan output.
        small = Size(_SMALL // 32 if has_scans else _SMALL // 256)
        self.grow = not all(
            size.is_within(small, 1) or any(size.is_within(other, _TIMES) for other in within)
            for size in self._largest
        )
        self.are_small = not self.grow and all(size.is_within(Size(_SMALL), 1) for size in self._largest)
        # Such a row is made in each iteration, whatever else is.
        self.are_large = any(not size.names and size.number >= _LARGE for size in within)

    def number_of(self, largest: Iterable[Size], nodes: Nodes) -> str:
        """Return the largest of some sizes, as a scalar."""
        sizes = []
        for size in largest:
            name = nodes.constant(size.number) if size.number != 1 or not size.names else ""
            for length in size.names:
                one = self._shapes.value(length, nodes)
                name = nodes.op("Mul", name, one) if name else one
            sizes.append(name)
        while len(sizes) > 1:
            sizes[-2:] = [nodes.larger(*sizes[-2:])]
        return sizes[0] if sizes else nodes.constant(1)

    def fits(self, nodes: Nodes, trips: str) -> str:
        """Return a condition: whether all iterations at once are little."""
        if all(not size.names for size in self._largest):
            most = _MOST_AT_ONCE // max([1, *(size.number for size in self._largest)])
            return nodes.op("Less", trips, nodes.constant(most + 1))
        size = self.number_of(self._largest, nodes)
        all_of_them = nodes.op("Less", nodes.op("Mul", trips, size), nodes.constant(_MOST_AT_ONCE + 1))
        if self.grow:
            return all_of_them
        return nodes.op("Or", all_of_them, nodes.op("Less", size, nodes.constant(_SMALL + 1)))


def terms(name: str, bound: list[Size] | None) -> list[Size]:
    """Return sizes; the largest of them is an upper bound of a value's."""
    if bound is None:
        raise Declined(f"makes '{name}', of whose size too little is known")
    return [size._replace(number=len(bound) * size.number) for size in bound]


def largest(sizes: list[Size]) -> Iterator[Size]:
    """Yield the sizes that aren't within another."""
    kept: list[Size] = []
    for size in sorted(set(sizes), key=lambda size: (-len(size.names), -size.number)):
        if not any(size.is_within(other, 1) for other in kept):
            kept.append(size)
            yield size


def sizes_of(loop: Node, body: Tracer) -> LoopSizes:
    """Return the sizes of a loop whose body was written out; what is padded is put down there."""
    shapes, parts = body.shapes, parts_of(loop)
    within = [size for name in parts.scans if (size := shapes.size(name))]
    made = []
    bounds = SizeBounds(loop.body, shapes, body.integers)
    repeated = [one for name in body.repeated for one in terms(name, bounds.of(name))]
    padded: dict[str, list[Size]] = {}
    for node in loop.body.all_nodes():
        for name in filter(body.varies, node.outputs):
            if lengths := body.lengths(name):
                padded.setdefault(lengths, []).extend(terms(name, bounds.behind_first(name)))
            else:
                made += terms(name, bounds.of(name))
        is_row = node.is_op("Gather") and node.inputs[1] == parts.iteration
        if is_row and (size := shapes.size(node.outputs[0])):
            within.append(size)  # it exists already
    sizes = LoopSizes([*made, *repeated], within, shapes, bool(parts.scans))
    for lengths, items in padded.items():
        # The first is the sliced value; the guard covers values as large as that.
        if grown := [one for one in items if not one.is_within(items[0], _TIMES)]:
            row = sizes.number_of(largest(grown), body.nodes)
            body.padded.append((lengths, body.longest(lengths), row))
    return sizes


def fits_padded(
    nodes: Nodes, entry: tuple[str, str, str], trips: str, body: Tracer, is_list_packed: bool
) -> list[str]:
    """Return conditions: that little is padded where iterations have several lengths, and all is little.

    Parameters
    ----------
    nodes : Nodes
    entry : (str, str, str)
        The lengths, the longest of them, and how many numbers an item has.
    trips : str
    body : Tracer
    is_list_packed : bool
        If True, the loop would append to a packed list, and copy it each time.
    """
    lengths, longest, row = entry
    items = nodes.op("Mul", trips, longest)
    numbers = nodes.op("Mul", items, row)
    if is_list_packed:
        conditions = [nodes.op("Less", numbers, nodes.constant(_MOST_UNPACKED + 1))]
    else:
        own = nodes.op("Mul", longest, row)
        is_small = nodes.op("Less", own, nodes.constant(_SMALL + 1))
        few = nodes.op("Less", own, nodes.constant(_SMALL_TO_FILL + 1))
        if lengths in body.equal:
            is_small = nodes.op("Or", few, nodes.op("And", body.equal[lengths], is_small))
        elif lengths in body.filled_ends:
            is_small = few
        most = nodes.op("Mul", nodes.sum(lengths), nodes.constant(_TIMES))
        most = nodes.op("Add", most, nodes.constant(_MOST_EXTRA))
        conditions = [
            nodes.op("Less", numbers, nodes.constant(_MOST_PADDED + 1)),
            is_small,
            nodes.op("Less", items, most),
        ]
    if body.needs_filled:
        empty = nodes.op("Less", lengths, nodes.constant(1))
        nmissing = nodes.sum(nodes.op("Cast", empty, to=TensorProto.INT64))
        conditions.append(nodes.op("Equal", nmissing, nodes.constant(0)))
    return conditions


# How many numbers a value in a loop's body has at most, where its shape isn't known.
#
# row: (x[1])    part: (?) = Slice (row, 0, k)        at most x[1]
# both: (?) = Concat (row, w)                         at most x[1] + w[0]
# wide: (?, ?) = Expand (row, shape)                  who knows: not at once


# A sum of sizes.
Bound = list[Size]
# So many terms are looked at.
_MOST_TERMS = 16


class SizeBounds:
    """The bounds of what a body makes.

    Parameters
    ----------
    body : Graph
    shapes : LoopShapes
        Of its values.
    integers : callable
        Returns the integers of input k of a node, None where only a run tells.

    The `size` and `axis` of each operator's `BatchRule` say how its output follows from its inputs.
    """

    def __init__(
        self, body: Graph, shapes: LoopShapes, integers: Callable[[Node, int], list[int] | None]
    ) -> None:
        self.shapes, self.integers = shapes, integers
        self._makers = {name: node for node in body.all_nodes() for name in node.outputs}
        self._found: dict[str, Bound | None] = {}

    def of(self, name: str) -> Bound | None:
        """Return at most how many numbers a value has, None where that isn't known."""
        if name not in self._found:
            size = self.shapes.size(name)
            self._found[name] = [size] if size else self._by_axes(name) or self._by_maker(name)
        return self._found[name]

    def _by_maker(self, name: str) -> Bound | None:
        node, rule = self._maker(name)
        return rule.size(node, name, self) if node and rule and rule.size else None

    def _maker(self, name: str) -> tuple[Node | None, BatchRule | None]:
        node = self._makers.get(name)
        return node, None if node is None else record_of(node).batch_rule

    def behind_first(self, name: str) -> Bound | None:
        """Return at most how many numbers an item on the first axis has."""
        return self._by_axes(name, 1)

    def _by_axes(self, name: str, first: int = 0) -> Bound | None:
        rank = self.shapes.types[name].rank if name in self.shapes.types else None
        if rank is None:
            return None
        axes = [self.axis(name, k) for k in range(first, rank)]
        return None if None in axes else _product([axis for axis in axes if axis])

    def axis(self, name: str, k: int) -> Bound | None:
        """Return at most how long an axis is."""
        type_ = self.shapes.types.get(name)
        if type_ is None or type_.shape is None or not 0 <= k < len(type_.shape):
            return None
        length = type_.shape[k]
        if isinstance(length, int):
            return [Size(length)]
        if length in self.shapes.lengths:
            return [Size(1, (length,))]
        node, rule = self._maker(name)
        return rule.axis(node, k, len(type_.shape), self) if node and rule and rule.axis else None


# Rules for how many numbers come out


def no_more(node: Node, name: str, bounds: SizeBounds) -> Bound | None:
    """As many as the first input has, at most."""
    return bounds.of(node.inputs[0])


def size_of_broadcast(node: Node, name: str, bounds: SizeBounds) -> Bound | None:
    large = {one for one in node.inputs if bounds.shapes.size(one) != Size(1)}
    return bounds.of(large.pop()) if len(large) == 1 else None


def size_of_second(node: Node, name: str, bounds: SizeBounds) -> Bound | None:
    return bounds.of(node.inputs[1])


def size_of_concat(node: Node, name: str, bounds: SizeBounds) -> Bound | None:
    return _sum([bounds.of(one) for one in node.inputs])


def size_of_if(node: Node, name: str, bounds: SizeBounds) -> Bound | None:
    k = node.outputs.index(name)
    return _sum([bounds.of(branch.outputs[k]) for branch in node.graphs.values()])


def size_of_conv(node: Node, name: str, bounds: SizeBounds) -> Bound | None:
    """Channels become others; padding is seen to by twice as many numbers."""
    types, made = bounds.shapes.types, bounds.of(node.inputs[0])
    is_transposed = node.is_op("ConvTranspose")
    weights = bounds.axis(node.inputs[1], int(is_transposed))
    if made is None or weights is None:
        return None
    times = 2
    if is_transposed:
        times *= node.attribute("group", 1) * math.prod(node.attribute("strides", [1]))
    shape = types[node.inputs[0]].shape
    channels = shape[1] if shape is not None and len(shape) > 1 else None
    whole = _product([made, weights])
    if whole is None or not isinstance(channels, int) or not channels:
        return None if whole is None else [one._replace(number=times * one.number) for one in whole]
    return [one._replace(number=-(-times * one.number // channels)) for one in whole]


# Rules for how long an axis is


def same_axis(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    """As long as that of the first input, at most."""
    return bounds.axis(node.inputs[0], k)


def axis_of_broadcast(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    own = []
    for name in node.inputs:
        shape = bounds.shapes.types[name].shape if name in bounds.shapes.types else None
        if shape is None:
            return None
        if k >= rank - len(shape):
            own.append(bounds.axis(name, k - rank + len(shape)))
    return _sum(own, is_once=True)


def axis_of_concat(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    own = [bounds.axis(name, k) for name in node.inputs]
    if axis_from_front(node.attribute("axis", 0), rank) == k:
        return _sum(own)
    return next(filter(None, own), None)


def axis_of_expand(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    numbers = bounds.integers(node, 1)
    if numbers is None:
        return None
    own = k - rank + len(numbers)
    if own >= 0 and numbers[own] != 1:
        return [Size(numbers[own])]
    shape = bounds.shapes.types[node.inputs[0]].shape
    return None if shape is None else bounds.axis(node.inputs[0], k - rank + len(shape))


def axis_of_pad(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    numbers = bounds.integers(node, 1) if len(node.inputs) > 1 else None
    if numbers is None or len(numbers) != 2 * rank:
        return None
    more = max(numbers[k] + numbers[k + rank], 0)
    return _sum([bounds.axis(node.inputs[0], k), [Size(more)]])


def axis_of_product(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    shapes = [bounds.shapes.types[name].shape for name in node.inputs]
    if None in shapes or any(shape is not None and len(shape) != 2 for shape in shapes):
        return None
    return bounds.axis(node.inputs[0 if k - rank == -2 else 1], 2 + k - rank)


def axis_of_transpose(node: Node, k: int, rank: int, bounds: SizeBounds) -> Bound | None:
    return bounds.axis(node.inputs[0], node.attribute("perm", list(range(rank))[::-1])[k])


def _sum(bounds: list[Bound | None], is_once: bool = False) -> Bound | None:
    """Return the sum of bounds; with `is_once`, equal terms count once."""
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
