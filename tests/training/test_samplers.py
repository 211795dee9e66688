"""BatchSampler: compared with its definition over random sizes, ranks and epochs; states that go on."""

import copy
import copyreg
import itertools
import json
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqcore as sq
from seqcore import BatchSampler, TensorSequence

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


@given(LENGTHS, st.integers(1, 9))
def test_shuffled_batches_are_of_similar_length(lengths, batch_size):
    """Each batch has the lengths of one batch in sorted order."""
    ordered = [sorted(lengths)[i : i + batch_size] for i in range(0, len(lengths), batch_size)]
    batches = list(BatchSampler(lengths, batch_size=batch_size))
    assert sorted(sorted(lengths[i] for i in batch) for batch in batches) == sorted(ordered)


@pytest.mark.parametrize("limit", [{"batch_size": 8}, {"max_tokens": 300}, {"capacity": 200}], ids=str)
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


def test_any_element_may_be_left_out():
    """Each as often as any other, whatever its length."""
    lengths = np.arange(1, 12)
    sampler = BatchSampler(lengths, batch_size=4, drop_last=True)
    left_out = [0] * 11
    for epoch in range(400):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert [len(batch) for batch in batches] == [4, 4]
        for i in set(range(11)) - {i for batch in batches for i in batch}:
            left_out[i] += 1
    assert sum(left_out) == 3 * 400
    assert all(75 < count < 145 for count in left_out)


def test_the_longest_are_left_out_without_shuffling():
    options = {"shuffle": False, "drop_last": True}
    assert list(BatchSampler(range(11), batch_size=4, **options)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert list(BatchSampler(range(8), batch_size=4, **options)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    batches = [[0, 1, 2, 3, 4], [5, 6, 7], [8, 9]]
    assert list(BatchSampler(range(1, 12), max_tokens=30, **options)) == batches


def test_batches_are_shuffled():
    shortest = [min(batch) for batch in BatchSampler(range(200), batch_size=10)]
    assert sorted(shortest) == list(range(0, 200, 10))
    assert shortest != sorted(shortest)


def test_the_batch_that_is_not_full_is_left_out():
    assert list(BatchSampler([5, 5, 5], max_tokens=10, shuffle=False, drop_last=True)) == [[0, 1]]
    assert list(BatchSampler([5, 5, 9], max_tokens=10, shuffle=False, drop_last=True)) == [[0, 1], [2]]
    assert list(BatchSampler([5, 5, 5], batch_size=2, shuffle=False, drop_last=True)) == [[0, 1]]
    assert list(BatchSampler([5, 5, 5], batch_size=5, drop_last=True)) == []


def test_no_elements():
    for limit in ({"batch_size": 3}, {"max_tokens": 3}, {"capacity": 3}):
        sampler = BatchSampler([], **limit)
        assert len(sampler) == 0
        assert list(sampler) == []


# --- states ---


@given(LENGTHS, LIMITS, st.integers(1, 2), st.integers(0, 2), st.integers(0, 70))
def test_goes_on_where_it_was(lengths, limit, world_size, epoch, taken):
    ranks = ranks_of(lengths, limit, world_size)
    if ranks is None:
        return
    sampler = ranks[-1]
    sampler.set_epoch(epoch)
    whole = list(sampler)
    taken %= len(whole) + 1
    iterator = iter(sampler)
    handed = [next(iterator) for _ in range(taken)]
    state = sampler.state_dict()
    assert (state["epoch"], state["batches"]) == (epoch, taken)
    again = ranks_of(lengths, limit, world_size)[-1]
    again.load_state_dict(json.loads(json.dumps(state)))
    assert again.state_dict() == state
    again.set_epoch(epoch)  # as a training loop does
    assert len(again) == len(whole)
    assert handed + list(again) == whole
    assert list(again) == whole  # the next iteration begins anew
    again.load_state_dict(state)
    again.set_epoch(epoch + 1)
    assert len(list(again)) == len(whole)


def test_state_of_an_epoch_that_has_ended():
    sampler = BatchSampler(range(10), batch_size=4)
    list(sampler)
    state = sampler.state_dict()
    assert state["batches"] == 3
    sampler.set_epoch(1)
    assert sampler.state_dict() == state | {"epoch": 1, "batches": 0}
    sampler.load_state_dict(state)
    assert list(sampler) == []
    assert len(list(sampler)) == 3
    state["batches"] = 1  # of three that a loader fetched ahead
    sampler.load_state_dict(state)
    assert len(list(sampler)) == 2


def test_iterators_that_are_not_used():
    """PyTorch's loaders call iter() twice."""
    sampler = BatchSampler(range(40), batch_size=4)
    whole = list(sampler)
    sampler.load_state_dict(sampler.state_dict() | {"batches": 3})
    iter(sampler)
    assert sampler.state_dict()["batches"] == 3
    assert list(sampler) == whole[3:]


def test_copies_and_pickles():
    sampler = BatchSampler(range(50), capacity=60, seed=3)
    for other in (copy.deepcopy(sampler), pickle.loads(pickle.dumps(sampler))):
        assert list(other) == list(sampler)


def test_what_it_shows():
    sampler = BatchSampler(range(1050), batch_size=100)
    assert repr(sampler) == "<BatchSampler of 1,050 elements: batch_size=100, 11 batches>"
    assert sampler.sampler is sampler
    assert sampler.state_dict()["batches"] == 0
    one = BatchSampler(range(50), max_tokens=600, shuffle=False, rank=1, world_size=2)
    assert repr(one) == f"<BatchSampler of 50 elements: max_tokens=600, {len(one)} batches for rank 1 of 2>"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 2, "seed": 1}, "with seed=0, this sampler has seed=1: make one like it to go on"),
        ({"batch_size": 3}, "batch_size"),
        ({"max_tokens": 90}, "max_tokens|batch_size"),
        ({"batch_size": 2, "shuffle": False}, "shuffle"),
        ({"batch_size": 2, "world_size": 2}, "world_size"),
        ({"batch_size": 2, "drop_last": True}, "drop_last"),
    ],
)
def test_states_of_other_samplers(arguments, message):
    state = BatchSampler(range(20), batch_size=2).state_dict()
    with pytest.raises(ValueError, match=message):
        BatchSampler(range(20), **arguments).load_state_dict(state)


