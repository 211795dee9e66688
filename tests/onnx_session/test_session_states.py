"""States of loops: what is done to a sequence in one place never shows in another."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.sessions import assert_value, assert_values, check, f32, floats, i64, session

pytestmark = pytest.mark.mostly_slow(5)

TRUE, FALSE = np.array(True), np.array(False)


class TestEdits:
    @pytest.mark.slow
    def test_a_captured_sequence_that_the_body_edits(self):
        text = """g (seq(float[]) s, float[N] x, int64 n)
            => (seq(float[]) s2, seq(float[]) t, int64[T] sizes) {
            none = SequenceEmpty ()
            t, sizes = Loop (n, , none) <body = b (int64 i, bool go, seq(float[]) u)
                                             => (bool on, seq(float[]) v, int64 size) {
                v = SequenceInsert (s, x, i)
                size = SequenceLength (s)
                on = Identity (go)
            }>
            s2 = Identity (s)
        }"""
        x = f32(9)
        for s in (floats(1, 2), floats(*[1, 2] * 150)):
            n = len(s)
            check(text, {"s": s, "x": x, "n": i64(n + 1)}, [s, [*s, x], np.full(n + 1, n)])
            check(text, {"s": s, "x": x, "n": i64(1)}, [s, [x, *s], i64([n])])

    def test_edit_one_keep_both(self):
        text = """g (seq(float[]) s, float[N] x)
            => (seq(float[]) a, seq(float[]) b, seq(float[]) c, seq(float[]) d, int64 n) {
            a = SequenceInsert (s, x)
            b = SequenceErase (a)
            zero = Constant <value = int64 {0}> ()
            c = SequenceErase (a, zero)
            d = SequenceInsert (c, x, zero)
            n = SequenceLength (a)
        }"""
        s, x = floats(1, 2), f32(9)
        check(text, {"s": s, "x": x}, [[*s, x], s, [s[1], x], [x, s[1], x], i64(3)])

    @pytest.mark.slow
    def test_a_state_that_another_becomes(self):
        """To begin a round with nothing, as where a loop only appends, would take it from the other."""
        text = """g (seq(float[]) s, seq(float[]) t, float[N] x, int64 n)
            => (seq(float[]) a, seq(float[]) b, float[N] y) {
            a, b, y = Loop (n, , s, t, x) <body = c (int64 i, bool go, seq(float[]) p, seq(float[]) q,
                                                     float[N] u)
                                                => (bool on, seq(float[]) r, seq(float[]) r, float[N] v) {
                r = Identity (q)
                v = Neg (u)
                on = Identity (go)
            }>
        }"""
        s, t, x = floats(1), floats(2, 3), f32(9)
        used = session(text)
        for n in (1, 2, *range(300, 330)):  # to end with a round at times
            feed = {"s": s, "t": t, "x": x, "n": i64(n)}
            assert_values(used.run(None, feed), [t, t, x if n % 2 == 0 else -x])

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

    @pytest.mark.parametrize("n", [0, 1, 3, 600])
    def test_states_that_swap_by_name(self, n):
        text = """g (seq(float[]) s, seq(float[]) t, int64 n) => (seq(float[]) u, seq(float[]) v) {
            u, v = Loop (n, , s, t) <body = b (int64 i, bool on, seq(float[]) p, seq(float[]) q)
                                          => (bool on, seq(float[]) q, seq(float[]) p) { }>
        }"""
        s, t = floats(1), floats(2, 3)
        assert_values(session(text).run(None, {"s": s, "t": t, "n": i64(n)}), [t, s] if n % 2 else [s, t])

    @pytest.mark.parametrize("n", [0, 1, 3, 600])
    def test_a_state_that_passes_through(self, n):
        text = """g (seq(float[]) s, float[M] x, int64 n) => (seq(float[]) t, float[M] y, seq(float[]) u) {
            t, y, u = Loop (n, , s, x, s)
                <body = b (int64 i, bool on, seq(float[]) p, float[M] a, seq(float[]) r)
                       => (bool on, seq(float[]) p, float[M] a, seq(float[]) w) { w = SequenceInsert (r, a) }>
        }"""
        s, x = floats(2), f32(1, 2)
        used = session(text)
        t, y, u = used.run(None, {"s": s, "x": x, "n": i64(n)})
        assert_values([t, y, u], [s, x, [*s, *[x] * n]])
        y[:] = 7
        t.clear()
        assert_value(u, [*s, *[x] * n])

    @pytest.mark.parametrize("n", [0, 1, 2, 5, 600])
    def test_a_scan_output_of_what_a_state_was(self, n):
        """The body gives its input, by name, as a scan output, and another value for the state."""
        text = """g (seq(float[]) s, float[2] x, int64 n)
            => (seq(float[]) t, float[2] last, float[T, 2] rows, float[T, 2] news, int64[T] places) {
            t, last, rows, news, places = Loop (n, "", s, x)
                <body = b (int64 i, bool go, seq(float[]) p, float[2] a)
                       => (bool go, seq(float[]) q, float[2] e, float[2] a, float[2] e, int64 i) {
                    q = SequenceInsert (p, a)
                    e = Add (a, x)
                }>
        }"""
        s, x = floats(1), f32(1, 2)
        states = np.stack([x * (i + 1) for i in range(n + 1)])
        expected = [[*s, *states[:n]], states[n], states[:n], states[1:], np.arange(n)]
        check(text, {"s": s, "x": x, "n": i64(n)}, expected, departs=True)

    @pytest.mark.parametrize("n", [0, 1, 2, 3, 600])
    def test_tensor_states_that_swap_by_name(self, n):
        text = """g (seq(float[]) s, float[N] x, float[N] y, int64 n)
            => (seq(float[]) t, float[N] u, float[N] v, int64 last) {
            t, u, v, last = Loop (n, "", s, x, y, n)
                <body = b (int64 i, bool go, seq(float[]) p, float[N] a, float[N] c, int64 k)
                       => (bool go, seq(float[]) q, float[N] c, float[N] a, int64 i) {
                    q = SequenceInsert (p, a)
                }>
        }"""
        x, y = f32(1), f32(2)
        rows = [x, y] * (n + 1)
        feed = {"s": [], "x": x, "y": y, "n": i64(n)}
        expected = [rows[:n], rows[n], rows[n + 1 - 2 * (n % 2)], i64(max(n - 1, 0))]
        assert_values(session(text).run(None, feed), expected)

    @pytest.mark.slow
    def test_a_condition_of_what_a_state_was(self):
        """The body goes on as long as the flag that came in says, and gives the state another."""
        text = """g (seq(float[]) s, float[N] x, bool c, int64 n, int64 stop) => (seq(float[]) t, bool last) {
            t, last = Loop (n, c, s, c) <body = b (int64 i, bool go, seq(float[]) p, bool flag)
                                              => (bool flag, seq(float[]) q, bool next) {
                q = SequenceInsert (p, x)
                next = Less (i, stop)
            }>
        }"""
        x = f32(1)
        for stop in range(4):
            feed = {"s": floats(2), "x": x, "c": TRUE, "n": i64(50), "stop": i64(stop)}
            check(text, feed, [[*floats(2), *[x] * (stop + 2)], FALSE])

    @pytest.mark.slow
    def test_an_element_outlives_its_place(self):
        """What At gives stays what it was when the sequence is edited."""
        text = """g (seq(float[]) s, int64 n) => (float[T, K] taken, seq(float[]) t) {
            zero = Constant <value = int64 {0}> ()
            t, taken = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p)
                                           => (bool on, seq(float[]) r, float[K] x) {
                x = SequenceAt (p, zero)
                e = SequenceErase (p, zero)
                y = Neg (x)
                r = SequenceInsert (e, y)
                on = Identity (go)
            }>
        }"""
        for s in (floats(2, 2, 2), floats(*[2] * 300)):
            queue, taken = list(s), []
            for _ in range(2 * len(s) + 1):
                taken.append(queue.pop(0))
                queue.append(-taken[-1])
            check(text, {"s": s, "n": i64(len(taken))}, [np.stack(taken), queue])


@pytest.mark.parametrize("name", ["int64", "uint64"])
def test_types_are_numpys_own(name):
    """onnxruntime's are of the type long long: they compare equal, but are written in another way."""
    text = f"""g (seq({name}[]) s, {name}[N] x, int64 n) => (seq({name}[]) t, {name}[N] y) {{
        t, y = Loop (n, , s, x) <body = b (int64 i, bool go, seq({name}[]) u, {name}[N] v)
                                        => (bool on, seq({name}[]) w, {name}[N] z) {{
            z = Mul (v, v)
            w = SequenceInsert (u, z)
            on = Identity (go)
        }}>
    }}"""
    used = session(text)
    for n in (3, 300):
        t, y = used.run(None, {"s": [], "x": np.ones(2, name), "n": i64(n)})
        assert {y.dtype.char, t[-1].dtype.char} == {np.dtype(name).char}
