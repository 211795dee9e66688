"""Slots are copied, moved and given back no more often than need be; the GIL is given away where it pays."""

import pickle
import tracemalloc

import numpy as np
import pytest
from support.counting import done, rows, slots, tensor

import seqcore as sq
from seqcore import TensorSequence

pytestmark = pytest.mark.usual_limits

# -- slots --------------------------------------------------------------------------------------------


def test_appends_grow_by_a_quarter():
    seq, new = TensorSequence(dtype="int64"), tensor()
    counts = done(lambda: [seq.append(new) for _ in range(10_000)])
    assert set(counts) == {"grown", "slots_copied"}  # the first is of nothing, which all share
    assert 25 <= counts["grown"] <= 40


def test_extending_grows_once():
    seq = slots(1000)
    assert done(lambda: seq.extend(rows(500))) == {"grown": 1}
    assert done(lambda: seq.extend(rows(1))) == {}


def given_back(n, remove):
    """The bytes that a sequence of n slots gives back."""
    tracemalloc.start()
    try:
        seq = slots(n)
        before = tracemalloc.get_traced_memory()[0]
        remove(seq)
        after = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    seq._check()
    return before - after


@pytest.mark.thread_unsafe
@pytest.mark.parametrize("position", [0, -1])
def test_pops_give_memory_back(position):
    def pop(seq):
        for _ in range(9990):
            seq.pop(position)

    assert given_back(10_000, pop) > 6000 * 16  # Python 3.14 keeps some numbers


@pytest.mark.thread_unsafe
@pytest.mark.parametrize(
    ("remove", "shrinks"),
    [
        (lambda seq: seq.__delitem__(slice(None, -20)), True),
        (lambda seq: seq.__delitem__(slice(20, None)), True),
        (lambda seq: seq.__delitem__(slice(0, 900, 1)), True),
        (lambda seq: seq.__delitem__(np.arange(1000) >= 20), True),
        (lambda seq: seq.__delitem__([*range(900)]), True),
        (lambda seq: seq.__setitem__(slice(10, None), []), True),
        (lambda seq: seq.__delitem__(slice(None, None, 2)), False),
        (lambda seq: seq.__delitem__(slice(None, 700)), False),
    ],
)
def test_what_removes_most_gives_memory_back(remove, shrinks):
    assert (given_back(1000, remove) > 500 * 16) == shrinks


def test_remove_edits_in_place():
    """What is compared is retained meanwhile, but no longer when the element is taken out."""
    seq = slots(1000)
    other, at_the_front = seq.copy(), seq[0]
    assert done(lambda: seq.remove(at_the_front)) == {"slots_copied": 1}  # the other one keeps its own
    del other
    for _ in range(10):
        at_the_front = seq[0]
        assert done(lambda tensor=at_the_front: seq.remove(tensor)).keys() <= {"gap_moved"}
    assert len(seq) == 989
    seq._check()


def test_edits_at_the_cursor_move_nothing():
    seq, new = slots(1000), tensor()
    seq.insert(500, new)
    counts = done(lambda: [(seq.insert(501 + i, new), seq.erase(501 + i)) for i in range(100)])
    # What is erased at the cursor stands before it or behind it.
    assert counts.get("gap_moved", 0) <= 100
    assert done(lambda: [seq.insert(500 + i, new) for i in range(100)]).get("gap_moved", 0) <= 1
    assert done(lambda: [seq.erase(500) for _ in range(100)]).get("gap_moved", 0) <= 1
    assert done(lambda: [seq.append(new) for _ in range(100)])["gap_moved"] == 1
    assert done(lambda: [seq.pop() for _ in range(100)]) == {}
    assert done(lambda: seq.__setitem__(3, new)) == {}
    assert done(lambda: [seq.pop(0) for _ in range(100)])["gap_moved"] == 1


