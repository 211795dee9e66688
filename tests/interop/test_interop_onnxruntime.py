"""A sequence feeds a session of plain onnxruntime: `session.run(None, {"s": list(seq)})`."""

import subprocess
import sys

import numpy as np
import pytest
from support.strategies import LAYOUTS, OPERATOR_NAMES, assert_holds, filled, laid_out, same

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnxruntime
from onnx import parser

from seqcore import TensorSequence, split_to_sequence

TEXT_NAMES = {"float32": "float", "float64": "double"}
NAMES = [name for name in OPERATOR_NAMES if "complex" not in name]  # as far as onnxruntime has sequences


def model(name, node, outputs):
    text = TEXT_NAMES.get(name, name)
    return parser.parse_model(
        f'<ir_version: 8, opset_import: ["": 17]>'
        f"fed (seq({text}[]) s, int64 i) => ({outputs.format(text)}) {{ {node} }}"
    )


def session(*arguments):
    return onnxruntime.InferenceSession(model(*arguments).SerializeToString())


def at(name):
    return session(name, "y = SequenceAt (s, i)", "{}[] y")


@pytest.mark.parametrize("name", NAMES)
def test_every_element_arrives(name):
    used = at(name)
    arrays = [laid_out(filled(name, (2, 3)), layout) for layout in LAYOUTS]
    arrays += [filled(name, ()), filled(name, (0, 2))]
    seq = TensorSequence(arrays)
    for i, array in enumerate(arrays):
        (y,) = used.run(None, {"s": list(seq), "i": np.array(i)})
        assert same(np.asarray(y, array.dtype), array)
    assert_holds(seq, arrays)


def test_pieces_of_a_split_and_results_that_are_sequences():
    used = session("float32", "one = SequenceAt (s, i) more = SequenceInsert (s, one, i)", "seq({}[]) more")
    rows = filled("float32", (3, 4))
    for axis in (0, 1):
        seq = split_to_sequence(rows, axis=axis)
        (more,) = used.run(None, {"s": list(seq), "i": np.array(1)})
        assert TensorSequence(more) == seq[:1] + seq[1:2] + seq[1:]


PEAK = """
import re, sys
from pathlib import Path
import numpy as np
import onnxruntime
from seqcore import split_to_sequence

used = onnxruntime.InferenceSession(sys.stdin.buffer.read())
table = np.ones((4, 8_000_000), np.float32)
seq = split_to_sequence(table, *((2_000_000, 1) if sys.argv[1] == "columns" else ()))
feed = {"s": list(seq), "i": np.array(0)}

def peak():
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) * 1024

before = peak()
used.run(None, feed)
print((peak() - before) / table.nbytes)
"""


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the peak of a process")
@pytest.mark.parametrize("cut", ["rows", "columns"])
def test_contiguous_elements_are_not_copied(cut):
    """Counted in memory that a run adds to the peak of its process."""
    graph = model("float32", "n = SequenceLength (s)", "int64 n").SerializeToString()
    done = subprocess.run([sys.executable, "-c", PEAK, cut], input=graph, capture_output=True, check=True)
    copies = float(done.stdout)
    assert copies < 0.2 if cut == "rows" else copies > 0.8


def test_an_ortvalue_of_an_element_shares_its_memory():
    source = filled("float32", 4)
    value = onnxruntime.OrtValue.ortvalue_from_numpy(TensorSequence([source])[0])
    source[0] = 9
    assert value.numpy()[0] == 9
