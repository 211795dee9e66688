"""Engines: what they rely on, what errors of ours come to, and what large models cost."""

import sys

import numpy as np
import pytest
from support.models.engines import for_all_ranks
from support.models.sessions import (
    assert_fails,
    assert_value,
    constant,
    f32,
    i64,
    model,
    session,
)

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines import engines as engines_module
from seqcore.onnx._engines import executable
from seqcore.onnx._engines import whole as whole_module
from seqcore.onnx._engines.whole import WholeModel
from seqcore.onnx._runtimes import sessions
from seqcore.onnx._thresholds import LONG

pytestmark = pytest.mark.mostly_slow(5)

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

    def test_of_a_default(self):
        text = f"""g (float[2] x, int64 n, float[] w, int64[R] h) => (float[] z) {{
            t = Reshape (w, h)
            {JOIN}
        }}"""
        given = model(text)
        given.graph.initializer.append(constant("h", i64([2])))
        feed = EMPTY | {"w": f32(), "h": i64([0, 3, 4])}
        assert_fails(session(given), feed, ValueError, "join")

    @pytest.mark.slow
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


class TestNames:
    @pytest.mark.slow
    def test_loops_of_one_name(self):
        text = """g (seq(float[]) s, float[N] x, int64 n, int64 m) => (seq(float[]) t) {
            [again] u = Loop (n, , s) <body = b (int64 i, bool go, seq(float[]) p)
                                             => (bool on, seq(float[]) q) {
                [again] q = Loop (m, , p) <body = c (int64 j, bool g, seq(float[]) v)
                                                 => (bool h, seq(float[]) w) {
                    w = SequenceInsert (v, x)
                    h = Identity (g)
                }>
                on = Identity (go)
            }>
            t = SequenceInsert (u, x)
        }"""
        used = for_all_ranks(text)
        for m in (2, 2, 2, 2, LONG + 1, 2, LONG + 1):
            (found,) = used.run(None, {"s": [f32(1)], "x": f32(2), "n": i64(2), "m": i64(m)})
            assert_value(found, [f32(1), *[f32(2)] * (2 * m + 1)])
        attempts = used._engines.compiled.tiers[0]
        assert (attempts.taken, attempts.failures) == (4, 1)


def chain(nodes, outputs):
    """A model of nodes on a sequence `s0`, a tensor `x` and a condition `c`."""
    outs = ", ".join(f"seq(float[]) {name}" for name in outputs)
    return model(f"chain (seq(float[]) s0, float[N] x, bool c) => ({outs}) {{ {' '.join(nodes)} }}")


def inserts(n):
    """One after the other."""
    return chain([f"s{k + 1} = SequenceInsert (s{k}, x)" for k in range(n)], [f"s{n}"])


def readers(n):
    """Inserts that all begin with the same sequence."""
    names = [f"s{k + 1}" for k in range(n)]
    return chain([f"{name} = SequenceInsert (s0, x)" for name in names], names)


def choices(n):
    """Ifs, one after the other, that insert in both branches."""
    node = """s{1} = If (c) <
        then_branch = t () => (seq(float[]) t{1}) {{ t{1} = SequenceInsert (s{0}, x) }},
        else_branch = e () => (seq(float[]) e{1}) {{ e{1} = SequenceInsert (s{0}, x) }}>"""
    return chain([node.format(k, k + 1) for k in range(n)], [f"s{n}"])


