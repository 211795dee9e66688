"""The sizes of the values of an iteration, and whether all iterations fit in memory at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from onnx import TensorProto

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.record import Declined, record_of
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
    makers = {name: node for node in loop.body.all_nodes() for name in node.outputs}
    repeated = [one for name in body.repeated for one in _sizes(name, makers, shapes)]
    padded: dict[str, list[Size]] = {}
    for node in loop.body.all_nodes():
        for name in filter(body.varies, node.outputs):
            if lengths := body.lengths(name):
                padded.setdefault(lengths, []).append(_size_behind_first(name, shapes))
            else:
                made += _sizes(name, makers, shapes)
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


def _sizes(name: str, makers: dict[str, Node], shapes: LoopShapes) -> list[Size]:
    """Return sizes: a value has no more numbers than the largest of them."""
    if size := shapes.size(name):
        return [size]
    node = makers.get(name)
    rule: BatchRule | None = None if node is None else record_of(node).batch_rule
    adds_none = rule is not None and rule.adds_none
    if node is None or not (adds_none(node, shapes) if callable(adds_none) else adds_none):
        raise Declined(f"makes '{name}', whose size is not known")
    given = [size for one in filter(None, node.inputs) for size in _sizes(one, makers, shapes)]
    return [size._replace(number=len(given) * size.number) for size in given]


def _size_behind_first(name: str, shapes: LoopShapes) -> Size:
    """Return how many numbers one position on the first axis of a value has."""
    if size := shapes.size(name, first=1):
        return size
    raise Declined(f"makes '{name}', whose size is not known")


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
