"""Models for Triton Inference Server: its configuration, and inputs as it feeds them."""

import numpy as np
import onnx
import onnxruntime
import pytest

from seqcore.onnx.__main__ import main
from seqcore.onnx.lowering import lower_for_triton

HEAD = '<ir_version: 8, opset_import: ["": 17]>'
SUM = """{out} = SequenceMap ({seq}) <body = b{out} (float[{shape}] e{out}) => (float r{out}) {{
    r{out} = ReduceSum <keepdims = 0> (e{out})
}}>
y{out} = ConcatFromSequence <axis = 0, new_axis = 1> ({out})
"""


def model(inputs, outputs, nodes):
    return onnx.parser.parse_model(f"{HEAD} g ({inputs}) => ({outputs}) {{ {nodes} }}")


def sums(shape):
    return model(f"seq(float[{shape}]) parts", "float[B] ya", SUM.format(out="a", seq="parts", shape=shape))


def fed(elements):
    """What Triton feeds for a batch of elements: their values in one axis, and their shapes."""
    shapes = np.array([element.shape for element in elements], np.int32)
    return {"parts": np.concatenate([element.ravel() for element in elements]), "parts_shapes": shapes}


@pytest.mark.parametrize("shape", ["N", "N, 4", "N, M"])
def test_a_batch_of_elements(shape):
    lowered, config, _ = lower_for_triton(sums(shape))
    onnx.checker.check_model(lowered, full_check=True)
    session = onnxruntime.InferenceSession(lowered.SerializeToString(), providers=["CPUExecutionProvider"])
    lengths = [4 if axis.strip() == "4" else None for axis in shape.split(",")]
    for n in (1, 3):
        elements = [np.full([length or k + 1 for length in lengths], k + 1, np.float32) for k in range(n)]
        (found,) = session.run(None, fed(elements))
        np.testing.assert_allclose(found, [element.sum() for element in elements])
    assert config.count("allow_ragged_batch: true") == config.count("kind: BATCH_ITEM_SHAPE") == 1
    assert "data_type: TYPE_INT32" in config


def test_the_text_of_a_configuration():
    _, config, notes = lower_for_triton(sums("N, 4"))
    assert config.splitlines() == [
        'backend: "onnxruntime"',
        "max_batch_size: 64",
        *("input [", "  {", '    name: "parts"', "    data_type: TYPE_FP32"),
        *("    dims: [ -1, 4 ]", "    allow_ragged_batch: true", "  }", "]"),
        *("batch_input [", "  {", "    kind: BATCH_ITEM_SHAPE", '    target_name: "parts_shapes"'),
        *("    data_type: TYPE_INT32", '    source_input: "parts"', "  }", "]"),
        *("output [", "  {", '    name: "ya"', "    data_type: TYPE_FP32"),
        *("    dims: [ 1 ]", "    reshape: { shape: [ ] }", "  }", "]"),
        "dynamic_batching { }",
    ]
    assert all(note.is_lowered for note in notes)


def test_scalars_and_rows():
    given = model(
        "seq(float) s, float[B, 3] x",
        "float[B] y, float[B, 3] z",
        "y = ConcatFromSequence <axis = 0, new_axis = 1> (s) z = Neg (x)",
    )
    lowered, config, _ = lower_for_triton(given)
    session = onnxruntime.InferenceSession(lowered.SerializeToString(), providers=["CPUExecutionProvider"])
    s, x = np.array([1, 2], np.float32), np.ones((2, 3), np.float32)
    y, z = session.run(None, {"s": s, "x": x})
    np.testing.assert_array_equal(y, s)
    np.testing.assert_array_equal(z, -x)
    assert "allow_ragged_batch" not in config
    assert config.count("reshape: { shape: [ ] }") == 2


@pytest.mark.parametrize(
    ("inputs", "outputs", "nodes", "message"),
    [
        ("seq(float[N]) s, int64 i", "float[N] y", "y = SequenceAt (s, i)", r"input 'i' has shape \(\)"),
        ("seq(float[N]) s", "int64 n", "n = SequenceLength (s)", r"output 'n' has shape \(\)"),
        ("seq(float[N]) s", "seq(float[N]) t", "t = Identity (s)", "output 't_values' is part of a sequence"),
        ("seq(float[]) s", "float[M] y", "y = ConcatFromSequence <axis = 0> (s)", "'s' can't be lowered"),
        ("complex64[B] x", "complex64[B] y", "y = Identity (x)", "'x' has a type that Triton doesn't"),
    ],
)
def test_what_triton_can_not_batch(inputs, outputs, nodes, message):
    with pytest.raises(ValueError, match=message):
        lower_for_triton(model(inputs, outputs, nodes.replace("float[]", "float")))


@pytest.mark.parametrize("folder", [".", "1"])
def test_the_command_writes_it(tmp_path, capsys, folder):
    (tmp_path / folder).mkdir(exist_ok=True)
    given, out = tmp_path / "in.onnx", tmp_path / folder / "model.onnx"
    onnx.save(sums("N"), given)
    assert main(["lower", str(given), "-o", str(out), "--triton"]) == 1
    assert "--triton needs --ragged-io" in capsys.readouterr().err
    for other in (["--target", "openvino"], ["--shape", "x=3,4"], ["--unroll", "4"]):
        assert main(["lower", str(given), "-o", str(out), "--ragged-io", "--triton", *other]) == 1
        assert "--triton takes no --target, --shape or --unroll" in capsys.readouterr().err
    assert main(["lower", str(given), "-o", str(out), "--ragged-io", "--triton"]) == 0
    assert f"{tmp_path / 'config.pbtxt'}: a request has one element" in capsys.readouterr().out
    _, config, _ = lower_for_triton(sums("N"))
    assert (tmp_path / "config.pbtxt").read_text() == config
    assert [value.name for value in onnx.load(out).graph.input] == ["parts", "parts_shapes"]
