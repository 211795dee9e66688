"""Packing: the cap holds, and there are no more packs than best fit decreasing in Python needs."""

import bisect

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from seqcore.core.training import by_length, cut_by_padded, packed

import seqcore as sq
from seqcore import TensorSequence

STRATEGIES = ["best_fit_decreasing", "first_fit_decreasing", "next_fit"]
LARGE = 2**40 + 7  # a capacity for which there is no array of all spaces


def best_fit(lengths, capacity, most):
    """The number of packs of best fit decreasing; of packs with one space, the last one that got it."""
    spaces, count = [], 0  # (space, elements that still go in), sorted
    for length in sorted(lengths, reverse=True):
        at = bisect.bisect_left(spaces, (length, 0))
        space, left = spaces.pop(at) if at < len(spaces) else (capacity, most)
        count += space == capacity and left == most
        if left > 1:
            bisect.insort(spaces, (space - length, left - 1))
    return count


def first_fit(lengths, capacity, most):
    packs = []
    for length in sorted(lengths, reverse=True):
        for pack in packs:
            if pack[0] >= length and pack[1]:
                break
        else:
            pack = [capacity, most]
            packs.append(pack)
        pack[0] -= length
        pack[1] -= 1
    return len(packs)


def next_fit(lengths, capacity, most):
    packs = []
    for i, length in enumerate(lengths):
        if not packs or sum(lengths[k] for k in packs[-1]) + length > capacity or len(packs[-1]) == most:
            packs.append([])
        packs[-1].append(i)
    return packs


def holds(packs, lengths, capacity, most=None):
    """Whether each element is in one pack, and no pack has too many."""
    assert packs.dtype == np.int64
    lengths = np.asarray(lengths, np.int64)
    assert np.sort(packs.values()).tolist() == list(range(len(lengths)))
    for pack in packs:
        assert 0 < len(pack) <= (most or len(lengths))
        assert (np.diff(pack) > 0).all()
        assert lengths[pack].sum() <= capacity
    return True


