"""Elements that are known not to be empty, so that no check of a join is needed."""

import numpy as np
import onnxruntime
import pytest
from support.models.sessions import assert_values, f32, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines.filled_elements import known_filled
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights

INPUTS = "float[N] x, float[2, 3] y, float[0, 3] none, int64 n, bool c, seq(float[N]) s"
CONSTANTS = "<int64 zero = {0}, int64[1] one = {1}, float[1] number = {2}>"


def filled(nodes, inputs=INPUTS):
    """Which values of a model are known to be filled."""
    text = f"g ({inputs}) => (float[] v) {CONSTANTS} {{ {nodes} }}"
    prepared = prepare(*without_weights(model(text), None, None))
    return known_filled(prepared.producers, prepared)


@pytest.mark.parametrize(
    "nodes",
    [
        "v = Neg (y)",
        "w = Concat <axis = 0> (x, number) v = Exp (w)",
        "w = Concat <axis = 0> (x, number) u = Unsqueeze (w, one) v = Transpose (u)",
        "w = Concat <axis = 0> (x, number) v = Add (w, number)",
        "l = SequenceConstruct (y, y) v = SequenceAt (l, n)",
        "w = Concat <axis = 0> (x, number) l = SequenceConstruct (w, w)"
        " v = ConcatFromSequence <axis = 0> (l)",
        "w = Concat <axis = 0> (number, x) l = SequenceEmpty () k = SequenceInsert (l, w)"
        " e = SequenceErase (k, n) v = SequenceAt (e, n)",
        """w = Concat <axis = 0> (x, number)
           v = If (c) <then_branch = a () => (float[] p) { p = Neg (w) },
                       else_branch = b () => (float[] q) { q = Concat <axis = 0> (w, x) }>""",
        """v = Loop (n, "", number) <body = b (int64 i, bool go, float[] p) => (bool go, float[] q) {
               q = Concat <axis = 0> (p, x) }>""",
        """e = SequenceEmpty ()
           l = Loop (n, "", e) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
               w = Concat <axis = 0> (x, number) q = SequenceInsert (p, w) }>
           v = SequenceAt (l, zero)""",
    ],
)
def test_filled(nodes):
    assert "v" in filled(nodes)


def test_onnxruntime_joins_no_empty_list():
    """So a join of filled elements is filled."""
    text = """g (seq(float[]) s) => (float[] y) { y = ConcatFromSequence <axis = 0> (s) }"""
    session = onnxruntime.InferenceSession(
        model(text).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    with pytest.raises(Exception, match="1 or more inputs"):
        session.run(None, {"s": []})


def test_an_element_that_is_put_into_two_lists():
    """Also where one of them is in a branch that isn't taken."""
    text = """g (float[N] x, float[M] w, bool c) => (float[] y, float[] z) {
        z = If (c) <then_branch = a () => (float[] u) {
                        l = SequenceConstruct (x, w)
                        u = ConcatFromSequence <axis = 0, new_axis = 1> (l) },
                    else_branch = b () => (float[] v) { v = Identity (w) }>
        k = SequenceConstruct (x, w)
        y = ConcatFromSequence <axis = 0, new_axis = 1> (k)
    }"""
    session = InferenceSession(model(text))
    for _ in range(3):
        feed = {"x": f32(1), "w": f32(2), "c": np.array(False)}
        assert_values(session.run(None, feed), [np.float32([[1], [2]]), f32(2)])
        with pytest.raises(ValueError, match="ConcatFromSequence 'y'"):
            session.run(None, feed | {"x": f32()})