class TestLargeModels:
    @pytest.mark.slow
    @pytest.mark.parametrize(("make", "growth"), [(inserts, 1), (readers, 2), (choices, 1)])
    def test_loading_grows_with_the_model(self, make, growth):
        """Counted in calls; it was the cube once. Edits of one sequence are looked at against each other."""

        def load(n):
            calls = 0

            def count(*_):
                nonlocal calls
                calls += 1

            given = make(n)
            sys.setprofile(count)
            try:
                used = InferenceSession(given)
            finally:
                sys.setprofile(None)
            (found, *_) = used.run(None, {"s0": [], "x": f32(1), "c": np.array(True)})
            assert len(found) == (1 if make is readers else n)
            return calls

        assert load(200) < 1.2 * 2**growth * load(100)

    def test_threads_of_many_parts_do_not_wait_busily(self, monkeypatch):
        """Those of a model that runs whole may."""
        made, make = [], sessions._Session

        def spy(model, options=None, **more):
            try:
                made.append(options.get_session_config_entry("session.intra_op.allow_spinning"))
            except RuntimeError:  # it isn't set
                made.append(None)
            return make(model, options, **more)

        def spinning(text):
            made.clear()
            InferenceSession(model(text))
            return set(made)

        monkeypatch.setattr(sessions, "_Session", spy)
        # The join keeps it from running whole.
        parts = """g (seq(float[]) s, float[N] x, int64 n)
            => (seq(float[]) t, float[N] y, float[N] z, float[A] o) {
            o = ConcatFromSequence <axis = 0> (s)
            t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p)
                                        => (bool go, seq(float[]) q) {
                j = Mul (i, i)
                r = Sin (x)
                k = ReduceMax <keepdims = 0> (r)
                l = Cast <to = 7> (k)
                m = Mul (j, l)
                q = SequenceErase (p, m)
            }>
            y = Neg (x)
            z = Exp (y)
        }"""
        assert spinning(parts) == {"0"}
        assert spinning("g (seq(float[]) s) => (seq(float[]) t) { t = SequenceErase (s) }") == {None}


OURS = [AttributeError, KeyError, TypeError, IndexError, AssertionError, ZeroDivisionError]

# A list whose first element goes round, and a tensor whose rows are a list that goes.
ROUND = """g (seq(float[]) s, int64 n, float[N, 2] x, int64 i) => (seq(float[]) t, float[2] y) {
    rows = SplitToSequence <keepdims = 0> (x)
    y = SequenceAt (rows, i)
    zero = Constant <value = int64 {0}> ()
    t = Loop (n, "", s) <body = b (int64 k, bool go, seq(float[]) p) => (bool go, seq(float[]) r) {
        a = SequenceAt (p, zero)
        e = SequenceErase (p, zero)
        r = SequenceInsert (e, a)
    }>
}"""
ROUND_FEED = {"s": [f32(1), f32(2)], "n": i64(5000), "x": np.ones((3, 2), np.float32), "i": i64(0)}


def fail_in(monkeypatch, owner, name, error):
    def fail(*_, **__):
        raise error("ours")

    monkeypatch.setattr(owner, name, fail)


@pytest.mark.parametrize("error", OURS)
class TestErrorsOfOurs:
    """An error in the code of an engine comes out of a run: no other engine takes over and hides it."""

    @pytest.mark.parametrize("name", ["run", "feed_of"])
    def test_of_a_whole_model(self, monkeypatch, error, name):
        used = InferenceSession(model(ROUND))
        fail_in(monkeypatch, WholeModel, name, error)
        for _ in range(3):
            with pytest.raises(error, match="ours"):
                used.run(None, ROUND_FEED)
        attempts = used._engines.compiled.tiers[0]
        assert (attempts.taken, attempts.failures) == (0, 0)

    @pytest.mark.parametrize(
        ("module", "name"),
        [
            (WholeModel, "__init__"),
            (whole_module, "add_checks"),
            (whole_module, "why_not_whole"),
            (executable, "to_message"),
            (executable, "restamp"),
        ],
    )
    def test_of_what_makes_a_whole_model(self, monkeypatch, error, module, name):
        fail_in(monkeypatch, module, name, error)
        with pytest.raises(error, match="ours"):
            InferenceSession(model(ROUND))

    def test_of_a_lowering(self, monkeypatch, error):
        used = InferenceSession(model(ROUND))
        fail_in(monkeypatch, engines_module, "lower_prepared", error)
        with pytest.raises(error, match="ours"):
            used.run(None, ROUND_FEED)
