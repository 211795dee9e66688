"""Loops, branches and scans within each other, with captures from every depth."""

import numpy as np
import pytest
from support.models.sessions import assert_fails, assert_values, check, f32, floats, i64, session

TRUE, FALSE = np.array(True), np.array(False)


class TestLoopsAndBranches:
    @pytest.mark.slow
    def test_loops_in_loops_with_captures_from_every_depth(self):
        text = """g (float[N] x, int64 n, int64 m, seq(float[]) s) => (seq(float[]) t, int64[T] sizes) {
            t, sizes = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p)
                                           => (bool on, seq(float[]) q, int64 size) {
                fi = Cast <to = 1> (i)
                q = Loop (m, , p) <body = c (int64 j, bool go2, seq(float[]) u)
                                        => (bool on2, seq(float[]) v) {
                    fj = Cast <to = 1> (j)
                    a = Add (x, fi)
                    y = Mul (a, fj)
                    old = SequenceLength (s)
                    v = SequenceInsert (u, y, old)
                    on2 = Identity (go)
                }>
                on = Identity (go)
                size = SequenceLength (q)
            }>
        }"""
        x, s = f32(1, 2), floats(1, 1)
        for n, m in ((3, 4), (40, 20)):
            out = []
            for i in range(n):
                for j in range(m):
                    out.insert(0, (x + np.float32(i)) * np.float32(j))
            sizes = 2 + m * np.arange(1, n + 1)
            check(text, {"x": x, "n": i64(n), "m": i64(m), "s": s}, [[*s, *out], sizes])
        check(text, {"x": x, "n": i64(3), "m": i64(0), "s": s}, [s, i64([2, 2, 2])])

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
