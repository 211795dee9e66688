"""Inputs whose ranks a model doesn't declare: it is compiled for those that are fed."""

import numpy as np
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from support.models.engines import explained
from support.models.lowering import session
from support.models.sessions import assert_values, f32, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._thresholds import MOST_RANKS

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


def test_explain_says_so():
    assert explained(FRAMES)[-1] == "compiled anew for each rank of 'x': the model declares none"
    assert "compiled anew" not in "".join(explained(FRAMES.replace("float[] x", "float[N] x")))
