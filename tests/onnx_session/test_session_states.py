"""States of loops: what is done to a sequence in one place never shows in another."""

import numpy as np
import pytest
from support.models.sessions import QUEUE, assert_values, check, f32, floats, i64, session

pytestmark = pytest.mark.mostly_slow(5)


class TestEdits:
    @pytest.mark.slow
    def test_a_state_and_its_copy(self):
        """Two states begin as one sequence; each is edited in its own way."""
        text = """g (seq(float[]) s, float[N] x, int64 n)
            => (seq(float[]) s3, seq(float[]) t, seq(float[]) u) {
            t, u = Loop (n, , s, s) <body = b (int64 i, bool go, seq(float[]) p, seq(float[]) q)
                                          => (bool on, seq(float[]) p2, seq(float[]) q2) {
                p2 = SequenceInsert (p, x)
                q2 = SequenceErase (q)
                on = Identity (go)
            }>
            s3 = Identity (s)
        }"""
        x = f32(9)
        for s in (floats(1, 2, 3), floats(*[1, 2] * 150)):
            for n in (0, 1, 2, len(s)):
                check(text, {"s": s, "x": x, "n": i64(n)}, [s, [*s, *[x] * n], s[: len(s) - n]])

    @pytest.mark.slow
    def test_one_value_for_two_states(self):
        """The body gives one sequence to both states, and the next iteration edits one of them."""
        text = """g (seq(float[]) s, float[N] x, int64 n) => (seq(float[]) t, seq(float[]) u) {
            t, u = Loop (n, , s, s) <body = b (int64 i, bool go, seq(float[]) p, seq(float[]) q)
                                          => (bool on, seq(float[]) r, seq(float[]) r2) {
                r = SequenceInsert (p, x)
                r2 = Identity (r)
                on = Identity (go)
            }>
        }"""
        s, x = floats(1), f32(9)
        for n in (0, 1, 4, 300):
            check(text, {"s": s, "x": x, "n": i64(n)}, [[*s, *[x] * n]] * 2)

    @pytest.mark.slow
    def test_the_same_output_for_two_states(self):
        text = """g (seq(float[]) s, float[N] x, int64 n) => (seq(float[]) t, seq(float[]) u) {
            t, u = Loop (n, , s, s) <body = b (int64 i, bool on, seq(float[]) p, seq(float[]) q)
                                          => (bool on, seq(float[]) r, seq(float[]) r) {
                r = SequenceInsert (q, x)
            }>
        }"""
        s, x = floats(1), f32(9)
        used = session(text)
        for n in (0, 1, 4, 300):
            t, u = used.run(None, {"s": s, "x": x, "n": i64(n)})
            assert_values([t, u], [[*s, *[x] * n]] * 2)
            t.clear()
            assert len(u) == n + 1

    @pytest.mark.mostly_slow(19)
    @pytest.mark.parametrize("n", [0, 1, 2, 3, 4, 600])
    def test_states_that_swap(self, n):
        text = """g (seq(float[]) s, seq(float[]) t, float[N] x, int64 n)
            => (seq(float[]) u, seq(float[]) v) {
            u, v = Loop (n, , s, t) <body = b (int64 i, bool go, seq(float[]) p, seq(float[]) q)
                                          => (bool on, seq(float[]) q2, seq(float[]) p2) {
                q2 = Identity (q)
                p2 = SequenceInsert (p, x)
                on = Identity (go)
            }>
        }"""
        s, t, x = floats(1), floats(2, 3), f32(9)
        u, v = list(s), list(t)
        for _ in range(n):
            u, v = v, [*u, x]
        check(text, {"s": s, "t": t, "x": x, "n": i64(n)}, [u, v])

    @pytest.mark.slow
    def test_an_element_outlives_its_place(self):
        """What At gives stays what it was when the sequence is edited."""
        for s in (floats(2, 2, 2), floats(*[2] * 300)):
            queue, taken = list(s), []
            for _ in range(2 * len(s) + 1):
                taken.append(queue.pop(0))
                queue.append(-taken[-1])
            check(QUEUE, {"s": s, "rounds": i64(len(taken))}, [np.stack(taken), queue])
