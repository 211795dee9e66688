"""Mixtures of sources by weight: their shares at every step, what an epoch uses, and what is refused."""

import math
import pickle

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from support.random_cases import examples

from seqcore import BatchSampler

KINDS = [
    {"batch_size": 1},
    {"batch_size": 16},
    {"max_tokens": 2},
    {"max_tokens": 32},
    {"capacity": 2},
    {"capacity": 20},
]


def data(name, n, sources):
    rng = np.random.default_rng(n)
    return {
        "the same lengths": lambda: rng.integers(1, 100, n),
        "lengths by source": lambda: rng.integers(50, 100, n) + sources * 60,
        "equal": lambda: np.full(n, 10),
        "distinct": lambda: rng.permutation(n) + 1,
        "lognormal": lambda: rng.lognormal(4, 0.7, n).astype(int) + 1,
    }[name]()


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("stop", ["first", "all"])
@pytest.mark.parametrize("unit", ["elements", "tokens"])
@pytest.mark.parametrize("name", ["the same lengths", "lengths by source", "equal", "distinct", "lognormal"])
@pytest.mark.parametrize(("n", "weights"), [(2000, [1, 1]), (3000, [1, 3, 0.5]), (30_000, [5, 1, 1, 0, 2])])
@pytest.mark.mostly_at_night(7)
def test_shares_and_uses(n, weights, name, unit, stop, kind):
    sources = np.random.default_rng(1).integers(0, len(weights), n)
    lengths = data(name, n, sources)
    ((limit, times),) = kind.items()
    options = {limit: times if limit == "batch_size" else times * int(lengths.max())}
    sampler = BatchSampler(lengths, **options, sources=sources, weights=weights, unit=unit, stop=stop)
    means = np.bincount(sources, lengths) / np.bincount(sources)
    worth = means[sources] if unit == "tokens" else np.ones(n)
    used = np.zeros(n, int)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        uses = np.bincount(np.concatenate(batches), minlength=n)
        used += uses
        by_source = [uses[sources == source] for source in range(len(weights))]
        assert all(own.max() == 0 for own, weight in zip(by_source, weights, strict=True) if not weight)
        by_source = [own for own, weight in zip(by_source, weights, strict=True) if weight]
        assert all(own.max() - own.min() <= 1 for own in by_source)
        if stop == "first":
            assert uses.max() == 1
            assert any(own.min() == 1 for own in by_source)
        else:
            assert all(own.min() >= 1 for own in by_source)
            assert any(own.max() == 1 for own in by_source)
        given = np.array([np.bincount(sources[batch], worth[batch], len(weights)) for batch in batches])
        sums = given.cumsum(axis=0)
        wanted = np.outer(sums.sum(axis=1), weights) / sum(weights)
        most = max(given.sum(axis=1).max(), 1) if limit != "batch_size" or unit == "tokens" else times
        allowed = 64 if len(batches) >= 640 else max(len(batches) / 10, 1)
        assert np.abs(sums - wanted).max() <= allowed * most
    if stop == "first":  # other elements in each epoch
        assert (used == 1).any() or (used == 2).all()


def test_each_element_of_a_large_source_comes_as_often():
    sources = np.repeat([0, 1], [30, 101])
    sampler = BatchSampler(np.arange(131) % 40, batch_size=4, sources=sources, weights=[1, 2])
    uses = np.zeros(131)
    for epoch in range(600):
        sampler.set_epoch(epoch)
        for batch in sampler:
            uses[batch] += 1
    assert (uses[:30] == 600).all()
    expected = 600 * 60 / 101
    assert np.abs(uses[30:] - expected).max() < 5 * math.sqrt(600 * 0.6 * 0.4)


@pytest.mark.parametrize("limit", [{"batch_size": 32}, {"max_tokens": 16_000}])
def test_elements_of_a_batch_are_alike_in_length(limit):
    rng = np.random.default_rng(0)
    lengths, sources = rng.integers(1, 1000, 20_000), rng.integers(0, 3, 20_000)
    batches = list(BatchSampler(lengths, **limit, sources=sources, weights=[1, 2, 3]))
    padded = sum(len(batch) * lengths[batch].max() for batch in batches)
    assert sum(lengths[batch].sum() for batch in batches) > 0.97 * padded


@given(
    st.lists(st.tuples(st.integers(0, 18), st.integers(0, 2)), min_size=1, max_size=40),
    st.lists(st.sampled_from([0, 0.3, 1, 7]), min_size=3, max_size=3),
    st.sampled_from([{"batch_size": 3}, {"max_tokens": 18}, {"capacity": 18}]),
    st.sampled_from(["first", "all"]),
    st.booleans(),
)
@example([(18, 0), (1, 1), (9, 1), (4, 0)], [7, 1, 0], {"max_tokens": 18}, "all", False)
@settings(max_examples=examples(1000))
def test_small_mixtures(elements, weights, limit, stop, drop_last):
    lengths, sources = map(np.array, zip(*elements, strict=True))
    options = {"sources": sources, "weights": weights, "stop": stop, "drop_last": drop_last}
    have = np.bincount(sources, minlength=3) > 0
    if not any(weights) or any(weight and not own for weight, own in zip(weights, have, strict=True)):
        with pytest.raises(ValueError, match="weights"):
            BatchSampler(lengths, **limit, **options)
        return
    sampler = BatchSampler(lengths, **limit, **options)
    for epoch in range(3):
        sampler.set_epoch(epoch)
        batches = list(sampler)
        assert len(batches) == len(sampler)
        assert list(sampler) == batches
        for batch in batches:
            own = lengths[batch]
            assert len(own)
            assert len(own) <= limit.get("batch_size", len(own))
            assert len(own) * own.max() <= limit.get("max_tokens", 10**9)
            assert own.sum() <= limit.get("capacity", 10**9)
            assert all(weights[source] for source in sources[batch])


