"""seqcore.onnx.GraphBody: many elements at once."""

import itertools

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from graphs import (  # noqa: E402
    ADD,
    ENOUGH,
    MAX,
    UNTYPED,
    assert_same,
    floats,
    graph,
    node,
    parsed,
    sample,
    singly,
    value,
)
from onnx import helper, numpy_helper  # noqa: E402

from seqcore.dtypes import ELEMENT_TYPES  # noqa: E402
from seqcore.onnx import GraphBody  # noqa: E402
from seqcore.onnx._bodies.many import _STACK_PAYS, ManyRunner  # noqa: E402


def constant(array):
    return [numpy_helper.from_array(array.astype(np.float32), "k")]


INPUTS = "(float[N] x, float[N] y)"
BODIES = {
    "add": ADD,
    "add_of_a_shape": parsed("g (float[8] x, float[8] y) => (float[8] z) { z = Add(x, y) }"),
    "constant": parsed(f"""g {INPUTS} => (float[M] z) {{
        k = Constant <value_float = 2.0> ()
        t = Mul(x, k)
        z = Sub(t, y)
    }}"""),
    "stored": graph(
        [
            node("Constant", "", "k", value=constant(np.array(2))[0]),
            node("Mul", "x k", "t"),
            node("Div", "t y", "z"),
        ],
        ["x", "y"],
        ["z"],
    ),
    "row": graph(
        [node("Add", "x k", "t"), node("Div", "t y", "z")], ["x", "y"], ["z"], constant(np.ones((1, 8)))
    ),
    "column": graph(
        [node("Mul", "x k", "t"), node("Div", "t y", "z")], ["x", "y"], ["z"], constant(np.ones((3, 1)))
    ),
    "compare": parsed(f"""g {INPUTS} => (bool[N] a, float[N] b, float[N] x, bool[N] a) {{
        a = Less(x, y)
        b = Where(a, x, y)
    }}"""),
    "partly": parsed(f"g {INPUTS} => (float[N] a, float[N] b) {{ a = Neg(x) b = Neg(y) }}"),
    "max": MAX,
    "untyped": UNTYPED,
    "soft": parsed(f"""g {INPUTS} => (float[N] a, float[N] b) {{
        t = Sub(x, y)
        a = Sigmoid(t)
        b = Erf(a)
    }}"""),
    "shape": parsed(f"""g {INPUTS} => (int64[R] a, float b) {{
        a = Shape(x)
        t = Add(x, y)
        b = ReduceSum <keepdims = 0> (t)
    }}"""),
    "names": graph([node("Max", "0.0 y", "0.1"), node("Exp", "0.1", "z")], ["0.0", "y"], ["0.1", "z"]),
    "optional": graph([helper.make_node("Clip", ["x", "", "y"], ["z"])], ["x", value("y", shape=[])], ["z"]),
}


