"""Views instead of copies where elements are behind each other, and nothing allocated that need not be."""

import pickle
import tracemalloc

import numpy as np
import pytest
from seqcore.core.arrow import as_lists
from seqcore.core.maps import items_of, stack
from support.counting import rows, tensor

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.usual_limits

# -- views --------------------------------------------------------------------------------------------


def loaded(tmp_path):
    pytest.importorskip("pyarrow")
    sq.save(tmp_path / "rows.arrow", rows())
    return sq.load(tmp_path / "rows.arrow")


def is_view(values, seq):
    """Whether an array has the memory of elements, rather than a copy."""
    return any(np.shares_memory(values, tensor) for tensor in seq)


VIEWS = {
    "split": rows,
    "slice": lambda: rows()[2:5],
    "from_lengths": lambda: TensorSequence.from_lengths(np.arange(6), [0, 3, 0, 2, 1]),
    "from_offsets": lambda: TensorSequence.from_offsets(np.arange(9), [2, 2, 5, 9]),
    "from_padded": lambda: TensorSequence.from_padded(np.ones((3, 4)), [4, 4, 2]),
    "halves": lambda: rows()[:3] + rows()[:0] + rows()[3:3],
    "edited back": lambda: [seq := rows(), seq.insert(3, tensor()), seq.erase(3)][0],
    "compacted": lambda: [seq := rows()[::-1], seq.compact()][0],
    "pickled": lambda: pickle.loads(pickle.dumps(rows())),
    "converted": lambda: rows()[::-1].astype("float32"),
    "in batches": lambda: sq.map_batches(np.negative, rows()),
    "from Arrow": lambda: TensorSequence.from_arrow(rows()),
    "whole arrays of one memory": lambda: TensorSequence([a := np.arange(9)[:4], a.base[4:]]),
    "one": lambda: rows()[3:4],
}


@pytest.mark.parametrize("make", [*VIEWS.values(), loaded], ids=[*VIEWS, "loaded"])
def test_values_that_lie_together_are_a_view(make, tmp_path):
    seq = make(tmp_path) if make is loaded else make()
    assert is_view(seq.values(), seq)
    assert np.array_equal(seq.values(), np.concatenate(list(seq)))


@pytest.mark.parametrize("position", range(7))
@pytest.mark.parametrize("of", ["rows", "pairs", "arrays"])
def test_values_are_a_view_wherever_the_gap_is(position, of):
    array = np.arange(24).reshape(12, 2)
    seq = {
        "rows": lambda: sq.split_to_sequence(array, 2),
        "pairs": lambda: sq.split_to_sequence(array[:6]) + sq.split_to_sequence(array[6:]),
        "arrays": lambda: TensorSequence([array[i : i + 2] for i in range(0, 12, 2)]),
    }[of]()
    seq.insert(position, array)
    seq.erase(position)
    assert is_view(seq.values(), seq)
    assert np.array_equal(seq.values(), array)
    seq[position - 1] = array[:1] + 1
    assert not is_view(seq.values(), seq)


@pytest.mark.parametrize("position", range(7))
def test_items_and_stacks_are_views_wherever_the_gap_is(position):
    array = np.arange(24).reshape(6, 2, 2)
    seq = sq.split_to_sequence(array, keepdims=0)
    seq.insert(position, array[0])
    seq.erase(position)
    assert is_view(stack(seq), seq)
    assert np.array_equal(stack(seq), array)
    seq = sq.split_to_sequence(array.reshape(12, 2), 2)
    seq.insert(position, array[0])
    seq.erase(position)
    assert is_view(items_of(seq), seq)
    assert np.array_equal(items_of(seq), array.reshape(-1))
    values, offsets = as_lists(seq, np.dtype(np.int64), False)
    assert np.shares_memory(values, array)
    assert offsets.tolist() == [*range(0, 13, 2)]
    seq[position - 1] = array[0]
    assert not is_view(items_of(seq), seq)
    assert as_lists(seq, np.dtype(np.int64), False) is None
    assert np.array_equal(items_of(seq), np.concatenate([t.reshape(-1) for t in seq]))


def peak_of(action):
    """The most that an action has allocated, in bytes."""
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.thread_unsafe
def test_padding_writes_straight_into_out():
    seq = TensorSequence([np.ones((n, 1000)) for n in (3, 1, 4)])
    out = np.zeros((3, 4, 1000))
    assert peak_of(lambda: seq.to_padded(out=out)) < out.nbytes // 4
    overlapping = TensorSequence([out[1], out[0], out[2]])
    expected = np.stack(list(overlapping))
    assert peak_of(lambda: overlapping.to_padded(out=out)) > out.nbytes
    assert np.array_equal(out, expected)


@pytest.mark.thread_unsafe
def test_a_join_allocates_its_result_alone():
    seq = rows(1000, 100)
    nbytes = seq.nbytes
    for make in (
        lambda: sq.concat_from_sequence(seq, 0),
        lambda: sq.concat_from_sequence(seq[::-1], 0),
        lambda: sq.concat_from_sequence(seq, 1),
        (seq[::2] + seq[1::2]).values,
        seq.to_padded,
    ):
        assert nbytes <= peak_of(make) < 1.2 * nbytes
    assert peak_of(seq.values) < nbytes // 10
