"""seqcore.onnx.InferenceSession as a whole: what it says of models, passing through, threads."""

import numpy as np
import onnx
import onnxruntime
import pytest
from onnxruntime.capi.onnxruntime_pybind11_state import Fail
from support.models.sessions import (
    APPEND,
    APPEND_FEED,
    TENSORS_ONLY,
    assert_fails,
    assert_values,
    f32,
    i64,
    in_threads,
    model,
    reference,
    session,
)

from seqcore.onnx import InferenceSession

pytestmark = pytest.mark.mostly_slow(5)


def plain_feed(n=4, k=2):
    return {"x": np.arange(3 * n, dtype=np.float32).reshape(n, 3) - 5, "w": f32(1, 2, 3), "k": i64(k)}


class TestWithoutSequences:
    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("q", f32(1)),
            ("w", np.ones(3)),
            ("w", f32(1, 2)),
            ("w", [f32(1, 2, 3)]),
            ("x", f32(1, 2, 3)),
            ("k", i64(9)),
        ],
    )
    def test_errors(self, name, value):
        """What onnxruntime refuses is refused; the node or the input is named."""
        given = model(TENSORS_ONLY)
        used, other = InferenceSession(given), reference(given)
        with pytest.raises(Exception, match=r"."):
            other.run(None, plain_feed() | {name: value})
        assert_fails(used, plain_feed() | {name: value}, Exception, "pick" if name == "k" else name)
        lacking = plain_feed()
        del lacking["w"]
        assert_fails(used, lacking, Exception, "w")
        assert_values(used.run(None, plain_feed()), other.run(None, plain_feed()))


class TestSignatures:
    @pytest.mark.parametrize("text", [TENSORS_ONLY, APPEND])
    @pytest.mark.parametrize("is_told", [False, True])
    def test_meta(self, text, is_told):
        given = model(text)
        if is_told:
            given.producer_name, given.doc_string, given.model_version = "tests", "words", 7
            given.domain = "org.example"
            onnx.helper.set_model_props(given, {"author": "somebody"})
        found, expected = InferenceSession(given).get_modelmeta(), reference(given).get_modelmeta()
        names = ["producer_name", "graph_name", "domain", "description", "version", "custom_metadata_map"]
        for name in names:
            assert getattr(found, name) == getattr(expected, name)

    @pytest.mark.parametrize("text", [TENSORS_ONLY, APPEND])
    def test_options(self, text):
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = 1
        providers = ["CPUExecutionProvider"]
        for used in (
            InferenceSession(model(text), options, providers, [{}]),
            InferenceSession(model(text), sess_options=options, providers=providers, provider_options=None),
            InferenceSession(model(text)),
        ):
            assert used.get_providers() == providers
            feed = plain_feed() if text is TENSORS_ONLY else APPEND_FEED
            expected = used.run(None, feed)
            quiet = onnxruntime.RunOptions()
            quiet.log_severity_level = 4
            assert_values(used.run(None, feed, quiet), expected)
            assert_values(used.run(None, feed, run_options=None), expected)

    @pytest.mark.parametrize("text", [APPEND, TENSORS_ONLY])
    def test_a_run_that_is_told_to_stop(self, text):
        used = InferenceSession(model(text))
        feed = plain_feed() if text is TENSORS_ONLY else APPEND_FEED
        stop = onnxruntime.RunOptions()
        stop.terminate = True
        for _ in range(4):
            with pytest.raises(Fail, match="terminate"):
                used.run(None, feed, stop)
            used.run(None, feed)


class TestThreads:
    @pytest.mark.parametrize("workers", [1, 2])
    def test_one_session_from_four(self, workers):
        text = """
            g (float[N] x, int64 n) => (seq(float[]) all, float[M] y) {
                parts = SplitToSequence (x)
                [map] scaled = SequenceMap (parts) <body = m (float[1] a) => (float[1] b) { b = Add (a, a) }>
                all = Loop (n, , scaled) <body = b (int64 i, bool go, seq(float[]) s)
                                              => (bool go, seq(float[]) t) {
                    at = SequenceAt (s, i)
                    t = SequenceInsert (s, at)
                }>
                [join] y = ConcatFromSequence <axis = 0> (all)
            }
        """
        used = session(text, max_workers=workers)

        def work(k):
            for n in (5, 1, 30):
                x = np.arange(n, dtype=np.float32) + 100 * k
                expected = [*(x + x), *(x + x)[: n // 2]]
                found = used.run(None, {"x": x, "n": i64(n // 2)})
                assert_values(found, [[f32(v) for v in expected], f32(*expected)])
                assert_fails(used, {"x": x, "n": i64(2 * n + k + 5), "q": x}, Exception, "q")
            return k

        assert in_threads(4, work) == [0, 1, 2, 3]
