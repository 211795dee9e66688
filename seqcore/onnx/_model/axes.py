"""Axes counted from the front, where onnxruntime (1.31) counts negative ones wrongly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from seqcore.onnx._model.graph import Model, Node, fresh_name
from seqcore.onnx._model.tensors import to_tensor_proto
from seqcore.onnx._operators.record import axis_from_front

if TYPE_CHECKING:
    from seqcore.onnx._model.prepared import Prepared


def count_axes_from_front(model: Model, prepared: Prepared) -> None:
    """Count the axes of reductions from the front.

    Of a tensor without items onnxruntime leaves an axis as it is that is counted from the back:

        ReduceSum (x: (0, 4), axes = -1)    ──▶    ReduceSum (x, axes = 1)
        there (0, 4), by the text (0)              (0)
    """
    taken: set[str] = set()
    for node in model.graph.all_nodes():
        rank = prepared.type(node.input(0)).rank
        if rank is None or not node.is_op(*_REDUCTIONS):
            continue
        axis, axes = node.attribute("axis"), node.attribute("axes")
        if axis is not None:
            _set(node, "axis", axis_from_front(axis, rank))
        if axes:
            found = [axis_from_front(one, rank) for one in axes]
            _set(node, "axes", None if None in found else found)
        elif (given := prepared.constant(node.input(1))) is not None and given.size and given.min() < 0:
            found = [axis_from_front(int(one), rank) for one in given.reshape(-1)]
            if None not in found:
                taken = taken or model.names()
                name = fresh_name(f"{node.input(1)}/from_front", taken)
                model.constants[name] = to_tensor_proto(np.array(found, given.dtype), name)
                prepared.types[name] = prepared.type(node.inputs[1])
                node.inputs[1] = name


def _set(node: Node, name: str, value: Any) -> None:
    if value is not None:
        node.set_attribute(name, value)


_REDUCTIONS = (
    *("ArgMax", "ArgMin", "ReduceL1", "ReduceL2", "ReduceLogSum", "ReduceLogSumExp", "ReduceMax"),
    *("ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceSumSquare"),
)
