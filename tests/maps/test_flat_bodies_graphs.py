"""sequence_map of graphs that work number by number gives what they give element by element."""

import numpy as np
import pytest
import test_flat_bodies
from support.strategies import assert_holds, filled
from test_flat_bodies import SHAPES, WORKERS, assert_close

import seqcore as sq

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from seqcore.onnx import GraphBody  # noqa: E402

pytestmark = [pytest.mark.mostly_slow(7), pytest.mark.usefixtures("blocks_of_few")]

HEADER = '<ir_version: 8, opset_import: ["" : 17]>\n'


def model(text):
    return onnx.parser.parse_model(HEADER + text)


def tensors(name="float32", shapes=SHAPES, start=-9):
    return [
        filled("int64", shape, start=0).astype(name) + np.array(start + i, name)
        for i, shape in enumerate(shapes)
    ]


def assert_maps(text, *inputs, **options):
    """The map gives what single runs of the body give, be it tensors or an exception for an element."""
    test_flat_bodies.assert_maps(GraphBody(model(text)), *inputs, **options)


# A type without a shape takes any rank.
ONE_INPUT = {
    "relu": "g (float x) => (float y) { y = Relu(x) }",
    "exp": "g (float x) => (float y) { y = Exp(x) }",
    "chain": "g (float x) => (float y) { a = Mul(x, x) b = Neg(a) c = Exp(b) y = Add(c, x) }",
    "itself": "g (float x) => (float y) { y = Add(x, x) }",
    "cast": "g (float x) => (int64 y) { y = Cast<to = 7>(x) }",
    "cast to string": "g (float x) => (string y) { i = Cast<to = 7>(x) y = Cast<to = 8>(i) }",
    "compare": "g (float x) => (bool y, float z) { y = Greater(x, x) z = Abs(x) }",
    "where": "g (float x) => (float y) { n = Neg(x) c = Less(x, n) y = Where(c, n, x) }",
    "constant": "g (float x) => (float y) { two = Constant<value = float {2.0}>() y = Mul(x, two) }",
    "constant of one": "g (float x) => (float y) { c = Constant<value = float[1] {2.0}>() y = Mul(x, c) }",
    "rank 1": "g (float x) => (float y) { c = Constant<value = float[2] {2.0, 3.0}>() y = Mul(x, c) }",
    "number": "g (float x) => (float y) { two = Constant<value_float = 2.0>() y = Mul(x, two) }",
    "list of one": "g (float x) => (float y) { c = Constant<value_floats = [2.0]>() y = Mul(x, c) }",
    "list": "g (float x) => (float y) { c = Constant<value_floats = [2.0, 3.0]>() y = Mul(x, c) }",
    "clip": "g (float x) => (float y) { a = Constant<value = float {-2.0}>() "
    "b = Constant<value = float {2.0}>() y = Clip(x, a, b) }",
    "leaky": "g (float x) => (float y) { y = LeakyRelu<alpha = 0.5>(x) }",
    "sigmoid": "g (float x) => (float y) { y = Sigmoid(x) }",
    "passed on": "g (float x) => (float x) { y = Identity(x) }",
    "two outputs": "g (float x) => (float y, float z) { y = Relu(x) z = Neg(x) }",
    "dead": "g (float x) => (float y) { dead = ReduceSum<keepdims = 0>(x) y = Relu(x) }",
    "not by number": "g (float x) => (float y) { y = ReduceSum<keepdims = 0>(x) }",
    "partly by number": "g (float x) => (float y) { s = ReduceSum<keepdims = 0>(x) y = Sub(x, s) }",
    "shape": "g (float x) => (int64 y) { y = Shape(x) }",
    "constant output": "g (float x) => (float y) { y = Constant<value = float[2] {2.0, 3.0}>() }",
}


@pytest.mark.parametrize("name", ONE_INPUT)
def test_one_input(name):
    text = ONE_INPUT[name]
    table = np.arange(-8, 8, dtype=np.float32).reshape(8, 2)
    assert_maps(text, tensors())
    assert_maps(text, sq.TensorSequence(tensors(shapes=[(2,), (3, 2), (2, 2), (1,)])))
    assert_maps(text, sq.split_to_sequence(table))
    assert_maps(text, sq.split_to_sequence(table, [3, 0, 1, 4])[::-1])
    assert_maps(text, sq.split_to_sequence(table, keepdims=0), max_workers=2)
    assert_maps(text, sq.split_to_sequence(table[:, 0], 3))
    assert_maps(text, sq.split_to_sequence(table[:, 0], keepdims=0))


@pytest.mark.parametrize("dtype", ["float", "double", "int32", "int64"])
@pytest.mark.parametrize("op", ["Add", "Mul", "Sub", "Div"])
def test_two_inputs(op, dtype):
    text = f"g ({dtype} x, {dtype} y) => ({dtype} z) {{ z = {op}(x, y) }}"
    name = {"float": "float32", "double": "float64"}.get(dtype, dtype)
    left = tensors(name)
    right = [np.full(a.shape, 3 + i, name) for i, a in enumerate(left)]
    assert_maps(text, left, right)
    assert_maps(text, sq.TensorSequence(left), sq.TensorSequence(right), max_workers=2)
    for shape in [(), (1,), (2,), (2, 1), (1, 1, 1), (0,)]:
        assert_maps(text, left[:1] * 3, np.full(shape, 7, name))
        assert_maps(text, tensors(name, [(2,), (3, 2), (1,), ()]), np.full(shape, 7, name))
    assert_maps(text, left, np.array(7, name))


# --- declared types and shapes ---


@WORKERS
@pytest.mark.parametrize("at", [0, 5, 39])
@pytest.mark.parametrize("declared", ["float[2]", "float[N, 2]", "float[1, 2]", "float[1, N]"])
def test_an_element_that_violates_the_declared_shape_is_named(declared, at, max_workers):
    text = f"g ({declared} x) => (float y) {{ y = Exp(x) }}"
    shape = (2,) if declared == "float[2]" else (1, 2)
    wrong = {"float[2]": (4,), "float[N, 2]": (2, 1), "float[1, 2]": (2, 1), "float[1, N]": (2, 1)}[declared]
    seq = sq.split_to_sequence(np.zeros((40, *shape), np.float32), keepdims=0)
    assert_close(
        sq.sequence_map(model(text), seq, max_workers=max_workers), [np.ones(shape, np.float32)] * 40
    )
    for unfitting in (wrong, (*shape, 1), ()):
        seq[at] = np.zeros(unfitting, np.float32)
        with pytest.raises(Exception, match=rf"element {at}\b"):
            sq.sequence_map(model(text), seq, max_workers=max_workers)


# --- where it runs ---


def test_results_share_no_memory_with_the_input_or_are_read_only():
    table = np.zeros((10, 2), np.float32)
    seq = sq.split_to_sequence(table)
    result = sq.sequence_map(model(ONE_INPUT["relu"]), seq)
    table[...] = 5
    assert_holds(result, [np.zeros((1, 2), np.float32)] * 10)
    result.insert(0, np.zeros(2, np.float32))
    result.compact()
    result._check()
