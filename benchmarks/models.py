"""The rows about ONNX models: lists that PyTorch exported, in our session beside onnxruntime's."""

from pathlib import Path

import numpy as np

from .declare import OURS, Limit, Side, case, floats, optional

MODELS = Path(__file__).parent.parent / "tests" / "models"


def models_run(name, iterations, **feed):
    """Run a model in both sessions; an operation is an iteration of its loop."""
    ort = optional("onnxruntime")
    if not (ort and optional("onnx")):
        return {}
    from seqcore.onnx import InferenceSession

    path = str(MODELS / f"{name}.onnx")
    ours, theirs = InferenceSession(path), ort.InferenceSession(path, providers=["CPUExecutionProvider"])
    return {
        OURS: Side(lambda: ours.run(None, feed), noperations=iterations),
        "onnxruntime": Side(lambda: theirs.run(None, feed), noperations=iterations),
    }


@case("a PyTorch loop: append and stack, 1,000 iterations", Limit("onnxruntime", 3, at_least=True))
def append_and_stack():
    return models_run("append_stack", 1_000, x=floats(1_000, 4))


@case(
    "a PyTorch loop: append and stack, 10,000 iterations",
    Limit("onnxruntime", 500, aim=1_500, at_least=True),
    most_rounds=7,
)
def append_and_stack_many():
    return models_run("append_stack", 10_000, x=floats(10_000, 4))


# A loop over the rows of x, and a map over them, each with a softmax.
ROWS = """<ir_version: 8, opset_import: ["": 17]>
    rows (float[N, 8] x) => (float[M, 8] y) <bool yes = {1}, int64 zero = {0}> {
        shape = Shape (x)
        n = Gather (shape, zero)
        none = SequenceEmpty ()
        list = Loop (n, yes, none) <body = row
            (int64 i, bool on, seq(float[8]) s) => (bool off, seq(float[8]) t) {
            off = Identity (on)
            one = Gather (x, i)
            part = Softmax (one)
            t = SequenceInsert (s, part)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (list)
    }"""
MAP = """<ir_version: 8, opset_import: ["": 17]>
    map (float[N, 8] x) => (float[M, 8] y) {
        list = SplitToSequence (x)
        parts = SequenceMap (list) <body = row
            (float[1, 8] one) => (float[1, 8] part) { part = Softmax (one) }>
        y = ConcatFromSequence <axis = 0> (parts)
    }"""


def text_run(text, noperations, **feed):
    """Run a model that is text in both sessions."""
    ort, onnx = optional("onnxruntime"), optional("onnx.parser")
    if not (ort and onnx):
        return {}
    from seqcore.onnx import InferenceSession

    model = onnx.parse_model(text)
    ours = InferenceSession(model)
    theirs = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return {
        OURS: Side(lambda: ours.run(None, feed), noperations=noperations),
        "onnxruntime": Side(lambda: theirs.run(None, feed), noperations=noperations),
    }


# A recurrent decoder of 32 units, as PyTorch's RNNCell computes it: each state goes to a list.
RECURRENT = """<ir_version: 8, opset_import: ["": 17]>
    decode (float[N, 32] x, float[32] start, float[32, 32] w, float[32, 32] u) => (float[M, 32] y)
    <bool yes = {1}, int64 zero = {0}> {
        shape = Shape (x)
        n = Gather (shape, zero)
        none = SequenceEmpty ()
        last, list = Loop (n, yes, start, none) <body = step
            (int64 i, bool on, float[32] h, seq(float[32]) s) =>
            (bool off, float[32] state, seq(float[32]) t) {
            off = Identity (on)
            one = Gather (x, i)
            from_input = MatMul (one, w)
            from_state = MatMul (h, u)
            both = Add (from_input, from_state)
            state = Tanh (both)
            t = SequenceInsert (s, state)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (list)
    }"""


def decode(n):
    w, u = floats(2, 32, 32) / 16
    return text_run(RECURRENT, n, x=floats(n, 32), start=np.zeros(32, np.float32), w=w, u=u)


@case("a loop with a recurrent state: append, 10 iterations", Limit("onnxruntime", 0.8, aim=1, at_least=True))
def recurrent_state_short():
    return decode(10)


@case(
    "a loop with a recurrent state: append, 1,000 iterations", Limit("onnxruntime", 1.5, aim=2, at_least=True)
)
def recurrent_state():
    return decode(1_000)


@case(
    "a loop with a recurrent state: append, 10,000 iterations",
    Limit("onnxruntime", 5, aim=10, at_least=True),
    most_rounds=7,
)
def recurrent_state_many():
    return decode(10_000)


@case("a loop: softmax of each of 10,000 rows", Limit("onnxruntime", 500, at_least=True), most_rounds=7)
def softmax_of_rows():
    return text_run(ROWS, 10_000, x=floats(10_000, 8))


@case(
    "SequenceMap in a model: softmax of each of 10,000 rows",
    Limit("onnxruntime", 500, at_least=True),
    most_rounds=5,
)
def mapped_softmax():
    return text_run(MAP, 10_000, x=floats(10_000, 8))


@case(
    "a PyTorch loop: insert at the front, 10,000 iterations",
    Limit("onnxruntime", 5, at_least=True),
    most_rounds=7,
)
def insert_at_the_front():
    return models_run("insert_front", 10_000, x=floats(10_000, 4))


@case(
    "a PyTorch loop: slices of varying length, 10,000 iterations",
    Limit("onnxruntime", 5, at_least=True),
    most_rounds=7,
)
def varying_slices():
    lengths = np.random.default_rng(1).integers(1, 5, 10_000)
    return models_run("varying_slices", 10_000, x=floats(10_000, 4), n=lengths)


@case(
    "a PyTorch loop: append and pop, 10,000 iterations",
    Limit("onnxruntime", 5, at_least=True),
    most_rounds=3,
)
def append_and_pop():
    return models_run("append_pop", 10_000, x=floats(10_000, 4))


@case("a PyTorch loop: a window of five, 2,000 iterations", Limit("onnxruntime", 0.8, aim=1, at_least=True))
def window():
    return models_run("window", 2_000, x=floats(2_000, 4))


@case("a PyTorch loop: split and index, 2,000 iterations", Limit("onnxruntime", 0.8, aim=1, at_least=True))
def split_and_index():
    return models_run("split_index", 2_000, x=floats(2_000, 4))


@case("20,000 small tensors into a SequenceProto", Limit("onnx", 1))
def to_a_proto():
    helper = optional("onnx.numpy_helper")
    if not helper:
        return {}
    from seqcore import split_to_sequence
    from seqcore.onnx import to_proto

    seq = split_to_sequence(floats(20_000, 8), keepdims=0)
    arrays = list(seq)
    return {
        OURS: Side(lambda: to_proto(seq), noperations=20_000),
        "onnx": Side(lambda: helper.from_list(arrays, "s"), noperations=20_000),
    }


@case("20,000 small tensors out of a SequenceProto", Limit("onnx", 1.5))
def from_a_proto():
    helper = optional("onnx.numpy_helper")
    if not helper:
        return {}
    from seqcore import split_to_sequence
    from seqcore.onnx import from_proto, to_proto

    # Lengths that differ: onnx's ragged data.
    lengths = np.random.default_rng(1).integers(1, 16, 20_000)
    proto = to_proto(split_to_sequence(floats(int(lengths.sum())), lengths))
    return {
        OURS: Side(lambda: from_proto(proto), noperations=20_000),
        "onnx": Side(lambda: helper.to_list(proto), noperations=20_000),
    }
