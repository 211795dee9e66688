"""seqcore.onnx.lower: lists that keep their number of elements, and that get more behind a loop."""

import pytest
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
from support.models.lowering import check, left_in, ops, parse, quick_report

pytestmark = pytest.mark.mostly_slow(5)


class TestFixedLists:
    """Lists that have as many elements after a round as before."""

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

    def test_behind_a_split_and_in_front_of_a_loop(self):
        start = "r = SplitToSequence<keepdims = 0>(x) first = SequenceInsert(r, a)"
        check(loop(start=start), feeds())
        result, _ = check(loop("h = SequenceAt(s, back) t = SequenceInsert(s, h)", start=start), feeds())
        assert ops(result).count("Concat") == 2

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
