"""seqcore.onnx.lower: SequenceMap."""

import numpy as np
import pytest
from support.models.lowering import (
    assert_same,
    check,
    left_in,
    outcome,
    parse,
    quick_report,
    rows,
    session,
)

pytestmark = pytest.mark.mostly_slow(11)


MAP = """g (float[N, 4] x, float[M, 4] w, float[4] b) => (%s) {
    s = SplitToSequence<keepdims = 0>(x)
    t = SplitToSequence<keepdims = 0>(w)
    p, q = SequenceMap
    <body = f (float[4] e, float[4] h, float[4] c) => (float[4] o1, float[4] o2) {%s}> (s, t, b)
    %s
}"""
BODY = "m = Add(e, h) o1 = Mul(m, c) o2 = Neg(b)"
STACKS = (
    "y = ConcatFromSequence<axis = 0, new_axis = 1>(p) z = ConcatFromSequence<axis = -1, new_axis = 1>(q)"
)
MAP_FEEDS = [{"x": rows(n), "w": rows(n, seed=9), "b": np.arange(4, dtype="f")} for n in (0, 1, 2, 7)]


class TestMaps:
    @pytest.mark.parametrize(
        ("old", "new", "left"),
        [
            ("s = SplitToSequence<keepdims = 0>(x)", "s = Identity(x0)", None),
            ("y = ConcatFromSequence<axis = 0, new_axis = 1>(p)", "y = Identity(p)", ["SplitToSequence"]),
            (
                "y = ConcatFromSequence<axis = 0, new_axis = 1>(p)",
                "y0 = SequenceErase(p) y = SequenceLength(y0)",
                [],
            ),
        ],
    )
    def test_maps_over_inputs_stay_and_results_are_split_at_the_end(self, old, new, left):
        outs = {"y = I": "seq(float[4]) y", "y0 = ": "int64 y"}.get(new[:5], "float[A, B] y")
        text = (MAP % (f"{outs}, float[C, D] z", BODY, STACKS)).replace(old, new)
        text = text.replace("float[N, 4] x,", "seq(float[4]) x0, float[N, 4] x,") if "x0" in new else text
        model = parse(text)
        result, notes = quick_report(model)
        if left is None:
            assert "SequenceMap" in left_in(result)
            reasons = [str(note) for note in notes if note.value == "p"]
            assert any("maps over 's', which stays" in reason for reason in reasons), reasons
        else:
            assert left_in(result) == left
        x0 = {"x0": list(rows(2))} if "x0" in new else {}
        feed = MAP_FEEDS[2] | x0
        assert_same(outcome(session(model), feed), outcome(session(result), feed))

    def test_a_symbol_in_a_body_proves_nothing(self):
        text = """g (float[N, 4] x) => (int64 n) <int64 k = {2}> {
            s = SplitToSequence(x, k)
            p = SequenceMap <body = f (float[N, 4] e) => (float[N, 4] o) { o = Neg(e) }> (s)
            n = SequenceLength(p)
        }"""
        check(text, [{"x": rows(n)} for n in (0, 1, 2, 5)], gone=False)