@given(
    st.integers(1, 70).flatmap(lambda n: st.tuples(st.just(n), st.lists(st.integers(0, n), max_size=60))),
    st.sampled_from([1, 1000, LARGE]),
    st.sampled_from(STRATEGIES),
    st.none() | st.integers(1, 5),
)
@example((64, [63, 1, 64, 0, 32, 32]), 1, STRATEGIES[0], None)
def test_against_the_definitions(given_, unit, strategy, most):
    capacity, lengths = given_[0] * unit, [length * unit for length in given_[1]]
    packs = sq.pack(lengths, capacity, strategy=strategy, max_count=most)
    assert holds(packs, lengths, capacity, most)
    if strategy == "next_fit":
        assert packs.tolist() == next_fit(lengths, capacity, most or 99)
    elif strategy == "first_fit_decreasing":
        assert len(packs) == first_fit(lengths, capacity, most or 99)
    elif most is None:
        assert len(packs) == best_fit(lengths, capacity, 99)
    if strategy != "next_fit" and lengths and most is None:
        assert len(packs) <= 11 / 9 * -(-sum(lengths) // capacity) * 2 + 1


@pytest.mark.parametrize("capacity", [100, 4096, 4097, 1 << 20, (1 << 20) + 1, 10**9, LARGE, 2**62])
def test_many(capacity):
    rng = np.random.default_rng(capacity % 1000)
    lengths = rng.integers(0, capacity, 3000, endpoint=True)
    count = best_fit(lengths.tolist(), capacity, len(lengths))
    packs = sq.pack(lengths, capacity)
    assert holds(packs, lengths, capacity)
    assert len(packs) == count
    assert holds(sq.pack(lengths, capacity, strategy="first_fit_decreasing"), lengths, capacity)
    assert holds(sq.pack(lengths // 40, capacity, max_count=7), lengths // 40, capacity, 7)


@pytest.mark.parametrize("capacity", [2**60 - 1, 2**60, 2**61 + 5, 2**63 - 1, 2**70])
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_the_largest_capacities(capacity, strategy):
    """Spaces that agree in their last 60 bits are told apart, and one of them has all 60 set."""
    most = min(capacity, 2**63 - 1)
    for lengths in (
        [0, 0],
        [most, 0, most, 0, 0],
        [most - 1, 1, 1, 1],
        [min(k * 2**60, most) for k in (1, 2, 3, 4, 5, 6, 7, 1, 1)],
        [most - 2**60, most // 2, 2**60, 2**60 - 1, 0, 2, 2] * 5,
    ):
        if max(lengths) > most or min(lengths) < 0:
            continue
        packs = sq.pack(lengths, capacity, strategy=strategy)
        assert sorted(int(i) for pack in packs for i in pack) == list(range(len(lengths)))
        assert all(sum(lengths[i] for i in pack) <= most for pack in packs)
        if strategy == "best_fit_decreasing":
            assert len(packs) == best_fit(lengths, most, len(lengths))


def test_lengths_that_nobody_checked():
    """The core refuses what would lead out of its memory, whoever calls it."""
    lengths = np.array([3, 9, 2])
    for damaged in (lengths - 5, lengths + 6, lengths.astype("int8"), lengths.astype("f8"), lengths[::2]):
        with pytest.raises((ValueError, TypeError), match="lengths"):
            packed(damaged, 10, STRATEGIES[0], 99)
    for damaged in (lengths - 5, lengths.astype("int16")):
        with pytest.raises((ValueError, TypeError), match="lengths"):
            by_length(damaged)
        with pytest.raises((ValueError, TypeError), match="lengths"):
            cut_by_padded(damaged, 10)
    with pytest.raises(ValueError, match=r"lengths\[1\] is 9, expected 0 to 8"):
        cut_by_padded(lengths, 8)


def test_small_elements_fill_packs_up():
    lengths = np.r_[np.full(1000, 60), np.full(1000, 40), np.zeros(10, int)]
    packs = sq.pack(lengths, 100)
    assert len(packs) == 1000
    assert sq.pack([0] * 5, 1).tolist() == [[0, 1, 2, 3, 4]]
    assert sq.pack([0] * 5, 1, max_count=2).lengths().tolist() == [2, 2, 1]


def test_lengths_of_all_kinds():
    seq = TensorSequence([[1, 2, 3], [4], [5, 6]])
    assert sq.pack(seq, 4).tolist() == [[0, 1], [2]]
    assert sq.pack(np.array([2**63 - 1], np.uint64), 2**65).tolist() == [[0]]
    for lengths in ([3, 1, 2], (3, 1, 2), np.array([3, 1, 2], np.uint8), range(3, 0, -1)):
        assert holds(sq.pack(lengths, np.int32(4)), list(lengths), 4)
    empty = sq.pack([], 4)
    assert len(empty) == 0
    assert empty.dtype == np.int64
    assert len(sq.pack(TensorSequence(dtype="int8"), 4)) == 0


def test_columns_are_no_lengths():
    for columns in ({"a": [1], "b": [2]}, {"n": [1], "a": sq.TensorSequence([[1, 2]])}):
        with pytest.raises(TypeError, match=r"got Columns: pass columns\['a'\]"):
            sq.pack(sq.Columns(columns), 3)


def test_packs_of_a_sequence_are_batches():
    seq = TensorSequence.from_lengths(np.arange(30), [7, 3, 9, 1, 10])
    for positions in sq.pack(seq, 12):
        batch = seq[positions]
        assert batch.values().size <= 12


@pytest.mark.parametrize(
    ("arguments", "options", "error", "message"),
    [
        (([8, 9, 2], 8), {}, ValueError, "element 1 has length 9, which is more than capacity=8"),
        (([0, -1], 8), {}, ValueError, r"lengths\[1\] is -1, but a length can't be negative"),
        (([1.5], 8), {}, TypeError, "lengths must be integers, got"),
        ((np.ones((1, 1), int), 8), {}, ValueError, "lengths must be a 1-D array of integers, got shape"),
        (
            ([[1]], 8),
            {},
            ValueError,
            r"first item is \[1\] of type list: pass TensorSequence\(arrays\)",
        ),
        (((np.ones(2), np.ones(3)), 8), {}, ValueError, "got a tuple whose first item is an ndarray"),
        ((4, 8), {}, ValueError, "1-D"),
        (([1], 0), {}, ValueError, "capacity is 0, but must be at least 1"),
        (([1], 8.0), {}, TypeError, r"capacity must be an integer, got 8\.0"),
        (([1], True), {}, TypeError, "capacity must be an integer, got True"),
        (([1], 8), {"max_count": 0}, ValueError, "max_count is 0"),
        (([1], 8), {"strategy": "worst_fit"}, ValueError, "strategy must be one of 'best_fit_decreasing'"),
        (([1], 8), {"strategy": None}, ValueError, "strategy must be one of"),
        (([2**70], 8), {}, ValueError, f"element 0 has length {2**70}"),
        (([1, 2**64], 2**65), {}, ValueError, f"element 1 has length {2**64}, but no array is longer"),
        ((np.array([2**63 - 1, 2**63], "u8"), 2**65), {}, ValueError, f"element 1 has length {2**63}, but"),
        (([1], 8, "next_fit"), {}, TypeError, "positional argument"),
        ((TensorSequence([1, 2]), 8), {}, ValueError, "element 0 has rank 0"),
    ],
)
def test_refused(arguments, options, error, message):
    with pytest.raises(error, match=message):
        sq.pack(*arguments, **options)
