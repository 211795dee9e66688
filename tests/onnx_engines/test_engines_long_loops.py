"""Long loops of short sequences: onnxruntime runs them in one go, until a sequence gets long."""

import numpy as np
import pytest
from support.models.engines import INSERT_ROWS, Used, ran
from support.models.sessions import assert_values, f32, floats, i64

from seqcore.onnx._thresholds import MOST_EDITED

pytestmark = pytest.mark.mostly_slow(5)

# A list that is inserted into, and loses its first element where it has more than `room`.
QUEUE = """g (seq(float[]) s, int64 n, float[] x, int64 room) => (seq(float[]) t) {
    zero = Constant <value = int64 {0}> ()
    t = Loop (n, "", s) <body = b (int64 i, bool[] go, seq(float[]) p) => (bool[] on, seq(float[]) r) {
        q = SequenceInsert (p, x)
        k = SequenceLength (q)
        c = Greater (k, room)
        r = If (c) <then_branch = a () => (seq(float[]) u) { u = SequenceErase (q, zero) },
                    else_branch = d () => (seq(float[]) v) { v = Identity (q) }>
        on = Identity (go)
    }>
}"""


class TestLongLoops:
    @pytest.mark.slow
    def test_conditions_with_an_axis_that_are_passed_on(self):
        used = Used(QUEUE.replace("bool[] ", "bool[1] "))
        (found,) = used.run(s=[], n=i64(2000), x=f32(1), room=i64(5))
        assert_values([found], [[f32(1)] * 5])
        assert ran(used.engines) == {"long": (1, 0)}

    def test_an_error_is_named_by_the_steps(self):
        used = Used(QUEUE.replace("SequenceErase (q, zero)", "SequenceErase (q, k)"))
        with pytest.raises(IndexError, match="SequenceErase 'u'") as caught:
            used.run(s=[], n=i64(1000), x=f32(1), room=i64(7))
        assert "in iteration 7 of Loop 't'" in caught.value.__notes__
        assert ran(used.engines) == {"long": (0, 1), "given steps": (0, 1)}


class TestLongSequences:
    @pytest.mark.slow
    def test_it_is_tried_less_and_less(self):
        used = Used(INSERT_ROWS)
        n = MOST_EDITED + 1
        x = np.ones((n, 2), np.float32)
        for _ in range(6):
            assert_values(used.run(x=x, s=[], n=i64(n), position=i64(0)), [list(2 * x)])
        assert ran(used.engines) == {"long": (0, 2), "given steps": (6, 0)}

    def test_lists_of_optionals_are_left_to_the_steps(self):
        """Whether they are there, and how long they are, no node tells."""
        text = """g (seq(float[]) s, int64 n) => (seq(float[]) t) {
            o = Optional (s)
            u = Loop (n, "", o) <body = b (int64 i, bool go, optional(seq(float[])) p)
                                        => (bool go, optional(seq(float[])) r) {
                r = Identity (p)
            }>
            t = OptionalGetElement (u)
        }"""
        used = Used(text)
        assert_values(used.run(s=floats(1), n=i64(1000)), [floats(1)])
        assert "long" not in ran(used.engines)
