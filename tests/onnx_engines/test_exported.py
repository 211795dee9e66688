"""Exported models (tests/models/exported), in our session and lowered, against onnxruntime and PyTorch."""

import copy
import itertools
from functools import cache

import numpy as np
import onnx
import pytest
from support.models.exported import FOLDER, FRAMEWORKS, MODELS, answers
from support.models.lowering import left_in
from support.models.sessions import assert_near, model, reference

from seqcore.onnx import InferenceSession, lower

pytestmark = pytest.mark.mostly_slow(11)

NAMES = list(MODELS)
# A session goes by the lengths that it has seen and the number of runs: so sizes come in many orders. What
# fails is tried again after 2, 4 and 8 runs.
MANY = 2 + 1 + 2 + 1 + 4 + 1 + 8 + 1
CHANGING = ["short", "long", "short", 0, 1, *["long"] * 3, 0, *["short"] * MANY, "middle", "long", 1, 0]
CHANGING += ["middle"] * MANY
CHANGING += [33, 0, "short", 2, "long", 3, "middle", 1, 0, "short"]
# Elements of this list may differ in length, by its dynamic axis; onnxruntime then takes them for one length.
BROKEN = {"longest_of"}


@cache
def example(name, n, seed=0):
    """A feed, and what onnxruntime gives for it: None where it fails."""
    feed = MODELS[name].example(sized(name, n), seed)
    try:
        return feed, theirs(name).run(None, copy.deepcopy(feed))
    except Exception:
        return feed, None


def sized(name, n):
    """A size, which may be the name of one."""
    return MODELS[name].sizes.get(n, n)


@cache
def theirs(name):
    return reference(str(MODELS[name].path))


def check(used, name, n, seed=0):
    """A run gives what onnxruntime gives, or fails as it does, and leaves the feed as it was."""
    feed, expected = example(name, n, seed)
    before = copy.deepcopy(feed)
    if expected is None and name in BROKEN and n != 0:
        return None  # onnxruntime breaks where PyTorch answers: the stored answers are what counts
    if expected is None:
        with pytest.raises(Exception):  # noqa: B017, PT011  (kinds differ, and no text is promised)
            used.run(None, feed)
        return None
    found = used.run(None, feed)
    assert_near(found, expected)
    assert all(np.array_equal(a, b) for a, b in zip(arrays(feed), arrays(before), strict=True))
    return found


def arrays(feed):
    return [one for value in feed.values() for one in (value if isinstance(value, list) else [value])]


def test_every_model_is_listed():
    files = list(FOLDER.glob("*.onnx"))
    assert {path.stem for path in files} == set(MODELS)
    assert all(path.stat().st_size < 50_000 for path in files)


def test_modules_have_answers():
    modules = {one.name for one in MODELS.values() if one.exporter in FRAMEWORKS}
    assert {path.stem for path in FOLDER.glob("*.npz")} == modules
    assert set(EXPECTED) == set(MODELS) - modules


def args_of(used):
    args = [*used.get_inputs(), *used.get_outputs(), *used.get_overridable_initializers()]
    return [(one.name, one.type, one.shape) for one in args]


def session_of(name):
    """A session, whose inputs and outputs are as onnxruntime's."""
    used = InferenceSession(MODELS[name].path)
    assert args_of(used) == args_of(theirs(name))
    return used


GIVEN = ["float[4, 8]", "float[N, 8]", "float[N, M]", "float[4, M]"]
DECLARED = ["float[A, B]", "float[4, B]", "float[A, 8]", "float[]"]


