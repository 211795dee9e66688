"""Inputs whose ranks a model doesn't declare: it is compiled for those that are fed."""

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from support.models.lowering import session
from support.models.sessions import assert_values, constant, f32, i64, model

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession
from seqcore.onnx._thresholds import HEAVY, MOST_RANKS
from seqcore.onnx.explaining import explain

# Frames of a signal, as many as there is a number for, one behind the other.
FRAMES = """frames (float[] x, int64 n) => (float[] y, seq(float[]) frames) {
    none = SequenceEmpty ()
    frames = Loop (n, "", none) <body = b (int64 i, bool go, seq(float[]) s) => (bool go, seq(float[]) t) {
        axes = Constant <value = int64[1] {0}> ()
        start = Unsqueeze (i, axes)
        two = Constant <value = int64[1] {2}> ()
        end = Add (start, two)
        frame = Slice (x, start, end)
        t = SequenceInsert (s, frame)
    }>
    y = ConcatFromSequence <axis = 0> (frames)
}"""


def fed(rank, n=3):
    shape = (n + 1, *range(2, rank + 1))
    return {"x": np.arange(np.prod(shape), dtype=np.float32).reshape(shape), "n": i64(n)}


def ways(used):
    """What ran, by the ranks that a session was compiled for."""
    return {
        ranks: {one.name for one in made.compiled.tiers if one.taken}
        for ranks, made in used._engines._with_axes.items()
    }


@pytest.mark.parametrize("compile", ["lazy", "load"])
def test_onnxruntime_runs_all_for_each_rank(compile):
    used = InferenceSession(model(FRAMES), compile=compile)
    for rank in (1, 2, 3, 2, 1, 1, 1, 1):
        assert_values(used.run(None, fed(rank)), session(model(FRAMES)).run(None, fed(rank)))
    found = ways(used)
    assert set(found) == {(("x", 1),), (("x", 2),), (("x", 3),)}
    assert found[("x", 1),] == {"short"}
    assert used._engines.compiled.tier("given steps").taken == 0


# What each element has above zero, joined.
JOINED = """joined (seq(float[]) s) => (float[] y, seq(float[]) t) {
    t = SequenceMap (s) <body = b (float[] x) => (float[] r) { r = Relu (x) }>
    y = ConcatFromSequence <axis = 0> (t)
}"""


@pytest.mark.parametrize("make", [list, TensorSequence])
def test_elements_of_lists_have_a_rank_too(make):
    used = InferenceSession(model(JOINED))
    rows, numbers = [f32([-1, 2]), f32([3, 4], [-5, 6])], [f32(-1, 2), f32(3)]
    for given, joined in 3 * [(rows, f32([0, 2], [3, 4], [0, 6])), (numbers, f32(0, 2, 3))]:
        assert_values(used.run(None, {"s": make(given)}), [joined, [np.maximum(one, 0) for one in given]])
    assert set(ways(used)) == {(("s", 1),), (("s", 2),)}
    assert used._engines.compiled.tier("given steps").taken == 0


def test_lengths_of_a_tensor_have_names():
    """So pieces of it are known to fit together, and no run has to look at them."""
    text = """edits (float[] x) => (float[] y) <int64 zero = {0}> {
        rows = SplitToSequence (x)
        first = SequenceAt (rows, zero)
        more = SequenceInsert (rows, first)
        y = ConcatFromSequence <axis = 0> (more)
    }"""
    used = InferenceSession(model(text), compile="load")
    x = f32([1, 2], [3, 4])
    assert_values(used.run(None, {"x": x}), [np.concatenate([x, x[:1]])])
    assert ways(used)[("x", 2),] != {"given steps"}


OTHERS = {
    "none": [],
    "a scalar": [f32(1)[0]],
    "several ranks": [f32(1), f32([2])],
    "a list of numbers": [f32(1), [2.0]],
    "only such": [[1.0]],
    "another dtype": [i64([1])],
    "a tuple": (f32(1, 2),),
    "an array": f32(1, 2),
    "nothing": None,
}


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_other_lists_run_as_they_do_in_a_model_for_all_ranks(given):
    used, other = InferenceSession(model(JOINED)), InferenceSession(model(JOINED))
    other._engines.unranked = []
    for _ in range(4):
        assert_same(outcome(used, given), outcome(other, given))


def outcome(used, given):
    try:
        return used.run(None, {"s": given})
    except Exception as error:
        return [type(error), str(error)]


def assert_same(found, expected):
    if isinstance(expected[0], type):
        assert found == expected
    else:
        assert_values(found, [expected[0], list(expected[1])])


def test_errors_are_those_of_steps():
    used = InferenceSession(model(FRAMES))
    for _ in range(4):
        with pytest.raises(InvalidArgument, match="Name:'frame'"):
            used.run(None, {"x": f32(1)[0], "n": i64(2)})  # a scalar has no axis to cut
        with pytest.raises(ValueError, match="ConcatFromSequence 'y'"):
            used.run(None, fed(2, n=0))
        with pytest.raises(TypeError, match="input 'x' has dtype int64, expected float32"):
            used.run(None, {"x": i64([1, 2]), "n": i64(1)})
        with pytest.raises(ValueError, match="input_feed lacks 'x'"):
            used.run(None, {"n": i64(1)})
        assert_values(used.run(["y"], fed(1)), [f32(0, 1, 1, 2, 2, 3)])


def test_so_many_combinations_at_most():
    used = InferenceSession(model(FRAMES))
    ranks = range(1, MOST_RANKS + 4)
    for rank in ranks:
        feed = {"x": np.arange(4, dtype=np.float32).reshape(4, *[1] * (rank - 1)), "n": i64(3)}
        y, _ = used.run(None, feed)
        assert y.shape == (6, *[1] * (rank - 1))
    assert len(ways(used)) == MOST_RANKS
    assert used._engines.compiled.tier("given steps").taken == len(ranks) - MOST_RANKS


def test_a_model_that_draws_stays_one():
    """Its generators are the model's: another for each rank would draw the same numbers again."""
    text = FRAMES.replace("frame = Slice (x, start, end)", "frame = RandomUniformLike (x)")
    used = InferenceSession(model(text))
    drawn = [used.run(["y"], fed(rank, n=1))[0].ravel()[0] for rank in (1, 2, 1, 2)]
    assert len(set(drawn)) == 4
    assert not ways(used)


def test_large_weights_are_held_once():
    text = JOINED.replace("r = Relu (x)", "w = Constant <value = float[1] {1}> () r = Mul (x, w)")
    given = model(text)
    node = given.graph.node[0].attribute[0].g.node[0]
    node.attribute[0].t.CopyFrom(constant("", np.ones(HEAVY // 4, np.float32)))
    used = InferenceSession(given)
    assert_values(used.run(None, {"s": [f32(2)]})[:1], [np.full(HEAVY // 4, 2, np.float32)])
    assert not ways(used)


def test_explain_says_so():
    assert explain(model(FRAMES))[-1] == "    compiled anew for each rank of 'x': the model declares none"
    assert "compiled anew" not in "".join(explain(model(FRAMES.replace("float[] x", "float[N] x"))))
