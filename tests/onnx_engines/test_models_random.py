"""Random models of lists: all ways to run them give the same values, and the same errors."""

import numpy as np
import onnx
import pytest
from hypothesis import HealthCheck, given, note, settings
from support.models.judge import Judge
from support.models.random_models import KINDS, cases
from support.models.sessions import model
from support.random_cases import examples

# The list keeps its three elements: the other branch never runs, and has four.
UNCUT = """
    uncut (float[N] x, float[3] a) => (int64 k, float[3] y) {
        zero = Constant <value = int64 {0}> ()
        three = Constant <value = int64 {3}> ()
        lengths = Shape (x)
        n = Gather (lengths, zero)
        s = SequenceConstruct (a, a)
        m = SequenceLength (s)
        c = Greater (m, three)
        t = If (c) <
            then_branch = then () => (seq(float[]) shorter) { shorter = SequenceErase (s, zero) },
            else_branch = other () => (seq(float[]) same) { same = Identity (s) }
        >
        y = Loop (n, "", a) <body = f (int64 i, bool go, float[3] p) => (bool on, float[3] q) {
            l = SequenceLength (t)
            on = Less (l, three)
            q = Add (p, a)
        }>
        k = SequenceLength (t)
    }
"""
CAPPED = """
    capped (float[N] x, float[K] a, float[2] b) => (float[2] y, float[M, K] z) {
        zero = Constant <value = int64 {0}> ()
        three = Constant <value = int64 {3}> ()
        first = Constant <value = int64[1] {0}> ()
        lengths = Shape (x)
        n = Gather (lengths, zero)
        s = SequenceConstruct (b, b, b)
        t, z = Loop (n, "", s) <body = f (int64 i, bool go, seq(float[]) p)
                                   => (bool on, seq(float[]) q, float[] u) {
            on = Identity (go)
            v = Gather (x, i)
            u = Add (v, a)
            all = ConcatFromSequence <axis = 0, new_axis = 1> (p)
            w = ReduceSum <keepdims = 0> (all, first)
            l = SequenceInsert (p, w)
            m = SequenceLength (l)
            c = Greater (m, three)
            q = If (c) <
                then_branch = then () => (seq(float[]) shorter) { shorter = SequenceErase (l, zero) },
                else_branch = other () => (seq(float[]) same) { same = Identity (l) }
            >
        }>
        y = SequenceAt (t, zero)
    }
"""

# Where the elements go is known by the name of an axis alone.
NAMED = """
    named (float[N] x, float a, float b) => (float[] y, int64 k) {
        zero = Constant <value = int64 {0}> ()
        s = SequenceConstruct (a, b, a)
        lengths = Shape (x)
        n = Gather (lengths, zero)
        t = SequenceErase (s, n)
        u = SequenceInsert (t, b, n)
        y = SequenceAt (u, n)
        k = SequenceLength (u)
    }
"""


def assert_agreement(judge, feeds):
    fails = []
    for n, feed in feeds * 2:  # sessions go on in other ways after some runs
        found = judge.findings(feed, n)
        assert not found, f"{feed}\n" + "\n".join(": ".join(one) for one in found)
        fails.append(isinstance(judge.expected, str))
        yield fails[-1]
    assert all(fails) or not judge.refusals()  # what can only fail may be refused at once


@pytest.mark.may_be_refused  # `assert_agreement` looks at that
@pytest.mark.mostly_slow(4)
@pytest.mark.parametrize("is_rewritten", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_all_ways_agree(kind, is_rewritten):
    failing = []

    @settings(max_examples=examples(40), suppress_health_check=[*HealthCheck])
    @given(cases(kind, is_rewritten))
    def agree(case):
        note(onnx.printer.to_text(case.model))
        failing.extend(assert_agreement(Judge(case.model, case.bounds, case.in_order), case.feeds))

    agree()
    assert sum(failing) < 0.9 * len(failing)  # models that all fail would show nothing; a third of these do


def failing_of(text, feeds):
    """Whether each run fails, where all ways agree."""
    given_model = model(text)
    return [*assert_agreement(Judge(given_model, {}, given_model), feeds)]


def test_a_branch_that_never_runs_has_more_elements():
    two = np.ones(2, np.float32)
    feeds = [(n, {"x": np.arange(n, dtype=np.float32), "a": two, "b": two}) for n in (1, 2, 5, 40)]
    assert not any(failing_of(CAPPED, feeds))


def test_a_branch_outside_of_loops_that_never_runs_has_fewer_elements():
    feeds = [(n, {"x": np.zeros(n, np.float32), "a": np.ones(3, np.float32)}) for n in (0, 1, 5, 40)]
    assert not any(failing_of(UNCUT, feeds))


def test_positions_that_the_shape_of_an_input_gives():
    one = np.float32(1)
    feeds = [(1, {"x": np.ones(n, np.float32), "a": one, "b": -one}) for n in range(5)]
    assert failing_of(NAMED, feeds) == [False, False, False, True, True] * 2