def test_states_of_other_data():
    sampler = BatchSampler(range(20), batch_size=2)
    for other in (BatchSampler(range(21), batch_size=2), BatchSampler([*range(19), 30], batch_size=2)):
        with pytest.raises(ValueError, match="the state is of a BatchSampler with") as caught:
            sampler.load_state_dict(other.state_dict())
    assert str(caught.value).endswith("with other lengths: make one like it to go on")
    state = sampler.state_dict()
    with pytest.raises(ValueError, match="the state has 11 batches, but an epoch has 10"):
        sampler.load_state_dict(state | {"batches": 11})
    for damaged in ({}, None, [1], {"epoch": 1}):
        with pytest.raises(TypeError, match=r"state must be a dict from BatchSampler\.state_dict"):
            sampler.load_state_dict(damaged)
    with pytest.raises(ValueError, match=r"a BatchSampler with .*None"):
        sampler.load_state_dict({"epoch": 0, "batches": 0})
    with pytest.raises(TypeError, match="epoch must be an integer"):
        sampler.load_state_dict(state | {"epoch": "1"})
    assert sampler.state_dict() == state


def test_states_of_anything():
    """A state may come from anywhere: what compares in its own way is another value, not an odd error."""
    sampler = BatchSampler(range(20), batch_size=2)
    state = sampler.state_dict()
    for name in ("seed", "shuffle", "elements", "world_size"):
        for value in (np.arange(2), None, "1", [1], 2.5, float("nan")):
            with pytest.raises(ValueError, match="the state is of a BatchSampler with"):
                sampler.load_state_dict(state | {name: value})
    sampler.load_state_dict(state | {"seed": np.int64(0), "shuffle": np.True_})


@pytest.mark.parametrize("limit", ["batch_size", "max_tokens", "capacity"])
def test_damaged_pickles(limit):
    sampler = BatchSampler(range(50), seed=3, **{limit: 60})
    state, make = sampler.__reduce_ex__(5)[2], copyreg.__newobj__
    damages = {
        "_lengths": [np.arange(50) - 3, np.arange(50.0), None, "x", np.zeros((2, 2), int)],
        "_limit": [0, -1, 2.5, None],
        "_kind": ["size", 3, None, []],
        "_rank": [1, -1, "0"],
        "_seed": [-1, None],
        "_epoch": [-1, 1.5, None],
        "_first": [10**9, -1, "x"],
        "_given": [-1, None],
    }
    if limit != "batch_size":
        damages["_lengths"].append(np.arange(50) + 20)
    for name, values in damages.items():
        for value in values:
            with pytest.raises(ValueError, match="the pickle of a BatchSampler is damaged: "):
                make(BatchSampler).__setstate__(state | {name: value})
        with pytest.raises(ValueError, match="damaged"):
            make(BatchSampler).__setstate__({key: value for key, value in state.items() if key != name})
    # Bounds are not believed, but made again.
    back = make(BatchSampler)
    back.__setstate__(state | {"_bounds": np.array([0, 10**9]), "_npacks": 10**9})
    assert list(back) == list(sampler)


def test_pickled_in_the_middle_of_an_epoch():
    sampler = BatchSampler(range(50), batch_size=6)
    sampler.set_epoch(4)
    batches = iter(sampler)
    taken = [next(batches) for _ in range(3)]
    back = pickle.loads(pickle.dumps(sampler))
    assert back.state_dict() == sampler.state_dict()
    assert list(back)[:3] == taken


def test_products_past_64_bits():
    sampler = BatchSampler([2**62, 1], max_tokens=2**63 - 1, shuffle=False, drop_last=True)
    assert list(sampler) == [[1, 0]] or list(sampler) == [[1], [0]]
    assert list(BatchSampler([2**62], max_tokens=2**63 - 1, drop_last=True)) == [[0]]


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


@pytest.mark.slow
def test_orders_are_equally_likely():
    """Of elements of one length, over seeds and epochs."""
    counts = {}
    for seed in range(30):
        sampler = BatchSampler([2, 2, 2], batch_size=3, seed=seed)
        for epoch in range(40):
            sampler.set_epoch(epoch)
            (batch,) = sampler
            counts[tuple(batch)] = counts.get(tuple(batch), 0) + 1
    assert len(counts) == 6
    assert all(140 < count < 260 for count in counts.values()), counts
