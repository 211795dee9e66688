"""What a plan may rely on, and onnxruntime may do of it: what is declared and never checked, it may not."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from sessions import assert_fails, check, constant, f32, i64, model, run, session

# A loop that appends `t`, of whatever shape, to a sequence of `x`, and a join of all.
JOIN = """
    first = SequenceConstruct (x)
    all = Loop (n, , first) <body = b (int64 i, bool go, seq(float[]) s) => (bool on, seq(float[]) u) {
        u = SequenceInsert (s, t)
        on = Identity (go)
    }>
    [join] z = ConcatFromSequence <axis = 0, new_axis = 1> (all)
"""
EMPTY = {"x": f32(1, 2), "n": i64(1)}
NO_FLOATS = np.zeros((0, 3, 4), np.float32)


class TestDeclaredShapes:
    """Elements that don't fit are an error, whatever a model declares of their shapes."""

    @pytest.mark.parametrize("element", [NO_FLOATS, f32()])
    def test_of_fed_elements(self, element):
        text = f"""g (float[2] x, int64 n, seq(float[2]) q, int64 k) => (float[] z) {{
            t = SequenceAt (q, k)
            {JOIN}
        }}"""
        assert_fails(session(text), EMPTY | {"q": [element], "k": i64(0)}, ValueError, "join")

    @pytest.mark.parametrize("results", ["float[] z) <float[2] t>", "float[] z, float[2] t)"])
    def test_of_values(self, results):
        text = f"""g (float[2] x, int64 n, float[] w, int64[R] h) => ({results} {{
            t = Reshape (w, h)
            {JOIN}
        }}"""
        feed = EMPTY | {"w": f32(), "h": i64([0, 3, 4])}
        assert_fails(session(text), feed, ValueError, "join")

    def test_of_branches(self):
        text = f"""g (float[2] x, int64 n, float[] w, bool c) => (float[] z) {{
            t = If (c) <then_branch = a () => (float[2] p) {{ p = Neg (w) }},
                        else_branch = b () => (float[2] q) {{ q = Abs (w) }}>
            {JOIN}
        }}"""
        feed = EMPTY | {"w": NO_FLOATS, "c": np.array(True)}
        assert_fails(session(text), feed)

    def test_of_a_default(self):
        text = f"""g (float[2] x, int64 n, float[] w, int64[R] h) => (float[] z) {{
            t = Reshape (w, h)
            {JOIN}
        }}"""
        given = model(text)
        given.graph.initializer.append(constant("h", i64([2])))
        feed = EMPTY | {"w": f32(), "h": i64([0, 3, 4])}
        assert_fails(session(given), feed, ValueError, "join")

    def test_by_a_name_that_two_inputs_share(self):
        text = f"g (float[N] x, float[N] t, int64 n) => (float[] z) {{ {JOIN} }}"
        assert_fails(session(text), {"x": f32(), "t": f32(1, 2), "n": i64(1)}, ValueError, "join")

    def test_by_a_name_of_an_input_in_a_body(self):
        text = """g (float[N] x, int64 n, seq(float[]) q) => (float[] z, int64 m) {
            none = SequenceEmpty ()
            s = Loop (n, , none) <body = b (int64 i, bool go, seq(float[]) u)
                                       => (bool on, seq(float[]) v) <float[N] r> {
                zero = Constant <value_ints = [0]> ()
                one = Constant <value_ints = [1]> ()
                to = Reshape (i, one)
                r = Slice (x, zero, to)
                v = SequenceInsert (u, r)
                on = Identity (go)
            }>
            [join] z = ConcatFromSequence <axis = 0, new_axis = 1> (s)
            m = SequenceLength (q)
        }"""
        assert_fails(session(text), {"x": f32(1, 2, 3), "n": i64(2), "q": []}, ValueError, "join")

    def test_of_what_a_loop_begins_with(self):
        """onnx infers that a loop's last sequence has elements like the first."""
        text = f"""g (float[2] x, float[K] y, int64 n, int64 k) => (float[] z) {{
            before = SequenceConstruct (x)
            after = Loop (n, , before) <body = c (int64 j, bool f, seq(float[]) p)
                                              => (bool g, seq(float[]) q) {{
                q = SequenceInsert (p, y)
                g = Identity (f)
            }}>
            t = SequenceAt (after, k)
            {JOIN}
        }}"""
        assert_fails(session(text), EMPTY | {"y": f32(), "k": i64(1)}, ValueError, "join")

    def test_of_states(self):
        text = """g (float[2] x, int64 n) => (seq(int64[]) z) {
            none = SequenceEmpty <dtype = 7> ()
            last, z = Loop (n, , x, none) <body = b (int64 i, bool go, float[2] u, seq(int64[]) s)
                                                => (bool on, float[2] v, seq(int64[]) t) <float[2] w> {
                shape = Shape (u)
                v = Concat <axis = 0> (u, u)
                t = SequenceInsert (s, shape)
                on = Identity (go)
            }>
        }"""
        check(text, {"x": f32(1, 2), "n": i64(3)}, [[i64([2]), i64([4]), i64([8])]], departs=True)

    def test_of_an_iterations_number(self):
        text = """g (int64 n, bool[1] c, seq(int64[]) q) => (seq(int64[]) z, bool[] more, int64 m) {
            none = SequenceEmpty <dtype = 7> ()
            z, more = Loop (n, c, none) <body = b (int64[1] i, bool[1] go, seq(int64[]) s)
                                              => (bool[1] on, seq(int64[]) t, bool[1] row) {
                t = SequenceInsert (s, i)
                row = Identity (go)
                on = Identity (go)
            }>
            m = SequenceLength (q)
        }"""
        feed = {"n": i64(2), "c": np.array([True]), "q": []}
        check(text, feed, [[i64([0]), i64([1])], np.full((2, 1), True), i64(0)])


class TestNumbersOfLoops:
    """A number of trips and a condition are one number each, else onnxruntime takes what lies in memory."""

    @pytest.mark.parametrize("trips", [[], [2, 1]])
    def test_trips(self, trips):
        text = """g (seq(float[]) s, int64[K] n, float[N] x) => (seq(float[]) t) {
            [again] t = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) u)
                                              => (bool on, seq(float[]) v) {
                v = SequenceInsert (u, x)
                on = Identity (go)
            }>
        }"""
        assert_fails(session(text), {"s": [f32(1)], "x": f32(2), "n": i64(trips)}, ValueError, "again")

    @pytest.mark.parametrize("flags", [[], [True, False]])
    @pytest.mark.parametrize("name", ["before", "after"])
    def test_conditions(self, flags, name):
        text = """g (seq(float[]) s, bool[K] before, bool[K] after, float[N] x) => (seq(float[]) t) {
            [again] t = Loop (, before, s) <body = b (int64 i, bool go, seq(float[]) u)
                                                  => (bool[] on, seq(float[]) v) {
                v = SequenceInsert (u, x)
                on = Not (after)
            }>
        }"""
        feed = {"s": [f32(1)], "x": f32(2), "before": np.array([True]), "after": np.array([True])}
        assert_fails(session(text), feed | {name: np.array(flags, bool)}, ValueError, "again")
        assert run(text, **feed)[0].shapes == [(1,), (1,)]
