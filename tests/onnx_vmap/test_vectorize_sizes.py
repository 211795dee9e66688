"""Loops that become one operator: which of the three ways they go, by sizes, and that all give the same."""

import numpy as np
import pytest
from support.models.lowering import ops, parse
from support.models.vectorizing import (
    appending,
    body,
    check_at_once,
    feeds_for,
    some,
    takes_first,
    vectorized,
)

from seqcore.onnx._vmap import loop

pytestmark = pytest.mark.mostly_slow(5)

# Rows of x as they come, and what is made of them: no more than them, or many times as much.
ROWS = {"x": "float[D]", "w": "float[D]"}
FIVE = {"x": "float[5]", "w": "float[5]"}
OUTER = """c0 = Unsqueeze(a, #(1)) r0 = Unsqueeze(w, #(0)) g = Mul(c0, r0)
    e = ReduceMax<keepdims = 0, axes = [1]>(g)"""


@pytest.fixture
def small(monkeypatch):
    """Limits that little data reach: 64 numbers at once, and 8 where an iteration is small."""
    for name, number in (("MOST_AT_ONCE", 64), ("SMALL", 8)):
        monkeypatch.setattr(loop, name, number)


def feeds_of(width, trips, **more):
    tensors = {"x": some(f"float[{width}]", 60), "w": some(f"float[{width}]", None, 1)}
    return [{**tensors, **more, "n": np.array(n)} for n in trips]


def filled(feeds):
    """Feeds with iterations: of others a condition may say this or that."""
    return [feed for feed in feeds if feed["n"] > 0]


class TestWays:
    def test_no_choice_where_there_are_iterations_for_sure(self):
        types = {"x": "float[3]", "states": "s: float[3]"}
        text = body("s2 = Neg(a) e = Sub(a, s)", "float[3]", **types).replace("Loop(n", "Loop(three")
        text = text.replace("<bool", "<int64 three = {3}, bool")
        result, _ = check_at_once(text, feeds_for(**types))
        assert "If" not in ops(result)

    @pytest.mark.parametrize(
        ("code", "types"),
        [
            ("h = Expand(a, w) e = ReduceMax<keepdims = 0>(h)", {"x": "float", "w": "int64[2]"}),
            ("h = Tile(a, w) e = ReduceMax<keepdims = 0>(h)", {"x": "float[3]", "w": "int64[1]"}),
            ("h = Mul(a, w) e = ReduceMax<keepdims = 0>(h)", {"x": "float[D]", "w": "float[E]"}),
        ],
    )
    def test_sizes_that_nobody_knows_before_the_run(self, code, types):
        """What is of no use but to make one number may be large: 1000 times that is too much."""
        numbers = {"w": np.array([1000] * (2 if types["x"] == "float" else 1))}
        if "E" in types["w"]:
            numbers["w"] = np.zeros(1_000_000, "f")
        row = (1,) if types["x"] != "float" else ()
        feed = {"x": np.zeros((1000, *row), "f"), "n": np.array(1000), **numbers}
        result, _ = vectorized(parse(body(code, "float", **types)))
        assert "Loop" in ops(result)
        assert "If" not in ops(result) or takes_first(result, [feed]) == [False]


class TestLoopsForLarge:
    @pytest.mark.parametrize("width", [0, 1, 8, 9, 31])
    @pytest.mark.parametrize("opset", [14, 17])
    def test_either_side_of_the_limit(self, small, opset, width):
        feeds = feeds_of(width, [-1, *range(12), 60, 61])
        result, outcomes = check_at_once(body("e = Add(a, w)", "float[D]", **ROWS), feeds, opset, nloops=1)
        assert [one is None for one in outcomes] == [False] * 14 + [True]
        for feed, is_first in zip(feeds, takes_first(result, feeds), strict=True):
            n = int(feed["n"])
            if n <= 0 or (width > 8 and width * n > 64):
                assert not is_first
            elif 2 * width * n <= 64:  # whether a and w are of one length isn't known
                assert is_first

    def test_a_list_given_out(self, small):
        text = appending("e = Add(a, w)", "y = Identity(l)", "seq(float[?]) y", "float[?]", **ROWS)
        for width in (3, 9):
            check_at_once(text, feeds_of(width, [-1, *range(12), 60, 61]), nloops=1)


