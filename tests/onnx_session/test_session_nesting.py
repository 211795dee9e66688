"""Loops, branches and scans within each other, with captures from every depth."""

import numpy as np
from support.models.sessions import assert_fails, assert_values, f32, floats, i64, session

TRUE, FALSE = np.array(True), np.array(False)


class TestLoopsAndBranches:
    def test_branches_that_fail_are_not_run(self):
        text = """g (seq(float[]) s, bool c) => (float[N] x) {
            x = If (c) <
                then_branch = a () => (float[N] p) {
                    zero = Constant <value = int64 {0}> ()
                    [take] p = SequenceAt (s, zero)
                },
                else_branch = b () => (float[N] q) { q = Constant <value = float[2] {1, 2}> () }>
        }"""
        used = session(text)
        assert_values(used.run(None, {"s": [], "c": FALSE}), [f32(1, 2)])
        assert_fails(used, {"s": [], "c": TRUE}, IndexError, "take")
        assert_values(used.run(None, {"s": floats(3), "c": TRUE}), floats(3))


class TestScan:
    def test_a_captured_sequence(self):
        text = """g (float[N, 2] x, int64[N] at, seq(float[]) s, float[2] h)
            => (float[2] last, float[N, 2] rows) {
            last, rows = Scan <num_scan_inputs = 2,
                body = b (float[2] a, float[2] row, int64 k) => (float[2] c, float[2] out) {
                    [take] y = SequenceAt (s, k)
                    t = Mul (row, y)
                    c = Add (a, t)
                    out = Identity (c)
                }> (h, x, at)
        }"""
        x, at, s, h = np.ones((4, 2), np.float32), i64([0, 1, -1, 0]), floats(2, 2), f32(1, 1)
        rows = h + np.cumsum(np.stack([s[k] for k in at]), 0)
        used = session(text)
        feed = {"x": x, "at": at, "s": s, "h": h}
        assert_values(used.run(None, feed), [rows[-1], rows])
        assert_fails(used, feed | {"at": i64([0, 1, 2, 0])}, Exception, "take")
        assert_fails(used, feed | {"s": []}, Exception, "take")
        assert_values(used.run(None, feed), [rows[-1], rows])

    def test_directions_and_axes(self):
        text = """g (float[2, N] x, seq(float[]) s) => (float[2] last, float[2, N] rows) {
            zero = Constant <value = int64 {0}> ()
            start = SequenceAt (s, zero)
            last, rows = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_input_directions = [1],
                scan_output_axes = [1], scan_output_directions = [1],
                body = b (float[2] a, float[2] row) => (float[2] c, float[2] out) {
                    n = SequenceLength (s)
                    f = Cast <to = 1> (n)
                    t = Mul (row, f)
                    c = Add (a, t)
                    out = Identity (c)
                }> (start, x)
        }"""
        x, s = np.arange(6, dtype=np.float32).reshape(2, 3), floats(2, 1, 1)
        rows = s[0][:, None] + np.cumsum(x[:, ::-1] * 3, 1)
        assert_values(session(text).run(None, {"x": x, "s": s}), [rows[:, -1], rows[:, ::-1]])
