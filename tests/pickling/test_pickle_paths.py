"""What was loaded pickles as paths and positions: exactly, small, and only while the files are the same."""

import copy
import pickle

import numpy as np
import pytest
from support.saved import MAPPED_NAMES, lies_in, needs_proc, ragged, saved
from support.strategies import assert_holds, filled

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence

pytestmark = pytest.mark.mostly_slow(7)

PROTOCOLS = range(2, 6)
SMALL = 2_000


def size_of(seq, protocol=5):
    """The bytes of a pickle, with those that go out of band."""
    buffers = []
    data = pickle.dumps(seq, protocol, buffer_callback=buffers.append if protocol == 5 else None)
    return len(data) + sum(buffer.raw().nbytes for buffer in buffers)


def round_trips(seq, expected=None):
    """The elements come back from every protocol; the last of what came back."""
    expected = [np.array(element) for element in seq] if expected is None else expected
    for protocol in PROTOCOLS:
        back = pickle.loads(pickle.dumps(seq, protocol))
        assert type(back) is type(seq)
        assert back.dtype == seq.dtype
        assert_holds(back, expected)
    buffers = []
    data = pickle.dumps(seq, 5, buffer_callback=buffers.append)
    assert_holds(pickle.loads(data, buffers=buffers), expected)
    return back


@pytest.fixture
def large(tmp_path):
    """A file of 10,000 elements, and the values that it holds."""
    lengths = np.random.default_rng(3).integers(0, 9, 10_000)
    return saved(tmp_path / "large.arrow", ragged(lengths.tolist(), "float64"))


# --- how much ---


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_whole_file_is_a_path(large, protocol):
    assert size_of(large, protocol) < SMALL
    assert size_of(large[:], protocol) < SMALL
    assert size_of(copy.copy(large), protocol) < SMALL
    round_trips(large)


@pytest.mark.slow
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_selections_are_positions(large, protocol):
    order = np.random.default_rng(5).permutation(len(large))
    mask = order % 3 == 0
    for seq in (
        large[order],
        large[mask],
        large[::-1],
        large[order[:10]],
        large[order] + large[mask],
        large[5:],
    ):
        assert size_of(seq, protocol) <= SMALL + 8 * len(seq)
    round_trips(large[order], [large[i] for i in order])
    round_trips(large[mask], [large[i] for i in np.flatnonzero(mask)])


@pytest.mark.parametrize("step", [1, 2, 7, -1, -2, -7])
@pytest.mark.parametrize(("first", "last"), [(0, 29), (1, 28), (9, 17)])
def test_slices_are_runs_in_either_direction(path, first, last, step):
    elements = [[k] * (k % 4) for k in range(30)]
    where = slice(first, last, step) if step > 0 else slice(last, first, step)
    seq = saved(path, TensorSequence(elements, dtype="int64"))
    round_trips(seq[where] + seq[5:1:-1] + seq[where])


def test_an_empty_file(path):
    assert round_trips(saved(path, TensorSequence(dtype="int8"))).dtype == np.int8


# --- what travels as data ---


COMPUTED = {
    "compact": lambda seq: seq.compact() or seq,
    "deepcopy": copy.deepcopy,
    "map": lambda seq: sq.sequence_map(np.positive, seq),
    "copies": lambda seq: TensorSequence(list(seq), copy=True),
    "concat": lambda seq: split_to_sequence(sq.concat_from_sequence(seq, 0), 100),
}


@pytest.mark.parametrize("make", COMPUTED.values(), ids=COMPUTED)
def test_what_is_computed_is_data(path, make):
    seq = saved(path, ragged([100] * 50))
    expected = [np.array(element) for element in seq]
    data = pickle.dumps(make(seq[:]))
    assert len(data) > seq.nbytes
    path.unlink()
    assert_holds(pickle.loads(data), expected)


def views(element):
    """Arrays in an element's memory that are not the element."""
    yield element[1:]
    yield element[:-1]
    yield element[:0]
    yield element[::-1]
    yield element.T
    yield element.reshape(-1)
    yield element.reshape(*element.shape, 1)
    yield element[..., 0]
    yield np.broadcast_to(element, (2, *element.shape))
    yield element.view(f"int{element.itemsize * 8}")
    yield element


