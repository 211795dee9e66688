"""Loops whose iterations don't depend on each other, as one operator each: all iterations at once.

    out = Loop (n, true) <i: Gather, Add>    ──▶    out = Gather, Add    (see `tracer`)

What an iteration may read of those before it is a count, and what the one right before it has computed. Three
ways, by the known sizes:

    all at once                                    small iterations that make little on the way
    If (n > 0) {all at once} else {nothing}        … where a node could fail without an iteration
    If (n · size < limit) {all at once} else {loop}      iterations that may be large, or make much more
                                                         than comes out

So memory stays within a few times that of the loop, and large rows, which gain nothing, in the cache.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.positions import is_never_negative
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, axis_from_front, record_of
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import NEVER, Type, tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._thresholds import (
    LARGE,
    MOST_AT_ONCE,
    MOST_EXTRA,
    MOST_PADDED,
    MOST_UNPACKED,
    SMALL,
    SMALL_TO_FILL,
    TIMES,
)
from seqcore.onnx._vmap.shapes import LoopShapes, Size
from seqcore.onnx._vmap.states import States, appended_lists, flat_in_loop, flat_of, with_scans
from seqcore.onnx._vmap.tracer import BatchRule, Tracer, Value

# Nodes, and the names of what they make for the outputs.
_Branch = tuple[Nodes, list[str]]


class VectorizedLoop:
    """A loop that is to be one operator.

    Attributes
    ----------
    otherwise : str
        The alternative, once it is written: see `LoopNote`.

    Raises
    ------
    Declined
        If it can't. Nothing has changed then.
    """

    def __init__(self, loop: Node, prepared: Prepared, builder: Builder, is_portable: bool) -> None:
        self._given, self._prepared, self._builder = loop, prepared, builder
        self.otherwise = ""
        self._is_portable = is_portable
        if why := parts_of(loop).why_not_a_range(prepared):
            raise Declined(why)
        self._lists = appended_lists(loop, prepared)
        # From here on, a list is a scan output behind the others.
        self._loop = with_scans(loop, self._lists, prepared, builder) if self._lists else loop
        self._parts = parts_of(self._loop)
        self._shapes = LoopShapes(prepared, self._loop)
        types = self._shapes.types
        for node in self._loop.body.nodes:
            for name in filter(None, (*node.inputs, *node.outputs)):
                if name in types and types[name].number == TensorProto.STRING:
                    raise Declined(f"works on strings, such as '{name}'")
        if not all(dtype_of(types[name].number) is not None for name in self._parts.scans):
            raise Declined("gives values of a type that is not known, or that NumPy has not")
        self._count = self._parts.trip_count(prepared)
        self._outputs = list(self._loop.outputs)
        # The lists with elements of several lengths, by their numbers: on which axis.
        self._ragged: dict[int, int] = {}

    def _begin(self) -> tuple[Nodes, str]:
        """Return nodes before the loop, and the number of iterations as a scalar."""
        before, trips = Nodes(self._builder, self._loop), self._parts.trips
        if self._prepared.shape(trips) != ():
            trips = before.squeeze(trips, 0)
        if self._joins():
            # Without an iteration they fail.
            trips = before.at_least_one(trips)
        return before, trips

    def _end(self, before: Nodes, condition: str, one: _Branch, other: _Branch | None) -> set[str]:
        """Put the nodes into the builder; return the names of the loops in the other branch."""
        nodes, results = one
        if other:
            self._choose(before, condition, one, other)
        else:
            nodes.rename(results, self._outputs)
            before.nodes.extend(nodes.nodes)
        self._give_lists(before)
        self._builder.instead(self._given).nodes.extend(before.nodes)
        return {node.name for node in (other[0].nodes if other else []) if node.is_op("Loop")}

    def write(self) -> set[str]:
        """Put the nodes into the builder; return the names of the loops that stay for large iterations."""
        before, trips = self._begin()
        shapes = [self._shapes.types[name].shape for name in self._parts.scans]
        if self._count == 0 and not self._joins() and NEVER not in shapes:
            nodes, results = self._nothing()
            return self._end(before, "", (nodes, nodes.own(results)), None)
        at_once = Nodes(self._builder, self._loop)
        body, results = self._all_at_once(at_once, trips)
        for zero in () if body.padded else sorted(body.unbound):
            results[-1] = at_once.bound(results[-1], zero)
        if not self._builder.has_checks:
            return self._end(before, "", (at_once, results), None)
        sizes = sizes_of(self._loop, body)
        if sizes.are_large:
            raise Declined("works on large tensors, which would gain nothing")
        is_filled = self._has_some()
        condition, other = "", None
        if body.padded or body.guards:
            condition = self._may_go(body, before, at_once, trips, is_filled)
            if not sizes.are_small:
                condition = before.op("And", condition, sizes.fits(before, trips))
            self.otherwise, other = "loop", self._as_it_was()
        elif sizes.are_small and (is_filled or not body.may_fail_empty):
            pass  # always
        elif sizes.are_small:
            condition = before.op("Greater", trips, before.constant(0))
            self.otherwise, other = "nothing", self._nothing()
        else:
            condition = sizes.fits(before, trips)
            if body.may_fail_empty and not is_filled:
                condition = before.op("And", condition, before.op("Greater", trips, before.constant(0)))
            self.otherwise, other = "loop", self._as_it_was()
        return self._end(before, condition, (at_once, results), other)

    def _give_lists(self, nodes: Nodes) -> None:
        """Make the lists of their tensors."""
        at = len(self._loop.outputs) - len(self._lists)
        for j, one in enumerate(self._lists):
            name = self._given.outputs[one.k]
            if j in self._ragged:
                self._join_flat(self._outputs[at], name, self._ragged[j])
                self._builder.lengths.add(self._outputs[at + 1])
                nodes.op("SplitToSequence", *self._outputs[at : at + 2], axis=self._ragged[j], out=name)
                at += 2
            else:
                nodes.op("SplitToSequence", self._outputs[at], keepdims=0, out=name)
                at += 1

    def _joins(self) -> list[tuple[str, Node]]:
        """Return the lists that are joined beside the loop, and who does."""
        graph = self._prepared.producers[self._given.outputs[0]][1]
        names = [self._given.outputs[one.k] for one in self._lists]
        return [
            (name, reader)
            for name in names
            for reader, place in self._prepared.readers[name]
            if reader is not None and reader.is_op("ConcatFromSequence") and place is graph
        ]

    def _has_some(self) -> bool:
        """Return whether there is an iteration: without one, a join failed before."""
        is_checked = bool(self._joins()) or self._parts.trips in self._builder.positive
        return (self._builder.has_checks and is_checked) or (self._count or 0) > 0

    def _join_flat(self, flat: str, name: str, along: int) -> None:
        """Replace joins of contiguous elements along an axis with the tensor."""
        for one, reader in self._joins():
            rank = self._prepared.type(name).rank
            axis = axis_from_front(reader.attribute("axis", 0), rank)
            if one == name and axis == along and not reader.attribute("new_axis", 0):
                self._builder.instead(reader).op("Identity", flat, out=reader.outputs[0])

    def _choose(self, nodes: Nodes, condition: str, one: _Branch, other: _Branch) -> None:
        """Make the loop's outputs by an If."""
        graphs: list[Graph] = []
        for branch, results in (one, other):
            names = branch.own(results)
            graph = Graph("all_at_once" if not graphs else "else", [], names, branch.nodes)
            for name, type_ in zip(names, self._types(), strict=True):
                graph.declared[name] = to_type_proto(type_, with_shape=True)
            graphs.append(graph)
        nodes.ops("If", [condition], self._outputs, then_branch=graphs[0], else_branch=graphs[1])

    def _types(self) -> list[Type]:
        """Return the types of the outputs."""
        parts, types = self._parts, self._shapes.types
        made = [_open(types[name]) for name in parts.states]
        nplain = len(parts.scans) - len(self._lists)
        made += [_open(types[name], (None,)) for name in parts.scans[:nplain]]
        for j, name in enumerate(parts.scans[nplain:]):
            if j in self._ragged:
                made += [_open(types[name]), tensor(TensorProto.INT64, (None,))]
            else:
                made.append(_open(types[name], (None,)))
        return made

    def _may_go(self, body: Tracer, before: Nodes, at_once: Nodes, trips: str, is_filled: bool) -> str:
        """Return a condition: whether little is padded, and all is little."""
        padded = [name for entry in body.padded for name in entry]
        sums = [make(entry[0]) for entry in body.padded for make in (body.total, body.with_padding)]
        at_once.move_to(before, [*body.guards.values(), *padded, *sums, *body.equal.values()])
        conditions = [*body.guards.values()]
        one = before.constant(1)
        larger = {entry[:2] for entry in body.padded if entry[2] != one}
        for entry in dict.fromkeys(body.padded):
            if entry[2] != one or entry[:2] not in larger:
                is_list_packed = self._is_portable and bool(self._ragged)
                conditions += fits_padded(before, entry, trips, body, is_list_packed)
        if body.may_fail_empty and not is_filled:
            conditions.append(before.op("Greater", trips, before.constant(0)))
        while len(conditions) > 1:
            conditions[-2:] = [before.op("And", *conditions[-2:])]
        return conditions[0]

    def _tracer(self, nodes: Nodes, trips: str) -> Tracer:
        """Return a `Tracer` that knows the numbers of all iterations."""
        known = self._count
        if known is not None and known <= 4096:
            numbers, count = nodes.constant(range(known)), nodes.constant([known])
        else:
            zero = nodes.constant(0)
            places = nodes.op("Range", zero, trips, nodes.constant(1))
            is_count = is_never_negative(self._prepared, self._parts.trips)
            count = nodes.unsqueeze(trips, 0) if is_count else nodes.op("Shape", places)
            # onnxruntime makes a Slice of a Gather at a Range, through nodes that change nothing too, and
            # forgets that positions may be out of range. So it gets no Range to see.
            numbers = nodes.op("Max", places, zero)
        if self._shapes.types[self._parts.iteration].rank:
            numbers = nodes.unsqueeze(numbers, 1)
        body = Tracer(
            self._prepared,
            self._shapes,
            nodes,
            count,
            (trips, numbers),
            is_portable=self._is_portable,
            has_some=self._has_some(),
            has_stacks=bool(self._parts.scans),
        )
        body.values[self._parts.iteration] = Value(numbers, True)
        return body

    def _all_at_once(self, nodes: Nodes, trips: str) -> tuple[Tracer, list[str]]:
        body = self._tracer(nodes, trips)
        going = nodes.constant(np.ones(self._shapes.types[self._parts.going_in].shape or (), bool), bool)
        body.values[self._parts.going_in] = Value(going, False)
        states = States(self._loop, body, self._shapes)
        states.follow(self._parts.initial)
        final = states.final(self._parts.initial)
        nplain = len(self._parts.scans) - len(self._lists)
        results = [*final, *(body.rows(name) for name in self._parts.scans[:nplain])]
        self._outputs = self._loop.outputs[: len(results)]
        for j, name in enumerate(self._parts.scans[nplain:]):
            rows, lengths = body.values.get(name), body.lengths(name)
            if rows is not None and lengths:
                shape = self._shapes.types[name].shape
                results += [flat_of(nodes, rows.name, body.mask(lengths), shape), lengths]
                self._ragged[j] = 0
                own = self._given.outputs[self._lists[j].k]
                self._outputs += [self._builder.fresh(f"{own}/{word}") for word in ("flat", "lengths")]
            else:
                results.append(body.rows(name))
                self._outputs.append(self._loop.outputs[len(final) + nplain + j])
        return body, results

    def _nothing(self) -> tuple[Nodes, list[str]]:
        """Return the outputs of a loop without iterations."""
        nodes = Nodes(self._builder, self._loop)
        results = list(self._parts.initial)
        for name in self._parts.scans:
            type_ = self._shapes.types[name]
            lengths = [length if isinstance(length, int) else 0 for length in type_.shape or ()]
            empty = nodes.constant(np.zeros((0, *lengths)), dtype_of(type_.number))
            results.append(nodes.op("Identity", empty))
        return nodes, results

    def _as_it_was(self) -> _Branch:
        """The loop itself: its name and those in it are there once."""
        nodes = Nodes(self._builder, self._loop)
        kept = [self._lists[j] for j in self._ragged]
        again = self._loop.copy()
        if kept:
            again = with_scans(
                self._given, [one for one in self._lists if one not in kept], self._prepared, self._builder
            )
        called = {name: self._builder.fresh(f"{name}/loop") for name in again.outputs}
        again.outputs = list(called.values())
        types = self._shapes.types
        nplain = len(self._parts.scans) - len(self._lists)
        scans_left = [name for k, name in enumerate(self._parts.scans) if k - nplain not in self._ragged]
        for name, inner in zip(scans_left, parts_of(again).scans, strict=True):
            again.body.declared[inner] = to_type_proto(_open(types[name]), with_shape=True)
        nodes.nodes.append(again)
        results = [called[name] for name in self._loop.outputs[: len(self._loop.outputs) - len(self._lists)]]
        scans = iter(parts_of(again).stacked[len(self._parts.scans) - len(self._lists) :])
        for j, one in enumerate(self._lists):
            if j not in self._ragged:
                results.append(next(scans))
                continue
            state = again.outputs.index(called[self._given.outputs[one.k]])
            type_ = types[self._parts.scans[len(self._parts.scans) - len(self._lists) + j]]
            results += flat_in_loop(nodes, again, state, one, type_, self._ragged[j], self._prepared)
        return nodes, results


