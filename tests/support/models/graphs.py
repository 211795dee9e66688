"""Graphs for the tests of GraphBody, and what their results are held against."""

import numpy as np
import onnx
from onnx import helper

from seqcore.dtypes import ELEMENT_TYPES, element_type
from seqcore.onnx._model.tensors import tensor_type
from seqcore.onnx._thresholds import A_NODE_MORE, COPIES_PAY

TYPES = [*ELEMENT_TYPES, "bfloat16"]
ENOUGH = COPIES_PAY + 6 * A_NODE_MORE  # for every way to be in use


def value(name, dtype="float32", shape=None):
    """A graph's input or output; of no type at all where `dtype` is None."""
    if dtype is None:
        return onnx.ValueInfoProto(name=name)
    return helper.make_tensor_value_info(name, tensor_type(element_type(dtype)), shape)


def graph(nodes, inputs, outputs, initializers=(), name="g"):
    return helper.make_graph(
        nodes,
        name,
        [value(one) if isinstance(one, str) else one for one in inputs],
        [value(one) if isinstance(one, str) else one for one in outputs],
        list(initializers),
    )


def node(op, inputs, outputs, **attributes):
    return helper.make_node(op, inputs.split(), outputs.split(), **attributes)


def parsed(text):
    return onnx.parser.parse_graph(text)


def sample(dtype, shape=(2, 3), seed=0):
    random = np.random.default_rng(seed)
    if dtype == element_type("string"):
        return np.array([f"é{i}" for i in range(int(np.prod(shape)))], object).reshape(shape)
    return random.integers(0, 100, shape).astype(dtype)


def floats(n, shape=(8,), seed=0):
    numbers = np.random.default_rng(seed).standard_normal((n, *shape)).astype(np.float32)
    return [numbers[i, ...] for i in range(n)]


def assert_same(found, expected):
    assert len(found) == len(expected)
    for k, (row, other) in enumerate(zip(found, expected, strict=True)):
        assert type(row) is tuple, k
        assert [(a.dtype.char, a.shape) for a in row] == [(b.dtype.char, b.shape) for b in other], k
        for a, b in zip(row, other, strict=True):
            assert type(a) is np.ndarray, k
            assert a.tolist() == b.tolist() if a.dtype == object else a.tobytes() == b.tobytes(), k


def singly(body, rows):
    results = [body(*row) for row in rows]
    return [result if isinstance(result, tuple) else (result,) for result in results]


def runner_of(body):
    """Which of the two runtimes the body's programs use."""
    return {type(program._runner).__name__ for program in body._programs.values()}


ADD = parsed("add (float[N] x, float[N] y) => (float[N] z) { z = Add(x, y) }")
UNTYPED = graph([node("Add", "x y", "z")], [value("x", None), value("y", None)], [value("z", None)])
MAX = parsed("larger (float[N] x, float[N] y) => (float[N] z) { z = Max(x, y) }")
