"""seqcore.onnx.lower: lists that keep their number of elements, and that get more behind a loop."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models.lists_in_loops import (
    APPEND,
    NONE,
    ONE,
    OPSETS,
    STACK,
    TWO,
    feeds,
    feeds_of_strings,
    loop,
    why,
)
from support.models.lowering import check, left_in, lowered, ops, outcome, parse, quick_report, session

pytestmark = pytest.mark.mostly_slow(5)


class TestFixedLists:
    """Lists that have as many elements after a round as before."""

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize(
        "body",
        [
            "t0 = SequenceErase(s, zero) t = SequenceInsert(t0, e)",
            "t0 = SequenceInsert(s, e) t = SequenceErase(t0, zero)",
            "t0 = SequenceErase(s) t = SequenceInsert(t0, e, zero)",
            "t0 = SequenceErase(s, one) t = SequenceInsert(t0, e, one)",
            "t0 = SequenceErase(s, back) t1 = SequenceErase(t0) t2 = SequenceInsert(t1, e) "
            "t = SequenceInsert(t2, h)",
            "t = SequenceConstruct(e, h)",
        ],
    )
    def test_windows_and_assignments(self, body, opset):
        after = f"{STACK} m = SequenceLength(l) z = SequenceAt(l, back)"
        step = f"q = Gather(x, i) h = SequenceAt(s, zero) e = Sub(q, h) {body}"
        text = loop(step, after, TWO, "float[A, B] y, int64 m, float[C] z")
        result, _ = check(text, feeds(), opset)
        assert len(ops(result)) < 20

    def test_elements_of_several_shapes(self):
        body = """h = SequenceAt(s, zero) k = SequenceAt(s, one) q = Gather(x, i) e = Concat<axis = 0>(h, q)
            d = Add(k, q) t0 = SequenceErase(s, zero) t1 = SequenceInsert(t0, e, zero)
            t2 = SequenceErase(t1, one) t = SequenceInsert(t2, d)"""
        text = loop(body, "y = SequenceAt(l, zero) z = SequenceAt(l, one)", TWO, "float[A] y, float[B] z")
        check(text, feeds())

    def test_read_at_positions_of_the_run(self):
        body = """j = Mod(i, two) h = SequenceAt(s, j) q = Gather(x, i) e = Add(h, q)
            t0 = SequenceErase(s, zero) t = SequenceInsert(t0, e)"""
        check(
            loop(body, f"{STACK} z = SequenceAt(l, p)", TWO, "float[A, B] y, float[C] z"), feeds(-3, -1, 0, 1)
        )

    def test_edits_at_positions_of_the_run_stay(self):
        body = "j = Mod(i, two) q = Gather(x, i) t0 = SequenceErase(s, j) t = SequenceInsert(t0, q, j)"
        check(loop(body, start=TWO), feeds(), gone=False)
        body = "q = Gather(x, i) t0 = SequenceErase(s, zero) t = SequenceInsert(t0, q, p)"
        check(loop(body, start=TWO), feeds(0, 1, 2), gone=False)

    def test_positions_out_of_range_stay(self):
        for position in ("two", "before"):
            body = f"q = Gather(x, i) t0 = SequenceErase(s, {position}) t = SequenceInsert(t0, q)"
            check(loop(body, start=ONE), feeds(), gone=False)

    @pytest.mark.parametrize("opset", OPSETS)
    def test_in_branches(self, opset):
        body = """q = Gather(x, i) k = Gather(q, zero) big = Greater(k, fifty)
            t = If(big) <
                then_branch = f () => (seq(float[?]) f1) {
                    f0 = SequenceErase(s, zero) f2 = Add(q, q) f1 = SequenceInsert(f0, f2) },
                else_branch = h () => (seq(float[?]) h1) { h1 = Identity(s) }>"""
        result, _ = check(loop(body, start=TWO), feeds(), opset)
        assert ops(result).count("If") == 1

    def test_behind_an_if(self):
        text = """g (float[N, 4] x, float[4] a, float[4] b, int64 n, int64[K] p) => (float[A, B] y, int64 m)
        <int64 zero = {0}> {
            p0 = Squeeze(p) c = Cast<to = 9>(p0)
            l = If(c) <
                then_branch = f () => (seq(float[?]) f1) { f1 = SequenceConstruct(a, b) },
                else_branch = h () => (seq(float[?]) h1) {
                    q = Gather(x, n) h0 = SequenceConstruct(q) h1 = SequenceInsert(h0, a, zero) }>
            y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
            m = SequenceLength(l)
        }"""
        check(text, feeds(0, 1))

    def test_loops_inside(self):
        body = """q = Gather(x, i)
            t = Loop(two, yes, s)
            <body = d (int64 j, bool d0, seq(float[?]) u) => (bool d2, seq(float[?]) v) {
                d2 = Identity(d0)
                h = SequenceAt(u, zero)
                e = Sub(q, h)
                v0 = SequenceErase(u, zero)
                v = SequenceInsert(v0, e)
            }>"""
        check(loop(body, start=TWO), feeds())

    def test_a_list_that_is_returned_is_made_once(self):
        body = "q = Gather(x, i) t0 = SequenceErase(s, zero) t = SequenceInsert(t0, q)"
        text = loop(body, "", TWO, "seq(float[?]) l")
        result = lowered(parse(text))
        assert left_in(result) == ["SequenceConstruct"]
        for feed in feeds():
            np.testing.assert_array_equal(
                outcome(session(result), feed)[0], outcome(session(parse(text)), feed)[0]
            )
        assert why(text) == "stays a list: the model returns it"

    def test_many_elements_stay(self):
        many = ", ".join(["a"] * 17)
        body = "q = Gather(x, i) t0 = SequenceErase(s, zero) t = SequenceInsert(t0, q)"
        check(loop(body, start=f"first = SequenceConstruct({many})"), feeds(), gone=False)

    def test_strings(self):
        body = """o = Constant<value = int64[1] {0}>() e = GatherND(x, o)
            t0 = SequenceErase(s, zero) t = SequenceInsert(t0, e)"""
        text = loop(body, start=TWO).replace("float[", "string[")
        check(text, feeds_of_strings())


class TestGrown:
    """Lists that get more elements behind a loop or a split."""

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("start", [NONE, TWO])
    @pytest.mark.parametrize(
        "inserts",
        [
            "k = SequenceInsert(l, a)",
            "k = SequenceInsert(l, a, zero)",
            "k0 = SequenceInsert(l, a, zero) k1 = SequenceInsert(k0, b) k2 = SequenceInsert(k1, b, zero) "
            "m0 = SequenceLength(k2) k = SequenceInsert(k2, a, m0)",
        ],
    )
    def test_behind_a_loop(self, inserts, start, opset):
        after = f"{inserts} {STACK} m = SequenceLength(k) z = SequenceAt(k, p)".replace(">(l)", ">(k)")
        text = loop(APPEND, after, start, "float[A, B] y, int64 m, float[C] z")
        check(text, feeds(-3, -1, 0, 2), opset)

    def test_each_is_read(self):
        after = f"""{STACK} k = SequenceInsert(l, a) y1 = SequenceLength(k) j = SequenceInsert(k, b, zero)
            y2 = SequenceAt(j, p) y3 = ConcatFromSequence<axis = 0>(j)"""
        text = loop(after=after, start=NONE, outs="float[A, B] y, int64 y1, float[C] y2, float[D] y3")
        check(text, feeds(-3, 0, 2))

    def test_behind_a_split_and_in_front_of_a_loop(self):
        start = "r = SplitToSequence<keepdims = 0>(x) first = SequenceInsert(r, a)"
        check(loop(start=start), feeds())
        result, _ = check(loop("h = SequenceAt(s, back) t = SequenceInsert(s, h)", start=start), feeds())
        assert ops(result).count("Concat") == 2

    def test_in_the_rounds_of_another_loop_stays(self):
        again = """z = Loop(n, yes, a)
            <body = d (int64 j, bool d0, float[4] u) => (bool d2, float[4] v) {
                d2 = Identity(d0)
                k = SequenceInsert(l, u)
                w = ConcatFromSequence<axis = 0, new_axis = 1>(k)
                v = ReduceMax<axes = [0], keepdims = 0>(w)
            }>"""
        text = loop(after=f"{STACK} {again}", outs="float[A, B] y, float[4] z")
        check(text, feeds(), gone=["ConcatFromSequence", "SequenceInsert", "SplitToSequence"])
        assert why(text) == "stays a list: 'k' inserts into it"

    def test_elements_of_another_shape_stay(self):
        text = loop(after=f"h = Slice(a, p, p) k = SequenceInsert(l, h) {STACK}".replace(">(l)", ">(k)"))
        result, _ = quick_report(parse(text))
        assert left_in(result) == ["ConcatFromSequence", "SequenceInsert", "SplitToSequence"]
        assert why(text, "k") == "stays a list: it is made from 'l', which stays"

    def test_inserts_at_any_position(self):
        text = loop(
            after=f"k = SequenceInsert(l, a) o = SequenceInsert(k, b, p) {STACK}".replace(">(l)", ">(o)")
        )
        check(text, feeds(0, 1))

    @pytest.mark.parametrize("opset", OPSETS)
    def test_lists_that_are_returned(self, opset):
        """They are split from rows at the end."""
        edits = """k = SequenceInsert(l, a) j = If(c) <
                then_branch = t () => (seq(float[4]) j0) { j0 = SequenceInsert(k, b, zero) },
                else_branch = o () => (seq(float[4]) j1) { j1 = SequenceErase(k, zero) }>
            o = SequenceErase(j, p) m = SequenceLength(j)"""
        text = loop(after=edits, outs="seq(float[4]) o, int64 m").replace(
            "float[N, 4] x,", "float[N, 4] x, bool c,"
        )
        given = [feed | {"c": np.array(is_first)} for feed in feeds(0, 1) for is_first in (True, False)]
        check(text, given, opset, gone=["SplitToSequence"])
