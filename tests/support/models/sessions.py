"""What the tests of `seqcore.onnx.InferenceSession` share: models from text, runs, and comparisons."""

from functools import partial
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import numpy_helper
from support.races import together

import seqcore as sq
from seqcore.onnx import InferenceSession

MODELS = Path(__file__).parents[2] / "models"
HEADER = '<ir_version: 8, opset_import: ["" : {opset}]>\n'

# A session compiles a model after some runs, and goes by failures: so tests run the same again, so often.
AGAIN = 4

# ONNX's names of the element types in model text, and where they differ, NumPy's.
TEXT_NAMES = {"float32": "float", "float64": "double"}

# Models that several tests use.
TENSORS_ONLY = """
    plain (float[N, 3] x, float[3] w, int64 k) => (float[N, 3] y, float[3] top, int64 more) {
        one = Constant <value = int64 {1}> ()
        t = Mul (x, w)
        y = Relu (t)
        [pick] top = Gather <axis = 0> (y, k)
        more = Add (k, one)
    }
"""
APPEND = """
    append (seq(float[]) s, float[N] x) => (seq(float[]) longer, int64 n, float[M] joined) {
        [put] longer = SequenceInsert (s, x)
        n = SequenceLength (longer)
        [join] joined = ConcatFromSequence <axis = 0> (longer)
    }
"""
LOOP = """
    loop (float[N, 2] x, int64 rounds) => (float[M, 2] y) {
        yes = Constant <value = bool {1}> ()
        [start] none = SequenceEmpty ()
        [again] all = Loop (rounds, yes, none) <body = b (int64 i, bool go, seq(float[]) s)
                                             => (bool on, seq(float[]) t) {
            [row] r = Gather <axis = 0> (x, i)
            [put] t = SequenceInsert (s, r)
            on = Identity (go)
        }>
        [join] y = ConcatFromSequence <axis = 0, new_axis = 1> (all)
    }
"""


def model(text, opset=17):
    """The model that a text describes; a text that begins with a graph gets a header.

    In this syntax `float` is a tensor of rank 0, `float[]` one of any shape.
    """
    text = text.strip()
    return onnx.parser.parse_model(text if text.startswith("<") else HEADER.format(opset=opset) + text)


class Repeating(InferenceSession):
    """Runs everything several times, and gives what the last run gave, as long as all gave the same."""

    def run(self, *arguments, **options):
        first = super().run(*arguments, **options)
        for _ in range(AGAIN):
            last = super().run(*arguments, **options)
            assert_values(last, first)
        return last


def session(text, opset=17, **options):
    """A session for a model, or for its text, that repeats its runs."""
    given = model(text, opset) if isinstance(text, str) else text
    return Repeating(given, **options)


def run(text, opset=17, **feed):
    """All outputs of a model."""
    return session(text, opset).run(None, feed)


def reference(given):
    """onnxruntime's session for a model or a path, silent."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    data = given.SerializeToString() if isinstance(given, onnx.ModelProto) else given
    return onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])


def plain(value):
    """A value as onnxruntime takes and gives it: sequences are lists."""
    return list(value) if isinstance(value, sq.TensorSequence | tuple) else value


def by_reference(given, feed):
    """All outputs of a model as onnxruntime has them."""
    return reference(given).run(None, {name: plain(value) for name, value in feed.items()})


def expected_of(value):
    """One of onnxruntime's results as the session has it."""
    if not isinstance(value, list):
        return value
    return sq.TensorSequence(value) if value else sq.TensorSequence(dtype="float32")


def assert_value(found, expected, rtol=0.0):
    """One result is as expected: None, an array, or a list for a sequence."""
    if expected is None:
        assert found is None
    elif isinstance(expected, list | tuple | sq.TensorSequence):
        assert isinstance(found, sq.TensorSequence), type(found)
        assert len(found) == len(expected)
        if isinstance(expected, sq.TensorSequence):
            assert found.dtype == expected.dtype
        for one, other in zip(found, expected, strict=True):
            assert_value(one, other, rtol)
    else:
        assert type(found) is np.ndarray, type(found)
        expected = np.asarray(expected)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        if rtol:
            np.testing.assert_allclose(found, expected, rtol, rtol)
        else:
            equal = found == expected
            if expected.dtype.kind in "fc":
                equal |= np.isnan(found) & np.isnan(expected)
            assert np.all(equal), (found, expected)


def assert_values(found, expected, rtol=0.0):
    """Results are as expected, one by one."""
    assert isinstance(found, list)
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        assert_value(one, other, rtol)


def assert_near(found, expected, rtol=1e-5, atol=1e-6):
    """Compare results of either kind of session: types and shapes are equal, and values up to rounding."""
    assert len(found) == len(expected)
    for one, other in zip(found, expected, strict=True):
        if isinstance(other, list):
            assert isinstance(one, sq.TensorSequence | list)
            assert_near(one, other, rtol, atol)
        else:
            assert type(one) is np.ndarray
            other = np.asarray(other)
            assert (one.dtype, one.shape) == (other.dtype, other.shape)
            np.testing.assert_allclose(one, other, rtol, atol)


def assert_as_reference(given, feed, rtol=0.0):
    """A session's results equal onnxruntime's; they are returned."""
    found = session(given).run(None, feed)
    assert_values(found, by_reference(given, feed), rtol)
    return found


def check(text, feed, expected, departs=False, opset=17):
    """The session's results are as expected, and onnxruntime's too unless it departs from ONNX's text."""
    given = model(text, opset)
    assert_values(session(given).run(None, feed), expected)
    if not departs:
        assert_values([expected_of(one) for one in by_reference(given, feed)], expected)


def signature(used):
    """What a session says of its inputs and outputs."""
    return [
        [(value.name, value.type, value.shape) for value in values]
        for values in (used.get_inputs(), used.get_outputs())
    ]


def said(caught):
    """All that an exception says: its message and its notes."""
    error = caught.value
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


def assert_fails(used, feed, kind=Exception, names=()):
    """Runs fail with an exception of this kind that has these names in its message or notes."""
    for _ in range(AGAIN):
        with pytest.raises(kind) as caught:
            used.run(None, feed)
        for name in [names] if isinstance(names, str) else names:
            assert name in said(caught), said(caught)
    return caught.value


def floats(*lengths, width=None):
    """A list of float32 arrays, of these lengths, whose values are all different."""
    shapes = [(n,) if width is None else (n, width) for n in lengths]
    start = np.cumsum([0, *(int(np.prod(shape)) for shape in shapes)])
    return [
        np.arange(a, a + np.prod(shape, dtype=int), dtype=np.float32).reshape(shape) / 4
        for a, shape in zip(start[:-1], shapes, strict=True)
    ]


def f32(*values):
    return np.array(values, np.float32)


def i64(value):
    return np.array(value, np.int64)


def text_type(name):
    """An element type's name in model text."""
    return TEXT_NAMES.get(name, name)


def constant(name, array):
    """An initializer."""
    return numpy_helper.from_array(np.asarray(array), name)


def in_threads(count, work):
    """What `work(k)` returns for each k below count, all started at once."""
    results = [None] * count

    def put(k):
        results[k] = work(k)

    together(*(partial(put, k) for k in range(count)))
    return results


APPEND_FEED = {"s": [f32(1), f32(2, 3)], "x": f32(4)}


def in_steps(model):
    """A session that runs the model as it was, step by step."""
    session = InferenceSession(model)
    session._engines.unranked = []  # other ranks have other steps
    engines = session._engines.compiled
    engines.tiers = engines.tiers[-1:]
    return session
