"""Loop, If and Scan with sequences: states, captures, conditions, nesting."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from sessions import (
    assert_fails,
    assert_value,
    assert_values,
    by_reference,
    expected_of,
    f32,
    floats,
    i64,
    model,
    session,
)

TRUE, FALSE = np.array(True), np.array(False)


def check(text, feed, expected, departs=False, opset=17):
    """The session's results are as expected, and onnxruntime's too unless it departs from ONNX's text."""
    given = model(text, opset)
    assert_values(session(given).run(None, feed), expected)
    if not departs:
        assert_values([expected_of(one) for one in by_reference(given, feed)], expected)


class TestTripsAndConditions:
    TEXT = """
        g (INPUTS seq(float[]) s, float[N] x, int64 stop)
            => (seq(float[]) t, int64[T] numbers, int64 last) {
            start = Constant <value = int64 {-1}> ()
            t, last, numbers = Loop (TRIPS, CONDITION, s, start)
                <body = b (int64 i, bool go, seq(float[]) u, int64 was)
                       => (bool on, seq(float[]) v, int64 now, int64 number) {
                    v = SequenceInsert (u, x)
                    one = Constant <value = int64 {1}> ()
                    next = Add (i, one)
                    on = Less (next, stop)
                    now = Identity (i)
                    number = Add (was, i)
                }>
        }
    """

    def run(self, trips, condition, feed, s=(), stop=100, shape=""):
        inputs = "".join(
            f"{kind}{shape} {name}, " for kind, name in (("int64", trips), ("bool", condition)) if name
        )
        text = self.TEXT.replace("INPUTS", inputs).replace("TRIPS", trips).replace("CONDITION", condition)
        used = session(text)
        return used.run(None, feed | {"s": s, "x": f32(1), "stop": i64(stop)})

    def check(self, found, n, s=()):
        numbers = [i + max(i - 1, -1) for i in range(n)]
        assert_values(found, [[*s, *[f32(1)] * n], i64(numbers), i64(n - 1)])

    @pytest.mark.parametrize("shape", ["", "[1]"])
    @pytest.mark.parametrize("n", [0, 1, 2, 7, 300])
    def test_both(self, n, shape):
        def trips(n):
            return np.full([1] if shape else [], n)

        def go(flag):
            return np.full([1] if shape else [], flag)

        self.check(self.run("n", "c", {"n": trips(n), "c": go(True)}, shape=shape), min(n, 100))
        self.check(self.run("n", "c", {"n": trips(n), "c": go(True)}, stop=3, shape=shape), min(n, 3))
        self.check(self.run("n", "c", {"n": trips(n), "c": go(False)}, shape=shape), 0)

    @pytest.mark.parametrize("n", [0, 1, 5])
    def test_trips_alone(self, n):
        self.check(self.run("n", "", {"n": i64(n)}), n)
        # A for loop: what the body says of the condition is ignored. onnxruntime heeds it.
        self.check(self.run("n", "", {"n": i64(n)}, stop=2), n)

    @pytest.mark.parametrize("stop", [1, 2, 50])
    def test_condition_alone(self, stop):
        self.check(self.run("", "c", {"c": TRUE}, stop=stop), stop)
        self.check(self.run("", "c", {"c": TRUE}, s=floats(2), stop=stop), stop, floats(2))
        self.check(self.run("", "c", {"c": FALSE}, stop=stop), 0)

    def test_once_at_least_where_the_condition_says_no_at_once(self):
        self.check(self.run("", "c", {"c": TRUE}, stop=-5), 1)

    @pytest.mark.parametrize("n", [-1, -100, np.iinfo(np.int64).min])
    def test_negative_trips(self, n):
        self.check(self.run("n", "c", {"n": i64(n), "c": TRUE}), 0)

    def test_very_many_trips(self):
        self.check(self.run("n", "c", {"n": i64(np.iinfo(np.int64).max), "c": TRUE}, stop=4), 4)

    def test_the_condition_that_the_body_is_given(self):
        text = """g (int64 n, bool c) => (seq(bool[]) t) {
            none = SequenceEmpty <dtype = 9> ()
            t = Loop (n, c, none) <body = b (int64 i, bool go, seq(bool[]) s) => (bool on, seq(bool[]) r) {
                r = SequenceInsert (s, go)
                two = Constant <value = int64 {2}> ()
                on = Less (i, two)
            }>
        }"""
        check(text, {"n": i64(9), "c": TRUE}, [[TRUE, TRUE, TRUE]])

    def test_condition_is_an_outer_value(self):
        """A body whose condition output is its input, or a value from around the loop by way of Identity."""
        text = """g (int64 n, bool c, float[N] x) => (seq(float[]) t, seq(float[]) u) {
            none = SequenceEmpty ()
            t = Loop (n, c, none) <body = b (int64 i, bool go, seq(float[]) s) => (bool go, seq(float[]) r) {
                r = SequenceInsert (s, x)
            }>
            u = Loop (n, c, none) <body = d (int64 i, bool go, seq(float[]) s) => (bool on, seq(float[]) r) {
                r = SequenceInsert (s, x)
                on = Not (c)
            }>
        }"""
        x = f32(1, 2)
        check(text, {"n": i64(3), "c": TRUE, "x": x}, [[x] * 3, [x]])
        check(text, {"n": i64(3), "c": FALSE, "x": x}, [[], []])


