"""Loops that stay, and append elements of several lengths: these are padded in each iteration.

    out = Loop (n, true, []) <                        padded = Loop (n, true) <
        part = Slice (x, starts[i], ends[i])     ──▶      part = Slice (x, starts[i], ends[i])
        y = MatMul (Softmax (part), part)                 y = MatMul (Softmax (part), part)
        append y>                                         Pad (y, longest - lengths[i])>
                                                      out = SplitToSequence (padded without padding, lengths)

So an iteration copies its element alone. The lengths are those of what a Slice or an Expand in the body
makes; all are computed before the loop, and an element has one of them for sure.
"""

from __future__ import annotations

from seqcore.onnx._model.graph import Node, reads_of, rename
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.record import Declined, axis_from_front
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import Type, to_type_proto
from seqcore.onnx._rewrite.emit import Nodes
from seqcore.onnx._thresholds import TIMES
from seqcore.onnx._vmap.loop import VectorizedLoop
from seqcore.onnx._vmap.rules import starts_and_lengths
from seqcore.onnx._vmap.shapes import LoopShapes
from seqcore.onnx._vmap.states import flat_of
from seqcore.onnx._vmap.tracer import Tracer

# onnxruntime's Pad takes these.
_PADDED = ("float32", "float64", "int32", "int64", "int8", "uint8", "bool")


