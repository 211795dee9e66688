"""A lowered model is one that its target takes: onnxruntime loads it, and onnx checks it in full."""

import numpy as np
import onnx
import pytest
from support.models.lowering import left_in, session
from support.models.sessions import AGAIN, model

from seqcore.onnx import InferenceSession, lower, lowering
from seqcore.onnx.lowering import lower_with_report

# CenterCropPad is a function, and onnxruntime (1.32) makes an invalid model of one in the body of a map.
CROPS = """
    f (seq(float[A, B]) s) => (float[N, 5, 5] y) <int64[2] size = {5, 5}> {
        t = SequenceMap (s) <body = b (float[C, D] x) => (float[5, 5] o) { o = CenterCropPad (x, size) }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (t)
    }
"""


@pytest.mark.parametrize("ragged_io", [False, True])
def test_a_map_over_an_input(ragged_io):
    given = model(CROPS, 18)
    with pytest.raises(Exception, match="INVALID_GRAPH"):
        session(given)
    result = lower(given, ragged_io=ragged_io)
    assert "SequenceMap" not in left_in(result)
    used = session(result)
    if not ragged_io:
        (y,) = used.run(None, {"s": [np.ones((3, 9), np.float32), np.ones((7, 7), np.float32)]})
        assert y.shape == (2, 5, 5)
        np.testing.assert_array_equal(y.sum((1, 2)), [15, 25])


@pytest.mark.parametrize("declared", ["float[M]", "float[A, B, C]", "float[M, 5]", "float[M, 4]", "float"])
def test_outputs_that_are_declared_wrongly(declared):
    """PyTorch declares such for what comes out of `unbind` and `insert`."""
    given = model(f"""
        f (float[N, 4] x, float[4] z) => ({declared} y) <int64 zero = {{0}}> {{
            rows = SplitToSequence <keepdims = 0> (x)
            more = SequenceInsert (rows, z, zero)
            y = ConcatFromSequence <axis = 0, new_axis = 1> (more)
        }}""")
    result = lower(given)
    onnx.checker.check_model(result, full_check=True)
    assert left_in(result) == []
    if declared == "float[M, 4]":
        assert result.graph.output == given.graph.output
    (y,) = session(result).run(None, {"x": np.ones((3, 4), np.float32), "z": np.zeros(4, np.float32)})
    assert y.shape == (4, 4)


@pytest.mark.parametrize("declared", ["float[1, M]", "float[1, 3]", "float[A]", "float"])
def test_output_lists_that_are_declared_wrongly(declared):
    """onnxruntime makes room for an element whose lengths are all known, from wherever."""
    given = model(f"""
        f (float[N, 3] x, int64[K] ends, bool all) => (seq({declared}) s, float[A, B] y)
        <int64 zero = {{0}}, int64[1] first = {{0}}> {{
            n = Size (ends)
            none = SequenceEmpty ()
            t = Loop (n, "", none) <body = b (int64 i, bool c, seq(float[]) l) => (bool c, seq(float[]) m) {{
                end = Gather (ends, i) stop = Unsqueeze (end, first)
                part = Slice (x, first, stop)
                m = SequenceInsert (l, part)
            }}>
            s = If (all) <then_branch = f () => (seq(float[]) u) {{ u = Identity (t) }},
                          else_branch = g () => (seq(float[]) v) {{ v = SequenceErase (t) }}>
            e = If (all) <then_branch = h () => (float[] p) {{ p = SequenceAt (s, zero) }},
                          else_branch = k () => (float[] q) {{ q = Neg (x) }}>
            y = Neg (e)
        }}""")
    feed = {"x": np.ones((5, 3), np.float32), "ends": np.array([2, 4]), "all": np.array(True)}
    for one in (given, lower(given), lower(given, target="openvino")):
        used = InferenceSession(one)
        for _ in range(AGAIN):
            s, y = used.run(None, feed)
            assert ([part.shape for part in s], y.shape) == ([(2, 3), (4, 3)], (2, 3))
        if one is not given:
            assert len(session(one).run(None, feed)[0]) == 2


def test_what_other_runtimes_want():
    """Names for the lengths of inputs, shapes of outputs, and the attributes of CumSum."""
    given = model("""
        f (float[?, 4] x, int64[K] lens, int64 i) => (float[] y, float[] z) {
            parts = SplitToSequence <axis = 0> (x, lens)
            y = SequenceAt (parts, i)
            z = Relu (x)
        }""")
    for output in given.graph.output:
        output.type.tensor_type.ClearField("shape")
    result = lower(given)
    onnx.checker.check_model(result, full_check=True)
    shapes = [one.type.tensor_type.shape for one in result.graph.input]
    dims = [[dim.dim_param or dim.dim_value for dim in shape.dim] for shape in shapes]
    assert dims == [["x_0", 4], ["K"], []]
    assert all(len(one.type.tensor_type.shape.dim) == 2 for one in result.graph.output)
    (sums,) = (node for node in result.graph.node if node.op_type == "CumSum")
    assert {one.name for one in sums.attribute} == {"exclusive", "reverse"}
    y, _ = session(result).run(
        None, {"x": np.ones((3, 4), np.float32), "lens": np.array([1, 2]), "i": np.array(1)}
    )
    assert y.shape == (2, 4)


@pytest.mark.may_be_refused
def test_what_onnxruntime_refuses_is_not_written(monkeypatch):
    given = model(
        "f (float[N, 4] x, int64 i) => (float[4] y) "
        "{ rows = SplitToSequence <keepdims = 0> (x) y = SequenceAt (rows, i) }"
    )
    refused = []

    def refusal_of(one):
        refused.append(one)
        return "no such thing" if len(refused) == 1 else ""

    monkeypatch.setattr(lowering, "refusal_of", refusal_of)
    result, notes = lower_with_report(given)
    assert result == given
    assert [str(note) for note in notes] == [
        "'rows' stays a list: onnxruntime refuses the lowered model: no such thing"
    ]
    refused.clear()
    monkeypatch.setattr(lowering, "refusal_of", lambda one: "neither")
    assert left_in(lower(given)) == []
    refused.clear()
    assert left_in(lower(given, target="openvino")) == []


@pytest.mark.may_be_refused
def test_of_a_tensor_onnxruntime_knows_more_than_of_an_element():
    """That the shape has two axes: each run fails, and a session on the lowered model can't even be made."""
    given = model("""g (float[1] x, int64[1, 1] shape) => (float[] y) {
        zero = Constant <value = int64 {0}> ()
        s = SequenceConstruct (shape)
        t = SequenceAt (s, zero)
        y = Expand (x, t)
    }""")
    session(given)
    made, notes = lower_with_report(given)
    assert left_in(made) == ["SequenceAt", "SequenceConstruct"]
    assert "onnxruntime refuses the lowered model: " in str(notes[0])