class TestScanOutputs:
    @pytest.mark.parametrize("n", [0, 1, 3, 600])
    def test_with_sequence_and_tensor_states(self, n):
        text = """g (int64 n, float[2] x)
            => (float[2] last, seq(float[]) t, float[T, 2] rows, int64[U] sizes) {
            none = SequenceEmpty ()
            last, t, rows, sizes = Loop (n, , x, none)
                <body = b (int64 i, bool go, float[2] a, seq(float[]) s)
                       => (bool on, float[2] c, seq(float[]) r, float[2] row, int64 size) {
                    c = Add (a, x)
                    r = SequenceInsert (s, a)
                    row = Identity (a)
                    size = SequenceLength (s)
                    on = Identity (go)
                }>
        }"""
        x = f32(1, 2)
        states = [x * (i + 1) for i in range(n + 1)]
        rows = np.stack(states[:n]) if n else np.empty((0, 2), np.float32)
        check(text, {"n": i64(n), "x": x}, [states[n], states[:n], rows, np.arange(n)])

    def test_zero_trips_keep_rank_and_type(self):
        text = """g (int64 n, seq(uint8[]) s)
            => (seq(uint8[]) t, uint8[T, 3, K] a, string[T] b, bool[T, 4, 1] c) {
            t, a, b, c = Loop (n, , s)
                <body = b (int64 i, bool go, seq(uint8[]) s)
                       => (bool go, seq(uint8[]) s, uint8[3, K] a, string b, bool[4, 1] c) {
                    zero = Constant <value = int64 {0}> ()
                    a = SequenceAt (s, zero)
                    b = Constant <value_string = "x"> ()
                    c = Constant <value = bool[4, 1] {0, 1, 0, 1}> ()
                }>
        }"""
        used = session(text)
        t, a, b, c = used.run(None, {"n": i64(0), "s": []})
        assert (len(t), t.dtype) == (0, np.uint8)
        assert (a.dtype, a.shape[:2], a.ndim) == (np.uint8, (0, 3), 3)
        assert (b.dtype, b.shape) == (np.dtype(object), (0,))
        assert (c.dtype, c.shape) == (np.dtype(bool), (0, 4, 1))
        image = np.arange(6, dtype=np.uint8).reshape(3, 2)
        found = used.run(None, {"n": i64(2), "s": [image]})
        flags = np.array([[[0], [1], [0], [1]]] * 2, bool)
        assert_values(found, [[image], np.stack([image] * 2), np.array(["x", "x"], object), flags])

    def test_scan_outputs_whose_shape_changes(self):
        text = """g (int64 n, seq(float[]) s) => (float[T, K] rows) {
            rows = Loop (n, "") <body = b (int64 i, bool go) => (bool go, float[K] row) {
                [take] row = SequenceAt (s, i)
            }>
        }"""
        used = session(text.replace("rows = Loop", "[the_loop] rows = Loop"))
        assert_fails(used, {"n": i64(2), "s": floats(2, 3)}, Exception, "the_loop")
        assert_values(used.run(None, {"n": i64(2), "s": floats(3, 3)}), [np.stack(floats(3, 3))])
        assert_fails(used, {"n": i64(3), "s": floats(3, 3)}, IndexError, "take")

    def test_only_captures_no_states(self):
        text = """g (seq(float[]) s) => (float[T] sums, int64[T] places) {
            n = SequenceLength (s)
            sums, places = Loop (n, "") <body = b (int64 i, bool go) => (bool on, float sum, int64 i) {
                x = SequenceAt (s, i)
                sum = ReduceSum <keepdims = 0> (x)
                on = Identity (go)
            }>
        }"""
        s = floats(1, 2, 3)
        used = session(text)
        assert_values(used.run(None, {"s": s}), [f32(*(x.sum() for x in s)), np.arange(3)])
        assert_values(used.run(None, {"s": []}), [f32(), np.arange(0)])


