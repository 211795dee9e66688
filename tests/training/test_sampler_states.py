"""States of BatchSampler: they go on, with any number of ranks, or say why not; copies and pickles."""

import copy
import copyreg
import inspect
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqcore import BatchSampler
from seqcore.samplers import _ARGUMENTS, _LIMITS

LENGTHS = st.lists(st.integers(0, 12), min_size=4, max_size=60)
LIMITS = st.sampled_from([{"batch_size": 1}, {"batch_size": 4}, {"max_tokens": 24}, {"capacity": 30}])


def ranks_of(lengths, limit, world_size, **options):
    return [
        BatchSampler(lengths, **limit, rank=rank, world_size=world_size, **options)
        for rank in range(world_size)
    ]


@given(
    LENGTHS,
    LIMITS,
    st.integers(1, 4),
    st.integers(1, 4),
    st.booleans(),
    st.integers(0, 2),
    st.integers(0, 70),
)
def test_goes_on_with_any_number_of_ranks(lengths, limit, before, after, drop_last, epoch, steps):
    """Rank r takes batches g + r, g + r + world_size, … of the epoch's order, from the state's count g on."""
    options = {"drop_last": drop_last}
    order = BatchSampler(lengths, **limit, **options)
    if max(before, after) > len(order):
        return
    order.set_epoch(epoch)
    order = list(order)
    ranks = ranks_of(lengths, limit, before, **options)
    steps %= len(ranks[0]) + 1
    states = []
    for rank, sampler in enumerate(ranks):
        sampler.set_epoch(epoch)
        batches = iter(sampler)
        for i in range(steps):
            assert next(batches) == order[(i * before + rank) % len(order)]
        states.append(sampler.state_dict())
    assert states[1:] == states[:-1]
    state = json.loads(json.dumps(states[0]))
    done = len(order) if steps == len(ranks[0]) else steps * before
    assert (state["epoch"], state["batches"]) == (epoch, done)
    left = len(order) - done
    count = left // after if drop_last else -(-left // after)
    for rank, sampler in enumerate(ranks_of(lengths, limit, after, **options)):
        sampler.load_state_dict(state)
        assert sampler.state_dict() == state
        sampler.set_epoch(epoch)  # as a training loop does
        rest = list(sampler)
        assert rest == [order[(done + i * after + rank) % len(order)] for i in range(count)]
        if rest:
            assert sampler.state_dict() == state | {"batches": len(order)}  # nothing is left
        again = list(sampler)  # the next iteration begins anew
        assert again == [order[(i * after + rank) % len(order)] for i in range(len(sampler))]
        sampler.load_state_dict(state)
        sampler.set_epoch(epoch + 1)
        assert len(list(sampler)) == len(sampler)


def test_batches_that_were_trained_on():
    """Of those that a loader fetched ahead."""
    sampler = BatchSampler(range(40), batch_size=4, world_size=2)
    batches = iter(sampler)
    order = list(BatchSampler(range(40), batch_size=4))
    for _ in range(4):
        next(batches)
    assert sampler.state_dict()["batches"] == 8
    assert sampler.state_dict(batches=np.int64(1))["batches"] == 2
    assert sampler.state_dict(0)["batches"] == 0
    for wrong, error in ((5, "batches is 5, but only 4 were handed out"), (-1, "batches is -1")):
        with pytest.raises(ValueError, match=error):
            sampler.state_dict(wrong)
    with pytest.raises(TypeError, match="batches must be an integer"):
        sampler.state_dict("1")
    other = BatchSampler(range(40), batch_size=4)
    other.load_state_dict(sampler.state_dict(1))
    batches = iter(other)
    assert next(batches) == order[2]
    next(batches)
    assert other.state_dict(1)["batches"] == 3
    assert [*batches] == order[4:]


# --- when the epoch is read ---


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


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"batch_size": 2, "seed": 1}, "with seed=0, this sampler has seed=1: make one like it to go on"),
        ({"batch_size": 3}, "batch_size"),
        ({"max_tokens": 90}, "max_tokens|batch_size"),
        ({"batch_size": 2, "shuffle": False}, "shuffle"),
        ({"batch_size": 2, "sources": [0, 1] * 10, "weights": [1, 1]}, "sources"),
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
    for name in ("seed", "shuffle", "elements", "lengths"):
        for value in (np.arange(2), None, "1", [1], 2.5, float("nan")):
            with pytest.raises(ValueError, match="the state is of a BatchSampler with"):
                sampler.load_state_dict(state | {name: value})
    sampler.load_state_dict(state | {"seed": np.int64(0), "shuffle": np.True_})


def test_states_of_seqcore_0_1():
    old = {
        "epoch": 4,
        "batches": 3,
        "elements": 20,
        "lengths": 1,
        "batch_size": 2,
        "shuffle": True,
        "seed": 0,
    }
    with pytest.raises(ValueError, match=r"of seqcore 0\.1, .* begin the epoch anew, with set_epoch\(4\)"):
        BatchSampler(range(20), batch_size=2).load_state_dict(old | {"world_size": 1, "drop_last": False})


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
        "_sources": [np.zeros(3, int), 7],
        "_weights": [[1], "x"],
        "_unit": [None, "bytes"],
        "_progress": [None, 3, *map(damaged_progress, ("epoch", "start", "taken", "is_begun"))],
    }
    damages["_progress"] += [damaged_progress(name, 51) for name in ("start", "taken")]
    if limit != "batch_size":
        damages["_lengths"].append(np.arange(50) + 20)
    for name, values in damages.items():
        for value in values:
            with pytest.raises(ValueError, match="the pickle of a BatchSampler is damaged, or of seqcore 0"):
                make(BatchSampler).__setstate__(state | {name: value})
        with pytest.raises(ValueError, match="damaged"):
            make(BatchSampler).__setstate__({key: value for key, value in state.items() if key != name})
    # Batches are not believed, but divided again.
    back = make(BatchSampler)
    back.__setstate__(state | {"_plan": None, "_checksums": {"lengths": 1}})
    assert list(back) == list(sampler)
    assert back.state_dict() == sampler.state_dict()


def damaged_progress(name, value=-1):
    progress = copy.copy(BatchSampler([1], batch_size=1)._progress)
    setattr(progress, name, value)
    return progress


def test_each_argument_is_in_pickles_and_states():
    """One that is forgotten there would be its default afterwards."""
    arguments = inspect.signature(BatchSampler).parameters.keys() - {"lengths", *_LIMITS}
    assert {*_ARGUMENTS} == arguments
    mixing = BatchSampler([1, 2, 3], batch_size=1, sources=[0, 0, 1], weights=[1, 1])
    assert arguments - mixing.state_dict().keys() == {"rank", "world_size"}