@pytest.mark.parametrize("row", ["float[C]", "float[]"])
@pytest.mark.parametrize(
    ("given", "declared"), [*itertools.product(GIVEN, DECLARED), ("float[0, 8]", "float[A, 8]")]
)
def test_lengths_that_are_inferred(given, declared, row):
    """Of what tensor operators compute, and of what comes out of a list."""
    given = model(f"""
        f ({given} x) => ({declared} y, {row} row) <int64 zero = {{0}}> {{
            rows = SplitToSequence <keepdims = 0> (x)
            row = SequenceAt (rows, zero)
            y = Relu (x)
        }}""")
    assert args_of(InferenceSession(given)) == args_of(reference(given))


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.mostly_at_night(5)
def test_sizes(name):
    one, used = MODELS[name], session_of(name)
    for seed in range(3):
        for n in {0, 1, 2, one.least, 5, 33}:
            result = check(used, name, n, seed)
            assert n < one.least or result is not None or name in BROKEN


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.mostly_at_night(13)
def test_sizes_that_change(name):
    used = session_of(name)
    kept = [(n, check(used, name, n)) for n in CHANGING]
    for n, result in kept:  # no later run has written to it
        if result is not None:
            assert_near(result, example(name, n)[1])


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.mostly_at_night(3)
def test_lowered(name):
    one = MODELS[name]
    result = lower(one.path)
    if not left_in(result):
        onnx.checker.check_model(result, full_check=True)
    used = reference(result)
    for n in {0, 1, one.least, 4, 33}:
        for seed in range(2):
            check(used, name, n, seed)


@pytest.mark.mostly_slow(61)
@pytest.mark.parametrize("name", [name for name in NAMES if MODELS[name].exporter in FRAMEWORKS])
@pytest.mark.mostly_at_night(5)
def test_answers_of_frameworks(name):
    one = MODELS[name]
    used, lowered = session_of(name), reference(lower(one.path))
    for _ in range(3):
        for feed, expected in answers(one):
            # Its kernels round otherwise.
            assert_near(used.run(None, feed), expected, 1e-5, 1e-5)
            if name not in BROKEN:
                assert_near(lowered.run(None, feed), expected, 1e-5, 1e-5)


def ragged(x, lengths):
    return np.split(x, np.cumsum(lengths)[:-1])


def softmax(x):
    powers = np.exp(x - x.max(0))
    return powers / powers.sum(0)


def map_norms(x, lengths):
    centered = [part - part.mean(0) for part in ragged(x, lengths)]
    normed = [part / np.sqrt((part * part).mean(0) + np.float32(0.001)) for part in centered]
    return [normed, np.concatenate(normed)]


def map_resized(images):
    def thumb(image):
        rows, columns = (np.arange(4) * length // 4 for length in image.shape[1:])
        return image[:, rows][:, :, columns]

    return [np.stack([thumb(image) for image in images]), np.array(len(images))]


def map_padded(parts):
    padded = [np.pad(part, [(0, 4 - len(part)), (0, 0)]) for part in parts]
    return [np.stack(padded), np.array([len(part) for part in parts])]


def map_rounds(states, w, rounds):
    norms = []
    for _ in range(int(rounds)):
        states = [np.tanh(w @ state) for state in states]
        norms.append(np.float32(np.linalg.norm(states)))
    return [states, np.array(norms)]


def script_fibonacci(a, b, limit):
    states = [a, b]
    going = a.sum() < limit
    while going:
        states.append((states[-1] + states[-2]) * np.float32(0.51))
        going = len(states) < limit
    return [np.stack(states)]


# What models not made of a PyTorch module compute.
EXPECTED = {
    "map_norms": map_norms,
    "map_resized": map_resized,
    "map_pairs": lambda x, y, w: [(x * y * w).sum(1), x + y],
    "map_padded": map_padded,
    "map_rounds": map_rounds,
    "map_then_pick": lambda x, order: [(x - x.max(1, keepdims=True))[order]],
    "script_relu_rows": lambda x: [np.maximum(x, 0)],
    "script_softmax_map": lambda x, sizes: [np.concatenate([softmax(one) for one in ragged(x, sizes)])],
    "script_positive_rows": lambda x: [np.array((x.sum(1) > 0).sum())],
    "script_fifo": lambda x: [x - np.concatenate([x[:1], x[:1], x[:1], x])[: len(x)]],
    "script_fibonacci": script_fibonacci,
    "script_front_inserts": lambda x: [x[::-1] * 2],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_values_in_numpy(name):
    one, used = MODELS[name], session_of(name)
    for n in (one.least, 1, 4, 33, 4, 150):
        feed = one.example(n)
        assert_near(used.run(None, feed), EXPECTED[name](**feed), 1e-4, 1e-5)