class TestValues:
    """What is done to a sequence in one place never shows in another."""

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
        check(text, {"s": s, "x": x, "n": i64(n)}, expected)

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


class TestLoopsOfTensors:
    """Loops without sequences, in models with some: ONNX's text holds for them too."""

    @pytest.mark.parametrize("n", [0, 1, 2, 5])
    @pytest.mark.parametrize("condition", ["", "c"])
    def test_the_iteration_number_as_a_result(self, n, condition):
        """onnxruntime counts on in the array that it gave out."""
        text = f"""g (seq(float[]) s, int64 n, int64 k, bool c) => (int64 last, int64[T] all, int64 m) {{
            last, all = Loop (n, {condition or '""'}, k) <body = b (int64 i, bool go, int64 w)
                                                  => (bool on, int64 i, int64 i) {{ on = Identity (c) }}>
            m = SequenceLength (s)
        }}"""
        feed = {"s": floats(1), "n": i64(n), "k": i64(70), "c": TRUE}
        assert_values(session(text).run(None, feed), [i64(n - 1 if n else 70), np.arange(n), i64(1)])

    @pytest.mark.parametrize("n", [0, 1, 5])
    def test_no_condition(self, n):
        text = """g (seq(float[]) s, int64 n, float[N] x) => (float[N] y, float[T, N] rows, int64 m) {
            y, rows = Loop (n, "", x) <body = b (int64 i, bool go, float[N] a)
                                            => (bool on, float[N] c, float[N] d) {
                two = Constant <value = int64 {2}> ()
                on = Less (i, two)
                c = Add (a, x)
                d = Identity (a)
            }>
            m = SequenceLength (s)
        }"""
        x = f32(1, 2)
        rows = np.stack([x * (i + 1) for i in range(n)]) if n else np.empty((0, 2), np.float32)
        y, found, m = session(text).run(None, {"s": floats(1), "n": i64(n), "x": x})
        assert_values([y, m], [x * (n + 1), i64(1)])
        assert (len(found), found.ndim) == (n, 2)
        assert found.ravel().tolist() == rows.ravel().tolist()

    def test_its_errors(self):
        text = """g (seq(float[]) s, int64 n, float[N, 2] x) => (float[2] y, float[M] z) {
            start = Constant <value = float[2] {0, 0}> ()
            y = Loop (n, "", start) <body = b (int64 i, bool go, float[2] a) => (bool go, float[2] c) {
                [pick] row = Gather <axis = 0> (x, i)
                c = Add (a, row)
            }>
            [join] z = ConcatFromSequence <axis = 0> (s)
        }"""
        used, x = session(text), np.ones((3, 2), np.float32)
        feed = {"s": floats(1), "n": i64(3), "x": x}
        assert_values(used.run(None, feed), [f32(3, 3), floats(1)[0]])
        assert_fails(used, feed | {"n": i64(4)}, Exception, "pick")
        assert_fails(used, feed | {"s": []}, ValueError, "join")
        assert_values(used.run(None, feed), [f32(3, 3), floats(1)[0]])


