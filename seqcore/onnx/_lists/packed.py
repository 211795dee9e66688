"""Packed lists: what stays as state in loops and branches, in one or two tensors whatever is done to it.

list [a, b, c]                           goes on as
elements of one known shape (4, 2)       Rows      one tensor (3, 4, 2)
elements (?, 2), joined along axis 0     Joined    joined (|a| + |b| + |c|, 2), and lengths (3,)
elements of one rank 2                   Numbers   values (|a| + |b| + |c|), all numbers one behind the other
                                                   extents (3, 2), the shape of each

An edit copies the tensors. So in sessions of ours this is only for lists outside of loops, and elements of
one shape.
"""

from __future__ import annotations

from collections.abc import Sequence, Set

from onnx import TensorProto, helper

from seqcore.onnx._lists.cuts import (
    flat_places,
    from_front,
    head,
    make_empty,
    place_of,
    shape_tensor,
    sum_of,
    tail,
    zeros,
)
from seqcore.onnx._lists.pieces import Pieces
from seqcore.onnx._lists.representations import Representation, Stack
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.positions import Position, position_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import axis_from_front
from seqcore.onnx._model.types import NEVER, Shape
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder, Nodes


def pack_as(
    name: str,
    element_type: int,
    shape: tuple,
    prepared: Prepared,
    builder: Builder,
    axes: Set[int | None],
) -> Packed:
    """Return as what a list goes on, whose elements have in common what is known of their shape.

    `axes` are those along which it is joined, made of a tensor, or goes out of the model: None where it is
    along another one than those of its elements.
    """
    if shape == NEVER:
        return Nothing(name, element_type, (), prepared, builder)
    if are_rows(shape):
        return Rows(name, element_type, shape, prepared, builder)
    unknown = [k for k, length in enumerate(shape) if length is None]
    if len(unknown) == 1 and axes <= {*unknown}:
        return Joined(name, element_type, shape, prepared, builder, unknown[0])
    return Numbers(name, element_type, shape, builder)


def _is_filled(name: str, prepared: Prepared) -> bool:
    """Return whether a list has an element for sure: it gets one, or is handed on from such lists alone."""
    found, todo = {name}, [name]
    while todo:
        one = todo.pop()
        maker = prepared.producer(one)
        if bool(prepared.type(one).count) or (maker is not None and maker.is_op("SequenceInsert")):
            continue
        origins = prepared.origins.get(one, ())
        if not origins or not (maker is None or maker.is_op("Loop", "If", "Identity")):
            return False
        todo += [other for other in origins if other not in found]
        found.update(origins)
    return True


def are_rows(shape: Shape) -> bool:
    """Return whether elements of a shape go on as rows."""
    return shape is not None and shape != NEVER and None not in shape


