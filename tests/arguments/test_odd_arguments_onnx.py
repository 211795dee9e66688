"""Odd arguments of `seqcore.onnx`: errors of a fitting kind that say so in short."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

import onnx
from onnx import helper, parser
from support.models.sessions import AGAIN
from support.odd_values import VALUES, MuteObject, MuteStr, assert_fitting, each_call, naming

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


@each_call(CALLS)
def test_odd_arguments(call, values, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for value in values:
        with naming(value):
            assert_fitting(CALLS[call], VALUES[value](), OTHERS)
            assert not any(tmp_path.iterdir())


NAMES = """
    <ir_version: 8, opset_import: ["" : 17]>
    names (string[N] x) => (string[N] y) { y = Identity (x) }
"""


def test_strings_that_are_none_do_not_end_the_process():
    """onnxruntime reads what isn't there where an object can't be made a string."""
    session = InferenceSession(parser.parse_model(NAMES))
    for wrong in (np.array([MuteObject()], object), np.array([10**5000], object), [MuteObject()], [1]):
        with pytest.raises(TypeError, match="input 'x'"):
            session.run(None, {"x": wrong})
    for right in (np.array(["a"], object), np.array(["a"]), ["a"], np.array([MuteStr("a")], object)):
        assert session.run(None, {"x": right})[0].tolist() == ["a"]
    with pytest.raises(TypeError, match="input 'x'"):
        PLAIN.run(None, {"x": np.array([MuteObject()], object)})


@pytest.mark.parametrize("text", [MODEL, TENSORS], ids=["sequences", "tensors"])
def test_workers_are_counted_when_the_session_is_made(text):
    for wrong, error in ((True, TypeError), ("2", TypeError), (0, ValueError), (-(10**5000), ValueError)):
        with pytest.raises(error, match="max_workers"):
            InferenceSession(parser.parse_model(text), max_workers=wrong)


TWICE = """
    <ir_version: 8, opset_import: ["" : 17]>
    twice (seq(complex64[]) s, complex64[N] x) => (seq(complex64[]) longer, seq(complex64[]) shorter) {
        longer = SequenceInsert (s, x)
        shorter = SequenceErase (s)
    }
"""


def test_a_fed_sequence_of_a_subclass_is_edited_for_one_reader_alone():
    class Own(sq.TensorSequence):
        pass

    one = np.ones(2, np.complex64)
    given = Own([one, one])
    session = InferenceSession(parser.parse_model(TWICE))
    for _ in range(AGAIN):
        longer, shorter = session.run(None, {"s": given, "x": one})
        assert (len(longer), len(shorter), len(given)) == (3, 1, 2)


def test_a_note_of_a_capture_is_there_once():
    error = TypeError("again")

    class Capture:
        def __array__(self, dtype=None, copy=None):
            raise error

    for _ in range(3):
        with pytest.raises(TypeError):
            GraphBody(parser.parse_graph(CAPTURING), captures={"c": Capture()})
    assert error.__notes__ == ["capture 'c' of the body 'add'"]
