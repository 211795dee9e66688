"""Models exported from PyTorch (tests/models), at several lengths, against onnxruntime and NumPy."""

import copy
from dataclasses import dataclass, field

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.sessions import (
    MODELS,
    assert_fails,
    assert_values,
    expected_of,
    reference,
    signature,
)

from seqcore.onnx import InferenceSession

pytestmark = pytest.mark.mostly_slow(5)

LENGTHS = [0, 1, 2, 7, 300, 1500]


def rows(n, *shape, seed=0):
    """Eighths within -8 to 8, which float32 adds and doubles without rounding."""
    shape = shape or (4,)
    return (np.random.default_rng(seed).integers(-64, 65, (n, *shape)) / 8).astype(np.float32)


def whole(n, *shape, below, seed=1):
    return np.random.default_rng(seed).integers(0, below, (n, *shape))


@dataclass
class Case:
    """What a model computes. `fails` has for some lengths the exception and the node that it names."""

    feed: object
    expected: object
    fails: dict = field(default_factory=dict)
    rtol: float = 0.0
    lengths: list = field(default_factory=lambda: LENGTHS)


CASES = {}


def case(feed, **options):
    def register(function):
        CASES[function.__name__] = Case(feed, function, **options)
        return function

    return register


def x_only(n):
    return {"x": rows(n)}


EMPTY_JOIN = {0: (ValueError, "/ConcatFromSequence")}
NO_ROW = {0: (Exception, "/Gather")}


@case(x_only, fails=EMPTY_JOIN)
def append_stack(x):
    return [x * 2 + 1]


@case(x_only, fails=EMPTY_JOIN)
def insert_front(x):
    return [x[::-1] * 2]


@case(lambda n: {"x": np.concatenate([rows(n), np.zeros((min(n, 1), 4), np.float32)])}, fails=EMPTY_JOIN)
def append_pop(x):
    return [x[x[:, 0] <= 0.5]]


@case(lambda n: {"x": rows(n), "n": whole(n, below=5)}, fails=EMPTY_JOIN)
def varying_slices(x, n):
    return [np.concatenate([row[:k] for row, k in zip(x, n, strict=True)])]


@case(x_only, fails=EMPTY_JOIN)
def window(x):
    total = np.zeros(4, np.float32)
    for i in range(len(x)):
        total = total + x[max(i - 4, 0)] * x[i]
    return [total, x[-5:]]


@case(x_only, fails={0: (IndexError, "/SequenceAt")})
def split_index(x):
    return [x.sum(0, keepdims=True) * np.float32(0.5)]


@case(lambda n: {"x": rows(n, 4, 2)}, fails=EMPTY_JOIN)
def nested(x):
    i, j = np.ogrid[: len(x), :4]
    return [(x * i[..., None] + j[..., None]).astype(np.float32)]


def countdown(n):
    """Token k is followed by k - 1, so that decoding stops at 0."""
    table = np.eye(9, k=-1, dtype=np.float32)
    return {"table": table, "start": np.array(8), "limit": np.array(n)}


@case(countdown)
def greedy(table, start, limit):
    out = [int(start)]
    while len(out) < limit:
        out.append(int(table[out[-1]].argmax()))
        if out[-1] == 0:
            break
    return [np.array(out)]


@case(
    lambda n: {"tokens": whole(n, 3, below=100), "order": whole(n, 3, below=3, seed=2)},
    fails=NO_ROW,
)
def beams(tokens, order):
    kept = [[token] for token in tokens[0]]
    for step, chosen in zip(tokens[1:], order[1:], strict=True):
        kept = [kept[chosen[k]] + [step[k]] for k in range(3)]
    return [np.array(kept)]


@case(x_only, fails=EMPTY_JOIN)
def several_lists(x):
    low = x.sum(1) < 0
    marks = x[:, 0] * np.cumsum(~low).astype(np.float32)
    return [np.array(len(x)), np.array((~low).sum()), np.concatenate([x[low], x[~low] + 1]), marks]


@case(lambda n: {"x": rows(n), "front": np.array(n % 2 == 0)}, fails=NO_ROW)
def through_if(x, front):
    begin = [x[-1:] * 2, x[:1]] if front else []
    return [np.concatenate([*begin, x, x[:1] - 1])]


@case(x_only, fails=dict.fromkeys(range(3), (ValueError, "/SplitToSequence")), lengths=[*LENGTHS, 3])
def split_sizes(x):
    return [np.concatenate([x[3:], x[2:3], x[:2]]), x[:2]]


@case(x_only, fails={0: (IndexError, "/SequenceAt")})
def unbind(x):
    # Exported as a split of 1 with keepdims=0: ONNX ignores it where there is a split, but who exports counts
    # on it.
    total = x[-1]
    for row in x:
        total = total * np.float32(0.5) + row
    return [total]


@case(x_only, fails={1: (ValueError, "/SplitToSequence")}, lengths=[*LENGTHS, 4])
def chunk(x):
    k = (len(x) + 2) // 3
    return [x[2 * k :] * 2, x[:k], np.array(3)]