class Packed(Representation):
    """A list as tensors with names of their own.

    Attributes
    ----------
    parts : list of str
        The names of the tensors.
    part_types : list of (int, list)
        Their element types and shapes.
    part_axes : list of int
        The axes on which elements stand one behind the other in them.
    """

    is_filled = False
    parts: list[str]
    part_types: list[tuple[int, list[int | None]]]
    part_axes: Sequence[int] = (0, 0)

    def plan(self, name, prepared, read):
        maker, place = prepared.producers.get(name, (None, None))
        self.is_filled = _is_filled(name, prepared)
        if maker is None:
            place = next((graph for graph in prepared.model.graph.all_graphs() if name in graph.inputs), None)
        reads = [(node, graph) for node, graph in prepared.readers[name] if node and node.is_op("SequenceAt")]
        # There they fail, so edits need no check of their own: a `pop` is exported as these two.
        self._place = id(place)
        self._read_at = {(id(graph), node.inputs[1]) for node, graph in reads if node.outputs[0] in read}
        # In a loop that leaves the list as it is, places are the same in all iterations.
        is_read_inside = any(graph is not place for _, graph in reads)
        positions = [position_of(prepared, node.inputs[1]).value for node, _ in reads]
        are_many = sum(one not in (0, -1) for one in positions) > 1
        self._are_places_shared = is_read_inside or are_many

    def carried(self, nodes):
        return self.parts

    def carried_types(self, type_, n):
        return [helper.make_tensor_type_proto(number, shape) for number, shape in self.part_types]

    def restore(self, nodes, out):
        nodes.op("SplitToSequence", self.parts[0], axis=0, keepdims=0, out=out)

    def count_of(self, nodes: Nodes) -> str:
        """Return the number of elements, in a tensor of shape [1]."""
        lengths = nodes.op("Shape", self.parts[-1])
        return nodes.slice(lengths, nodes.constant([0]), nodes.constant([1]), 0)

    # These add nodes. The last of them make the parts.

    def make_empty(self, nodes: Nodes) -> None:
        for name, (number, shape) in zip(self.parts, self.part_types, strict=True):
            make_empty(nodes, number, [length or 0 for length in shape], name)

    def construct(self, nodes: Nodes, elements: Sequence[str]) -> None:
        rows = zip(*(self._row(nodes, name) for name in elements), strict=True)
        for name, row, axis in zip(self.parts, rows, self.part_axes, strict=False):
            nodes.op("Concat", *row, axis=axis, out=name)

    def pass_on(self, nodes: Nodes, source: Packed) -> None:
        for name, other in zip(self.parts, source.parts, strict=True):
            nodes.op("Identity", other, out=name)

    def insert(self, nodes: Nodes, source: Packed, element: str, position: Position | None) -> None:
        """Make the list with an element more: at its end, or at a position, which is looked at."""
        row = self._row(nodes, element)
        if position is None or position.value == 0:
            for name, axis, *both in zip(self.parts, self.part_axes, source.parts, row, strict=False):
                nodes.op("Concat", *(both if position is None else both[::-1]), axis=axis, out=name)
            return
        at = place_of(nodes, position, source.length(nodes, ""), is_gap=True)
        self._put(nodes, source, source.starts_at(nodes, [at]), row)

    def assign(self, nodes: Nodes, source: Packed, element: str, position: Position) -> None:
        """Make the list with another element at a position, which is looked at."""
        row = self._row(nodes, element)
        self._put(nodes, source, source.starts_at(nodes, self._around(nodes, source, position)), row)

    def erase(self, nodes: Nodes, source: Packed, position: Position | None) -> None:
        """Make the list without its last element, or without the one at a position, which is looked at."""
        if position is not None and position.value == 0:
            ends = source.starts_at(nodes, [self._beside_erased(nodes, source, 1)])
            for name, old, (end,), axis in zip(self.parts, source.parts, ends, self.part_axes, strict=False):
                tail(nodes, old, end, name, axis)
            return
        if position is None or position.value == -1:
            starts = source.starts_at(nodes, [self._beside_erased(nodes, source, -1)])
            for name, old, (at,), axis in zip(self.parts, source.parts, starts, self.part_axes, strict=False):
                head(nodes, old, at, name, axis)
            return
        self._put(nodes, source, source.starts_at(nodes, self._around(nodes, source, position)), None)

    def _around(self, nodes: Nodes, source: Packed, position: Position) -> list[str]:
        """Return the place of an element, and the one behind it."""
        if position.is_from_front and (self._place, position.name) in source._read_at:
            at = nodes.op("Cast", nodes.position(position, 1), to=TensorProto.INT64)
        else:
            at = place_of(nodes, position, source.length(nodes, ""), is_gap=False)
        return [at, nodes.op("Add", at, nodes.constant([1]))]

    def _put(self, nodes: Nodes, source: Packed, places: list[list[str]], row: list[str] | None) -> None:
        """Make the parts of what lies before the first of some places, of a row, and of what lies behind."""
        for k, (name, old, own) in enumerate(zip(self.parts, source.parts, places, strict=True)):
            axis = self.part_axes[k]
            before, behind = head(nodes, old, own[0], axis=axis), tail(nodes, old, own[-1], axis=axis)
            nodes.op("Concat", before, *(row[k : k + 1] if row else []), behind, axis=axis, out=name)

    def _beside_erased(self, nodes: Nodes, source: Packed, place: int) -> str:
        """Return a place beside the first or the last element; where a list has none, a node fails."""
        if source.is_filled or any(graph == self._place for graph, _ in source._read_at):
            return nodes.constant([place])
        return nodes.unless_empty(source.length(nodes, ""), place)

    def split(self, nodes: Nodes, pieces: Pieces) -> None:
        """Make the list of the pieces of a tensor."""
        raise NotImplementedError

    def starts_at(self, nodes: Nodes, places: list[str]) -> list[list[str]]:
        """Return for each part where in it elements start that stand at some places, of shape [1].

        A place may be -1, that of the last.
        """
        raise NotImplementedError

    def _row(self, nodes: Nodes, element: str) -> list[str]:
        """Return the parts of a list of one element."""
        raise NotImplementedError