class TestNesting:
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


class TestErrors:
    TEXT = """
        g (seq(float[]) s, int64[N] at, int64 n) => (seq(float[]) t) {
            [outer_loop] t = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p)
                                                 => (bool on, seq(float[]) q) {
                [pick] k = Gather <axis = 0> (at, i)
                [take] x = SequenceAt (p, k)
                [put] q = SequenceInsert (p, x)
                on = Identity (go)
            }>
        }
    """

    def test_a_position_out_of_range_in_a_late_iteration(self):
        used, s = session(self.TEXT), floats(1, 2)
        at = np.zeros(1000, np.int64)
        for bad in (10_000, -10_000):
            at[700] = bad
            assert_fails(used, {"s": s, "at": at, "n": i64(1000)}, IndexError, "take")
            assert len(used.run(None, {"s": s, "at": at, "n": i64(700)})[0]) == 702
        at[700] = 701
        (found,) = used.run(None, {"s": s, "at": at, "n": i64(1000)})
        assert_value(found, [*s, *[s[0]] * 1000])

    def test_a_tensor_operator_that_fails_in_a_loop(self):
        used, s = session(self.TEXT), floats(1, 2)
        assert_fails(used, {"s": s, "at": i64([0, 1]), "n": i64(3)}, Exception, "pick")
        assert len(used.run(None, {"s": s, "at": i64([0, 1]), "n": i64(2)})[0]) == 4

    def test_a_join_that_fails_in_a_loop(self):
        text = """g (seq(float[]) s, int64 n) => (float[T] sizes) {
            zero = Constant <value = int64 {0}> ()
            t, sizes = Loop (n, , s) <body = b (int64 i, bool on, seq(float[]) p)
                                           => (bool on, seq(float[]) q, float sum) {
                [join] y = ConcatFromSequence <axis = 0> (p)
                sum = ReduceSum <keepdims = 0> (y)
                [drop] q = SequenceErase (p, zero)
            }>
        }"""
        used, s = session(text), floats(1, 2)
        sums = f32(sum(x.sum() for x in s), s[1].sum())
        assert_values(used.run(None, {"s": s, "n": i64(2)}), [sums])
        assert_fails(used, {"s": s, "n": i64(3)}, ValueError, "join")
        assert_fails(used, {"s": [s[0], s[0][None]], "n": i64(1)}, ValueError, "join")

    def test_in_a_nested_graph(self):
        text = """g (seq(float[]) s, bool c, int64 n, int64 k) => (seq(float[]) t) {
            t = Loop (n, , s) <body = b (int64 i, bool on, seq(float[]) p) => (bool on, seq(float[]) q) {
                q = If (c) <
                    then_branch = d () => (seq(float[]) w) {
                        w = Loop (n, , p) <body = f (int64 j, bool on2, seq(float[]) u)
                                                => (bool on2, seq(float[]) v) {
                            [deep_down] v = SequenceErase (u, k)
                        }>
                    },
                    else_branch = e () => (seq(float[]) z) { [other_side] z = SequenceErase (p, k) }>
            }>
        }"""
        used, s = session(text), floats(1, 2, 3, 4)
        feed = {"s": s, "n": i64(2), "k": i64(0)}
        assert_values(used.run(None, feed | {"c": TRUE}), [[]])
        assert_fails(used, feed | {"c": TRUE, "k": i64(1)}, IndexError, "deep_down")
        assert_fails(used, feed | {"c": FALSE, "k": i64(4)}, IndexError, "other_side")
        assert_values(used.run(None, feed | {"c": FALSE}), [s[2:]])
