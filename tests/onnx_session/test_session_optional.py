"""Optionals in the session: inputs, outputs, states and branches; None or the value."""

import pytest
from support.models.sessions import (
    assert_fails,
    assert_values,
    f32,
    floats,
    i64,
    session,
)

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
    def test_made_within(self, kind):
        text = f"""g ({KINDS[kind]} x) => (optional({KINDS[kind]}) y, optional({KINDS[kind]}) z) {{
            y = Optional (x)
            z = Optional <type = {KINDS[kind]}> ()
        }}"""
        found = session(text, 18).run(None, {"x": VALUES[kind]})
        assert_values(found, [VALUES[kind], None])


class TestLoops:
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
