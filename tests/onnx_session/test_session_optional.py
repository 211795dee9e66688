"""Optionals in the session: inputs, outputs, states and branches; None or the value."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.sessions import (
    assert_fails,
    assert_value,
    assert_values,
    by_reference,
    f32,
    floats,
    i64,
    model,
    session,
    text_type,
)
from support.strategies import OPERATOR_NAMES, filled

TRUE, FALSE = np.array(True), np.array(False)
KINDS = {"tensor": "float[N]", "sequence": "seq(float[])"}
VALUES = {"tensor": f32(1, 2), "sequence": floats(1, 2)}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


class TestOperators:
    def test_has_element(self, kind):
        used = session(
            f"g (optional({KINDS[kind]}) x, {KINDS[kind]} y) => (bool a, bool b, bool c, bool d) {{"
            "a = OptionalHasElement (x)"
            "b = OptionalHasElement (y)"
            "z = Optional (y)"
            "c = OptionalHasElement (z)"
            f"w = Optional <type = {KINDS[kind]}> ()"
            "d = OptionalHasElement (w) }",
            18,
        )
        value = VALUES[kind]
        assert_values(used.run(None, {"x": value, "y": value}), [TRUE, TRUE, TRUE, FALSE])
        assert_values(used.run(None, {"x": None, "y": value}), [FALSE, TRUE, TRUE, FALSE])

    def test_an_empty_sequence_is_an_element(self):
        text = """g (optional(seq(float[])) x) => (bool a, int64 n) {
            a = OptionalHasElement (x)
            s = OptionalGetElement (x)
            n = SequenceLength (s)
        }"""
        used = session(text, 18)
        for empty in ([], ()):
            assert_values(used.run(None, {"x": empty}), [TRUE, i64(0)])

    def test_has_element_without_input(self):
        """From opset 18 on the input may be left out."""
        for given in ("", '""'):
            used = session(f"g (int64 n) => (bool a, int64 n) {{ a = OptionalHasElement ({given}) }}", 18)
            assert_values(used.run(None, {"n": i64(1)}), [FALSE, i64(1)])

    def test_get_element(self, kind):
        text = f"""g (optional({KINDS[kind]}) x, {KINDS[kind]} y) => ({KINDS[kind]} a, {KINDS[kind]} b) {{
            [get] a = OptionalGetElement (x)
            b = OptionalGetElement (y)
        }}"""
        used, value = session(text, 18), VALUES[kind]
        assert_values(used.run(None, {"x": value, "y": value}), [value, value])
        assert_fails(used, {"x": None, "y": value}, Exception, "get")
        assert_values(used.run(None, {"x": value, "y": value}), [value, value])

    @pytest.mark.parametrize("opset", [15, 18])
    def test_construct_and_get_element(self, kind, opset):
        text = f"""g ({KINDS[kind]} x) => ({KINDS[kind]} y, bool a) {{
            o = Optional (x)
            y = OptionalGetElement (o)
            a = OptionalHasElement (o)
        }}"""
        assert_values(session(text, opset).run(None, {"x": VALUES[kind]}), [VALUES[kind], TRUE])

    @pytest.mark.parametrize("name", OPERATOR_NAMES)
    def test_every_type(self, name):
        kind = text_type(name)
        text = f"""g (optional(seq({kind}[])) s, optional({kind}[N]) x)
            => (seq({kind}[]) t, optional(seq({kind}[])) s, optional({kind}[N]) x) {{
            u = OptionalGetElement (s)
            y = OptionalGetElement (x)
            t = SequenceInsert (u, y)
        }}"""
        s, x = [filled(name, (2, 2))], filled(name, 3)
        assert_values(session(text, 18).run(None, {"s": s, "x": x}), [[*s, x], s, x])


class TestInputsAndOutputs:
    def test_through(self, kind):
        maybe = f"optional({KINDS[kind]})"
        text = f"g ({maybe} x) => ({maybe} x, {maybe} y) {{ y = Identity (x) }}"
        used, value = session(text, 18), VALUES[kind]
        assert_values(used.run(None, {"x": value}), [value, value])
        assert_values(used.run(None, {"x": None}), [None, None])

    def test_made_within(self, kind):
        text = f"""g ({KINDS[kind]} x) => (optional({KINDS[kind]}) y, optional({KINDS[kind]}) z) {{
            y = Optional (x)
            z = Optional <type = {KINDS[kind]}> ()
        }}"""
        found = session(text, 18).run(None, {"x": VALUES[kind]})
        assert_values(found, [VALUES[kind], None])

    def test_results_are_apart(self):
        text = """g (optional(float[N]) x, seq(float[]) s)
            => (optional(float[N]) x, optional(seq(float[])) t) {
            t = Optional (s)
        }"""
        x, s = f32(1, 2), floats(1)
        y, t = session(text, 18).run(None, {"x": x, "s": s})
        x[:] = 9
        s[0][:] = 9
        assert_value(y, f32(1, 2))
        assert_value(t, floats(1))

    @pytest.mark.parametrize("c", [True, False])
    def test_branches_that_may_have_none(self, kind, c):
        text = f"""g ({KINDS[kind]} x, bool c) => (optional({KINDS[kind]}) y, bool has) {{
            y = If (c) <
                then_branch = a () => (optional({KINDS[kind]}) p) {{ p = Optional (x) }},
                else_branch = b () => (optional({KINDS[kind]}) q) {{
                    q = Optional <type = {KINDS[kind]}> ()
                }}>
            has = OptionalHasElement (y)
        }}"""
        value = VALUES[kind]
        found = session(text, 18).run(None, {"x": value, "c": np.array(c)})
        assert_values(found, [value if c else None, np.array(c)])

    def test_a_default_for_what_is_missing(self):
        """An If on OptionalHasElement takes the element or makes another."""
        text = """g (optional(seq(float[])) s, float[N] x) => (seq(float[]) t, float[M] y) {
            has = OptionalHasElement (s)
            given = If (has) <
                then_branch = a () => (seq(float[]) p) { p = OptionalGetElement (s) },
                else_branch = b () => (seq(float[]) q) { q = SequenceConstruct (x, x) }>
            t = SequenceInsert (given, x)
            y = ConcatFromSequence <axis = 0> (t)
        }"""
        used, x = session(text, 18), f32(9)
        for s in (floats(1, 2), [], None):
            t = [*(s if s is not None else [x, x]), x]
            assert_values(used.run(None, {"s": s, "x": x}), [t, np.concatenate(t)])


class TestLoops:
    def test_a_state_that_begins_without_element(self):
        """As in onnx's loop16_seq_none: the first iteration finds no sequence and makes one."""
        text = """g (int64 n, optional(seq(float[])) start, float[N] x) => (seq(float[]) out) {
            zero = Constant <value = int64 {0}> ()
            out = Loop (n, , start) <body = b (int64 i, bool go, optional(seq(float[])) s)
                                            => (bool on, seq(float[]) t) {
                has = OptionalHasElement (s)
                were = If (has) <
                    then_branch = a () => (seq(float[]) p) { p = OptionalGetElement (s) },
                    else_branch = e () => (seq(float[]) q) {
                        first = SequenceConstruct (x)
                        q = SequenceErase (first)
                    }>
                f = Cast <to = 1> (i)
                y = Mul (x, f)
                t = SequenceInsert (were, y)
                on = Identity (go)
            }>
        }"""
        used, x = session(text, 18), f32(1, 2)
        for n in (1, 2, 20):
            rows = [x * np.float32(i) for i in range(n)]
            assert_values(used.run(None, {"n": i64(n), "start": None, "x": x}), [rows])
            assert_values(used.run(None, {"n": i64(n), "start": floats(3), "x": x}), [[*floats(3), *rows]])

    @pytest.mark.parametrize("n", [0, 1, 2, 5])
    def test_a_state_that_stays_optional(self, kind, n):
        """The best so far: none at first, then what the last even iteration had."""
        text = f"""g (int64 n, {KINDS[kind]} x) => (optional({KINDS[kind]}) last, int64[T] had) {{
            none = Optional <type = {KINDS[kind]}> ()
            last, had = Loop (n, , none)
                <body = b (int64 i, bool go, optional({KINDS[kind]}) s)
                       => (bool on, optional({KINDS[kind]}) t, int64 flag) {{
                    has = OptionalHasElement (s)
                    flag = Cast <to = 7> (has)
                    three = Constant <value = int64 {{3}}> ()
                    r = Mod (i, three)
                    one = Constant <value = int64 {{1}}> ()
                    set = Equal (r, one)
                    t = If (set) <
                        then_branch = a () => (optional({KINDS[kind]}) p) {{ p = Optional (x) }},
                        else_branch = e () => (optional({KINDS[kind]}) q) {{
                            q = Optional <type = {KINDS[kind]}> ()
                        }}>
                    on = Identity (go)
                }}>
        }}"""
        found = session(text, 18).run(None, {"n": i64(n), "x": VALUES[kind]})
        had = [int(i > 0 and (i - 1) % 3 == 1) for i in range(n)]
        assert_values(found, [VALUES[kind] if n and (n - 1) % 3 == 1 else None, i64(had)])

    def test_captured(self):
        text = """g (int64 n, optional(float[N]) x, seq(float[]) s) => (seq(float[]) t) {
            has = OptionalHasElement (x)
            t = Loop (n, has, s) <body = b (int64 i, bool go, seq(float[]) u) => (bool go, seq(float[]) v) {
                y = OptionalGetElement (x)
                v = SequenceInsert (u, y)
            }>
        }"""
        used = session(text, 18)
        assert_values(used.run(None, {"n": i64(2), "x": f32(1), "s": []}), [[f32(1)] * 2])
        assert_values(used.run(None, {"n": i64(2), "x": None, "s": floats(1)}), [floats(1)])


def test_where_onnxruntime_agrees():
    text = """g (optional(seq(int64[])) s, optional(float[N]) x) => (bool a, bool b, optional(float[N]) y) {
        a = OptionalHasElement (s)
        b = OptionalHasElement (x)
        y = Identity (x)
    }"""
    given = model(text, 18)
    for s in ([i64([1, 2])], None):
        for x in (f32(1), None):
            feed = {"s": s, "x": x}
            assert_values(session(given).run(None, feed), by_reference(given, feed))