class Rows(Stack, Packed):
    """Elements of one shape: a tensor whose axis 0 runs over them.

    Parameters
    ----------
    name : str
        Of the list.
    element_type : int
    shape : tuple of (int or str)
    prepared : Prepared
    builder : Builder
    """

    phrase = "becomes a tensor of its stacked elements, which each edit copies"

    def __init__(
        self, name: str, element_type: int, shape: tuple, prepared: Prepared, builder: Builder
    ) -> None:
        super().__init__(builder.fresh(f"{name}/rows"), element_type, shape)
        self._prepared = prepared
        self.parts = [self.tensor]
        fixed = (length if isinstance(length, int) else None for length in shape)
        self.part_types = [(element_type, [None, *fixed])]

    def make_empty(self, nodes):
        shape = shape_tensor(nodes, self._prepared, (0, *self.shape))
        zeros(nodes, self.element_type, shape, self.tensor)

    def starts_at(self, nodes, places):
        return [places]

    def _row(self, nodes, element):
        return [nodes.unsqueeze(element, 0)]

    def assign(self, nodes, source, element, position):
        # It looks at the position itself, which is none from the back.
        at = nodes.op("Cast", nodes.position(position, 2), to=TensorProto.INT64)
        (row,) = self._row(nodes, element)
        nodes.op("ScatterND", source.tensor, at, row, out=self.tensor)

    def split(self, nodes, pieces):
        if (stacked := pieces.stacked_evenly(nodes)) is None:
            values, lengths = pieces.in_line(nodes)
            shape = nodes.join_axes(
                nodes.op("Shape", lengths), shape_tensor(nodes, self._prepared, self.shape)
            )
            nodes.reshape(values, shape, self.tensor)
        else:
            nodes.op("Identity", stacked, out=self.tensor)


class Nothing(Rows):
    """No element, ever: of whatever rank one would be, to pick it is an error, and so is a join."""

    def why_not_join(self, axis, stacks, prepared):
        return ""

    def at(self, nodes, position, out):
        # The check always fails. Of how many axes the result would be, no runtime knows without it.
        zero = nodes.fail_if(nodes.op("Less", self.count_of(nodes), nodes.constant([1])))
        shape = head(nodes, nodes.constant([1, 1]), zero)
        return nodes.op("Reshape", self.tensor, shape, out=out)

    def join(self, nodes, axis, stacks, out):
        self.at(nodes, None, out)


