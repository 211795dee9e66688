"""Exported models (tests/models/exported): which engines run them, and that nothing fails unseen."""

import pytest
from support.models.engines import is_made
from support.models.exported import MODELS
from support.models.sessions import assert_values

from seqcore.onnx import InferenceSession
from seqcore.onnx._thresholds import LONG

NAMES = list(MODELS)


def engines_of(name, sizes, seeds):
    """The engines of a compiled model, after runs at some sizes, and how many there were."""
    one = MODELS[name]
    used = InferenceSession(one.path)
    compiled = used._engines.compiled
    feeds = [one.example(max(size, one.least), seed) for seed in range(seeds) for size in sizes]
    for feed in feeds:
        used.run(None, feed)
    return compiled, len(feeds)


def built_steps(engines):
    return [name for name in ("steps", "given steps") if is_made(engines, name)]


@pytest.mark.mostly_slow(61)
@pytest.mark.parametrize("name", NAMES[::3])
def test_short_runs_go_in_one(name):
    """All of them, from the first on, as given or lowered: no step is even built."""
    engines, runs = engines_of(name, (1, 2, 4), 3)
    assert engines.whole is not None, engines.declined
    assert engines.declined == ""
    assert sum(tier.taken for tier in engines.tiers[:2]) == runs, engines.tiers[0].reason
    assert not built_steps(engines)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES[1::3])
@pytest.mark.mostly_at_night(5)
def test_long_runs(name):
    """A whole model fails only for being long: a check has an index out of range."""
    engines, runs = engines_of(name, [MODELS[name].sizes["long"]], 4)
    attempts = engines.tiers[0]
    assert attempts.taken + attempts.failures <= runs
    assert engines.whole.may_be_long or attempts.taken == runs
    assert attempts.failures == 0 or "check/" in attempts.reason
    # Of the steps that there may be, lowered or not, only those that run are built, and once.
    assert len(built_steps(engines)) <= 1


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES[::6])
def test_at_the_limit(name):
    """About which a run is short or long: what onnxruntime takes, it does, and else steps do."""
    engines, runs = engines_of(name, (LONG - 1, LONG, LONG + 1, 2), 1)
    attempts = engines.tiers[0]
    assert attempts.taken + attempts.failures <= runs
    assert attempts.failures == 0 or "check/" in attempts.reason


@pytest.mark.slow
@pytest.mark.parametrize(("name", "are_short"), [("moving_median", True), ("stitched", False)])
def test_long_loops(name, are_short):
    """Of more iterations than short ones: of the one, the lists stay short, of the other they get long."""
    used = InferenceSession(MODELS[name].path)
    feed = MODELS[name].example(LONG + 1)
    compiled = used._engines.compiled
    results = [used.run(None, feed) for _ in range(5)]
    assert_values(results[-1], results[0])
    attempts = compiled.tier("long")
    assert (attempts.taken > 0, attempts.failures > 0) == (are_short, not are_short)
    assert (compiled.tier("tensors").taken > 0) is not are_short