@pytest.mark.parametrize("lengths", ["two, w", "w, two"])
def test_lengths_in_a_vector(small, lengths):
    """A run brings one of them; the other is known."""
    text = body("h = Expand(a, u) e = ReduceSum<keepdims = 0>(h)", "float", x="float", w="int64[1]")
    text = text.replace("<bool", "<int64[1] two = {2}, bool")
    text = text.replace("all_e = Loop", f"u = Concat<axis = 0>({lengths}) all_e = Loop")
    tensors = {"x": some("float", 60)}
    feeds = [{**tensors, "w": np.array([k]), "n": np.array(n)} for n in (0, 1, 2, 5, 12) for k in (1, 3, 9)]
    result, _ = check_at_once(text, feeds, nloops=1)
    assert takes_first(result, feeds) == [2 * feed["w"][0] * feed["n"] in range(1, 65) for feed in feeds]


@pytest.mark.parametrize(("code", "widths"), [("e = Add(a, w)", (3, 9)), (OUTER, (1, 3, 5))])
def test_lists(small, code, widths):
    after = "y = ConcatFromSequence<axis = 0, new_axis = 1>(l) p = SequenceLength(l) q = SequenceAt(l, #-1)"
    text = appending(code, after, "float[A, B] y, int64 p, float[C] q", "float[?]", **ROWS)
    for width in widths:
        _, outcomes = check_at_once(text, feeds_of(width, [-1, *range(12), 60, 61]), nloops=1)
        assert [one is None for one in outcomes] == [True, True] + [False] * 12 + [True]


class TestMoreOnTheWay:
    @pytest.mark.parametrize("width", [1, 2, 3, 4, 5])
    @pytest.mark.parametrize("opset", [14, 17, 21])
    def test_either_side_of_the_limit(self, small, opset, width):
        code = (
            OUTER if opset < 18 else OUTER.replace("<keepdims = 0, axes = [1]>(g)", "<keepdims = 0>(g, #(1))")
        )
        feeds = feeds_of(width, [-1, *range(12), 59, 60, 61])
        result, outcomes = check_at_once(body(code, "float[D]", **ROWS), feeds, opset, nloops=1)
        assert [one is None for one in outcomes] == [False] * 15 + [True]
        # Their size is looked at before they are made.
        assert takes_first(result, filled(feeds)) == [
            width * width * feed["n"] <= 64 for feed in filled(feeds)
        ]

    def test_states(self, small):
        types = {**FIVE, "states": "s: int64; t: float[5]; u: float[5]; v: float[5]"}
        code = OUTER.replace("e = Reduce", "d0 = Reduce")
        code += " s2 = Add(s, #3) t2 = Neg(a) u2 = Add(u, d0) v2 = Identity(v)"
        code += " h = Sub(t, u) k = Add(h, v) e = Mul(k, d0) f = Neg(s)"
        feeds = feeds_for(**types, trips=range(1, 42))
        result, _ = check_at_once(body(code, "float[5]; int64", **types), feeds, nloops=1)
        assert takes_first(result, filled(feeds)) == [feed["n"] <= 64 // 25 for feed in filled(feeds)]

    def test_products(self, small):
        """Batches of one length are broadcast."""
        types = {"x": "float[2, 3]", "v": "float[3, 16]"}
        text = body(
            "g = MatMul(a, v) h = Softmax<axis = 0>(g) e = ReduceSum<keepdims = 0>(h)", "float", **types
        )
        check_at_once(text, feeds_for(**types, trips=[-1, *range(12), 40, 41]), nloops=1)
