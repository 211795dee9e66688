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
    loop,
)
from support.models.lowering import check, ops

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
