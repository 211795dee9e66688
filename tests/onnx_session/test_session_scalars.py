"""Scalar inputs that are fed as arrays of one element: onnxruntime takes them, and so do we."""

import numpy as np
import pytest
from support.models.exported import MODELS
from support.models.sessions import assert_values, model, reference

from seqcore.onnx import InferenceSession

# The elements of a list are looked up, and doubled as often as the loop runs.
LOOK_UP = """
    look_up (float[N, 2] x, int64 n, int64 k, bool go) => (float[M, 2] all, float[A] one, float[B] k2)
    <int64 zero = {0}> {
        none = SequenceEmpty ()
        l = Loop (n, go, none) <body = b (int64 i, bool c, seq(float[]) s) => (bool c2, seq(float[]) t) {
            c2 = Identity (c)
            row = Gather (x, i)
            t = SequenceInsert (s, row)
        }>
        all = ConcatFromSequence <axis = 0, new_axis = 1> (l)
        one = SequenceAt (l, zero)
        k1 = Add (k, k)
        k2 = Cast <to = 1> (k1)
    }
"""


def is_scalar(value):
    return isinstance(value, np.ndarray) and value.ndim == 0


def with_axes(feed, rank):
    return {name: value.reshape((1,) * rank) if is_scalar(value) else value for name, value in feed.items()}


WITH_SCALARS = [name for name, one in MODELS.items() if any(map(is_scalar, one.example(4).values()))]


def numbers_of(value):
    """The numbers of a result, whatever their axes."""
    parts = [value] if isinstance(value, np.ndarray) else [*value]
    return np.concatenate([np.ravel(part) for part in parts]) if parts else np.empty(0)


def feed_of(n, rank):
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    return with_axes({"x": x, "n": np.array(n), "k": np.array(3), "go": np.array(True)}, rank)


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize("rank", [1, 2])
@pytest.mark.parametrize("name", WITH_SCALARS)
@pytest.mark.mostly_at_night(5)
def test_exported_models(name, rank):
    one = MODELS[name]
    ours, theirs = InferenceSession(one.path), reference(str(one.path))
    for k, size in enumerate([4, 4, 33, 4, max(one.least, 1)]):
        feed = with_axes(one.example(max(size, one.least), k), rank)
        try:
            expected = theirs.run(None, feed)
        except Exception:  # of an embedding that then has an axis more, say
            try:
                found = ours.run(None, feed)
            except Exception:
                continue  # kinds differ, and no text is promised
            # Older versions of onnxruntime refuse some of what newer ones take, and lowered models take more.
            expected = theirs.run(None, one.example(max(size, one.least), k))
            assert_values(list(map(numbers_of, found)), list(map(numbers_of, expected)), 1e-4)
        else:
            assert_values(ours.run(None, feed), expected, 1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("ranks", [(1, 1), (1, 0), (0, 1), (2, 1, 0, 2)])
def test_ranks_that_change(ranks):
    given = model(LOOK_UP)
    ours, theirs = InferenceSession(given), reference(given)
    for n in (1, 4):
        for rank in ranks * 3:
            assert_values(ours.run(None, feed_of(n, rank)), theirs.run(None, feed_of(n, rank)))


@pytest.mark.slow
def test_errors_name_the_node():
    ours = InferenceSession(model(LOOK_UP))
    with pytest.raises((ValueError, IndexError), match=r"Concat|SequenceAt"):
        ours.run(None, feed_of(0, 1))


@pytest.mark.parametrize("n", [[], [1, 2], [[1], [2]]])
def test_other_numbers_of_elements_are_errors(n):
    ours = InferenceSession(model(LOOK_UP))
    with pytest.raises(ValueError, match="input 'n' has shape"):
        ours.run(None, feed_of(0, 0) | {"n": np.array(n, np.int64)})
