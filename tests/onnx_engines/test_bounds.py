"""Bounds on iterations and parts: which checks a look at the feed replaces, and which aren't needed."""

import numpy as np
import pytest
from support.models.sessions import f32, floats, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines.bounds import FedLimit
from seqcore.onnx._engines.checked_model import add_checks
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights

MOST = 9
LOOP = """
    {t} = Loop ({trips}, "", {s}) <body = b{t} (int64 i{t}, bool go{t}, seq(float[]) p{t})
                                            => (bool go{t}, seq(float[]) q{t}) {{ {body} }}>
"""
APPEND = "q{t} = SequenceInsert (p{t}, x)"


def loop(trips, s="s", t="t", body=APPEND):
    return LOOP.format(trips=trips, s=s, t=t, body=body.format(t=t))


def checked(nodes, inputs="seq(float[]) s, float[N, 2] x, int64 n, int64[K] k", output="seq(float[]) t"):
    """The limits on the feed, and the operators of the checks in the model."""
    text = f"g ({inputs}) => ({output}) <int64 one = {{1}}, int64 zero = {{0}}> {{ {nodes} }}"
    prepared = prepare(*without_weights(model(text), None, None))
    copy = prepared.model.copy()
    fed = add_checks(copy, prepared, MOST)
    before = [node.op_type for node in prepared.model.graph.all_nodes()]
    after = [node.op_type for node in copy.graph.all_nodes()]
    return fed, len(after) - len(before)


LENGTH = "lengths = Shape (x) m = Gather (lengths, {axis})"


@pytest.mark.parametrize(
    ("nodes", "limit"),
    [
        (loop("n"), FedLimit("n", None, MOST)),
        (LENGTH.format(axis="zero") + loop("m"), FedLimit("x", 0, MOST)),
        (
            "minus = Neg (x)" + LENGTH.format(axis="zero").replace("(x)", "(minus)") + loop("m"),
            FedLimit("x", 0, MOST),
        ),
        ("t = SplitToSequence (x)", FedLimit("x", 0, MOST)),
        (
            "three = Constant <value = int64 {3}> () t = SplitToSequence (x, three)",
            FedLimit("x", 0, 3 * MOST),
        ),
        ("minus = Neg (x) t = SplitToSequence (minus)", FedLimit("x", 0, MOST)),
        ("t = SplitToSequence (x, k)", FedLimit("k", 0, MOST, least=1)),
    ],
)
def test_the_feed_tells(nodes, limit):
    assert checked(nodes) == ([limit], 0)


@pytest.mark.parametrize(
    "nodes",
    [
        "m = Mul (n, one)" + loop("m"),
        "y = Compress <axis = 0> (x, c) t = SplitToSequence (y)",
        # A branch may not be taken, whatever is fed.
        f"t = If (one_of) <then_branch = a () => (seq(float[]) u) {{ {loop('n', t='u')} }},"
        "                  else_branch = e () => (seq(float[]) v) { v = Identity (s) }>",
        loop("n", t="u", body="h{t} = SequenceInsert (p{t}, x) q{t} = SequenceInsert (h{t}, x)")
        + "m = SequenceLength (u)"
        + loop("m"),
    ],
)
def test_only_a_run_tells(nodes):
    inputs = "seq(float[]) s, float[N, 2] x, int64 n, bool[N] c, bool one_of"
    assert checked(nodes, inputs)[1] > 0


@pytest.mark.parametrize("shape", [(), (1,), (1, 1)])
def test_a_number_may_have_axes(shape):
    session = InferenceSession(
        model(f"g (seq(float[]) s, float[N] x, int64 n) => (seq(float[]) t) {{ {loop('n')} }}")
    )
    for n in (-1, 0, 3, 1000, 2):
        (found,) = session.run(None, {"s": floats(1), "x": f32(1, 2), "n": np.full(shape, n)})
        assert len(found) == 1 + max(n, 0)


def test_a_default_is_not_fed():
    text = f"""g (seq(float[]) s, float[N] x, int64 n = {{600}}) => (seq(float[]) t) {{ {loop("n")} }}"""
    session = InferenceSession(model(text))
    for _ in range(4):
        assert len(session.run(None, {"s": [], "x": f32(1)})[0]) == 600
        assert len(session.run(None, {"s": [], "x": f32(1), "n": i64(2)})[0]) == 2
