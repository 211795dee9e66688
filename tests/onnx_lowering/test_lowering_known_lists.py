"""seqcore.onnx.lower: lists of known elements."""

import re

import numpy as np
import pytest
from support.models.lowering import (
    OPSETS,
    check,
    lowered,
    outcome,
    parse,
    quick_report,
    rows,
    session,
    unchecked,
)

pytestmark = pytest.mark.mostly_slow(11)


LIST_FEEDS = [
    {"x": rows(n), "w": rows(m), "p": np.array(p)} for n in (0, 3) for m in (0, 3, 5) for p in range(-4, 4)
]


class TestLists:
    TEXT = """g (float[N, 4] x, float[M, 4] w, int64 p) => (%s)
    <int64 o = {0}, int64 i = {1}, int64[1] b = {-1}, int64 far = {3}> {
        a = Neg(x)
        s = SequenceConstruct(x, a)
        t = SequenceInsert(s, w, %s)
        u = SequenceErase(t%s)
        %s
    }"""

    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("at", ["", "o", "i", "b"])
    @pytest.mark.parametrize("erased", ["", ", o", ", b"])
    def test_edits(self, opset, at, erased):
        reads = """c = ConcatFromSequence<axis = 0>(t) d = ConcatFromSequence<axis = -1, new_axis = 1>(s)
        e = SequenceAt(u, o) f = SequenceAt(u, b) n = SequenceLength(t) m = SequenceLength(u)"""
        outs = "float[A, B] c, float[C, D, E] d, float[F, G] e, float[H, I] f, int64 n, int64 m"
        check(self.TEXT % (outs, at or "", erased, reads), LIST_FEEDS, opset)

    @pytest.mark.parametrize(
        ("at", "erased", "reads", "why"),
        [
            ("far", "", "y = SequenceAt(u, o)", "position 3 at 't' is out of range for 2 elements"),
            ("", ", far", "y = SequenceAt(u, o)", "position 3 at 'u' is out of range for 3 elements"),
            ("p", "", "y = SequenceAt(u, o)", "where 't' edits is known only at run time"),
            ("", "", "y = SequenceAt(u, far)", "position 3 at 'y' is out of range for its 2 elements"),
            ("", "", "y = SequenceAt(t, p)", "where is known only at run time"),
            (
                "",
                "",
                "v = SequenceErase(u) e = SequenceErase(v) y = ConcatFromSequence<axis = 0>(e)",
                "there is none",
            ),
            ("", "", "y = ConcatFromSequence<axis = 2>(u)", "axis 2 is out of range"),
        ],
    )
    def test_what_stays(self, at, erased, reads, why):
        model = unchecked(self.TEXT % ("float[A, B] y", at, erased, reads))
        result, notes = quick_report(model)
        assert result == model
        assert any(re.search(why, str(note)) for note in notes), list(map(str, notes))

    def test_a_join_of_which_the_shape_alone_is_read(self):
        text = """g (float[N, 4] x, float[3, 4] w) => (int64[K] y) {
            s = SequenceConstruct(x, w) z = ConcatFromSequence<axis = 0, new_axis = 1>(s) y = Shape(z)
        }"""
        check(text, [{"x": rows(n), "w": rows(3)} for n in (2, 3)], gone=False)
        check(text.replace("N, 4", "3, 4"), [{"x": rows(3), "w": rows(3)}])

    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_a_stack_fails_unless_all_lengths_are_equal(self, axis):
        text = """g (float[N, 4] x, float[M, 4] w) => (float[A, B, C] z) {
            s = SequenceConstruct(x, w) z = ConcatFromSequence<axis = %s, new_axis = 1>(s)
        }"""
        running = session(lowered(parse(text % axis), packs=False))
        for n, m in ((0, 3), (3, 0), (2, 3), (3, 3)):  # onnxruntime's Concat passes by empty tensors
            assert (outcome(running, {"x": rows(n), "w": rows(m)}) is not None) is (n == m)

    @pytest.mark.parametrize(
        ("shape", "why"), [("3, 5", "their lengths on axis 1"), ("3, 4, 1", "their ranks")]
    )
    def test_shapes_that_do_not_fit_are_left_to_fail(self, shape, why):
        text = """g (float[3, 4] x, float[%s] w) => (float[A, B] y) {
            s = SequenceConstruct(x, w) y = ConcatFromSequence<axis = 0>(s)
        }"""
        model = unchecked(text % shape)
        result, notes = quick_report(model)
        assert result == model
        assert f"{why} differ" in str(notes[0])
