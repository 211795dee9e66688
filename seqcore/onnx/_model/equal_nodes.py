"""Nodes that compute the same: one is enough, in the same graph or around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.record import record_of


def drop_equal_nodes(model: Model, small_constant: Callable[[str], np.ndarray | None]) -> bool:
    """Drop nodes of a normal model whose value is there already; return whether there were such.

    onnxruntime does so within a graph; loops that read what was computed around them are left to us.

    Parameters
    ----------
    model : Model
    small_constant : callable
        As that of `Prepared`.
    """
    shared: dict[str, str] = {}

    def visit(graph: Graph, known: dict[Any, str]) -> None:
        new = []
        for node in graph.nodes:
            node.inputs = [shared.get(name, name) for name in node.inputs]
            for inner in node.graphs.values():
                visit(inner, {} if node.is_op("SequenceMap") else known)  # a map's body is apart
            is_pure = record_of(node).batch_rule and not node.graphs
            if is_pure and len(node.outputs) == 1:
                key = _computed(node, small_constant)
                if key not in known:
                    known[key] = node.outputs[0]
                    new.append(key)
                elif node.outputs[0] not in graph.outputs:
                    shared[node.outputs[0]] = known[key]
                    graph.declared.pop(node.outputs[0], None)
        graph.nodes = [node for node in graph.nodes if node.outputs[0] not in shared]
        for key in new:
            del known[key]

    visit(model.graph, {})
    return bool(shared)


def _computed(node: Node, small_constant: Callable[[str], np.ndarray | None]) -> Any:
    """Return a key that is the same for nodes that compute the same."""
    values = {name: small_constant(name) for name in node.inputs}
    inputs = [
        name if (value := values[name]) is None else (value.dtype, value.shape, value.tobytes())
        for name in node.inputs
    ]
    return node.op_type, *inputs, *sorted(one.SerializeToString() for one in node.attribute_messages())