class _OfSeveralSizes(Packed):
    """Elements one behind the other in a tensor, and in another one what tells their sizes there."""

    # Where each element starts and ends, both (n, 1), if that is told beforehand.
    _bounds: tuple[str, str] | None = None

    def _sizes(self, nodes: Nodes) -> str:
        """Return how long each element is in the first part."""
        raise NotImplementedError

    def prepare(self, nodes):
        if self._are_places_shared:
            sizes = self._sizes(nodes)
            ends = nodes.op("CumSum", sizes, nodes.constant(0))
            starts = nodes.op("Sub", ends, sizes)
            self._bounds = nodes.unsqueeze(starts, 1), nodes.unsqueeze(ends, 1)

    def starts_at(self, nodes, places):
        sizes = self._sizes(nodes)
        return [[sum_of(nodes, head(nodes, sizes, place)) for place in places], places]

    def length(self, nodes, out):
        return nodes.length(self.parts[1], out=out)


class Joined(_OfSeveralSizes):
    """Elements that differ in length on one axis: a tensor of them joined along it, and their lengths.

    Parameters
    ----------
    name : str
        Of the list.
    element_type : int
    shape : tuple of (int, str or None)
        That of the elements, None on the axis.
    prepared : Prepared
    builder : Builder
    axis : int
    """

    phrase = "becomes a tensor of its joined elements and one of their lengths, which each edit copies"

    def __init__(
        self, name: str, element_type: int, shape: tuple, prepared: Prepared, builder: Builder, axis: int
    ) -> None:
        self.element_type, self.shape, self.axis, self._prepared = element_type, shape, axis, prepared
        self.parts = [builder.fresh(f"{name}/joined"), builder.fresh(f"{name}/lengths")]
        fixed = [length if isinstance(length, int) else None for length in shape]
        self.part_types = [(element_type, fixed), (TensorProto.INT64, [None])]
        self.part_axes = [axis, 0]
        # How often the loop runs that makes it, if that alone decides whether it has an element.
        self._trips = ""

    def _sizes(self, nodes):
        return self.parts[1]

    def make_empty(self, nodes):
        joined, lengths = self.parts
        shape = [0 if length is None else length for length in self.shape]
        zeros(nodes, self.element_type, shape_tensor(nodes, self._prepared, tuple(shape)), joined)
        make_empty(nodes, TensorProto.INT64, [0], lengths)

    def _row(self, nodes, element):
        shape = nodes.op("Shape", element)
        if len(self.shape) > 1:
            shape = nodes.op("Gather", shape, nodes.constant([self.axis]), axis=0)
        return [element, shape]

    def at(self, nodes, position, out):
        nodes.declare(out, self.element_type, self.shape)
        joined, lengths = self.parts
        if self._bounds is not None:
            at = nodes.position(position, 0)
            start, end = (nodes.op("Gather", bounds, at, axis=0) for bounds in self._bounds)
            return nodes.slice(joined, start, end, self.axis, out=out)
        length = nodes.op("Gather", lengths, nodes.position(position, 1), axis=0)
        if position.value == 0:
            return head(nodes, joined, length, out, self.axis)
        if position.value == -1:
            total = nodes.op("Gather", nodes.op("Shape", joined), nodes.constant([self.axis]), axis=0)
            return tail(nodes, joined, nodes.op("Sub", total, length), out, self.axis)
        ((start,), _) = self.starts_at(nodes, [from_front(nodes, position, self.count_of(nodes))])
        return nodes.slice(joined, start, nodes.op("Add", start, length), self.axis, out=out)

    def plan(self, name, prepared, read):
        super().plan(name, prepared, read)
        maker = prepared.producer(name)
        if self.is_filled or maker is None or not maker.is_op("Loop"):
            return
        parts = parts_of(maker)
        k = parts.final.index(name)
        begins_empty = prepared.shape(parts.initial[k]) == NEVER or prepared.type(parts.initial[k]).count == 0
        if begins_empty and _is_filled(parts.next_states[k], prepared):
            self._trips = "" if parts.why_not_a_range(prepared) else parts.trips

    def join(self, nodes, axis, stacks, out):
        nodes.declare(out, self.element_type, self.shape)
        joined, lengths = self.parts
        if self.is_filled:
            nodes.op("Identity", joined, out=out)
            return
        if self._trips:
            count = nodes.of_rank(self._trips, 0, self._prepared.type(self._trips).rank)
        else:
            count = nodes.length(lengths)
        tail(nodes, joined, nodes.unless_empty(count, 0), out, self.axis)

    def split(self, nodes, pieces):
        joined, lengths = self.parts
        if pieces.keepdims:
            tensor, own = pieces.with_lengths(nodes)
            nodes.op("Identity", tensor, out=joined)
            nodes.op("Identity", own, out=lengths)
            return
        rows = pieces.stacked(nodes)
        shape = nodes.op("Shape", rows)
        first, second, third = (nodes.constant([k]) for k in range(3))
        count, length = nodes.slice(shape, first, second, 0), nodes.slice(shape, second, third, 0)
        nodes.op("Expand", length, count, out=lengths)
        nodes.op("Identity", nodes.merge_first_axes(rows, self.shape[1:]), out=joined)


