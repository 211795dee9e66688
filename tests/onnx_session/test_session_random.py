"""Random programs over sequences: the session does what they do in plain Python."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from support.random_cases import examples

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from onnx import helper
from support.models.programs import Plain, any_failed, as_graph, programs
from support.models.sessions import assert_values, i64

from seqcore.onnx import InferenceSession


@settings(
    max_examples=examples(300),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
)
@given(programs())
def test_the_session_agrees(drawn):
    block, feeds = drawn
    model = helper.make_model(
        as_graph(block, "program"), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    used = InferenceSession(model)
    for arguments in feeds[:2] * 2 + feeds:
        plain = Plain()
        expected = plain.run(block, arguments, {})
        failed = any_failed(expected)
        try:
            found = used.run(None, dict(zip("stk", [*arguments[:2], i64(arguments[2])], strict=True)))
        except (IndexError, ValueError):
            assert plain.failures
            continue
        assert not failed
        assert_values(found, [i64(one) if isinstance(one, int) else one for one in expected])
        assert all(one.dtype == np.int64 for one in found)