@pytest.mark.parametrize("scale", [1e308 / 3, 1, 1e-322])
@pytest.mark.parametrize("unit", ["elements", "tokens"])
def test_weights_of_any_scale(scale, unit):
    lengths, sources = np.arange(1, 200), np.arange(199) % 2
    sampler, same = (
        BatchSampler(lengths, batch_size=4, sources=sources, weights=weights, unit=unit)
        for weights in ([scale, 3 * scale], [1, 3])
    )
    assert len(sampler) == len(same)
    if scale > 1e-300:  # below, 3 has no exact part of them
        assert sampler.state_dict() == same.state_dict()


def test_states_and_pickles():
    lengths, sources = np.arange(300) % 50, np.arange(300) % 3
    options = {"batch_size": 4, "sources": sources, "unit": "tokens", "stop": "all"}
    sampler = BatchSampler(lengths, **options, weights=[1, 2, 0])
    whole = list(sampler)
    assert "3 sources" in repr(sampler)
    state = sampler.state_dict() | {"batches": 7}
    again = BatchSampler(lengths, **options, weights=[0.1, 0.2, 0])  # on another scale
    again.load_state_dict(state)
    assert list(again) == whole[7:]
    assert list(pickle.loads(pickle.dumps(sampler))) == whole
    for other in (
        {"weights": [1, 3, 0]},
        {"weights": [1, 2]} | {"sources": sources % 2},
        {"weights": [1, 2, 0], "sources": sources[::-1]},
        {"weights": [1, 2, 0], "unit": "elements"},
        {"weights": [1, 2, 0], "stop": "first"},
    ):
        with pytest.raises(ValueError, match="the state is of a BatchSampler with"):
            BatchSampler(lengths, **(options | other)).load_state_dict(state)
    with pytest.raises(ValueError, match="with weights"):
        BatchSampler(lengths, batch_size=4).load_state_dict(state)
    with pytest.raises(ValueError, match="sources=None"):
        sampler.load_state_dict(BatchSampler(lengths, batch_size=4).state_dict())


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"weights": [1, 1]}, ValueError, "weights need sources"),
        ({"sources": [0, 1, 0]}, ValueError, "sources need weights"),
        (
            {"sources": [0, 1, 0], "weights": [1, -1]},
            ValueError,
            r"weights\[1\] is -1, but",
        ),
        ({"sources": [0, 1, 0], "weights": [1, math.nan]}, ValueError, r"weights\[1\] is nan"),
        ({"sources": [0, 1, 0], "weights": [1, math.inf]}, ValueError, r"weights\[1\] is inf"),
        ({"sources": [0, 1, 0], "weights": [0, 0]}, ValueError, "weights must not all be 0"),
        ({"sources": [0, 1, 0], "weights": []}, ValueError, "weights must not all be 0"),
        ({"sources": [0, 1, 0], "weights": 3}, TypeError, "weights must be a sequence of numbers, got 3"),
        ({"sources": [0, 1, 0], "weights": [1, "x"]}, TypeError, "weights must be a sequence of numbers"),
        ({"sources": [0, 1, 0], "weights": "12"}, TypeError, "weights must be a sequence of numbers"),
        ({"sources": [0, 1, 0], "weights": {0: 3, 1: 1}}, TypeError, "weights must be a sequence of numbers"),
        ({"sources": [0, 1, 0], "weights": [10**400, 1]}, TypeError, "weights must be a sequence of numbers"),
        ({"sources": [0, 1, 0], "weights": [1]}, ValueError, r"sources\[1\] is 1, but there are 1 weights"),
        ({"sources": [0, -1, 0], "weights": [1]}, ValueError, r"sources\[1\] is -1"),
        ({"sources": [0, 2**70, 0], "weights": [1]}, ValueError, rf"sources\[1\] is {2**70}"),
        ({"sources": [0, 1], "weights": [1, 1]}, ValueError, "the source of each of 3 elements"),
        ({"sources": [0, 0.5, 1], "weights": [1, 1]}, TypeError, "sources must be"),
        (
            {"sources": [0, 1, 0], "weights": [1, 1, 2]},
            ValueError,
            "source 2 has no elements",
        ),
        ({"sources": [0, 1, 0], "weights": [1, 1], "shuffle": False}, ValueError, "leave out shuffle=False"),
        (
            {"sources": [0, 5, 7], "weights": [1, 1]},
            ValueError,
            r"sources\[1\] is 5, but there are 2 weights",
        ),
        (
            {"sources": [0, 1, 0], "weights": [1, 1], "unit": "bytes"},
            ValueError,
            "unit must be 'elements' or",
        ),
        (
            {"sources": [0, 1, 0], "weights": [1, 1], "stop": None},
            ValueError,
            "stop must be 'first' or 'all'",
        ),
        (
            {"sources": [0, 1, 0], "weights": [1, 1], "unit": "tokens"},
            ValueError,
            "source 1 has only empty elements",
        ),
        (
            {"sources": [0, 1, 0], "weights": [1e-300, 1], "stop": "all"},
            ValueError,
            "an epoch would draw more than",
        ),
    ],
)
def test_refused(options, error, message):
    with pytest.raises(error, match=message):
        BatchSampler([3, 0, 2], batch_size=2, **options)
