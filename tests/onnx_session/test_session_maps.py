"""SequenceMap nodes in the session."""

import threading

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.sessions import (
    assert_fails,
    assert_values,
    f32,
    floats,
    i64,
    in_threads,
    session,
)

pytestmark = pytest.mark.mostly_slow(5)

SCALE = """
    g (seq(float[]) s, float[N] k) => (seq(float[]) t) {
        [the_map] t = SequenceMap (s) <body = b (float[M] x) => (float[M] y) { [inside] y = Mul (x, k) }>
    }
"""


@pytest.fixture(params=[1, 2, None])
def workers(request):
    return request.param


class TestInputs:
    @pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
    def test_captures(self, n, workers):
        s = floats(*(i % 3 + 1 for i in range(n)))
        found = session(SCALE, max_workers=workers).run(None, {"s": s, "k": f32(3)})
        assert_values(found, [[x * 3 for x in s]])
        assert found[0].dtype == np.float32

    def test_tensors_go_whole(self, workers):
        text = """g (seq(float[]) s, float[2] w, seq(int64[]) p) => (seq(float[]) t, seq(int64[]) u) {
            t, u = SequenceMap (s, w, p) <body = b (float[M] x, float[2] v, int64 k)
                                              => (float[M] y, int64 l) {
                h = Gather <axis = 0> (v, k)
                y = Add (x, h)
                l = Size (v)
            }>
        }"""
        s, p = floats(1, 2, 0), [i64(0), i64(1), i64(-1)]
        found = session(text, max_workers=workers).run(None, {"s": s, "w": f32(10, 20), "p": p})
        assert_values(found, [[s[0] + 10, s[1] + 20, s[2]], [i64(2)] * 3])

    def test_several_sequences_of_several_types(self, workers):
        text = """g (seq(float[]) s, seq(int64[]) p, seq(string[]) w)
            => (seq(string[]) a, seq(float[]) b, seq(bool[]) c, seq(float[]) d) {
            a, b, c, d = SequenceMap (s, p, w) <body = b (float[M] x, int64[K] k, string v)
                                                    => (string q, float[L] r, bool[M] f, float[M] x) {
                q = Identity (v)
                r = Gather <axis = 0> (x, k)
                zero = Constant <value = float {0}> ()
                f = Greater (x, zero)
            }>
        }"""
        s = [f32(1, -2), f32(0), f32(5, 6, 7)]
        p, w = [i64([1, 1]), i64([]), i64([2])], [np.array(c, object) for c in "aéc"]
        found = session(text, max_workers=workers).run(None, {"s": s, "p": p, "w": w})
        assert_values(found, [w, [f32(-2, -2), f32(), f32(7)], [x > 0 for x in s], s])

    def test_lengths_that_differ(self, workers):
        text = """g (seq(float[]) s, seq(float[]) t) => (seq(float[]) u) {
            [the_map] u = SequenceMap (s, t) <body = b (float[M] x, float[M] y) => (float[M] z) {
                z = Add (x, y)
            }>
        }"""
        used = session(text, max_workers=workers)
        for s, t in ((floats(1, 1), floats(1)), (floats(1), []), ([], floats(1))):
            assert_fails(used, {"s": s, "t": t}, ValueError, "the_map")
        assert_values(used.run(None, {"s": floats(2), "t": floats(2)}), [[floats(2)[0] * 2]])