@pytest.mark.parametrize("position", [0, 3, -1])
def test_an_element_goes_to_the_nearer_side_of_the_gap(position):
    seq, new = slots(8), tensor()
    seq.insert(position, new)
    at = position % len(seq) if position >= 0 else len(seq) - 2
    assert done(lambda: seq.erase(at)) == {}
    assert done(lambda: seq.insert(at, new)) == {}


def test_copies_share_until_an_edit():
    seq, new = slots(1000), tensor()
    copies = []
    assert done(lambda: copies.extend([seq.copy(), seq[:], seq[0:1000]])) == {}
    for other in copies:
        assert done(lambda other=other: other.append(new)) == {"slots_copied": 1}
        assert "slots_copied" not in done(lambda other=other: (other.append(new), other.erase(3)))
    assert done(lambda: seq.append(new)).get("slots_copied", 0) == 0  # nobody shares its buffer any more


def test_reading_leaves_no_share_behind():
    """What reads a sequence has a share meanwhile: if it kept it, the next edit would copy all slots."""
    seq, new = slots(1000), tensor()
    other = seq.copy()
    other.append(new)
    seq.append(new)
    for read in (
        lambda: seq == other,
        lambda: new in seq,
        lambda: (seq.count(new), seq.index(new), seq.nbytes, seq.pinned_nbytes, seq.shapes),
        lambda: (seq.values(), seq.lengths(), seq.offsets(), seq.to_padded(), seq.tolist(), repr(seq)),
        lambda: (pickle.dumps(seq), seq.astype("float32"), seq[3:], seq[[1, 2]], seq[-1], [*seq]),
        lambda: (seq.__arrow_c_array__(), seq._repr_html_(), sq.concat_from_sequence(seq, 0)),
        lambda: (sq.sequence_map(np.negative, seq), sq.map_batches(np.negative, seq)),
        lambda: (seq.remove(new), seq.append(new)),
        seq.compact,
    ):
        read()
        assert "slots_copied" not in done(lambda: seq.__setitem__(1, new)), read


def test_whole_sequences_are_emptied_without_a_copy():
    for empty in (TensorSequence.clear, lambda seq: seq.__delitem__(slice(None))):
        seq = rows(1000)
        assert done(lambda seq=seq, empty=empty: empty(seq)) == {}
        other = rows(1000)
        seq = other.copy()
        assert done(lambda seq=seq, empty=empty: empty(seq)) == {}
        assert len(other) == 1000


# -- splits and the GIL -------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "without"), [(1023, 0), (1024, 1), (5000, 1)])
def test_long_splits_go_without_the_gil(n, without):
    array = np.arange(2 * n)
    for split in (
        lambda: TensorSequence.from_lengths(array, np.full(n, 2)),
        lambda: sq.split_to_sequence(array, [*[1] * (n - 1), n + 1]),
        lambda: TensorSequence.from_offsets(array, np.arange(n + 1)),
    ):
        assert done(split).get("without_gil", 0) == without
    assert done(lambda: sq.split_to_sequence(array, 2)) == {}  # nothing is written


@pytest.mark.parametrize(("nbytes", "without"), [(8184, 0), (8192, 1), (80_000, 1)])
def test_large_copies_go_without_the_gil(nbytes, without):
    seq = TensorSequence([np.zeros(nbytes // 16), np.ones(nbytes // 8 - nbytes // 16)])
    even = TensorSequence([np.zeros(nbytes // 8)])
    for copy in (
        lambda: seq.astype("int64"),
        even.to_padded,
    ):
        assert done(copy).get("without_gil", 0) == without


# -- comparisons --------------------------------------------------------------------------------------


def test_comparisons_copy_nothing():
    seq, other = rows(1000), rows(1000)
    assert done(lambda: seq == other) == {}
    assert done(lambda: seq.count(np.ones((2, 4), int))) == {}
    large = sq.split_to_sequence(np.zeros((3, 1 << 20)))
    assert done(lambda: large == sq.split_to_sequence(np.zeros((3, 1 << 20)))) == {}
