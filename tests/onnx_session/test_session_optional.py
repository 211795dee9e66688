"""Optionals in the session: inputs, outputs, states and branches; None or the value."""

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
    session,
)

TRUE, FALSE = np.array(True), np.array(False)
KINDS = {"tensor": "float[N]", "sequence": "seq(float[])"}
VALUES = {"tensor": f32(1, 2), "sequence": floats(1, 2)}


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


class TestOperators:
    def test_get_element(self, kind):
        text = f"""g (optional({KINDS[kind]}) x, {KINDS[kind]} y) => ({KINDS[kind]} a, {KINDS[kind]} b) {{
            [get] a = OptionalGetElement (x)
            b = OptionalGetElement (y)
        }}"""
        used, value = session(text, 18), VALUES[kind]
        assert_values(used.run(None, {"x": value, "y": value}), [value, value])
        assert_fails(used, {"x": None, "y": value}, Exception, "get")
        assert_values(used.run(None, {"x": value, "y": value}), [value, value])


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
