"""Models that the session refuses, and what it says."""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from sessions import APPEND, APPEND_FEED, LOOP, TENSORS_ONLY, assert_values, i64, model, session

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession


class TestRefused:
    @pytest.mark.parametrize("text", [TENSORS_ONLY, APPEND, LOOP])
    def test_truncated(self, text, tmp_path):
        data = model(text).SerializeToString()
        for given in (b"", b"no model at all", data[:-3], data[: len(data) // 2]):
            with pytest.raises(ValueError, match=r"^[^\n]+$"):
                InferenceSession(given)
            path = tmp_path / "truncated.onnx"
            path.write_bytes(given)
            with pytest.raises(ValueError, match=r"^[^\n]+$"):
                InferenceSession(path)

    def test_a_file_of_another_kind(self, tmp_path):
        path = tmp_path / "words.onnx"
        path.write_text("no model at all")
        with pytest.raises(ValueError, match=r"words\.onnx"):
            InferenceSession(path)

    @pytest.mark.parametrize("kind", [str, Path])
    def test_no_file(self, kind, tmp_path):
        with pytest.raises(FileNotFoundError, match=r"none\.onnx"):
            InferenceSession(kind(tmp_path / "none.onnx"))

    @pytest.mark.parametrize("given", [None, 3, object(), [], {"x": 1}, np.zeros(3), TensorSequence([1])])
    def test_wrong_type(self, given):
        with pytest.raises(TypeError, match=type(given).__name__):
            InferenceSession(given)

    def test_a_graph_is_no_model(self):
        with pytest.raises(TypeError, match="GraphProto"):
            InferenceSession(model(APPEND).graph)

    @pytest.mark.parametrize(
        ("text", "name"),
        [
            ("g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceSize (s) }", "odd_one|SequenceSize"),
            ("g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceLength (q) }", "odd_one"),
            ("g (seq(float[]) s) => (int64 n) { [odd_one] n = SequenceLength () }", "odd_one"),
            (
                "g (float[N] x) => (seq(float[]) s) { [odd_one] s = SplitToSequence <axis = 1.5> (x) }",
                "odd_one",
            ),
            ("g (seq(float[]) s) => (float[N] x) { [odd_one] x = ConcatFromSequence (s) }", "odd_one"),
            (
                "g (float[N] x, int64[N] y) => (seq(float[]) s) { [odd_one] s = SequenceConstruct (x, y) }",
                "odd_one",
            ),
            (
                "g (seq(float[]) s, int64[N] y) => (seq(float[]) t) { [odd_one] t = SequenceInsert (s, y) }",
                "odd_one",
            ),
            (
                "g (float[N] s) => (int64 n) { [odd_one] n = SequenceLength (s) }",
                "odd_one",
            ),
            (
                "g (seq(float[]) s) => (seq(float[]) n) { [odd_one] n = Abs (s) }",
                "odd_one",
            ),
            (
                "g (seq(float[]) s, bool c) => (int64 n) { n = If (c) <"
                "then_branch = t () => (int64 a) { [odd_one] a = SequenceLength (q) },"
                "else_branch = e () => (int64 b) { b = SequenceLength (s) }> }",
                "odd_one",
            ),
        ],
    )
    def test_rejected_by_the_checker(self, text, name, capfd):
        with pytest.raises(ValueError, match=name) as caught:
            session(text)
        assert "\n" not in str(caught.value)
        assert capfd.readouterr() == ("", "")

    def test_defined_twice(self):
        text = "g (seq(float[]) s) => (int64 n) { n = SequenceLength (s) [odd_one] n = SequenceLength (s) }"
        with pytest.raises(ValueError, match=r"\bn\b"):
            session(text)

    def test_an_unknown_opset(self):
        with pytest.raises(ValueError, match="99"):
            session(APPEND, opset=99)

    def test_an_unknown_domain(self):
        text = """<ir_version: 8, opset_import: ["" : 17, "strange" : 1]>
            g (float[N] x) => (seq(float[]) s) { y = strange.Thing (x) s = SequenceConstruct (y) }"""
        with pytest.raises(Exception, match="Thing"):
            session(text)

    def test_the_model_may_change_afterwards(self):
        given = model(APPEND)
        used = InferenceSession(given)
        given.graph.node[0].op_type = "Nothing"
        del given.graph.output[:]
        assert_values(used.run(["n"], APPEND_FEED), [i64(3)])
