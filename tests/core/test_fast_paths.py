"""Views instead of copies where elements are behind each other, and nothing allocated that need not be."""

import pickle
import sys
import tracemalloc

import numpy as np
import pytest
from seqcore.core.arrow import as_lists
from seqcore.core.maps import items_of, stack
from support.counting import pairs, rows, tensor

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


@pytest.mark.parametrize("options", [{}, {"batch_size": 30}, {"new_axis": 1}], ids=repr)
def test_a_body_gets_views(options):
    seq, seen = rows(100), []

    def body(batch):
        seen.append(batch)
        return batch

    sq.map_batches(body, seq, **options)
    assert all(is_view(batch, seq) for batch in seen)
    sq.map_batches(body, seq[::2], new_axis=1)
    assert is_view(seen[-1], seq)
    seen.clear()
    sq.map_batches(body, seq[np.arange(100) * 37 % 100], **options)
    assert not any(is_view(batch, seq) for batch in seen)


def test_arrow_takes_what_lies_together_as_it_is():
    pa = pytest.importorskip("pyarrow")
    for seq, kept in ((rows(1000), True), (pairs()[::-1], False)):
        values = pa.array(seq).flatten().flatten().to_numpy()
        assert is_view(values, seq) == kept


def functions_called(action):
    """The names of the Python functions that an action calls."""
    called = set()
    sys.setprofile(lambda frame, event, _: event == "call" and called.add(frame.f_code.co_name))
    try:
        action()
    finally:
        sys.setprofile(None)
    return called


@pytest.mark.thread_unsafe
def test_a_type_with_two_numbers_needs_no_python():
    aliases = [np.dtype(char) for char in "ilqILQ"]
    pairs_of_numbers = [
        (one, other) for one in aliases for other in aliases if one == other and one.num != other.num
    ]
    assert pairs_of_numbers
    for one, other in pairs_of_numbers:
        arrays = [np.zeros(2, one), np.zeros(2, other)]
        assert "as_tensor" not in functions_called(
            lambda arrays=arrays: TensorSequence(arrays, arrays[0].dtype)
        )
    as_it_is, swapped = np.zeros(2, "<i8"), np.zeros(2, ">i8")
    assert "as_tensor" in functions_called(lambda: TensorSequence([as_it_is, swapped], as_it_is.dtype))


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
