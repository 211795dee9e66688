"""Small parts: a few integers and conditions, which NumPy computes in less time than a session's run."""

import numpy as np
from onnx import TensorProto

from seqcore.onnx._models.graphs import dtype_of

# A run of a session costs as much as this many operators in NumPy, or more.
_MOST_NODES = 4
# On integers and conditions these are exact, and NumPy broadcasts as ONNX does since version 7.
_FUNCTIONS = {
    "Add": np.add,
    "And": np.logical_and,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Identity": np.asarray,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Mul": np.multiply,
    "Not": np.logical_not,
    "Or": np.logical_or,
    "Sub": np.subtract,
    "Xor": np.logical_xor,
}
_TYPES = (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)


def small_part(nodes, facts, place):
    """Return a step for nodes that are few and simple enough, None for others."""
    if len(nodes) > _MOST_NODES:
        return None
    calls = []
    for node in nodes:
        function = _function(node, facts)
        if function is None:
            return None
        calls.append((function, [place(name) for name in node.input], place(node.output[0])))

    def step(frame):
        for function, sources, to in calls:
            frame[to] = np.asarray(function(*[frame[i] for i in sources]))

    return step


def _function(node, facts):
    if node.domain not in ("", "ai.onnx"):
        return None
    if node.op_type == "Identity":
        return np.asarray  # of any type: tensors in a frame never change
    names = (*node.input, *node.output)
    if not all(facts.element_number(name) in _TYPES for name in names):
        return None
    if node.op_type == "Cast":
        dtype = dtype_of(facts.element_number(node.output[0]))
        return lambda array: array.astype(dtype)
    return None if node.attribute else _FUNCTIONS.get(node.op_type)
