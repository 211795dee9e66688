"""python -m seqcore.onnx: lower writes the lowered model, explain says what becomes of each sequence."""

import subprocess
import sys

import onnx
import pytest
from support.models.exported import MODELS
from support.models.lowering import parse

from seqcore.onnx import lower
from seqcore.onnx.__main__ import main
from seqcore.onnx.explaining import explain
from seqcore.onnx.lowering import lower_with_report

MODEL = """g (float[N, 100] x, seq(float[K]) t, int64 i) => (float[100] y, float[K] z) {
    s = SplitToSequence<keepdims = 0>(x)
    e = SequenceAt(s, i)
    y = Neg(e)
    z = SequenceAt(t, i)
}"""


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "in.onnx"
    onnx.save(parse(MODEL), path)
    return path


def test_lower(path, capsys):
    out = path.with_name("out.onnx")
    assert main(["lower", str(path), "-o", str(out)]) == 0
    assert onnx.load(out) == lower(parse(MODEL))
    printed = capsys.readouterr()
    first, stays, then, option = printed.out.splitlines()
    assert first == f"{out}: 1 sequence lowered, 1 left"
    assert stays == "  't' stays a list: it is an input of the model"
    assert then.startswith(f"next: load {out} in onnxruntime, or in seqcore.onnx.InferenceSession")
    assert "--ragged-io" in option
    assert printed.err == ""
    assert sorted(file.name for file in path.parent.iterdir()) == ["in.onnx", "out.onnx"]


def test_explain(path, capsys):
    assert main(["explain", str(path)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a session runs it as onnxruntime does; lower leaves 1 sequence",
        "sequences",
        "    't' stays a list: it is an input of the model",
        "    's' becomes pieces of 'x'",
        "what runs where, the first that can",
        "    onnxruntime  the whole model, while its lists are short",
        "    onnxruntime  Gather, Neg",
        "    seqcore      SequenceAt 'z'",
        "how to run it",
        "    seqcore.onnx.InferenceSession takes this model as it is, as shown above",
        f"    for other runtimes: python -m seqcore.onnx lower {path} -o OUT --ragged-io",
    ]
    onnx.save(parse("g (float[N] x) => (float[N] y) { y = Neg(x) }"), path)
    assert main(["explain", str(path)]) == 0
    assert capsys.readouterr().out == "the model has no sequences: onnxruntime runs it whole\n"


def test_explain_with_tensors_outside(path, capsys):
    """What becomes of the model's own sequences, of which nothing can be said without the option."""
    assert main(["explain", "--ragged-io", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "a session runs it as onnxruntime does; lower leaves no sequence"
    assert (
        lines[2]
        == "    't' stays a list: it is an input of the model; with lower it becomes pieces of 't_values'"
    )
    assert lines[-1].endswith("--ragged-io")


@pytest.mark.parametrize("is_script", [True, False])
def test_explain_names_the_source(is_script):
    model = parse("""g (seq(float[N]) t, int64 i) => (seq(float[N]) u, float[N] z) {
        u = SequenceErase (t, i)
        z = SequenceAt (u, i)
    }""")
    node = model.graph.node[0]
    node.name = "erase"
    if is_script:
        node.doc_string = "# net.py:7:4"
    else:
        trace = 'File "a.py", line 3, in f\n  x\nFile "net.py", line 7, in forward\n'
        node.metadata_props.add(key="pkg.torch.onnx.stack_trace", value=trace)
    assert any(line.endswith("(net.py, line 7)") for line in explain(model))
    assert not any("after lower" in line for line in explain(model))


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_explain_names_four_alike_sequences_at_most(n):
    made = "".join(f"s{k} = SplitToSequence (x) " for k in range(n))
    outs = ", ".join(f"seq(float[A]) s{k}" for k in range(n))
    line = explain(parse(f"g (float[N] x) => ({outs}) {{ {made} }}"))[2]
    names = ", ".join([f"'s{k}'" for k in range(min(n, 4))] + ["…"] * (n > 4))
    assert line.startswith(f"    {names} stays" if n == 1 else f"    {n} sequences ({names}): each stays")


@pytest.mark.slow
def test_from_a_shell(path, capsys):
    command = [sys.executable, "-m", "seqcore.onnx", "explain", str(path.with_name("no.onnx"))]
    assert subprocess.run(command, capture_output=True, timeout=300).returncode == 1
    with pytest.raises(SystemExit, match="2"):
        main(["lower", str(path)])
    assert "the following arguments are required: -o" in capsys.readouterr().err


class TestExplainAgreesWithLower:
    @pytest.mark.slow
    def test_what_a_session_keeps_and_lower_does_not(self):
        lines = explain(str(MODELS["queue_delays"].path))[2:]
        assert lines[0].endswith(
            "stays a list: the loop '/Loop' erases from it; with lower it becomes a tensor of its stacked "
            "elements, which each edit copies"
        )
        assert lines[1] == "    '/Loop_output_1' becomes a scan output of '/Loop'"

    @pytest.mark.parametrize("name", list(MODELS)[::9])
    @pytest.mark.slow
    def test_of_exported_models(self, name):
        """What lower leaves is said to stay, for the same reason; all else is said to be replaced."""
        text = "\n".join(explain(str(MODELS[name].path)))
        _, notes = lower_with_report(MODELS[name].path)
        assert all(note.text in text for note in notes if not note.is_lowered)
        assert all(note.is_lowered for note in notes) or "stays" in text
