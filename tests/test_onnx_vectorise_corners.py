"""Loops whose iterations go all at once: corners that random loops don't reach."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from lowering import assert_same, lowered, ops, outcome, parse, session


def loop(body, scan, ins="", out="float[A] y", before="", states=("", "", "", "")):
    """A model with a loop over x, and a list so that there is something to lower.

    `states` are what the loop starts with, its last ones, those in the body before and after, with types.
    """
    start, last, given, after = states
    name = out.split()[-1]
    outs = out if not last else f"{last}, {out}"
    last = last.split()[-1] + ", " if last else ""
    return f"""g (float[N, K] x, int64 n{ins}) => ({outs}, int64 m)
        <bool yes = {{1}}, int64 zero = {{0}}, int64[1] first = {{0}}> {{
        l = SequenceConstruct(x)
        m = SequenceLength(l)
        {before}
        {last}{name} = Loop(n, yes{start})
        <body = b (int64 i, bool c{given}) => (bool d{after}, {scan}) {{
            d = Identity(c)
            {body}
        }}>
    }}"""


def check(text, feeds, opset=17, gone=True):
    """Lower a model; it has to do what it did, for each feed, with no loop or with one beside."""
    model = parse(text, opset)
    result = lowered(model)
    before, after = session(model), session(result)
    assert ("Range" in ops(result) or "Loop" not in ops(result)) == gone
    for feed in feeds:
        expected, found = outcome(before, feed), outcome(after, feed)
        if expected and feed["n"] <= 0:
            # What no iteration made may have any shape of nothing.
            expected, found = ([one for one in results if one.size] for results in (expected, found))
        assert_same(expected, found)
    return result


def rows(*shape):
    return np.random.default_rng(0).integers(1, 9, shape).astype("float32")


class TestPositions:
    @pytest.mark.parametrize(
        "make", ["Identity(i)", "Cast<to = 7>(i)", "Add(i, zero)", "Sub(i, zero)", "Unsqueeze(i, first)"]
    )
    def test_numbers_that_a_runtime_sees_through(self, make):
        """The position is the iteration's number, and out of range in the last ones."""
        out = "float[A, 1, K] y" if "Uns" in make else "float[A, K] y"
        scan = "float[1, K] z" if "Uns" in make else "float[K] z"
        text = loop(f"j = {make} r = Gather(x, j) z = Neg(r)", scan, out=out)
        check(text, [{"x": rows(3, 4), "n": n} for n in (-1, 0, 2, 3, 4)])

    def test_a_count_from_0(self):
        states = ", zero", "int64 k", ", int64 k0", ", int64 k1"
        body = "one = Constant<value_int = 1>() k1 = Add(k0, one) r = Gather(x, k0) z = Neg(r)"
        text = loop(body, "float[K] z", out="float[A, K] y", states=states)
        check(text, [{"x": rows(3, 4), "n": n} for n in (0, 2, 3, 4)])


class TestShapes:
    @pytest.mark.parametrize("start, end", [(1, 1), (1, 9), (-9, 1), (0, -1), (5, 7)])
    def test_from_behind_the_last_axis(self, start, end):
        body = f"r = Gather(x, i) h = Neg(r) z = Shape<start = {start}, end = {end}>(h)"
        check(loop(body, "int64[S] z", out="int64[A, S] y"), [{"x": rows(3, 4), "n": 2}])
