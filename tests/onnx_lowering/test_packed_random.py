"""Random programs over sequences, as models of tensors alone: they do what they do in plain Python."""

import numpy as np
import pytest
from hypothesis import HealthCheck, event, given, settings
from hypothesis import strategies as st
from support.random_cases import examples

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
import onnxruntime
from onnx import helper
from support.models.lowering import left_in
from support.models.programs import SEQUENCE, Plain, any_failed, as_graph, programs
from support.models.sessions import assert_values, i64

from seqcore import TensorSequence
from seqcore.onnx import lower


def tensors_of(name, elements):
    """A list of vectors as the model takes it."""
    lengths = np.array([len(one) for one in elements], np.int64)
    return {f"{name}_values": i64([x for one in elements for x in one]), f"{name}_lengths": lengths}


def results_of(found, results):
    """What a model gives, with lists put together again."""
    found, whole = iter(found), []
    for _, kind in results:
        value = next(found)
        whole.append(TensorSequence.from_lengths(value, next(found)) if kind == SEQUENCE else value)
    return whole


def loaded(model, optimizes):
    """A session; None where onnxruntime finds when it loads a model that it can only fail."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    if not optimizes:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    try:
        return onnxruntime.InferenceSession(model.SerializeToString(), options)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail:
        return None


@settings(
    max_examples=examples(200),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(programs(), st.sampled_from([17, 18, 21]), st.booleans())
def test_tensors_agree(drawn, opset, optimizes):
    """Optimized, a model may lose an error of an element of which no more than that it is there counts."""
    block, feeds = drawn
    model = helper.make_model(
        as_graph(block, "program"), opset_imports=[helper.make_opsetid("", opset)], ir_version=8
    )
    element = model.graph.input[0].type.sequence_type.elem_type.tensor_type
    element.shape.dim.add()  # of one axis
    lowered = lower(model, ragged_io=True)
    if left := left_in(lowered):
        assert "SplitToSequence" in left  # into pieces of no length, which is an error where it runs
        return
    onnx.checker.check_model(lowered, full_check=True)
    used = loaded(lowered, optimizes)
    for s, t, k in feeds:
        plain = Plain()
        expected = plain.run(block, (s, t, k), {})
        if used is None:
            assert plain.failures
            continue
        try:
            found = used.run(None, {**tensors_of("s", s), "t": t, "k": i64(k)})
        except Exception:
            assert plain.failures
            continue
        if any_failed(expected):
            assert optimizes
            continue
        found = results_of(found, block.results)
        assert_values(found, [i64(one) if isinstance(one, int) else one for one in expected])


@settings(
    max_examples=examples(60),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(programs(), st.booleans())
def test_without_checks(drawn, is_fixed):
    """For the target portable, what comes out is right wherever the program has no error.

    Where a list or a vector is empty, it may fail.
    """
    block, feeds = drawn
    model = helper.make_model(
        as_graph(block, "program"), opset_imports=[helper.make_opsetid("", 18)], ir_version=8
    )
    model.graph.input[0].type.sequence_type.elem_type.tensor_type.shape.dim.add()  # of one axis
    for s, t, k in feeds:
        plain = Plain()
        expected = plain.run(block, (s, t, k), {})
        if plain.failures or any_failed(expected):
            continue
        feed = {**tensors_of("s", s), "t": i64(t), "k": i64(k)}
        shapes = {name: value.shape for name, value in feed.items()} if is_fixed else None
        lowered = lower(model, ragged_io=True, target="portable", shapes=shapes, unroll=8)
        if left_in(lowered):
            continue
        used = loaded(lowered, optimizes=True)
        try:
            found = used.run(None, feed)
        except Exception:
            event("fails")
            continue
        event("succeeds")
        found = results_of(found, block.results)
        assert_values(found, [i64(one) if isinstance(one, int) else one for one in expected])
