"""Small parts: a few integers and conditions, which NumPy computes in less time than a session's run."""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import TensorProto

from seqcore.onnx._engines.schedule import Step
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import dtype_of

# A run of a session costs as much as this many operators in NumPy, or more.
_MOST_NODES = 4
# On integers and conditions NumPy is exact, and broadcasts as ONNX does since version 7.
_TYPES = (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)


def numpy_part(nodes: list[Node], planner: Any) -> Step | None:
    """Return a step for nodes that are few and simple enough, None for others."""
    if len(nodes) > _MOST_NODES:
        return None
    calls = []
    for node in nodes:
        function = _function(node, planner)
        if function is None:
            return None
        calls.append(
            (function, [planner.place(name) for name in node.inputs], planner.place(node.outputs[0]))
        )

    def step(frame):
        for function, sources, to in calls:
            frame[to] = np.asarray(function(*[frame[i] for i in sources]))

    return step


def _function(node: Node, planner: Any) -> Any:
    if node.is_op("Identity"):
        return np.asarray  # of any type: tensors in a frame never change
    number = planner.prepared.element_number
    if not all(number(name) in _TYPES for name in (*node.inputs, *node.outputs)):
        return None
    if node.is_op("Cast"):
        dtype = dtype_of(number(node.outputs[0]))
        return lambda array: array.astype(dtype)
    return None if node.attribute_names() else record_of(node).numpy
