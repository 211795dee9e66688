"""What runs where in steps: edits in place, the order of nodes, and what `explain` says of it."""

import numpy as np
import pytest
from support.models.engines import (
    APPEND_ROWS,
    TURN,
    Used,
    explained,
    operators,
    schedule_of,
    steps_of,
)
from support.models.sessions import assert_values, f32, floats, i64, in_steps, model

from seqcore.onnx import InferenceSession

# What edits `c`, which is read again → the lists that come out, of three elements and x, after two rounds.
READ_AGAIN = {
    "as another state": (
        """t, u = Loop (n, , c, c) <body = b (int64 i, bool on, seq(float[]) p, seq(float[]) q)
                                        => (bool on, seq(float[]) r, seq(float[]) e) {
            r = SequenceInsert (p, x) e = SequenceErase (q)
        }>""",
        lambda s, x: [[*s, x, x, x], s[:2]],
    ),
    "in the next round": (
        """t, u = Loop (n, , d, d) <body = b (int64 i, bool on, seq(float[]) p, seq(float[]) q)
                                        => (bool on, seq(float[]) r, seq(float[]) e) {
            e = SequenceInsert (c, x) k = SequenceAt (e, i) r = SequenceInsert (p, k)
        }>""",
        lambda s, x: [[-x, *s[:2]], [*s, x, x]],
    ),
    "in the body of the loop that goes on with it": (
        """t, u = Loop (n, , c, d) <body = b (int64 i, bool on, seq(float[]) p, seq(float[]) q)
                                        => (bool on, seq(float[]) r, seq(float[]) e) {
            k = SequenceAt (c, i) r = SequenceInsert (p, k) e = SequenceInsert (q, k)
        }>""",
        lambda s, x: [[*s, x, *s[:2]], [-x, *s[:2]]],
    ),
    "behind a branch": (
        """t = If (go) <then_branch = a () => (seq(float[]) r) { r = SequenceInsert (c, x) },
                     else_branch = b () => (seq(float[]) e) { e = SequenceErase (c) }>
        u = SequenceInsert (c, x)""",
        lambda s, x: [[*s, x, x], [*s, x, x]],
    ),
}


@pytest.mark.parametrize("kind", READ_AGAIN)
def test_a_list_that_is_read_again_is_copied(kind):
    code, expected = READ_AGAIN[kind]
    steps = in_steps(
        model(f"""g (seq(float[]) s, float[N] x, int64 n, bool go) => (seq(float[]) t, seq(float[]) u) {{
            c = SequenceInsert (s, x) y = Neg (x) d = SequenceConstruct (y) {code}
        }}""")
    )
    s, x = floats(1, 2, 3), f32(9)
    for _ in range(2):
        found = steps.run(None, {"s": s, "x": x, "n": i64(2), "go": np.array(True)})
        assert_values(found, expected(s, x))


class TestPlaces:
    def test_edits_at_the_last_use_are_in_place(self):
        assert [line.strip() for line in explained(TURN)][-4:] == [
            "seqcore      SequenceAt 'x'",
            "seqcore      SequenceErase 'e', in place",
            "onnxruntime  Neg",
            "seqcore      SequenceInsert 'r', in place",
        ]

    def test_a_state_stays_one_object(self):
        """What a loop appends to is the same from the first iteration to the last."""
        steps = steps_of(InferenceSession(model(APPEND_ROWS)))
        (loop,) = steps._plan._steps
        iterate, seen = loop._iterate, []

        def spy(frame, *arguments):
            going = iterate(frame, *arguments)
            seen.append(frame[loop._inner[0]])
            return going

        loop._iterate = spy
        x = np.ones((20, 2), np.float32)
        (result,) = steps.run(None, {"x": x, "s": [], "n": i64(20), "position": i64(0)}, None)
        assert len(seen) == 20
        assert all(one is result for one in seen)


class TestSchedule:
    def test_readers_go_before_who_edits(self):
        schedule = schedule_of("""g (seq(float[]) s, float[N] x) => (seq(float[]) t, int64 n, float[] y) {
            zero = Constant <value = int64 {0}> ()
            t = SequenceInsert (s, x)
            n = SequenceLength (s)
            y = SequenceAt (s, zero)
        }""")
        assert operators(schedule) == [["SequenceLength"], ["SequenceAt"], ["SequenceInsert"]]

    def test_a_reader_that_waits_for_a_part_goes_first_too(self):
        schedule = schedule_of("""g (seq(float[]) s, float[N] x) => (seq(float[]) t, float[] y) {
            t = SequenceInsert (s, x)
            n = SequenceLength (s)
            two = Constant <value = int64 {2}> ()
            i = Div (n, two)
            y = SequenceAt (s, i)
        }""")
        assert operators(schedule) == [["SequenceLength"], ["Div"], ["SequenceAt"], ["SequenceInsert"]]

    def test_parts_are_as_large_as_they_can_be(self):
        schedule = schedule_of("""g (seq(float[2]) s, float[2] x, int64 i) => (float[2] y, int64 m) {
            a = Exp (x)
            e = SequenceAt (s, i)
            b = Sin (a)
            n = SequenceLength (s)
            c = Mul (b, e)
            f = Cos (x)
            m = Neg (n)
            y = Add (c, f)
        }""")
        assert operators(schedule) == [
            ["Exp", "Sin", "Cos"],
            ["SequenceAt"],
            ["SequenceLength"],
            ["Mul", "Neg", "Add"],
        ]


class TestExplain:
    def test_branches(self):
        text = """g (seq(float[]) s, bool c, float[N] x) => (seq(float[]) t) {
            t = If (c) <then_branch = a () => (seq(float[]) u) { y = Exp (x) u = SequenceInsert (s, y) },
                        else_branch = b () => (seq(float[]) v) { v = Identity (s) }>
        }"""
        assert explained(text) == [
            "onnxruntime  the whole model, while its lists are short",
            "seqcore      If 't'",
            "    then_branch",
            "        onnxruntime  Exp",
            "        seqcore      SequenceInsert 'u', in place",
            "    else_branch",
            "        seqcore      Identity 'v'",
        ]

    def test_what_onnxruntime_does_not_run(self):
        text = """g (optional(seq(float[])) o) => (bool h) { h = OptionalHasElement (o) }"""
        used = Used(text)
        for _ in range(3):
            assert_values(used.run(o=[f32(1)]), [np.array(True)])
        assert used.outcomes == [None] * 3
        assert explained(text) == [
            "not the whole model in onnxruntime: 'o' does not go into onnxruntime or out of it in Python",
            "seqcore      OptionalHasElement 'h'",
        ]

    def test_what_comes_and_goes(self):
        assert explained("g (seq(float[]) s) => (seq(float[]) s2) { s2 = Identity (s) }")[-1] == (
            "seqcore      Identity 's2'"
        )
