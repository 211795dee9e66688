"""seqcore.onnx.GraphBody: many elements at once."""

import numpy as np
import pytest
from onnx import helper, numpy_helper
from support.models.graphs import (
    ADD,
    ENOUGH,
    MAX,
    UNTYPED,
    assert_same,
    floats,
    graph,
    node,
    parsed,
    singly,
    value,
)

from seqcore.onnx import GraphBody
from seqcore.onnx._bodies.program import Copies
from seqcore.onnx._runtimes.sessions import REFUSALS
from seqcore.onnx._thresholds import COPIES

pytestmark = pytest.mark.mostly_slow(5)


def constant(array):
    return [numpy_helper.from_array(array.astype(np.float32), "k")]


INPUTS = "(float[N] x, float[N] y)"
BODIES = {
    "add": ADD,
    "last_unread": parsed(f"g {INPUTS} => (float[1] z) {{ z = ReduceSum(x) }}"),
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


def many_of(body, ninputs):
    """What runs many rows of a body whose inputs are all float32."""
    return body._checked((np.dtype("float32"),) * ninputs)._many


@pytest.fixture
def attempts(monkeypatch):
    """What became of each run of copies: the refusal's text, "" where it went well."""
    said, run = [], Copies.run

    def spy(self, rows):
        try:
            results = run(self, rows)
        except Exception as refusal:
            said.append(str(refusal))
            raise
        said.append("")
        return results

    monkeypatch.setattr(Copies, "run", spy)
    return said


class TestManyElements:
    @pytest.mark.mostly_slow(19)
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

    def test_whole_arguments_have_copies_of_their_own(self):
        """What is one object in all rows is given once, until there are too many such combinations."""
        body = GraphBody(MAX)
        xs = floats(2 * ENOUGH)
        for rows in ([(x, x) for x in xs], [(x, xs[0]) for x in xs], [(xs[0], x) for x in xs]):
            body.run_many(rows)
        assert set(many_of(body, 2)._built) == {frozenset(), frozenset("x"), frozenset("y")}

    def test_a_refusal_is_tried_again_singly(self, attempts):
        body = GraphBody(graph([node("Max", "x y", "z")], ["x", "y"], ["z"]))
        rows = [(x, x) for x in floats(ENOUGH)]
        body.run_many(rows)
        before = many_of(body, 2).ncopies
        rows[COPIES + 1] = rows[0][0], np.ones(3, np.float32)
        with pytest.raises(Exception, match="by a dimension other than 1") as caught:
            body.run_many(rows)
        assert caught.value.seqcore_element == COPIES + 1
        assert many_of(body, 2).ncopies == before + COPIES
        assert "by a dimension other than 1" in attempts[-1]

    @pytest.mark.parametrize("kind", REFUSALS, ids=lambda kind: kind.__name__)
    def test_a_model_of_copies_that_is_refused(self, monkeypatch, kind):
        """It was only for speed: elements go singly, and why is kept."""

        def refuse(*_):
            raise kind("no copies here")

        monkeypatch.setattr(Copies, "__init__", refuse)
        body = GraphBody(MAX)
        rows = [(x, x) for x in floats(ENOUGH)]
        for _ in range(2):
            assert_same(body.run_many(rows), singly(body, rows))
        assert many_of(body, 2).why_no_copies == "no copies here"
        assert many_of(body, 2).ncopies == 0

    @pytest.mark.parametrize("error", [AttributeError, KeyError, TypeError, IndexError, ZeroDivisionError])
    @pytest.mark.parametrize("name", ["__init__", "run"])
    def test_errors_of_ours_come_out(self, monkeypatch, name, error):
        def fail(*_):
            raise error("ours")

        monkeypatch.setattr(Copies, name, fail)
        body = GraphBody(MAX)
        with pytest.raises(error, match="ours"):
            body.run_many([(x, x) for x in floats(ENOUGH)])

    @pytest.mark.parametrize("name", ["RandomNormalLike", "RandomUniformLike", "Bernoulli"])
    def test_bodies_that_draw_numbers_are_not_copied(self, name):
        body = GraphBody(graph([node(name, "x", "z", seed=1.0)], ["x"], ["z"]), {"": 17})
        rows = [(x,) for x in np.clip(floats(2 * ENOUGH), 0, 1)]
        body.run_many(rows)
        assert many_of(body, 1).ncopies == 0