def _open(type_: Type, before: tuple[None, ...] = ()) -> Type:
    """Return a type as a graph declares it: names of lengths mean nothing there."""
    if type_.shape is None:
        return type_
    return type_._replace(shape=(*before, *(n if isinstance(n, int) else None for n in type_.shape)))


# The sizes of the values of an iteration, and whether all iterations fit in memory at once.


class LoopSizes:
    """The sizes of the values of an iteration."""

    def __init__(self, made: list[Size], within: list[Size], shapes: LoopShapes, has_scans: bool) -> None:
        self._shapes = shapes
        self._largest = list(largest(made))
        # onnxruntime keeps a few hundred bytes for each value of a scan output.
        small = Size(SMALL // 32 if has_scans else SMALL // 256)
        self.grow = not all(
            size.is_within(small, 1) or any(size.is_within(other, TIMES) for other in within)
            for size in self._largest
        )
        self.are_small = not self.grow and all(size.is_within(Size(SMALL), 1) for size in self._largest)
        # Such a row is made in each iteration, whatever else is.
        self.are_large = any(not size.names and size.number >= LARGE for size in within)

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
            sizes[-2:] = [nodes.op("Max", *sizes[-2:])]
        return sizes[0]

    def fits(self, nodes: Nodes, trips: str) -> str:
        """Return a condition: whether all iterations at once are little."""
        if all(not size.names for size in self._largest):
            most = MOST_AT_ONCE // max([1, *(size.number for size in self._largest)])
            return nodes.op("Less", trips, nodes.constant(most + 1))
        size = self.number_of(self._largest, nodes)
        all_of_them = nodes.op("Less", nodes.op("Mul", trips, size), nodes.constant(MOST_AT_ONCE + 1))
        if self.grow:
            return all_of_them
        return nodes.op("Or", all_of_them, nodes.op("Less", size, nodes.constant(SMALL + 1)))


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
        if grown := [one for one in items if not one.is_within(items[0], TIMES)]:
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
    lengths, _, row = entry
    known = nodes.builder.known_integer(row)
    numbers = body.with_padding(lengths)
    if known is None:
        numbers = nodes.op("Mul", numbers, row)

    def most(limit: int) -> str:
        return nodes.constant(limit // (known or 1))

    if is_list_packed:
        limits = [most(MOST_UNPACKED)]
    else:
        own = most(SMALL_TO_FILL if lengths in body.filled_ends else SMALL)
        if lengths in body.equal:
            own = nodes.op("Where", body.equal[lengths], most(SMALL), most(SMALL_TO_FILL))
        padded = nodes.op("Mul", body.total(lengths), nodes.constant(TIMES))
        padded = nodes.op("Add", padded, nodes.constant(MOST_EXTRA))
        if known is None:
            padded = nodes.op("Mul", padded, row)
        limits = [most(MOST_PADDED), nodes.op("Mul", trips, own), padded]
    conditions = []
    if body.needs_filled and body.has_some:
        # It is 0 where one is empty, and else more than the others.
        limits.append(nodes.op("Mul", nodes.least(lengths), nodes.constant(MOST_UNPACKED)))
    elif body.needs_filled:
        empty = nodes.op("Less", lengths, nodes.constant(1))
        nempty = nodes.sum(nodes.op("Cast", empty, to=TensorProto.INT64))
        conditions.append(nodes.op("Equal", nempty, nodes.constant(0)))
    limit = nodes.op("Min", *limits) if len(limits) > 1 else limits[0]
    return [nodes.op("LessOrEqual", numbers, limit), *conditions]
