"""Loop in the session: trips, conditions, scan outputs, states, errors."""

import itertools

import numpy as np
import pytest
from support.models.sessions import (
    assert_fails,
    assert_value,
    assert_values,
    check,
    f32,
    floats,
    i64,
    model,
    session,
)

from seqcore.onnx import InferenceSession, lower

pytestmark = pytest.mark.mostly_slow(5)

TRUE, FALSE = np.array(True), np.array(False)


class TestTripsAndConditions:
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

    @pytest.mark.slow
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

    @pytest.mark.parametrize("declares", [True, False])
    def test_that_a_body_gives_twice(self, declares):
        """Without a trip both have the lengths that are declared, if any are."""
        given = model("""
        g (int64 n, int64[K] k, seq(float[]) s) => (seq(float[]) t, float[T, 3] a, float[T, 3] b) {
            t, a, b = Loop (n, , s) <body = c (int64 i, bool go, seq(float[]) s)
                                          => (bool go, seq(float[]) t, float[3] r, float[3] r) {
                one = SequenceAt (s, i) r = Reshape (one, k) t = SequenceInsert (s, r)
            }>
        }""")
        for one in given.graph.node[0].attribute[0].g.output if not declares else ():
            one.ClearField("type")
        rows = floats(3, 3)
        for n in (0, 2):
            found = InferenceSession(given).run(None, {"n": i64(n), "k": i64([3]), "s": rows})
            stack = np.stack(rows)[:n]
            assert_values(found, [[*rows, *rows[:n]], *[stack if n or declares else stack[:, 0]] * 2])

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


@pytest.mark.slow
@pytest.mark.parametrize("second", ["r", "p"])
def test_two_states_that_begin_as_one_sequence(second):
    """One output of the body may be both of them, or one state the other: they never show in each other."""
    text = f"""g (seq(float[]) s, float[N] x, int64 n) => (seq(float[]) t, seq(float[]) u) {{
        t, u = Loop (n, , s, s) <body = b (int64 i, bool on, seq(float[]) p, seq(float[]) q)
                                      => (bool on, seq(float[]) r, seq(float[]) {second}) {{
            r = SequenceInsert (q, x)
        }}>
    }}"""
    s, x = floats(1), f32(9)
    used = session(text)
    for n in (0, 1, 4, 300):
        t, u = s, s
        for _ in range(n):
            r = [*u, x]
            t, u = r, r if second == "r" else t
        found = used.run(None, {"s": s, "x": x, "n": i64(n)})
        assert_values(found, [t, u])
        found[0].clear()
        assert len(found[1]) == len(u)


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

    def test_a_tensor_operator_that_fails_in_a_loop(self):
        used, s = session(self.TEXT), floats(1, 2)
        assert_fails(used, {"s": s, "at": i64([0, 1]), "n": i64(3)}, Exception, "pick")
        assert len(used.run(None, {"s": s, "at": i64([0, 1]), "n": i64(2)})[0]) == 4

    @pytest.mark.parametrize(
        ("limits", "last", "trips"),
        [("n, first", "Identity", 3), ('n, ""', "Identity", 3), ('"", first', "Not", 1)],
    )
    def test_what_is_not_one_value(self, limits, last, trips):
        """Else onnxruntime takes what lies in memory."""
        text = f"""g (float[N] x, int64[K] n, bool[M] c, bool[L] first) => (seq(float[N]) t) {{
            none = SequenceEmpty ()
            [rows] t = Loop ({limits}, none) <body = b (int64 i, bool go, seq(float[N]) s)
                                                   => (bool[M] on, seq(float[N]) u) {{
                u = SequenceInsert (s, x)
                on = {last} (c)
            }}>
        }}"""
        yes = np.array([True])
        feed = {"x": f32(1, 2), "n": i64([3]), "c": yes, "first": yes}
        kinds = {"n": "the number of trips", "first": "the condition", "c": "the body's condition"}
        for name, values in itertools.product(kinds, ([], [1, 0])):
            if name in limits or (name == "c" and "first" in limits):
                odd = np.array(values, feed[name].dtype)
                error = assert_fails(session(text), feed | {name: odd}, ValueError)
                what = f"Loop 'rows': {kinds[name]} is one value, not a tensor of shape {odd.shape}"
                assert what in str(error)
        assert_values(session(text).run(None, feed), [[feed["x"]] * trips])

    @pytest.mark.slow
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


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["both", "condition", "iteration", "none"])
def test_types_that_a_body_leaves_out(kept):
    """Of its iteration's number and the condition: the text says them."""
    given = model("""
        g (float[N] x) => (float[N, A] y) {
            none = SequenceEmpty <dtype = 1> ()
            on = Constant <value = bool {1}> ()
            n = Size (x)
            s = Loop (n, on, none) <body = b (int64 i, bool go, seq(float[]) t) => (bool go, seq(float[]) u) {
                xi = Gather (x, i)
                row = Mul (x, xi)
                u = SequenceInsert (t, row)
            }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (s)
        }
    """)
    (loop,) = [node for node in given.graph.node if node.op_type == "Loop"]
    iteration, condition, _ = loop.attribute[0].g.input
    if kept not in ("both", "iteration"):
        iteration.ClearField("type")
    if kept not in ("both", "condition"):
        condition.ClearField("type")
    x = f32(1, 2, 3)
    for used in (InferenceSession(given), InferenceSession(lower(given))):
        assert_value(used.run(None, {"x": x})[0], np.multiply.outer(x, x))
