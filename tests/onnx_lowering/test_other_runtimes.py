"""Exported models without sequences, in runtimes that have none: OpenVINO, and onnx's reference evaluator."""

from functools import cache

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.exported import MODELS
from support.models.lowering import left_in
from support.models.sessions import reference

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession, lower
from seqcore.onnx._runtimes.runners import evaluator_of

pytestmark = pytest.mark.mostly_slow(13)

# Of what the model does itself, without lists: onnxruntime gives the same with and without them.
FAULTS_OF_OPENVINO = {
    "breadth_first": "takes a state for one number for good, since it starts with one",
    "kv_layers": "gives other numbers where several states of a loop grow",
    "merge_sorted": "keeps the lengths of a run before where states of a loop shrink",
    "chunk_heads": "gives other numbers for 33 rows after a run with 2",
    "image_detections": "gives a box too few for 33 images",
}
FAULTS_OF_THE_EVALUATOR = {
    "class_detections": "its NonMaxSuppression gives no axis for boxes where there are none",
    "image_detections": "its NonMaxSuppression gives no axis for boxes where there are none",
    "level_pooling": "its RoiAlign or GridSample has no such mode",
}
SIZES = [1, 4]
# In one compiled model, because OpenVINO may plan for the shapes of a run before.
MANY_SIZES = [1, 4, 2, 33, 3]


@cache
def lowered(name, target=None):
    return lower(MODELS[name].path, ragged_io=True, target=target)


@cache
def fed(name, n):
    """A feed for the lowered model, and what our session gives for the model as it was, as tensors."""
    one = MODELS[name]
    feed = one.example(max(n, one.least), seed=n)
    tensors = {}
    names = [value.name for value in lowered(name).graph.input]
    for key, value in feed.items():
        if isinstance(value, list):
            tensors |= as_tensors(key, value, names)
        else:
            tensors[key] = np.asarray(value)
    session = InferenceSession(one.path)
    outputs = [value.name for value in lowered(name).graph.output]
    expected = {}
    for value, output in zip(session.run(None, feed), session.get_outputs(), strict=True):
        if isinstance(value, TensorSequence):
            expected |= as_tensors(output.name, value, outputs)
        else:
            expected[output.name] = np.asarray(value)
    return tensors, [expected[key] for key in outputs]


def as_tensors(name, elements, names):
    sequence = elements if isinstance(elements, TensorSequence) else TensorSequence(elements)
    if f"{name}_lengths" in names:
        return {f"{name}_values": sequence.values(), f"{name}_lengths": sequence.lengths()}
    if f"{name}_extents" in names:
        values = np.concatenate([one.reshape(-1) for one in elements])
        return {f"{name}_values": values, f"{name}_extents": np.array(sequence.shapes)}
    return {f"{name}_values": np.array(elements)}


def assert_close(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        one = np.asarray(one)
        if not other.size and not one.size:
            continue  # an empty list doesn't tell the shape of an element
        assert (one.dtype, one.shape) == (other.dtype, other.shape)
        np.testing.assert_allclose(one, other, 1e-4, 1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_no_list_is_left(name):
    assert left_in(lowered(name)) == []


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize("name", MODELS)
def test_onnxruntime(name):
    used = reference(lowered(name))
    for n in SIZES:
        feed, expected = fed(name, n)
        assert_close(used.run(None, feed), expected)


@pytest.mark.parametrize("name", [name for name in MODELS if name not in FAULTS_OF_THE_EVALUATOR])
def test_reference_evaluator(name):
    used = evaluator_of(lowered(name))
    for n in SIZES:
        feed, expected = fed(name, n)
        assert_close(used.run(None, feed), expected)


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_openvino(name, openvino, tmp_path, request):
    if name in FAULTS_OF_OPENVINO:
        # It runs all the same, and tells once the fault is gone.
        request.applymarker(pytest.mark.xfail(reason=FAULTS_OF_OPENVINO[name]))
    path = tmp_path / "lowered.onnx"
    path.write_bytes(
        lowered(name, "openvino").SerializeToString()
    )  # it reads files in another way than bytes
    used = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    for n in MANY_SIZES:
        feed, expected = fed(name, n)
        found = used(feed)
        assert_close([found[output] for output in used.outputs], expected)
    if not any(value.name.endswith(("_lengths", "_extents")) for value in lowered(name).graph.output):
        # In a compiled model that ran before, it may give the lengths of the last run.
        feed, expected = fed(name, 0)
        used = openvino.compile_model(path, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
        found = used(feed)
        assert_close([found[output] for output in used.outputs], expected)


@pytest.fixture(scope="module")
def openvino():
    return pytest.importorskip("openvino").Core()