class Numbers(_OfSeveralSizes):
    """Elements of one rank: a tensor of their numbers, and one of their extents.

    Parameters
    ----------
    name : str
        Of the list.
    element_type : int
    shape : tuple of (int, str or None)
        The known part of the elements' shapes.
    builder : Builder
    """

    phrase = "becomes tensors of its values and its extents, which each edit copies"

    def __init__(self, name: str, element_type: int, shape: tuple, builder: Builder) -> None:
        self.element_type, self.shape, self.rank = element_type, shape, len(shape)
        self.parts = [builder.fresh(f"{name}/values"), builder.fresh(f"{name}/extents")]
        self.part_types = [(element_type, [None]), (TensorProto.INT64, [None, self.rank])]

    def _sizes(self, nodes):
        return self.sizes(nodes, self.parts[1])

    def sizes(self, nodes: Nodes, extents: str) -> str:
        """Return how many numbers each element has, by their extents."""
        if self.rank == 1:
            return nodes.squeeze(extents, 1)
        return nodes.product(extents, axis=1)

    def _row(self, nodes, element):
        # onnxruntime follows a Shape through an Unsqueeze as if it still had one axis.
        extent = nodes.reshape(nodes.op("Shape", element), nodes.constant([1, self.rank]))
        return [self._flat(nodes, element), extent]

    def _flat(self, nodes, element):
        return element if self.rank == 1 else nodes.op("Reshape", element, nodes.constant([-1]))

    def construct(self, nodes, elements):
        values, extents = self.parts
        nodes.op("Concat", *(self._flat(nodes, one) for one in elements), axis=0, out=values)
        shapes = nodes.op("Concat", *(nodes.op("Shape", one) for one in elements), axis=0)
        nodes.reshape(shapes, nodes.constant([len(elements), self.rank]), extents)

    def at(self, nodes, position, out):
        nodes.declare(out, self.element_type, self.shape)
        values, extents = self.parts
        if self._bounds is not None:
            at = nodes.position(position, 0)
            start, end = (nodes.op("Gather", bounds, at, axis=0) for bounds in self._bounds)
            if self.rank == 1:
                return nodes.slice(values, start, end, 0, out=out)
            piece = nodes.slice(values, start, end, 0)
            extent = nodes.op("Gather", extents, at, axis=0)
            return nodes.reshape(piece, extent, out)
        extent = nodes.op("Gather", extents, nodes.position(position, 0), axis=0)
        size = nodes.op("ReduceProd", extent, keepdims=1)
        if position.value == -1:
            start = nodes.op("Sub", nodes.op("Shape", values), size)
        elif position.value == 0:
            start = nodes.constant([0])
        else:
            ((start,), _) = self.starts_at(nodes, [from_front(nodes, position, self.count_of(nodes))])
        end = nodes.op("Add", start, size)
        if self.rank == 1:
            return nodes.slice(values, start, end, 0, out=out)
        return nodes.reshape(nodes.slice(values, start, end, 0), extent, out)

    def why_not_join(self, axis, stacks, prepared):
        if axis_from_front(axis, self.rank + stacks) is None:
            return f"axis {axis} is out of range"
        return ""

    def join(self, nodes, axis, stacks, out):
        axis = axis_from_front(axis, self.rank + stacks)
        first = self._first_extent(nodes, None if stacks else axis)
        if stacks:
            self._stack(nodes, axis, first, out)
        else:
            self._concat(nodes, axis, first, out)

    def _first_extent(self, nodes: Nodes, own: int | None) -> str:
        """Return the shape of the first element, with a check that there is one, and that the others fit."""
        extents = self.parts[1]
        row = nodes.op("Gather", extents, nodes.constant(0), axis=0)
        kept = [k for k in range(self.rank) if k != own and not isinstance(self.shape[k], int)]
        if not kept:
            return row
        differing = nodes.op("Sub", extents, row)
        if len(kept) < self.rank:
            differing = nodes.op("Gather", differing, nodes.constant(kept), axis=1)
        return nodes.op("Add", row, nodes.require_zero(nodes.sum_of_sizes(differing)))

    def _stack(self, nodes, axis, first, out):
        nodes.declare(out, self.element_type, [*self.shape[:axis], None, *self.shape[axis:]])
        shape = nodes.join_axes(self.count_of(nodes), first)
        order = [*range(1, axis + 1), 0, *range(axis + 1, self.rank + 1)]
        at_front = nodes.reshape(self.parts[0], shape, "" if axis else out)
        if axis:
            nodes.op("Transpose", at_front, perm=order, out=out)

    def _concat(self, nodes, axis, first, out):
        nodes.declare(out, self.element_type, [*self.shape[:axis], None, *self.shape[axis + 1 :]])
        values, extents = self.parts
        starts = [nodes.constant([axis + k]) for k in (0, 1)]
        lengths = nodes.op("Gather", extents, nodes.constant(axis), axis=1)
        parts = [sum_of(nodes, lengths)]
        before = behind = None
        if axis:
            before = head(nodes, first, starts[0])
            parts.insert(0, before)
        if axis + 1 < self.rank:
            behind = tail(nodes, first, starts[1])
            parts.append(behind)
        if self.rank == 1:
            # Bound to the check that there is one.
            zero = nodes.op("Sub", first, first)
            return nodes.slice(values, zero, nodes.constant([AFTER_ALL]), 0, out=out)
        if axis:
            one = nodes.constant([1])
            outer = nodes.op("ReduceProd", before, keepdims=1)
            inner = one if behind is None else nodes.op("ReduceProd", behind, keepdims=1)
            places = flat_places(nodes, lengths, outer, inner)
            if self.element_type == TensorProto.STRING:
                # onnxruntime's Gather takes one string only for each index (1.31).
                values = nodes.op("GatherND", values, nodes.unsqueeze(places, 1))
            else:
                values = nodes.op("Gather", values, places, axis=0)
        return nodes.reshape(values, nodes.join_axes(*parts), out)

    def split(self, nodes, pieces):
        values, extents = self.parts
        flat, lengths = pieces.in_line(nodes)
        nodes.op("Identity", flat, out=values)
        shape = pieces.piece_shape(nodes)
        n = nodes.op("Shape", lengths)
        columns = []
        for k in range(self.rank):
            if k == pieces.kept_axis:
                columns.append(nodes.unsqueeze(lengths, 1))
            else:
                length = nodes.slice(shape, nodes.constant([k]), nodes.constant([k + 1]), 0)
                columns.append(nodes.unsqueeze(nodes.op("Expand", length, n), 1))
        nodes.op("Concat", *columns, axis=1, out=extents)
