"""Odd arguments of `seqcore.onnx`: errors of a fitting kind that say so in short."""

import numpy as np
import onnx
import pytest
from odd_values import VALUES, assert_fitting, each_value
from onnx import helper, parser

import seqcore as sq
from seqcore.onnx import GraphBody, InferenceSession, backend, from_proto, lower, to_proto
from seqcore.onnx._runtimes.sessions import REFUSALS

MODEL = """
    <ir_version: 8, opset_import: ["" : 17]>
    pick (seq(float[]) s, int64 i, float[N] x) => (float[] y, seq(float[]) longer) {
        y = SequenceAt (s, i)
        longer = SequenceInsert (s, x, i)
    }
"""
TENSORS = """
    <ir_version: 8, opset_import: ["" : 17]>
    plain (float[N] x) => (float[N] y) { y = Neg (x) }
"""
BODY = "neg (float[N] x) => (float[N] y) { y = Neg (x) }"
CAPTURING = "add (float[N] x) => (float[N] y) { y = Add (x, c) }"

# Several tests use them, and runs leave them as they are.
SESSION = InferenceSession(parser.parse_model(MODEL))
PLAIN = InferenceSession(parser.parse_model(TENSORS))
GRAPH_BODY = GraphBody(parser.parse_graph(BODY))


def feed(**others):
    one = np.ones(2, np.float32)
    return {"s": [one, one], "i": np.array(0), "x": one} | others


def hashable(x):
    """The value as a key, or a text instead."""
    try:
        hash(x)
    except TypeError:
        return "another"
    return x


CALLS = {
    "session": lambda x: InferenceSession(x),
    "max_workers": lambda x: InferenceSession(parser.parse_model(MODEL), max_workers=x),
    "max_workers without sequences": lambda x: InferenceSession(parser.parse_model(TENSORS), max_workers=x),
    "output_names": lambda x: SESSION.run(x, feed()),
    "output name": lambda x: SESSION.run([x], feed()),
    "feed": lambda x: SESSION.run(None, x),
    "name in a feed": lambda x: SESSION.run(None, feed() | {hashable(x): 1}),
    "sequence": lambda x: SESSION.run(None, feed(s=x)),
    "element": lambda x: SESSION.run(None, feed(s=[np.ones(2, np.float32), x])),
    "position": lambda x: SESSION.run(None, feed(i=x)),
    "tensor": lambda x: SESSION.run(None, feed(x=x)),
    "lower": lambda x: lower(x),
    "body": lambda x: GraphBody(x),
    "opset_imports": lambda x: GraphBody(parser.parse_graph(BODY), opset_imports=x),
    "opset": lambda x: GraphBody(parser.parse_graph(BODY), opset_imports={"": x}),
    "captures": lambda x: GraphBody(parser.parse_graph(CAPTURING), captures=x),
    "capture": lambda x: GraphBody(parser.parse_graph(CAPTURING), captures={"c": x}),
    "argument of a body": lambda x: GRAPH_BODY(x),
    "map of a body": lambda x: sq.sequence_map(GRAPH_BODY, x),
    "to_proto": lambda x: to_proto(x),
    "to_proto of one": lambda x: to_proto([x]),
    "to_proto, name": lambda x: to_proto([[1]], x),
    "from_proto": lambda x: from_proto(x),
    "from_proto, dtype": lambda x: from_proto(to_proto([[1]]), x),
    "backend, model": lambda x: backend.prepare(x),
    "backend, device": lambda x: backend.prepare(parser.parse_model(MODEL), x),
    "backend, supports": lambda x: backend.supports_device(x),
    "backend, inputs": lambda x: backend.run_model(parser.parse_model(TENSORS), x),
    "backend, input": lambda x: backend.run_model(parser.parse_model(TENSORS), [x]),
    "backend, node": lambda x: backend.run_node(helper.make_node("Neg", ["x"], ["y"]), [x]),
}
# Paths lead nowhere, and onnx and onnxruntime have kinds of their own.
OTHERS = (OSError, onnx.checker.ValidationError, *REFUSALS)


@each_value
@pytest.mark.parametrize("call", CALLS)
def test_odd_arguments(call, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_fitting(CALLS[call], VALUES[value](), OTHERS)
    assert not any(tmp_path.iterdir())