class TestBodies:
    def test_in_a_loop(self, workers):
        """The body uses what the loop has, and what is around it."""
        text = """g (seq(float[]) s, float[N] k, int64 n) => (seq(float[]) t, float[T] sums) {
            t, sums = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p)
                                            => (bool on, seq(float[]) q, float sum) {
                f = Cast <to = 1> (i)
                q = SequenceMap (p) <body = m (float[M] x) => (float[M] y) {
                    a = Mul (x, k)
                    y = Add (a, f)
                }>
                all = ConcatFromSequence <axis = 0> (q)
                sum = ReduceSum <keepdims = 0> (all)
                on = Identity (go)
            }>
        }"""
        s, k = floats(1, 2, 3), f32(0.5)
        rows, sums = s, []
        for i in range(4):
            rows = [x * k + np.float32(i) for x in rows]
            sums.append(np.concatenate(rows).sum())
        found = session(text, max_workers=workers).run(None, {"s": s, "k": k, "n": i64(4)})
        assert_values(found, [rows, f32(*sums)], rtol=1e-6)

    @pytest.mark.parametrize("shape", ["[7]", "[M, 2]", ""])
    def test_what_a_body_declares_of_shapes_may_be_wrong(self, workers, shape):
        text = f"""g (seq(float[]) s) => (seq(float[]) t) {{
            t = SequenceMap (s) <body = m (float{shape} x) => (float{shape} y) {{ y = Neg (x) }}>
        }}"""
        s = floats(2, 3)
        assert_values(session(text, max_workers=workers).run(None, {"s": s}), [[-x for x in s]])

    def test_over_a_sequence_that_a_loop_grows(self, workers):
        text = """g (float[N] x, int64 n) => (seq(float[]) t) {
            none = SequenceEmpty ()
            t = Loop (n, , none) <body = b (int64 i, bool go, seq(float[]) p) => (bool on, seq(float[]) q) {
                doubled = SequenceMap (p) <body = m (float[M] a) => (float[M] c) { c = Add (a, a) }>
                q = SequenceInsert (doubled, x)
                on = Identity (go)
            }>
        }"""
        x = f32(1, 2)
        found = session(text, max_workers=workers).run(None, {"x": x, "n": i64(6)})
        assert_values(found, [[x * np.float32(2**k) for k in range(5, -1, -1)]])

    def test_with_sequences_inside(self, workers):
        """A body may split and join, and index into a captured sequence."""
        text = """g (seq(float[]) s, seq(float[]) table) => (seq(float[]) t, seq(int64[]) sizes) {
            t, sizes = SequenceMap (s) <body = b (float[M] x) => (float[L] y, int64 n) {
                parts = SplitToSequence (x)
                n = SequenceLength (parts)
                [look] extra = SequenceAt (table, n)
                more = SequenceInsert (parts, extra)
                y = ConcatFromSequence <axis = 0> (more)
            }>
        }"""
        s, table = floats(1, 3, 0), floats(1, 2, 3, 4)
        used = session(text, max_workers=workers)
        expected = [np.concatenate([x, table[len(x)]]) for x in s]
        assert_values(used.run(None, {"s": s, "table": table}), [expected, [i64(1), i64(3), i64(0)]])
        assert_fails(used, {"s": s, "table": table[:3]}, Exception, "look")
        assert_values(used.run(None, {"s": s, "table": table}), [expected, [i64(1), i64(3), i64(0)]])

    def test_a_map_in_a_map(self, workers):
        text = """g (seq(float[]) s, float[N] k) => (seq(float[]) t) {
            t = SequenceMap (s) <body = b (float[M] x) => (float[L, R] y) {
                parts = SplitToSequence (x)
                scaled = SequenceMap (parts) <body = c (float[1] p) => (float[N] q) { q = Mul (p, k) }>
                y = ConcatFromSequence <axis = 0, new_axis = 1> (scaled)
            }>
        }"""
        s, k = floats(1, 3, 2), f32(2, 3)
        found = session(text, max_workers=workers).run(None, {"s": s, "k": k})
        assert_values(found, [[np.outer(x, k) for x in s]])


class TestFailures:
    @pytest.mark.slow
    def test_the_body_fails(self, workers):
        used = session(SCALE, max_workers=workers)
        for bad in (0, 5, 299):
            s = floats(*([2] * 300))
            s[bad] = f32(1, 2, 3)
            feed = {"s": s, "k": f32(1, 2)}
            assert_fails(used, feed, Exception, "inside")
        assert_values(used.run(None, {"s": floats(2), "k": f32(1, 2)}), [[floats(2)[0] * f32(1, 2)]])

    def test_in_a_loop(self, workers):
        text = """g (seq(float[]) s, seq(int64[]) at, int64 n) => (seq(float[]) t) {
            t = Loop (n, , s) <body = b (int64 i, bool on, seq(float[]) p) => (bool on, seq(float[]) q) {
                q = SequenceMap (at) <body = m (int64 k) => (float[M] y) { [pick] y = SequenceAt (p, k) }>
            }>
        }"""
        used, s = session(text, max_workers=workers), floats(1, 2)
        assert_values(used.run(None, {"s": s, "at": [i64(1), i64(0)], "n": i64(3)}), [s[::-1]])
        assert_fails(used, {"s": s, "at": [i64(1), i64(2)], "n": i64(3)}, Exception, "pick")


@pytest.mark.slow
@pytest.mark.thread_unsafe
def test_threads_share_a_session_with_threads():
    used = session(SCALE, max_workers=2)
    s = floats(*([3] * 100))

    def work(k):
        for i in range(5):
            assert_values(used.run(None, {"s": s, "k": f32(k + i)}), [[x * np.float32(k + i) for x in s]])

    before = threading.active_count()
    in_threads(4, work)
    assert threading.active_count() <= before + 8  # workers may stay, calls leave none behind
