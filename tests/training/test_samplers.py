"""BatchSampler: its order, sizes and ranks, compared with their definitions; batches that mix."""

import itertools
import json
import re
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqcore as sq
from seqcore import BatchSampler, TensorSequence

GOLDEN = [
    [[2, 1, 0], [9], [8, 7, 6], [5, 4, 3]],
    [[6, 1], [5], [0, 7], [3, 4], [2]],
    2744835899,
    667751497,
    1445754412,
]
LENGTHS = st.lists(st.integers(0, 12), min_size=1, max_size=60)
LIMITS = st.sampled_from(
    [{"batch_size": 1}, {"batch_size": 4}, {"batch_size": 100}, {"max_tokens": 24}, {"capacity": 30}]
)


def sampler_of(lengths, limit, **options):
    """A sampler, or None where there are too few batches for the ranks."""
    count = len(BatchSampler(lengths, **limit, drop_last=options.get("drop_last", False)))
    if options["world_size"] > max(count, 1):
        with pytest.raises(ValueError, match="too few for world_size"):
            BatchSampler(lengths, **limit, **options)
        return None
    return BatchSampler(lengths, **limit, **options)


def ranks_of(lengths, limit, world_size, **options):
    ranks = [
        sampler_of(lengths, limit, rank=rank, world_size=world_size, **options) for rank in range(world_size)
    ]
    return None if None in ranks else ranks


def is_within(batch, lengths, limit):
    own = np.asarray(lengths)[batch]
    if "batch_size" in limit:
        return len(batch) <= limit["batch_size"]
    if "max_tokens" in limit:
        return len(batch) * own.max() <= limit["max_tokens"]
    return own.sum() <= limit["capacity"]


@given(LENGTHS, LIMITS, st.integers(1, 5), st.booleans(), st.booleans(), st.integers(0, 3), st.integers(0, 3))
def test_ranks_take_turns_in_one_order(lengths, limit, world_size, shuffle, drop_last, seed, epoch):
    options = {"shuffle": shuffle, "drop_last": drop_last, "seed": seed}
    one = BatchSampler(lengths, **limit, **options)
    one.set_epoch(epoch)
    batches = list(one)
    assert len(batches) == len(one)
    assert all(type(batch) is list and type(i) is int for batch in batches for i in batch)
    assert all(is_within(batch, lengths, limit) for batch in batches)
    seen = sorted(i for batch in batches for i in batch)
    if drop_last:
        assert len(set(seen)) == len(seen)
        if "batch_size" in limit:
            assert {len(batch) for batch in batches} <= {limit["batch_size"]}
    else:
        assert seen == list(range(len(lengths)))
    ranks = ranks_of(lengths, limit, world_size, **options)
    if ranks is None:
        assert world_size > len(batches)
        return
    for rank in ranks:
        rank.set_epoch(epoch)
    each = [list(rank) for rank in ranks]
    count = len(batches) // world_size if drop_last else -(-len(batches) // world_size)
    assert [len(own) for own in each] == [len(rank) for rank in ranks] == [count] * world_size
    turns = [batch for turn in zip(*each, strict=True) for batch in turn]
    assert turns == (batches + batches)[: count * world_size]


@given(LENGTHS, LIMITS)
def test_by_length_without_shuffling(lengths, limit):
    batches = list(BatchSampler(lengths, **limit, shuffle=False))
    if "capacity" in limit:
        assert batches == sq.pack(lengths, limit["capacity"]).tolist()
        return
    order = [i for batch in batches for i in batch]
    assert order == sorted(range(len(lengths)), key=lambda i: lengths[i])  # stable
    if "max_tokens" in limit:
        for batch, after in itertools.pairwise(batches):  # as many as fit
            assert (len(batch) + 1) * lengths[after[0]] > limit["max_tokens"]


@pytest.mark.parametrize("limit", [{"batch_size": 8}, {"max_tokens": 300}, {"capacity": 200}])
def test_epochs_and_seeds(limit):
    lengths = np.random.default_rng(0).integers(1, 40, 1000)
    sampler = BatchSampler(lengths, **limit)
    first = list(sampler)
    assert list(sampler) == first
    assert [*BatchSampler(TensorSequence.from_lengths(np.zeros(lengths.sum()), lengths), **limit)] == first
    sampler.set_epoch(1)
    second = list(sampler)
    assert len(second) == len(first)
    assert second != first
    assert {frozenset(batch) for batch in second} != {frozenset(batch) for batch in first}
    sampler.set_epoch(0)
    assert list(sampler) == first
    other = BatchSampler(lengths, **limit, seed=1)
    assert list(other) != first
    other.set_epoch(1)
    assert list(other) not in (first, second)


