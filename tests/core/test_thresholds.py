"""Both sides of each number from which on the core goes another way.

============== ================ ======================================================================
AT_ONCE        compare.pyx      bytes that are compared before others are let in (SMALL in equality.pyx)
BLOCK          reader.pxd       elements that are read together, and slots that are compared together
LONG           reader.pxd       elements from which on those at equal distances are taken together
DIMS           reader.pxd       extents and strides that a block has room for, where elements have their own
RELEASE_FROM   split.pxd        elements, or an eighth of the bytes, from which on the GIL is released
SMALL          pickling.pyx     bytes for which an array of its own is worth its pickle
FEW            pickling.pyx     runs that are pickled as integers rather than as an array
============== ================ ======================================================================
"""

import copy
import pickle

import numpy as np
import pytest
from seqcore.core.maps import items_of
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.usual_limits

AT_ONCE = 1 << 16
RELEASE_FROM = 1024
SMALL = 4096


# -- AT_ONCE: comparisons -------------------------------------------------------------------------------


def element(nbytes, dtype="int64"):
    if dtype == "string":
        return np.array([f"s{i % 7}" for i in range(nbytes // 8)], object)
    return np.arange(nbytes // np.dtype(dtype).itemsize).astype(dtype)


def changed(array, at):
    array = array.copy()
    array[at] = "other" if array.dtype == object else not array[at]
    return array


@pytest.mark.parametrize("dtype", ["int64", "uint8", "string"])
@pytest.mark.parametrize("nbytes", [AT_ONCE - 8, AT_ONCE, AT_ONCE + 8, 2 * AT_ONCE])
def test_equality_of_one_element(nbytes, dtype):
    array = element(nbytes, dtype)
    seq, same = TensorSequence([array]), TensorSequence([array.copy()])
    assert seq == same
    for at in (0, -1):
        other = TensorSequence([changed(array, at)])
        assert seq != other
        assert other != seq


@pytest.mark.parametrize("dtype", ["float32", "string"])
@pytest.mark.parametrize(
    "sizes",
    [
        (8, AT_ONCE + 8, 8),
        (AT_ONCE + 8, 8),
        (8, AT_ONCE + 8),
        (AT_ONCE + 8, AT_ONCE + 16),
        (AT_ONCE - 8, 8, 8),
        (AT_ONCE, AT_ONCE, 8),
        (AT_ONCE // 2 + 8, AT_ONCE // 2 + 8, 8, 0),
        (0, AT_ONCE + 8, 0),
        (8, AT_ONCE, AT_ONCE + 8, 16, AT_ONCE - 8, 8),
    ],
)
def test_equality_of_small_and_large_elements(sizes, dtype):
    """Whichever of them differs, at its begin or its end, and wherever the gap is."""
    arrays = [element(nbytes, dtype) for nbytes in sizes]
    seq, same = TensorSequence(arrays), TensorSequence(arrays, copy=True)
    same.insert(1, arrays[0])
    same.erase(1)
    assert seq == same
    for which, array in enumerate(arrays):
        for at in (0, -1) if len(array) else ():
            other = same.copy()
            other[which] = changed(array, at)
            assert seq != other
            assert other != seq


@pytest.mark.parametrize("dtype", ["int64", "string"])
@pytest.mark.parametrize("nbytes", [AT_ONCE - 8, AT_ONCE, AT_ONCE + 8])
def test_finding_elements(nbytes, dtype):
    array = element(nbytes, dtype)
    seq = TensorSequence([changed(array, 0), changed(array, -1), array, array[1:], array])
    assert seq.index(array.copy()) == 2
    assert seq.count(array) == 2
    assert array in seq
    assert changed(array, 1) not in seq
    seq.remove(array)
    assert seq.index(array) == 3


# -- BLOCK and LONG: elements that follow each other -------------------------------------------------------

BLOCK = 64
LONG = 8
LENGTHS = (1, 2, 7, 8, 9, 10, 71, 72, 73, 74, 135, 136, 137, 138, 200)
BROKEN = (1, 2, 6, 7, 8, 9, 10, 70, 71, 72, 73, 74, 135, 136, 137)


def copies_of(runs):
    """How many copies a join of runs of these lengths makes: a long one is one, the others go by blocks."""
    ends, n, copies, at = np.cumsum(runs), sum(runs), 0, 0
    while at < n:
        end = ends[np.searchsorted(ends, at, side="right")]
        if end - at >= LONG or (end - at > 1 and end == n):
            at, copies = end, copies + 1
        else:
            to = min(at + BLOCK, n)
            copies += len(np.unique(np.searchsorted(ends, np.arange(at, to), side="right")))
            at = to
    return copies


def assert_is(seq, model):
    """What it holds, by each of the ways that go by runs."""
    seq._check()
    assert seq.lengths().tolist() == [len(one) for one in model]
    joined = [x for one in model for x in one]
    assert seq.values().tolist() == joined
    assert sq.concat_from_sequence(seq, 0).tolist() == joined
    assert sq.sequence_map(np.negative, seq).values().tolist() == [-x for x in joined]
    compacted = seq.copy()
    compacted.compact()
    compacted._check()
    assert compacted.tolist() == model
    assert TensorSequence.from_arrow(seq).tolist() == model
    assert pickle.loads(pickle.dumps(seq)).tolist() == model


@pytest.mark.parametrize("n", LENGTHS)
def test_holds_are_counted_for_each_slot(n):
    """Slots in runs are held and dropped together: where one is missed, memory goes too early or never."""
    import weakref

    for at in [k for k in BROKEN if k < n]:
        array = np.arange(n)
        alive = weakref.ref(array)
        seq = sq.split_to_sequence(array)
        del array
        order = [*range(at), at - 1, *range(at, n)]
        several = [seq[order], seq[:at], seq[at:], seq[order[::-1]]]
        for one in several:
            one._check()
        seq.clear()
        while several:
            assert alive() is not None
            several.pop().clear()
        assert alive() is None


# -- MAX_RUNS ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nruns", [1, 31, 32, 33, 34, 65])
@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (1, 0), (0, 1), (1, 1)])
@pytest.mark.parametrize("gap", [0, 1, 30, -1])
def test_joins_of_each_number_of_runs(nruns, axis, new_axis, gap):
    array = np.arange(4 * nruns * 4 * nruns).reshape(4 * nruns, 4 * nruns)
    seq = sq.split_to_sequence(array, axis=axis, keepdims=not new_axis)
    # Of four in a row the second and third: two at one distance, then a jump.
    seq = seq[[4 * i + k for i in range(nruns) for k in (1, 2)]]
    if abs(gap) <= len(seq):
        seq.insert(gap, seq[0])
        seq.erase(gap if gap >= 0 else -2)
    model = list(seq)
    expected = np.stack(model, axis) if new_axis else np.concatenate(model, axis)
    assert np.array_equal(sq.concat_from_sequence(seq, axis, new_axis), expected)


@pytest.mark.parametrize("nruns", [31, 32, 33])
@pytest.mark.parametrize(("axis", "new_axis"), [(0, 0), (1, 0), (0, 1)])
def test_pieces_that_don_t_fit_are_found_behind_any_number_of_runs(nruns, axis, new_axis):
    """Behind the runs that are kept pieces are only added up, but must fit all the same."""
    for misfit in (np.zeros((3, 2)), np.zeros((2, 3)), np.zeros(2), np.zeros((2, 2, 1))):
        seq = TensorSequence([np.ones((2, 2))] * nruns)
        fits = not new_axis and misfit.ndim == 2 and misfit.shape[1 - axis] == 2
        for at in (len(seq), 1):
            other = seq.copy()
            other.insert(at, misfit)
            if fits:
                assert sq.concat_from_sequence(other, axis).shape[axis] == 2 * nruns + 3
            else:
                with pytest.raises(ValueError, match=f"element {at} "):
                    sq.concat_from_sequence(other, axis, new_axis)


@pytest.mark.parametrize("nruns", [3, 31, 32, 33, 40])
def test_pieces_of_several_lengths_are_not_stacked(nruns):
    """Pieces of one array that begin at equal distances, but of which one is longer or shorter."""
    for odd in (1, nruns - 1, nruns):
        for length in (0, 1, 3):
            lengths = np.full(nruns + 2, 2)
            lengths[odd] = length
            array = np.arange(4 * nruns + 8)
            seq = TensorSequence.from_lengths(array[: lengths.sum()], lengths)
            for one in (seq, seq[::-1], seq[[*range(0, len(seq), 2), odd, 0, odd]]):
                if len(set(one.lengths().tolist())) == 1:
                    continue
                with pytest.raises(ValueError, match=r"element \d+ has shape"):
                    sq.concat_from_sequence(one, 0, 1)


# -- RELEASE_FROM --------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [RELEASE_FROM - 1, RELEASE_FROM, RELEASE_FROM + 1])
def test_many_pieces(n):
    lengths = np.arange(n) % 3
    array = np.arange(lengths.sum())
    model = np.split(array, np.cumsum(lengths)[:-1])
    seq = TensorSequence.from_lengths(array, lengths)
    assert_holds(seq, model)
    assert seq.offsets().tolist() == [0, *np.cumsum(lengths)]
    assert_holds(sq.split_to_sequence(np.arange(n)), [np.array([i]) for i in range(n)])
    assert np.array_equal(sq.concat_from_sequence(seq[::-1], 0), np.concatenate(model[::-1]))
    assert [row[:k].tolist() for row, k in zip(seq.to_padded(), lengths, strict=True)] == seq.tolist()


@pytest.mark.parametrize("n", [RELEASE_FROM - 1, RELEASE_FROM])
@pytest.mark.parametrize("at", [0, 500, -1])
def test_lengths_at_fault_among_many(n, at):
    def given(value):
        lengths = np.ones(n, np.int64)
        lengths[at] = value
        return lengths

    for value, what in ((-1, "negative"), (n, "exceed"), (0, r"the sum of \w+ is"), (2**62, "exceed")):
        with pytest.raises(ValueError, match=what):
            TensorSequence.from_lengths(np.zeros(n), given(value))
        with pytest.raises(ValueError, match=what):
            sq.split_to_sequence(np.zeros(n), given(value))
    seq = TensorSequence([np.zeros(2)] * n)
    seq[at] = np.zeros(())
    with pytest.raises(ValueError, match=f"element {at % n} has rank 0"):
        seq.lengths()
    with pytest.raises(ValueError, match=f"element {at % n if at % n else 1} "):
        sq.concat_from_sequence(seq, 0, 1)


@pytest.mark.parametrize("nbytes", [8 * RELEASE_FROM - 16, 8 * RELEASE_FROM, 8 * RELEASE_FROM + 16])
@pytest.mark.parametrize("dtype", ["int64", "uint8", "string"])
def test_copies_of_many_bytes(nbytes, dtype):
    array = element(nbytes, dtype)
    for cut in (1, len(array) // 2, len(array) - 1):
        seq = TensorSequence([array[cut:], array[:cut]])
        expected = np.concatenate([array[cut:], array[:cut]])
        assert np.array_equal(sq.concat_from_sequence(seq, 0), expected)
        assert np.array_equal(seq.values(), expected)
        seq.compact()
        assert_holds(seq, [array[cut:], array[:cut]])
    seq = sq.split_to_sequence(array.reshape(2, -1))
    filler = "x" if dtype == "string" else 1
    assert np.array_equal(seq.to_padded(filler)[:, 0], array.reshape(2, -1))
    assert np.array_equal(seq.to_padded(filler, shape=(2, len(array) // 2))[:, 0], array.reshape(2, -1))


# -- SMALL: what pickle copies -------------------------------------------------------------------------


def buffers_of(seq):
    buffers = []
    data = pickle.dumps(seq, protocol=5, buffer_callback=buffers.append)
    assert_holds(pickle.loads(data, buffers=buffers), list(seq))
    return [buffer.raw().nbytes for buffer in buffers if buffer.raw().nbytes]


@pytest.mark.parametrize(("nbytes", "parts"), [(SMALL - 8, 3), (SMALL // 2, 3), (SMALL, 3), (2 * SMALL, 3)])
def test_arrays_go_alone_where_they_are_large(nbytes, parts):
    """Three arrays are worth it where together they have as much as two of `SMALL`."""
    seq = TensorSequence([np.full(nbytes // 8, i) for i in range(parts)])
    alone = parts * nbytes >= SMALL * (parts - 1)
    order = [parts, parts]  # a byte for the part of each, and for the number in it
    assert sorted(buffers_of(seq)) == sorted([*[nbytes] * parts, *order] if alone else [parts * nbytes])


@pytest.mark.parametrize(
    ("total", "alone"), [(2 * SMALL - 8, False), (2 * SMALL, True), (2 * SMALL + 8, True)]
)
def test_where_arrays_begin_to_go_alone(total, alone):
    sizes = [SMALL, SMALL // 2, total - SMALL - SMALL // 2]
    seq = TensorSequence([np.zeros(nbytes // 8) for nbytes in sizes])
    assert sorted(buffers_of(seq)) == sorted([*sizes, 3, 3] if alone else [total, 4 * 8])


@pytest.mark.parametrize("used", [49, 50, 51])
def test_a_stretch_goes_as_it_is_where_half_of_it_is_used(used):
    """Of 100 rows the first, the last and some between: those alone where they are less than half."""
    array = np.arange(100 * 128).reshape(100, 128)
    seq = sq.split_to_sequence(array)[[*range(used - 1), 99]]
    # Two runs of one stretch, or copied together.
    assert sorted(buffers_of(seq)) == [100 * 1024 if used >= 50 else used * 1024]


@pytest.mark.parametrize("times", [199, 200, 201])
def test_what_repeats_goes_once(times):
    """A stretch that elements use again and again is sent as it is, not once for each."""
    array = np.arange(100 * 16).reshape(100, 16)
    seq = sq.split_to_sequence(array)[[*range(100), *[0] * (times - 100)]]
    assert sorted(buffers_of(seq)) == sorted([times, array.nbytes])
    lone = TensorSequence([np.arange(8)] * times)
    assert sorted(buffers_of(lone)) == sorted([times, 64])


@pytest.mark.slow
@pytest.mark.parametrize("n", [255, 256, 257, 65535, 65536, 65537])
def test_numbers_take_as_few_bytes_as_they_need(n):
    """The largest number decides, which is n - 1."""
    array = np.arange(n, dtype=np.int8)
    order = np.arange(n)[::-1].copy()
    order[:2] = order[1::-1]  # no run
    width = 1 if n <= 256 else 2 if n <= 65536 else 4
    assert sorted(buffers_of(sq.split_to_sequence(array)[order])) == sorted([n * width, n])


# -- FEW: runs that are pickled ------------------------------------------------------------------------


@pytest.mark.parametrize("nruns", [1, 2, 7, 8, 9, 64])
def test_runs_are_pickled_as_integers_where_they_are_few(nruns):
    seq = sq.split_to_sequence(np.arange(7000))
    parts = [seq[i * 101 : i * 101 + 100] for i in range(nruns)]
    seq = parts[0]
    for part in parts[1:]:
        seq = seq + part
    _, (_, _, _, order), *_ = seq.__reduce_ex__(5)
    assert isinstance(order, tuple) == (nruns <= 8)
    assert np.array_equal(order, [[0, 101 * i, 1, 100] for i in range(nruns)])
    assert_holds(pickle.loads(pickle.dumps(seq)), list(seq))


# -- DIMS: elements with shapes of their own -----------------------------------------------------------


@pytest.mark.parametrize("n", [1, 50, 51, 52, 63, 64, 65, 130])
@pytest.mark.parametrize("rank", [1, 2, 3, 4, 5, 6, 8, 63])
def test_blocks_of_shapes(rank, n):
    """512 extents and strides are 64 elements of rank 4, but only 51 of rank 5 and 4 of rank 63."""
    shapes = [[1 + (i + k) % 2 if k < 4 else 1 for k in range(rank)] for i in range(n)]
    arrays = [np.arange(i, i + np.prod(shape)).reshape(shape) for i, shape in enumerate(shapes)]
    seq = copy.deepcopy(TensorSequence(arrays))  # one table of shapes, except of rank 1
    for one in (seq, seq[np.arange(n)], seq[::-1][::-1]):
        assert_holds(one, arrays)
        assert one == TensorSequence(arrays)
        assert items_of(one).tolist() == [x for array in arrays for x in array.ravel().tolist()]
        assert one.astype("float64").tolist() == [array.tolist() for array in arrays]
    mixed = seq + [np.zeros((1,) * rank, int)] + seq
    assert mixed.shapes == [*seq.shapes, (1,) * rank, *seq.shapes]
