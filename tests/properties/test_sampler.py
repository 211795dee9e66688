"""BatchSampler beside a model: iter, next, set_epoch and states in any order; what comes in time."""

import itertools
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_cases import examples
from support.results import UNSHRUNK

from seqcore import BatchSampler

LIMITS = {"batch_size": {"batch_size": 3}, "max_tokens": {"max_tokens": 30}, "capacity": {"capacity": 25}}
LENGTHS = [1 + i * 7 % 23 for i in range(30)]


def sampler_of(limit, **options):
    return BatchSampler(LENGTHS, **LIMITS[limit], **options)


def epoch_of(limit, epoch, **options):
    sampler = sampler_of(limit, **options)
    sampler.set_epoch(epoch)
    return list(sampler)


class Model:
    """The epoch is read at the first batch, and an older iterator doesn't count for a newer epoch."""

    def __init__(self, limit, options):
        self.sampler, self.limit, self.options = sampler_of(limit, **options), limit, options
        self.rank, self.ranks = options.get("rank", 0), options.get("world_size", 1)
        self.epoch = self.first = 0  # the batches of all ranks that the next iteration begins with
        self.iterators = []  # [iterator, its batches or None before the first, how many it gave, first]
        self.counting = None  # the iterator that began last in this epoch, whose batches the state counts
        self.states = []

    def order(self):
        return epoch_of(self.limit, self.epoch, **self.options | {"rank": 0, "world_size": 1})

    def count_from(self, first):
        left = len(self.order()) - first
        return left // self.ranks if self.options["drop_last"] else -(-left // self.ranks)

    def iter(self, _):
        self.iterators.append([iter(self.sampler), None, 0, 0])

    def forget(self, _):
        self.iterators = []

    def next(self, _):
        self.next_an_older(-1)

    def next_to_the_end(self, _):
        for _ in range(len(LENGTHS)):
            self.next(_)

    def next_an_older(self, which):
        if not self.iterators:
            return
        one = self.iterators[which % len(self.iterators)]
        if one[1] is None:
            order, first = self.order(), self.first
            turns = [first + self.rank + i * self.ranks for i in range(self.count_from(first))]
            one[1], one[3] = [order[turn % len(order)] for turn in turns], first
            self.first, self.counting = 0, one
        found = next(one[0], None)
        assert found == (one[1][one[2]] if one[2] < len(one[1]) else None)
        one[2] += found is not None

    def set_epoch(self, epoch):
        self.sampler.set_epoch(epoch)
        if epoch != self.epoch:
            self.epoch, self.first, self.counting = epoch, 0, None

    def save(self, _):
        state = self.sampler.state_dict()
        assert state["epoch"] == self.epoch
        done, count = self.first, len(self.order())
        if self.counting:
            _, batches, taken, first = self.counting
            done = count if taken == len(batches) else first + taken * self.ranks
        assert state["batches"] == min(done, count)
        self.states.append(state)

    def pickle(self, _):
        """What comes back has the state, and no iterators."""
        self.sampler = pickle.loads(pickle.dumps(self.sampler))
        self.iterators.clear()
        self.save(_)

    def load(self, which):
        if self.states:
            state = self.states[which % len(self.states)]
            self.sampler.load_state_dict(state)
            self.epoch, self.first, self.counting = state["epoch"], state["batches"], None
            self.iterators.clear()  # those of before are nobody's


# A step is several calls; those with a number get the one that is drawn.
BEGIN = ["forget", "iter", "next"]
KINDS = {
    "one iterator at a time": [
        *(BEGIN, ["next"], ["next"], ["next to the end"]),
        *(["forget", "set_epoch", "iter", "next"], ["save"], ["pickle"], ["load", *BEGIN]),
    ],
    "an epoch set after iter()": [["iter"], ["next"], ["next"], ["set_epoch"], ["save"], ["load", *BEGIN]],
    "older iterators go on": [BEGIN, ["next an older"], ["next"], ["set_epoch"], ["save"]],
}


def follow(limit, options, steps):
    model = Model(limit, options)
    for calls, number in steps:
        for call in calls:
            getattr(model, call.replace(" ", "_"))(number)


OPTIONS = st.fixed_dictionaries(
    {"shuffle": st.booleans(), "drop_last": st.booleans(), "seed": st.integers(0, 2)}
)
RANKS = st.sampled_from([{}, {"world_size": 2}, {"world_size": 2, "rank": 1}, {"world_size": 3, "rank": 1}])


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=examples(500), **UNSHRUNK)
@given(st.sampled_from([*LIMITS]), OPTIONS, RANKS, st.data())
def test_any_steps(kind, limit, options, ranks, data):
    steps = st.tuples(st.sampled_from(KINDS[kind]), st.integers(0, 3))
    follow(limit, options | ranks, data.draw(st.lists(steps, min_size=4, max_size=30)))


# --- what comes ---


def epochs(sampler, count):
    for epoch in range(count):
        sampler.set_epoch(epoch)
        yield list(sampler)


@pytest.mark.parametrize("limit", LIMITS)
def test_every_element_comes_in_time(limit):
    """With drop_last some are left out, but never always the same ones. All lengths differ."""
    for size, world_size in itertools.product(range(31, 131, 20), (1, 3)):
        most = {limit: size // 15 if limit == "batch_size" else size}
        met = set()
        for rank in range(world_size):
            sampler = BatchSampler(range(1, 31), **most, drop_last=True, rank=rank, world_size=world_size)
            met |= {i for batches in epochs(sampler, 60) for batch in batches for i in batch}
        assert met == {*range(30)}, (size, world_size)