def test_the_longest_are_left_out_without_shuffling():
    options = {"shuffle": False, "drop_last": True}
    assert list(BatchSampler(range(11), batch_size=4, **options)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(BatchSampler(range(8), batch_size=4, **options)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    batches = [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert list(BatchSampler(range(1, 12), max_tokens=30, **options)) == batches


@pytest.mark.parametrize(("lengths", "most"), [([10, 10, 9, 9, 1], 47), ([10, 9, 8, 7, 6], 42)])
def test_the_longest_are_alone_where_that_saves_padding(lengths, most):
    """Of five, one fits into no batch of two: one of the shorter ones, at a price, or the longest."""
    for epoch in range(20):
        batches = BatchSampler(lengths, batch_size=2, seed=epoch)
        assert sum(len(batch) * max(lengths[i] for i in batch) for batch in batches) <= most


def test_what_it_shows():
    sampler = BatchSampler(range(1050), batch_size=100)
    assert re.fullmatch(
        r"<BatchSampler of 1,050 elements: batch_size=100, 11 batches, \d+\.\d% padding>", repr(sampler)
    )
    assert sampler.sampler is sampler
    one = BatchSampler([6, 4] * 20, capacity=20, rank=1, world_size=2)
    assert repr(one) == (
        f"<BatchSampler of 40 elements: capacity=20, {len(one)} batches for rank 1 of 2, "
        f"packs {200 / 20 / (2 * len(one)):.1%} full>"
    )
    assert repr(BatchSampler([2, 4, 6, 8], batch_size=2, shuffle=False)).endswith("2 batches, 16.7% padding>")
    assert repr(BatchSampler([3, 3, 2], capacity=4, shuffle=False)).endswith("3 batches, packs 66.7% full>")
    # One of the five is left out, of which the shortest is 6 long.
    dropping = BatchSampler([10, 9, 8, 7, 6], batch_size=2, drop_last=True)
    assert repr(dropping).endswith(f"2 batches, {2 / 36:.1%} padding>")
    assert repr(BatchSampler([], batch_size=2)).endswith("0 batches, 0.0% padding>")


@given(LENGTHS, LIMITS, st.booleans())
def test_the_share_that_it_shows_is_an_upper_bound(lengths, limit, drop_last):
    if drop_last or "capacity" in limit:
        return
    sampler = BatchSampler(lengths, **limit)
    size = padded(np.array(lengths), list(sampler))
    share = 1 - sum(lengths) / size if size else 0
    assert share <= float(re.search(r"([\d.]+)% padding", repr(sampler))[1]) / 100 + 0.0006


def test_products_past_64_bits():
    sampler = BatchSampler([2**62, 1], max_tokens=2**63 - 1, shuffle=False, drop_last=True)
    assert list(sampler) == [[1, 0]] or list(sampler) == [[1], [0]]
    assert list(BatchSampler([2**62], max_tokens=2**63 - 1, drop_last=True)) == [[0]]


# --- batches mix, at little cost ---


def padded(lengths, batches):
    return sum(len(batch) * int(lengths[batch].max()) for batch in batches)


def distributions(n):
    rng = np.random.default_rng(n)
    first = rng.integers(1, 10**6, n // 2)
    ends = np.sort(rng.integers(1, 10**6, (n // 3, 2)), axis=1)
    return {
        "uniform": rng.integers(1, 4096, n),
        "lognormal": rng.lognormal(5, 1.5, n).astype(int) + 1,
        "equal": np.full(n, 7),
        "distinct": rng.permutation(n) + 1,
        "one giant": np.append(rng.integers(1, 100, n - 1), 10**6),
        "zeros": rng.integers(0, 3, n) * rng.integers(0, 2, n),
        "heavy tail": np.minimum((rng.pareto(0.5, n) + 1) * 10, 1e15).astype(int),
        "pairs that fill a pack": np.r_[first, 10**6 - first],
        "triples that fill a pack": np.c_[ends[:, 0], ends[:, 1] - ends[:, 0], 10**6 - ends[:, 1]].ravel(),
        "two lengths": np.where(rng.random(n) < 0.5, 3000, 17),
    }


@pytest.mark.parametrize("name", distributions(10))
@pytest.mark.parametrize("n", [10, 100, 1000, 5000, pytest.param(40_000, marks=pytest.mark.at_night)])
@pytest.mark.mostly_at_night(11)
def test_batches_mix_at_little_cost(n, name):
    lengths = distributions(n)[name]
    top = int(lengths.max())
    for limit in (
        *[{"batch_size": size} for size in (1, 2, 3, 32)],
        *[{kind: top * times} for kind in ("max_tokens", "capacity") for times in (1, 2, 30)],
    ):
        sampler = BatchSampler(lengths, **limit)
        epochs = []
        for epoch in (0, 1, 2, 7, 8):
            sampler.set_epoch(epoch)
            epochs.append(list(sampler))
            assert len(epochs[-1]) == len(sampler), limit
            assert sorted(i for batch in epochs[-1] for i in batch) == list(range(len(lengths)))
            assert all(is_within(batch, lengths, limit) for batch in epochs[-1])
        several = [{frozenset(batch) for batch in epoch if len(batch) > 1} for epoch in epochs]
        for before, after in ((several[i], several[i + 1]) for i in (0, 1, 3)):
            if min(len(sampler), len(after)) >= 8:
                assert len(before & after) <= len(after) * (0.05 if len(sampler) >= 1000 else 0.15), limit
        if "capacity" in limit:
            best = len(sq.pack(lengths, limit["capacity"]))
            assert len(sampler) <= max(1.02 * best, best + 2), limit
        elif len(sampler) >= 1000:
            full_sort = padded(lengths, list(BatchSampler(lengths, **limit, shuffle=False)))
            assert max(padded(lengths, epoch) for epoch in epochs) <= 1.1 * full_sort, limit


@pytest.mark.parametrize("limit", [{"batch_size": 8}, {"max_tokens": 4000}, {"capacity": 2000}])
def test_lengths_are_spread_over_the_epoch(limit):
    lengths = np.random.default_rng(0).integers(1, 400, 8000)
    sampler = BatchSampler(lengths, **limit)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        means = [lengths[batch].mean() for batch in sampler]
        mean = np.mean(means)
        parts = np.array_split(means, 10)
        assert max(abs(np.mean(part) - mean) for part in parts) < 0.15 * mean


def test_golden_orders():
    """The order depends on nothing but seed and epoch, with every version of NumPy and on every system."""
    sampler = BatchSampler(range(1, 11), batch_size=3, seed=2**70)
    sampler.set_epoch(3)
    assert list(sampler) == GOLDEN[0]
    assert list(BatchSampler([5, 1, 4, 4, 2, 3, 5, 1], capacity=6)) == GOLDEN[1]
    lengths = [(i * 7919) % 101 for i in range(2000)]
    for limit, want in zip(
        ({"batch_size": 7}, {"max_tokens": 700}, {"capacity": 300}), GOLDEN[2:], strict=True
    ):
        assert zlib.crc32(json.dumps(list(BatchSampler(lengths, **limit))).encode()) == want


def test_numpys_random_numbers_are_not_needed():
    code = (
        "import sys, seqcore; list(seqcore.BatchSampler([1, 2], batch_size=1));"
        "print('numpy.random' in sys.modules)"
    )
    got = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert got.stdout == "False\n"


# --- what is refused ---


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, ValueError, "exactly one of batch_size, max_tokens and capacity, got none"),
        ({"batch_size": 2, "capacity": 9}, ValueError, "exactly one of .*, got batch_size and capacity"),
        ({"batch_size": 0}, ValueError, "batch_size is 0, but must be at least 1"),
        ({"batch_size": 2.0}, TypeError, r"batch_size must be an integer or None, got 2\.0"),
        ({"max_tokens": 8}, ValueError, "element 9 has length 9, which is more than max_tokens=8"),
        ({"capacity": 8}, ValueError, "element 9 has length 9, which is more than capacity=8"),
        ({"capacity": -1}, ValueError, "capacity is -1"),
        ({"batch_size": 2, "seed": 1.5}, TypeError, r"seed must be an integer, got 1\.5"),
        ({"batch_size": 2, "seed": None}, TypeError, "seed must be an integer, got None"),
        ({"batch_size": 2, "seed": -1}, ValueError, "seed is -1, but must be at least 0"),
        ({"batch_size": 2, "shuffle": 1}, TypeError, "shuffle must be a bool, got 1"),
        ({"batch_size": 2, "drop_last": "no"}, TypeError, "drop_last must be a bool, got 'no'"),
        (
            {"batch_size": 2, "rank": 2, "world_size": 2},
            ValueError,
            "rank is 2, but must be less than world_size=2",
        ),
        ({"batch_size": 2, "rank": -1}, ValueError, "rank is -1"),
        ({"batch_size": 2, "world_size": 0}, ValueError, "world_size is 0"),
        ({"batch_size": 2, "world_size": 6}, ValueError, "there are 5 batches, too few for world_size=6"),
        ({"batch_size": 4, "world_size": 3, "drop_last": True}, ValueError, "there are 2 batches, too few"),
        ({"batch_size": 10, "world_size": 2}, ValueError, "there are 1 batches, too few"),
        ({"batch_size": 11, "world_size": 2, "drop_last": True}, ValueError, "there are 0 batches, too few"),
        ({"max_tokens": 8}, ValueError, r"divide the sequence with windows\(8\)"),
    ],
)
def test_refused(options, error, message):
    with pytest.raises(error, match=message):
        BatchSampler(range(10), **options)


def test_epochs_that_are_refused():
    sampler = BatchSampler(range(10), batch_size=2)
    with pytest.raises(TypeError, match="epoch must be an integer"):
        sampler.set_epoch(None)
    with pytest.raises(ValueError, match="epoch is -1"):
        sampler.set_epoch(-1)
