"""Tidying a normal model: what nothing reads is taken out (nodes, states of loops, outputs of branches,
constants), and bounds of Slices get the form that the passes expect.
"""

from __future__ import annotations

from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.loop_parts import keep_outputs, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import origins_of
from seqcore.onnx._rewrite.emit import Builder


def prune(model: Model) -> bool:
    """Drop the nodes of a normal model that no output needs, and states that only feed themselves.

    onnxruntime drops dead nodes too, so nothing that would run is lost; states it keeps. Return whether there
    was anything to drop.
    """
    live = _Live(model.graph, for_shapes=True).names
    has_changed = False
    for graph in list(model.graph.all_graphs()):
        nodes = [node for node in graph.nodes if any(name in live for name in node.outputs)]
        has_changed |= len(nodes) < len(graph.nodes)
        graph.nodes = nodes
        for node in nodes:
            if node.is_op("Loop"):
                has_changed |= _drop_states(node, live)
            elif node.is_op("If"):
                has_changed |= _drop_outputs(node, live)
    return has_changed


def read_names(model: Model) -> set[str]:
    """Return the names of what an output needs, other than for its shape."""
    return _Live(model.graph, for_shapes=False).names


class _Live:
    """The names of the values that a graph's outputs need."""

    def __init__(self, graph: Graph, for_shapes: bool) -> None:
        self.names: set[str] = set()
        self._for_shapes = for_shapes
        self._producers = {name: node for node in graph.all_nodes() for name in node.outputs}
        self._origins = origins_of(graph)
        # A stack of its own: chains of nodes are longer than Python's.
        self._todo = list(graph.outputs)
        while self._todo:
            name = self._todo.pop()
            if name and name not in self.names:
                self.names.add(name)
                self._visit(name)

    def _visit(self, name: str) -> None:
        node = self._producers.get(name)
        if node is None:
            self._todo += self._origins.get(name, ())
        elif node.is_op("Loop"):
            parts, k = parts_of(node), node.outputs.index(name)
            self._todo += [parts.trips, parts.condition, parts.going_out, node.body.outputs[1 + k]]
            self._todo += parts.initial[k : k + 1]
        elif node.is_op("If"):
            self._todo += [*node.inputs, *self._origins[name]]
        elif self._for_shapes or not node.is_op("Shape", "Size"):
            self._todo += node.inputs
            for inner in node.graphs.values():
                # The inputs of its nodes are visited with the nodes.
                self._todo += inner.outputs


def _drop_states(node: Node, live: set[str]) -> bool:
    parts, body = parts_of(node), node.body
    n = len(parts.states)
    kept = [
        k
        for k in range(len(body.outputs) - 1)
        if (k < len(node.outputs) and node.outputs[k] in live) or (k < n and parts.states[k] in live)
    ]
    if len(kept) == len(body.outputs) - 1:
        return False
    keep_outputs(node, kept)
    return True


def _drop_outputs(node: Node, live: set[str]) -> bool:
    kept = [k for k, name in enumerate(node.outputs) if name in live]
    if len(kept) == len(node.outputs):
        return False
    node.outputs = [node.outputs[k] for k in kept]
    for branch in node.graphs.values():
        branch.outputs = [branch.outputs[k] for k in kept]
    return True


def give_bounds_an_axis(model: Model, prepared: Prepared) -> bool:
    """Make vectors of the starts and ends of Slices that are scalars; return whether there were such.

    PyTorch exports `x[i : i + n]` with them if n was in a list, and onnxruntime doesn't run that.
    """
    builder = Builder(model)
    has_changed = False
    for node in model.graph.all_nodes():
        if node.is_op("Slice") and any(prepared.shape(name) == () for name in node.inputs[1:] if name):
            nodes, (tensor, *bounds) = builder.before(node), node.inputs
            bounds = [nodes.unsqueeze(one, 0) if one and prepared.shape(one) == () else one for one in bounds]
            node.inputs = [tensor, *bounds]
            has_changed = True
    builder.apply()
    return has_changed