@case(x_only, rtol=1e-5)
def recurrence(x):
    out = [np.zeros(4, np.float32)]
    for row in x:
        out.append(np.tanh(row + out[-1]))
    return [np.stack(out)]


@case(lambda n: {"x": rows(n), "at": whole(n, below=max(n, 1))}, fails=EMPTY_JOIN)
def assign(x, at):
    out = x.copy()
    for row, k in zip(x, at, strict=True):
        out[k] = out[k] * 2 + row
    return [out]


@case(x_only)
def returned(x):
    kept = x[x[:, 1] > 0, :2]
    return [list(kept), np.array(len(kept))]


@case(x_only, fails=NO_ROW)
def list_plus_list(x):
    return [np.concatenate([x[:1], x[-1:], x[:1] - x[-1:], x]), np.array(len(x) + 3)]


def boxes(n):
    corners = whole(n, 2, below=10)
    return {"image": rows(12, 9), "boxes": np.concatenate([corners, corners + whole(n, 2, below=5)], 1)}


@case(boxes)
def crops(image, boxes):
    return [[image[top:bottom, left:right] for top, left, bottom, right in boxes]]


@case(
    lambda n: boxes(n) | {"gain": np.array(2, np.float32), "offsets": np.float32([0.5, 7])},
    fails={0: (ValueError, "")},
)
def mapped_crops(image, boxes, gain, offsets):
    scaled = [crop * gain + offsets[0] for crop in crops(image, boxes)[0]]
    return [np.array([crop.sum() for crop in scaled], np.float32), scaled]


@case(lambda n: {"x": rows(n) / 8, "rounds": np.array(5)}, fails={0: (ValueError, "")}, rtol=1e-4)
def map_captures(x, rounds):
    y, sums = x, []
    for i in range(int(rounds)):
        y = np.tanh(y * x + np.float32(i))
        sums.append(y.sum())
    return [y, np.array(sums, np.float32)]


def test_every_model_has_a_case():
    assert {path.stem for path in MODELS.glob("*.onnx")} == set(CASES)


@pytest.fixture(scope="module")
def sessions():
    """Each model's session and onnxruntime's, made once."""
    made = {}

    def make(name):
        if name not in made:
            path = MODELS / f"{name}.onnx"
            made[name] = InferenceSession(path), reference(str(path))
        return made[name]

    return make


@pytest.mark.mostly_slow(37)
@pytest.mark.parametrize("name", CASES)
@pytest.mark.mostly_at_night(3)
def test_model(name, sessions):
    one = CASES[name]
    used, other = sessions(name)
    feeds = {n: one.feed(n) for n in one.lengths}
    expected = {n: one.expected(**feeds[n]) for n in feeds if n not in one.fails}
    for n in expected:
        found = other.run(None, feeds[n])
        assert_values([expected_of(value) for value in found], expected[n], one.rtol)
    before = copy.deepcopy(feeds)
    for n in [*feeds, *sorted(feeds), 2, 7, *sorted(feeds, reverse=True)]:  # each after others, failures too
        if n in expected:
            assert_values(used.run(None, feeds[n]), expected[n], one.rtol)
        else:
            kind, node = one.fails[n]
            assert_fails(used, feeds[n], kind, node)
    for n, feed in before.items():
        assert all((feeds[n][key] == value).all() for key, value in feed.items())


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("name", CASES)
def test_what_a_session_says_of_a_model(name, sessions):
    used, other = sessions(name)
    assert signature(used) == signature(other)
    assert used.get_modelmeta().producer_name == other.get_modelmeta().producer_name
    assert used.get_modelmeta().graph_name == other.get_modelmeta().graph_name


@pytest.mark.slow
@pytest.mark.parametrize("name", ["mapped_crops", "map_captures"])
def test_maps_on_threads(name):
    one = CASES[name]
    serial = InferenceSession(MODELS / f"{name}.onnx")
    threaded = InferenceSession(MODELS / f"{name}.onnx", max_workers=2)
    for n in (1, 7, 300, 1500):
        assert_values(threaded.run(None, one.feed(n)), serial.run(None, one.feed(n)))


@pytest.mark.slow
def test_a_long_greedy_decoding():
    """Stops by its condition, not by the limit, after a thousand tokens."""
    used = InferenceSession(MODELS / "greedy.onnx")
    table = np.zeros((9, 9), np.float32)
    table[range(9), [8, *range(2, 9), 1]] = 1  # 1 to 8 in a ring, which never meets 0
    feed = {"table": table, "start": np.array(1), "limit": np.array(1500)}
    assert_values(used.run(None, feed), [np.resize(np.arange(1, 9), 1500)])
    table[8] = np.eye(9, dtype=np.float32)[0]
    assert_values(used.run(None, feed), [np.array([*range(1, 9), 0])])


@pytest.mark.slow
def test_a_position_out_of_range_in_an_assignment():
    used = InferenceSession(MODELS / "assign.onnx")
    x, at = rows(1000), np.arange(1000)
    at[700] = 1000
    assert_fails(used, {"x": x, "at": at}, IndexError, "/SequenceAt")
    at[700] = 999
    assert_values(used.run(None, {"x": x, "at": at}), assign(x, at))
