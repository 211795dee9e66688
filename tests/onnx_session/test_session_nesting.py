"""Loops, branches and scans within each other, with captures from every depth."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

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

    @pytest.mark.slow
    def test_if_in_loop_in_if(self):
        text = """g (seq(float[]) s, float[N] x, bool c, int64 n) => (seq(float[]) t) {
            t = If (c) <
                then_branch = a () => (seq(float[]) p) {
                    p = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) u)
                                            => (bool on, seq(float[]) v) {
                        two = Constant <value = int64 {2}> ()
                        zero = Constant <value = int64 {0}> ()
                        r = Mod (i, two)
                        even = Equal (r, zero)
                        v = If (even) <
                            then_branch = d () => (seq(float[]) w) { w = SequenceInsert (u, x, zero) },
                            else_branch = e () => (seq(float[]) z) {
                                y = Neg (x)
                                more = SequenceInsert (u, y)
                                z = SequenceErase (more, zero)
                            }>
                        on = Identity (c)
                    }>
                },
                else_branch = f () => (seq(float[]) q) { q = SequenceErase (s) }>
        }"""
        x = f32(9, 8)
        for s, n in ((floats(1, 2), 5), (floats(*[2] * 200), 401)):
            out = list(s)
            for i in range(n):
                if i % 2 == 0:
                    out.insert(0, x)
                else:
                    out = [*out, -x][1:]
            check(text, {"s": s, "x": x, "c": TRUE, "n": i64(n)}, [out])
        check(text, {"s": s, "x": x, "c": FALSE, "n": i64(5)}, [s[:-1]])

    def test_if_with_several_outputs_of_both_kinds(self):
        text = """g (seq(float[]) s, float[N] x, bool c) => (seq(float[]) t, float[M] y, int64 n) {
            t, y, n = If (c) <
                then_branch = a () => (seq(float[]) p, float[M] q, int64 k) {
                    p = SequenceInsert (s, x)
                    q = Add (x, x)
                    k = SequenceLength (p)
                },
                else_branch = b () => (seq(float[]) p, float[M] q, int64 k) {
                    p = SequenceConstruct (x, x, x)
                    q = ConcatFromSequence <axis = 0> (s)
                    k = SequenceLength (s)
                }>
        }"""
        s, x = floats(1, 2), f32(9)
        check(text, {"s": s, "x": x, "c": TRUE}, [[*s, x], x + x, i64(3)])
        check(text, {"s": s, "x": x, "c": FALSE}, [[x] * 3, np.concatenate(s), i64(2)])

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

    def test_names_in_sibling_graphs(self):
        """Both branches and a loop use the same names for their own values."""
        text = """g (seq(float[]) s, float[N] x, bool c, int64 n) => (seq(float[]) t, seq(float[]) u) {
            t = If (c) <
                then_branch = a () => (seq(float[]) out) { y = Neg (x) out = SequenceInsert (s, y) },
                else_branch = b () => (seq(float[]) out) { y = Add (x, x) out = SequenceInsert (s, y) }>
            u = Loop (n, , t) <body = d (int64 i, bool c2, seq(float[]) z) => (bool c2, seq(float[]) out) {
                y = Mul (x, x)
                out = SequenceInsert (z, y)
            }>
        }"""
        s, x = floats(1), f32(3)
        for c in (True, False):
            t = [*s, -x if c else x + x]
            check(text, {"s": s, "x": x, "c": np.array(c), "n": i64(2)}, [t, [*t, x * x, x * x]])

    def test_names_of_a_body_again_outside(self):
        """The outer graph defines, after the loop, names that the body has for its own."""
        text = """g (seq(float[]) s, float[N] x, int64 n) => (seq(float[]) t, float[N] y, int64 i) {
            t = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
                y = Neg (x)
                q = SequenceInsert (p, y)
            }>
            y = Add (x, x)
            i = SequenceLength (t)
        }"""
        s, x = floats(1), f32(3)
        found = session(text).run(None, {"s": s, "x": x, "n": i64(2)})
        assert_values(found, [[*s, -x, -x], x + x, i64(3)])


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
