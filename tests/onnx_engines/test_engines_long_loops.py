"""Long loops of short sequences: onnxruntime runs them in one go, until a sequence gets long."""

import numpy as np
import pytest
from support.models.engines import INSERT_ROWS, Used, ran
from support.models.sessions import assert_values, f32, floats, i64

from seqcore.onnx._engines import checked_model
from seqcore.onnx._thresholds import LONG, LONG_WHILE, MOST_EDITED

pytestmark = pytest.mark.mostly_slow(5)

# A list that is inserted into, and loses its first element where it has more than `room`.
QUEUE = """g (seq(float[]) s, int64 n, float[K] x, int64 room) => (seq(float[]) t) {
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

# Takes elements from a list while there are more than `left`, and puts them at another's end.
LOOP = """zero = Constant <value = int64 {0}> ()
    none = SequenceEmpty ()
    k = SequenceLength (s)
    begins = Greater (k, left)
    IN, OUT = Loop ("", begins, s, none) <body = b (int64 i, bool go, seq(float[]) p, seq(float[]) q)
                                                 => (bool on, seq(float[]) e, seq(float[]) r) {
        x = SequenceAt (p, zero)
        e = SequenceErase (p, zero)
        y = Neg (x)
        r = SequenceInsert (q, y)
        length = SequenceLength (e)
        on = Greater (length, left)
    }>"""
AROUND = {
    "at the top": LOOP.replace("IN", "u").replace("OUT", "t"),
    "in a branch": """yes = Equal (left, left)
        t = If (yes) <then_branch = a () => (seq(float[]) OUT) { LOOP },
                      else_branch = c () => (seq(float[]) other) { other = Identity (s) }>""",
    "in a loop": """two = Constant <value = int64 {2}> ()
        empty = SequenceEmpty ()
        t = Loop (two, "", empty) <body = a (int64 j, bool more, seq(float[]) former)
                                          => (bool more, seq(float[]) OUT) { LOOP }>""",
}


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

    @pytest.mark.parametrize("n", [LONG + 1, MOST_EDITED // 2])
    def test_a_fed_list_may_be_as_long_as_those_that_are_made(self, n):
        """Its elements differ in every length, so no tensor holds them joined."""
        used = Used("""g (seq(float[]) s) => (seq(float[]) t) {
            none = SequenceEmpty ()
            n = SequenceLength (s)
            t = Loop (n, "", none) <body = b (int64 i, bool go, seq(float[]) p)
                                          => (bool go, seq(float[]) r) {
                x = SequenceAt (s, i)
                y = Neg (x)
                r = SequenceInsert (p, y)
            }>
        }""")
        s = [np.full((k % 3, k % 2), k, np.float32) for k in range(n)]
        for _ in range(3):
            assert_values(used.run(s=s), [[-x for x in s]])
        assert ran(used.engines) == {"long": (3, 0)}


class TestWhile:
    """An iteration too many is found when the loop has ended, wherever that is."""

    @pytest.mark.parametrize("around", AROUND)
    def test_iterations(self, around, monkeypatch):
        monkeypatch.setattr(checked_model, "LONG_WHILE", 9)
        body = AROUND[around].replace("LOOP", LOOP).replace("IN", "u").replace("OUT", "last")
        used = Used(f"g (seq(float[]) s, int64 left) => (seq(float[]) t) {{ {body} }}")
        s = floats(*range(20))
        for left, outcome in [(20, True), (19, True), (11, True), (10, False), (0, None)]:
            assert_values(used.run(s=s, left=i64(left)), [[-x for x in s[: 20 - left]]])
            assert used.outcomes[-1] is outcome, left

    @pytest.mark.slow
    def test_the_limit(self):
        used = Used(f"g (seq(float[]) s, int64 left) => (seq(float[]) t) {{ {AROUND['at the top']} }}")
        s = floats(*range(LONG))
        assert_values(used.run(s=s, left=i64(0)), [[-x for x in s]])
        assert used.outcomes == [True]
        assert LONG < LONG_WHILE