@pytest.mark.parametrize("name", ["int32", "float32"])
@pytest.mark.parametrize("shapes", [[(3,), (4,)], [(3, 2), (4, 2)], [(3, 2), (2, 3)]])
def test_views_of_elements_are_what_they_are(path, shapes, name):
    loaded = saved(path, [filled(name, shape, i) for i, shape in enumerate(shapes)])
    for element in loaded:
        for view in views(element):
            expected = np.array(view)
            round_trips(TensorSequence([view]), [expected])
            if view.dtype == loaded.dtype:
                mixed = loaded[:]
                mixed.insert(1, view)
                round_trips(mixed, [np.array(loaded[0]), expected, np.array(loaded[1])])


@pytest.mark.slow
def test_memory_that_was_a_file_s(tmp_path):
    """The addresses of files that are gone come up again, under other files and under arrays."""
    for i in range(60):
        path = tmp_path / f"{i % 7}.arrow"
        fresh = np.full(300_000, i, np.int32)
        seq = saved(path, [fresh[: 300_000 - i], fresh[:i]]) if i % 2 else TensorSequence([fresh])
        expected = [np.array(element) for element in seq]
        data = pickle.dumps(seq)
        assert i % 2 == (len(data) < SMALL)
        del seq
        assert_holds(pickle.loads(data), expected)


@pytest.mark.parametrize("name", MAPPED_NAMES)
def test_elements_of_nothing_beside_others(path, name):
    lengths = [0, 0, 3, 0, 1, 0, 0, 2, 0]
    seq = saved(path, ragged(lengths, name))
    order = np.random.default_rng(0).permutation(9)
    round_trips(seq[order], [np.array(seq[i]) for i in order])
    wide = [filled(name, shape) for shape in [(0, 3), (2, 0), (0, 0), (1, 2), (0, 2), (5, 0)]]
    round_trips(saved(path, wide)[::-1], wide[::-1])


# --- how it comes back ---


@needs_proc
def test_what_comes_back_lies_in_the_file(tmp_path):
    paths = [tmp_path / "a.arrow", tmp_path / "b.arrow"]
    for path in paths:
        sq.save(path, ragged([3, 4, 5]))
    back = pickle.loads(pickle.dumps(sq.load(paths)[[5, 0, 0, 4]]))
    assert [lies_in(back[i], paths[k]) for i, k in enumerate([1, 0, 0, 1])] == [True] * 4
    with pytest.raises(ValueError, match=r"(?i)writeable"):
        back[0].flags.writeable = True


@pytest.mark.thread_unsafe
def test_paths_are_absolute(tmp_path, monkeypatch):
    for name in ("inner", "other"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "inner")
    seq = saved("a.arrow", ragged([3, 4, 5]))
    early = pickle.dumps(seq)
    monkeypatch.chdir(tmp_path / "other")
    sq.save("a.arrow", ragged([7, 7]))
    late = pickle.dumps(seq)
    monkeypatch.chdir("/")
    for data in (early, late):
        assert_holds(pickle.loads(data), list(ragged([3, 4, 5])))


ODD = ["a b", "日本語", "caf\udce9", "new\nline", "x" * 255]


@pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name[:9]))
def test_odd_paths(tmp_path, name):
    try:
        seq = saved(tmp_path / name, ragged([3, 4]))
    except (ValueError, OSError):
        assert name == "caf\udce9"
    else:
        assert_holds(round_trips(seq), list(ragged([3, 4])))


def test_cloudpickle(path):
    cloudpickle = pytest.importorskip("cloudpickle")
    seq = saved(path, ragged([100] * 100))
    data = cloudpickle.dumps(lambda: (seq, seq[::-1]))
    assert len(data) < 3 * SMALL
    for one, other in zip(pickle.loads(data)(), (seq, seq[::-1]), strict=True):
        assert one == other
