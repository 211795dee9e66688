"""Nodes that compute the same: one is enough, in the same graph or around it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from seqcore.onnx._model.graph import Graph, Model
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
    constants: dict[Any, str] = {}  # by what they hold
    named: dict[str, str] = {}

    def first_of(name: str) -> str:
        """Return the first name of a value, which another constant may have too."""
        if name not in named:
            value = small_constant(name)
            if value is None:
                return name
            held = value.dtype, value.shape, tuple(value.flat) if value.dtype.hasobject else value.tobytes()
            named[name] = constants.setdefault(held, name)
        return named[name]

    def visit(graph: Graph, known: dict[Any, str]) -> None:
        new = []
        for node in graph.nodes:
            node.inputs = [shared.get(name, name) for name in node.inputs]
            for inner in node.graphs.values():
                visit(inner, {} if node.is_op("SequenceMap") else known)  # a map's body is apart
            is_pure = record_of(node).batch_rule and not node.graphs
            if is_pure and len(node.outputs) == 1:
                attributes = sorted(one.SerializeToString() for one in node.attribute_messages())
                key = node.op_type, *map(first_of, node.inputs), *attributes
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