class PaddedLoop(VectorizedLoop):
    """A loop that stays, with padded scan outputs in place of its lists.

    Raises
    ------
    Declined
        If it can't be that. Nothing has changed then.
    """

    def write(self) -> set[str]:
        """Put the nodes into the builder; return the names of the loops, which stay."""
        elements = self._parts.scans[len(self._parts.scans) - len(self._lists) :]
        makers = self._makers()
        places = [self._place_of(name, makers) for name in elements]
        if not any(places):
            raise Declined("appends no elements of known lengths")
        before, trips = self._begin()
        tracer = self._tracer(before, trips)
        lengths = self._lengths(tracer, {place[0]: makers[place[0]] for place in places if place})
        inside = Nodes(self._builder, self._loop)
        # Runtimes give the number of an iteration the rank of how many there are.
        rank = self._shapes.types[self._parts.iteration].rank
        loop, names = self._copy(before.of_rank(trips, rank or 0, 0))
        inside.nodes.append(loop)
        stacks = parts_of(loop).stacked[-len(elements) :]
        results = loop.outputs[: -len(elements)]
        self._outputs = self._loop.outputs[: len(results)]
        conditions = []
        for j, (place, stack, element) in enumerate(zip(places, stacks, elements, strict=True)):
            own = self._given.outputs[self._lists[j].k]
            if place is None:
                results.append(stack)
                self._outputs.append(self._loop.outputs[len(self._loop.outputs) - len(elements) + j])
                continue
            cut, axis = place
            longest, type_ = tracer.longest(lengths[cut]), self._shapes.types[element]
            rank = type_.rank or 0
            missing = before.unsqueeze(before.op("Sub", longest, lengths[cut]), 1)
            # Where axes start, then where they end.
            pads = before.op("Pad", missing, before.constant([0, rank + axis, 0, rank - 1 - axis]))
            self._pad(loop, names.get(element, element), stack, axis, type_, pads)
            # All rows together are a few times as long as the elements.
            items = before.op("Mul", trips, longest)
            most = before.op("Mul", before.op("Add", before.sum(lengths[cut]), trips), before.constant(TIMES))
            conditions.append(before.op("Not", before.op("Less", most, items)))
            mask = tracer.mask(lengths[cut])
            results += [flat_of(inside, stack, mask, type_.shape, axis), lengths[cut]]
            self._ragged[j] = axis
            self._outputs += [self._builder.fresh(f"{own}/{word}") for word in ("flat", "lengths")]
        if not self._builder.has_checks:
            self._end(before, "", (inside, results), None)
            return {loop.name}
        while len(conditions) > 1:
            conditions[-2:] = [before.op("And", *conditions[-2:])]
        self.otherwise = "loop"
        return {loop.name, *self._end(before, conditions[0], (inside, results), self._as_it_was())}

    def _makers(self) -> dict[str, tuple[Node, int]]:
        """Return the nodes of the body that give an axis its length, and which axis: what they make → these.

        A Slice of a tensor from outside cuts one axis, an Expand repeats one of length 1.
        """
        found, types = {}, self._shapes.types
        inside = {*self._loop.body.inputs, *(name for one in self._loop.body.nodes for name in one.outputs)}
        for node in self._loop.body.nodes:
            shape = types[node.inputs[0]].shape if node.inputs and node.inputs[0] in types else None
            axes: list[int | None] = []
            if node.is_op("Slice") and node.inputs[0] not in inside and node.input(3) and shape is not None:
                named = self._prepared.constant(node.inputs[3])
                if named is not None:
                    axes = [axis_from_front(int(one), len(shape)) for one in named.reshape(-1)]
            elif node.is_op("Expand") and shape is not None and types[node.inputs[1]].shape == (len(shape),):
                made = types[node.outputs[0]].shape or ()
                axes = [axis for axis, length in enumerate(made) if length is None and shape[axis] == 1]
            if len(axes) == 1 and axes[0] is not None:
                found[node.outputs[0]] = node, axes[0]
        return found

    def _place_of(self, element: str, makers: dict[str, tuple[Node, int]]) -> tuple[str, int] | None:
        """Return the value whose length an element has, and on which axis; None for one shape."""
        # As if these values came from outside, so that their lengths have names.
        loop = self._loop.copy()
        loop.body.nodes = [node for node in loop.body.nodes if makers.keys().isdisjoint(node.outputs)]
        known = LoopShapes(self._prepared, loop)
        type_ = known.types[element]
        if type_.shape is None or None in type_.shape:
            raise Declined(f"appends '{element}', whose shape is not known")
        places = [
            known.lengths.get(length, ("", 0)) if isinstance(length, str) else ("", 0)
            for length in type_.shape
        ]
        cuts = [axis for axis, (name, _) in enumerate(places) if name in makers]
        if not cuts:
            return None
        name, own = places[cuts[0]]
        dtype = dtype_of(type_.number)
        if len(cuts) > 1 or own != makers[name][1] or dtype is None or dtype.name not in _PADDED:
            raise Declined(f"appends '{element}', which differs on several axes or can't be padded")
        return name, cuts[0]

    def _lengths(self, tracer: Tracer, makers: dict[str, tuple[Node, int]]) -> dict[str, str]:
        """Return the lengths of values in all iterations."""
        nodes = tracer.nodes
        inside = {name: node for node in self._loop.body.nodes for name in node.outputs}
        inputs = {*self._loop.body.inputs} - {self._parts.iteration}
        todo = [name for node, _ in makers.values() for name in node.inputs[1:3]]
        needed: set[Node] = set()
        while todo:
            name = todo.pop()
            if name in inputs:
                raise Declined(f"appends elements as long as '{name}' tells, which it carries")
            node = inside.get(name)
            if node is not None and node not in needed:
                needed.add(node)
                todo += reads_of(node)
        tracer.follow([node for node in self._loop.body.nodes if node in needed])
        lengths = {}
        for name, (node, axis) in makers.items():
            if node.is_op("Slice"):
                _, lengths[name] = starts_and_lengths(node, tracer, tracer.length(node.inputs[0], axis))
            else:
                lengths[name] = nodes.op("Gather", tracer.rows(node.inputs[1]), nodes.constant(axis), axis=1)
        if tracer.may_fail_empty or tracer.padded or tracer.guards:
            raise Declined("appends elements whose lengths may not be there")
        return lengths

    def _copy(self, trips: str) -> tuple[Node, dict[str, str]]:
        """Return another loop like this one, and what its values are called."""
        builder, loop = self._builder, self._loop.copy()
        names = {
            name: builder.fresh(f"{name}/padded")
            for graph in loop.body.all_graphs()
            for name in (*graph.inputs, *(name for node in graph.nodes for name in node.outputs))
        }
        loop.inputs[0] = trips
        loop.outputs = [builder.fresh(f"{name}/padded") for name in loop.outputs]
        inside = Node("Loop", [], [], loop.name)
        inside.graphs = loop.graphs
        rename([inside], names)
        for node in loop.body.all_nodes():
            node.name = builder.fresh_node_name(f"{node.name}/padded")
        loop.name = builder.fresh_node_name(f"{loop.name}/padded")
        return loop, names

    def _pad(self, loop: Node, element: str, stack: str, axis: int, type_: Type, pads: str) -> None:
        """Have a loop pad an element that it stacks: `pads` has a row for each iteration."""
        parts, end = parts_of(loop), Nodes(self._builder, loop, loop.body.nodes)
        number = end.of_rank(parts.iteration, 0, self._shapes.types[self._parts.iteration].rank)
        padded = end.op("Pad", element, end.op("Gather", pads, number, axis=0))
        loop.body.outputs[1 + loop.outputs.index(stack)] = padded
        shape = (n if isinstance(n, int) and k != axis else None for k, n in enumerate(type_.shape or ()))
        loop.body.declared[padded] = to_type_proto(type_._replace(shape=tuple(shape)), with_shape=True)
