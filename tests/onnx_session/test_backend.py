"""seqcore.onnx.backend: what the interface takes beyond the ways in which onnx's tests use it."""

import numpy as np
import onnx
import pytest
from onnx import helper, parser

from seqcore import TensorSequence
from seqcore.onnx import backend

MODEL = parser.parse_model("""
    <ir_version: 8, opset_import: ["": 17]>
    both (seq(float[N]) s, float[N] x) => (seq(float[N]) longer, int64 n) {
        longer = SequenceInsert(s, x)
        n = SequenceLength(s)
    }""")
ONE = np.array([1], np.float32)
TWO = np.array([2, 3], np.float32)


def lists(values):
    return [value.tolist() for value in values]


class TestModels:
    @pytest.mark.parametrize(
        "inputs",
        [[[ONE], TWO], ([ONE], TWO), {"x": TWO, "s": [ONE]}, [TensorSequence([ONE]), TWO]],
        ids=["list", "tuple", "dict", "sequence"],
    )
    def test_inputs(self, inputs):
        outputs = backend.prepare(MODEL).run(inputs)
        assert isinstance(outputs, tuple)
        assert type(outputs[0]) is list
        assert lists(outputs[0]) == [[1], [2, 3]]
        assert outputs["n"] == outputs.n == outputs[1] == 1

    def test_a_bare_value_for_a_model_of_one_input(self):
        model = parser.parse_model("""
            <ir_version: 8, opset_import: ["": 17]>
            last (seq(float[N]) s) => (float[N] x) { p = Constant<value_int = -1>() x = SequenceAt(s, p) }""")
        assert backend.run_model(model, TensorSequence([ONE, TWO])).x.tolist() == [2, 3]

    def test_too_many_inputs(self):
        with pytest.raises(ValueError, match=r"takes 2 inputs \(s, x\), got 3"):
            backend.run_model(MODEL, [[ONE], TWO, TWO])

    def test_an_invalid_model(self):
        with pytest.raises(onnx.checker.ValidationError):
            backend.prepare(onnx.ModelProto())


class TestDevices:
    def test_the_cpu(self):
        assert backend.is_compatible(MODEL)
        assert backend.is_compatible(MODEL, "CPU")

    @pytest.mark.parametrize("device", ["CUDA", "CUDA:1", "TPU", "CPU:x", ""])
    def test_there_is_only_the_cpu(self, device):
        assert not backend.supports_device(device)
        assert not backend.is_compatible(MODEL, device)
        with pytest.raises(ValueError, match="is not supported: expected 'CPU'"):
            backend.prepare(MODEL, device)


class TestNodes:
    def test_sequences(self):
        node = helper.make_node("SequenceInsert", ["s", "x", "p"], ["y"])
        for seq in ([ONE], TensorSequence([ONE])):
            assert lists(backend.run_node(node, [seq, TWO, 0]).y) == [[2, 3], [1]]
        assert lists(backend.run_node(node, [[], TWO, 0]).y) == [[2, 3]]

    def test_an_optional_without_a_value(self):
        node = helper.make_node("OptionalHasElement", ["x"], ["y"])
        assert not backend.run_node(node, [None]).y
        assert backend.run_node(node, [ONE]).y

    def test_one_value_twice_and_an_input_left_out(self):
        assert backend.run_node(helper.make_node("Add", ["x", "x"], ["y"]), [TWO, TWO]).y.tolist() == [4, 6]
        node = helper.make_node("Clip", ["x", "", "high"], ["y"])
        assert backend.run_node(node, [TWO, np.float32(2.5)]).y.tolist() == [2, 2.5]

    def test_opsets_and_domains(self):
        node = helper.make_node("SplitToSequence", ["x"], ["y"])
        assert lists(backend.run_node(node, [TWO], opset_version=11).y) == [[2], [3]]
        node = helper.make_node("Gelu", ["x"], ["y"], domain="com.microsoft")
        assert backend.run_node(node, [ONE]).y.shape == (1,)

    def test_types_of_outputs(self):
        node = helper.make_node("Add", ["x", "x"], ["y"])
        assert backend.run_node(node, [ONE, ONE], outputs_info=[(np.dtype("float32"), (1,))]).y.tolist() == [
            2
        ]

    def test_errors(self):
        add = helper.make_node("Add", ["x", "y"], ["z"])
        with pytest.raises(ValueError, match=r"the Add node has 2 inputs \(x, y\), got 1"):
            backend.run_node(add, [ONE])
        with pytest.raises(onnx.checker.ValidationError):
            backend.run_node(helper.make_node("NoSuchOperator", ["x"], ["y"]), [ONE])
        with pytest.raises(ValueError, match="is not supported: expected 'CPU'"):
            backend.run_node(add, [ONE, ONE], "CUDA")