class TestManyElements:
    @pytest.mark.parametrize("name", BODIES)
    def test_equals_singly(self, name):
        body, other = GraphBody(BODIES[name]), GraphBody(BODIES[name])
        shape = (3, 8) if name == "column" else (8,)
        xs, ys = floats(ENOUGH, shape), floats(ENOUGH, shape, seed=1)
        if name == "optional":
            ys = floats(ENOUGH, (), seed=1)
        ragged = name not in ("add_of_a_shape", "row", "column", "optional")
        cases = list(zip(xs, ys, strict=True)), [(x, ys[0]) for x in xs], [(xs[0], y) for y in ys]
        for rows in (*cases, [(xs[0], ys[0])] * 50):
            expected = singly(other, rows)
            for n in (0, 1, 2, 7, 8, 15, 16, 17, 63, 64, 65, 200, len(rows)):
                assert_same(body.run_many(rows[:n]), expected[:n])
        if ragged:
            rows = [(x[: i * i % 9], y[: i * i % 9]) for i, (x, y) in enumerate(cases[0])]
            assert_same(body.run_many(rows), singly(other, rows))
            rows = [(x[: 1 + i // 50 % 8], y[: 1 + i // 50 % 8]) for i, (x, y) in enumerate(cases[0])]
            assert_same(body.run_many(rows), singly(other, rows))

    @pytest.mark.parametrize(
        "shapes", [((8,), (1,)), ((8,), ()), ((), ()), ((2, 8), (8,)), ((3, 1), (1, 8)), ((0,), (1,))]
    )
    @pytest.mark.parametrize("whole", [False, True])
    def test_broadcasting(self, shapes, whole):
        for given in (ADD, MAX):
            given = graph([node(given.node[0].op_type, "x y", "z")], ["x", "y"], ["z"])
            for first, second in (shapes, shapes[::-1]):
                xs, ys = floats(ENOUGH, first), floats(1 if whole else ENOUGH, second, seed=1)
                rows = list(zip(xs, itertools.cycle(ys)))
                body = GraphBody(given)
                assert_same(body.run_many(rows), singly(body, rows))

    @pytest.mark.parametrize("name", [name for name in ELEMENT_TYPES if name[0] in "ifu"])
    def test_arithmetic_of_every_type(self, name):
        nodes = [node("Add", "x y", "s"), node("Mul", "s y", "z")]
        body = GraphBody(graph(nodes, [value("x", name), value("y", name)], [value("z", name)]))
        rows = [(sample(name, (5,), i), sample(name, (5,), i + 1)) for i in range(_STACK_PAYS + 50)]
        assert_same(body.run_many(rows), singly(body, rows))

    def test_casts_and_signed_zeros_and_nans(self):
        text = """g (float16[N] x) => (float[N] a, double[N] b) {
            a = Cast <to = 1> (x)
            t = Cast <to = 11> (x)
            b = Neg(t)
        }"""
        body = GraphBody(parsed(text))
        x = np.float16([0.0, -0.0, np.nan, np.inf, 6e-8, 65504, -1])
        rows = [(np.roll(x, i),) for i in range(400)]
        assert_same(body.run_many(rows), singly(body, rows))

    def test_strings(self):
        nodes = [node("StringConcat", "x x", "z")]
        body = GraphBody(graph(nodes, [value("x", "string")], [value("z", "string")]))
        rows = [(np.array([str(i), "é"], object),) for i in range(ENOUGH)]
        assert_same(body.run_many(rows), [(row + row,) for (row,) in rows])

    def test_large_among_small(self):
        for given in (ADD, MAX):
            body = GraphBody(given)
            xs = [np.full(20_000 if i % 40 == 0 else 8, i, np.float32) for i in range(ENOUGH)]
            rows = [(x, x) for x in xs]
            assert_same(body.run_many(rows), singly(body, rows))

    @pytest.mark.parametrize("k", [0, 1, 63, 64, 200, ENOUGH - 1])
    @pytest.mark.parametrize("op", ["Add", "Max", "Pow"])
    def test_failure_in_the_middle(self, op, k):
        body = GraphBody(graph([node(op, "x y", "z")], ["x", "y"], ["z"]))
        good = [(x, x) for x in floats(ENOUGH)]
        for rows in (good[:k], good):
            bad = [*rows[:k], (np.ones(2, np.float32), np.ones(3, np.float32)), *rows[k + 1 :]]
            with pytest.raises(Exception, match="by a dimension other than 1") as caught:
                body.run_many(bad)
            assert caught.value.seqcore_element == k
        assert len(body.run_many(good)) == ENOUGH

    def test_ways_are_taken(self):
        """What is quick is in use, and not before it pays."""
        stack, copies = {"stack"}, {"copies"}
        expected = {"add": stack, "untyped": stack, "soft": copies, "compare": stack, "max": copies}
        for name, ways in expected.items():
            body = GraphBody(BODIES[name])
            rows = [(x, x) for x in floats(3 * ENOUGH)]
            body.run_many(rows[:10])
            many = body._checked((np.dtype("float32"),) * 2)._many
            assert not many._built
            body.run_many(rows)
            assert {kind for (kind, _), way in many._built.items() if way is not None} == ways

    def test_copies_take_rows_of_several_shapes(self, monkeypatch):
        """Also where the graph has names for the lengths."""
        body = GraphBody(parsed("soft (float[H, W] x) => (float[H, W] y) { t = Exp(x) y = Add(t, t) }"))
        rows = [(x,) for k in range(2 * ENOUGH) for x in floats(1, (k % 3, 1 + k % 4))]
        expected = singly(body, rows)
        many = body._checked((np.dtype("float32"),))._many
        failed = []

        def attempt(way, some):
            done = ManyRunner._attempt(many, way, some)
            failed.extend([way] * (done is None))
            return done

        monkeypatch.setattr(many, "_attempt", attempt)
        assert_same(body.run_many(rows), expected)
        assert many._built
        assert failed == []

    def test_results_much_larger_than_arguments(self):
        body = GraphBody(graph([node("Add", "x k", "z")], ["x"], ["z"], constant(np.ones(30_000))))
        rows = [(x,) for x in floats(_STACK_PAYS + 50, (1,))]
        assert_same(body.run_many(rows), singly(body, rows))

    def test_inexact_operators_are_not_stacked(self):
        for op in ("Exp", "Relu", "Sqrt", "Tanh", "Floor"):
            body = GraphBody(graph([node(op, "x", "z")], ["x"], ["z"]))
            assert body._checked(body.input_dtypes)._many._plan is None, op
