"""Exported models without sequences, in runtimes that have none: OpenVINO, and onnx's reference evaluator."""

from functools import cache

import numpy as np
import onnx
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidArgument
from support.models.exported import MODELS
from support.models.lowering import left_in
from support.models.ragged_io import as_tensors, assert_close
from support.models.sessions import model, reference

from seqcore.onnx import InferenceSession, lower
from seqcore.onnx._runtimes.runners import evaluator_of

pytestmark = pytest.mark.mostly_slow(13)

# Of what the model does itself, without lists: onnxruntime gives the same with and without them.
FAULTS_OF_OPENVINO = {
    "breadth_first": "takes a state for one number for good, since it starts with one",
    "kv_layers": "gives other numbers where several states of a loop grow",
    "chunk_heads": "gives other numbers of attention after a run with one row",
    "image_detections": "drops a box that overlaps by just the threshold",
}
FAULTS_OF_THE_EVALUATOR = {
    "class_detections": "its NonMaxSuppression gives no axis for boxes where there are none",
    "image_detections": "its NonMaxSuppression gives no axis for boxes where there are none",
    "level_pooling": "its RoiAlign or GridSample has no such mode",
}
SIZES = [1, 4]
# In one compiled model, because OpenVINO may plan for the shapes of a run before.
MANY_SIZES = [1, 4, 2, 33, 3, 0]


@cache
def lowered(name, target=None):
    return lower(MODELS[name].path, ragged_io=True, target=target)


@cache
def fed(name, n):
    """A feed for the lowered model, and what our session gives for the model as it was, as tensors."""
    one, graph = MODELS[name], lowered(name).graph
    feed, session = one.example(max(n, one.least), seed=n), InferenceSession(one.path)
    names, outputs = ([value.name for value in part] for part in (graph.input, graph.output))
    given = [value.name for value in session.get_outputs()]
    expected = as_tensors(dict(zip(given, session.run(None, feed), strict=True)), outputs)
    return as_tensors(feed, names), [expected[key] for key in outputs]


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.mostly_at_night(5)
def test_onnxruntime(name):
    assert left_in(lowered(name)) == []
    onnx.checker.check_model(lowered(name), full_check=True)
    used = reference(lowered(name))
    for n in SIZES:
        feed, expected = fed(name, n)
        assert_close(used.run(None, feed), expected)


@pytest.mark.mostly_at_night(5)
@pytest.mark.parametrize("name", [name for name in MODELS if name not in FAULTS_OF_THE_EVALUATOR])
def test_reference_evaluator(name):
    used = evaluator_of(lowered(name))
    for n in SIZES:
        feed, expected = fed(name, n)
        assert_close(used.run(None, feed), expected)


@pytest.mark.slow
@pytest.mark.mostly_at_night(5)
@pytest.mark.parametrize("name", MODELS)
def test_openvino(name, openvino, tmp_path, request):
    if name in FAULTS_OF_OPENVINO:
        # It runs all the same, and tells once the fault is gone.
        request.applymarker(pytest.mark.xfail(reason=FAULTS_OF_OPENVINO[name]))
    path = tmp_path / "lowered.onnx"
    # It reads files in another way than bytes.
    path.write_bytes(lowered(name, "openvino").SerializeToString())
    used = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for n in MANY_SIZES:
        if not n and any(
            value.name.endswith(("_lengths", "_extents")) for value in lowered(name).graph.input
        ):
            continue  # an empty list doesn't tell its type
        feed, expected = fed(name, n)
        found = used(feed)
        assert_close([found[output] for output in used.outputs], expected)


def test_no_element_to_read_in_a_model_for_openvino():
    used = reference(lower(MODELS["map_norms"].path, target="openvino"))
    with pytest.raises(InvalidArgument):
        used.run(None, MODELS["map_norms"].example(0))


def both(openvino, path, text, feeds):
    """What OpenVINO gives in one compiled model, and onnxruntime, for each feed."""
    given = model(text)
    path.write_bytes(given.SerializeToString())
    used, other = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"}), reference(given)
    for feed in feeds:
        yield used(feed)[used.outputs[0]], other.run(None, feed)[0]


