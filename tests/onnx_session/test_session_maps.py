"""SequenceMap nodes in the session."""

import numpy as np
import pytest
from support.models.sessions import (
    assert_fails,
    assert_values,
    f32,
    floats,
    i64,
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