@pytest.mark.slow
@pytest.mark.parametrize("loop", ["Loop (k, yes)", "Loop (most, c)", "Loop (k, c)"])
def test_loops_without_an_iteration(loop, openvino, tmp_path):
    """Lowered, they give nothing, whatever a run before gave."""
    given = model(f"""f (float[N] x, int64 k, bool c) => (float[K] y, int64 n)
        <bool yes = {{1}}, int64 most = {{9223372036854775807}}, int64 one = {{1}}> {{
            s = SplitToSequence <keepdims = 0> (x)
            y = {loop} <body = b (int64 i, bool g) => (bool on, float e) {{
                e = Gather (x, i) j = Add (i, one) on = Less (j, k) }}>
            n = SequenceLength (s)
        }}""")
    path = tmp_path / "lowered.onnx"
    path.write_bytes(lower(given, target="openvino").SerializeToString())
    used = openvino.compile_model(path, "CPU")
    for n, k in ((4, 3), (3, 0), (6, 5), (0, 0), (2, -1)):
        feed = {"x": np.arange(n, dtype=np.float32), "k": np.array(k), "c": np.array(k > 0)}
        np.testing.assert_array_equal(used(feed)[used.outputs[0]], feed["x"][: max(k, 0)])


# Faults of OpenVINO without a list and without `lower`; each test tells once one is gone.


@pytest.mark.slow
def test_attention_in_openvino(openvino, tmp_path):
    text = """f (float[N, 8] x) => (float[N, 8] y) {
        t = Transpose (x) p = MatMul (x, t) w = Softmax <axis = -1> (p) y = MatMul (w, x) }"""
    feeds = [{"x": np.arange(8 * n, dtype=np.float32).reshape(n, 8) / 100} for n in (1, 16)]
    first, (found, expected) = both(openvino, tmp_path / "f.onnx", text, feeds)
    np.testing.assert_allclose(*first, 1e-5)
    assert not np.allclose(found, expected, 1e-2)


@pytest.mark.slow
def test_suppression_in_openvino(openvino, tmp_path):
    text = """f (float[1, B, 4] boxes, float[1, 1, B] scores) => (int64[K, 3] y)
        <int64 most = {9}, float half = {0.5}> { y = NonMaxSuppression (boxes, scores, most, half) }"""
    boxes = np.array([[[0, 0, 1, 1], [0, 0, 1, 0.5]]], np.float32)
    feed = {"boxes": boxes, "scores": np.array([[[0.9, 0.8]]], np.float32)}
    ((found, expected),) = both(openvino, tmp_path / "f.onnx", text, [feed])
    assert (len(found), len(expected)) == (1, 2)


@pytest.mark.slow
def test_concat_behind_an_if_in_openvino(openvino, tmp_path):
    text = """f (int64[N] x) => (int64[M] y) <int64 zero = {0}, int64 nine = {9}, int64[1] front = {0}> {
        s = Shape (x)
        n = Squeeze (s)
        few = Less (n, nine)
        made = If (few) <then_branch = t () => (int64[A] u) { u = Neg (x) },
                         else_branch = e () => (int64[B] v) { v = Concat <axis = 0> (x, front) }>
        ends = CumSum <exclusive = 0, reverse = 0> (made, zero)
        y = Concat <axis = 0> (front, ends)
    }"""
    feeds = [{"x": np.arange(1, n)} for n in (3, 5, 2, 6)]
    assert not all(np.array_equal(*pair) for pair in both(openvino, tmp_path / "f.onnx", text, feeds))
    # Lowered for it, a model with a list there is right.
    text = text.replace("Shape (x)", "SplitToSequence (x)").replace("Squeeze (s)", "SequenceLength (s)")
    path = tmp_path / "lowered.onnx"
    path.write_bytes(lower(model(text), target="openvino").SerializeToString())
    used, other = openvino.compile_model(path, "CPU"), InferenceSession(model(text))
    for feed in feeds:
        np.testing.assert_array_equal(used(feed)[used.outputs[0]], other.run(None, feed)[0])


@pytest.fixture(scope="module")
def openvino():
    return pytest.importorskip("openvino").Core()
