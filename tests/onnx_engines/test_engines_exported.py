"""Exported models (tests/models/exported): which engines run them, and that nothing fails unseen."""

import pytest
from support.models.engines import is_made
from support.models.exported import MODELS
from support.models.sessions import assert_values

from seqcore.onnx import InferenceSession
from seqcore.onnx._thresholds import LONG


@pytest.mark.mostly_slow(61)
@pytest.mark.parametrize("name", list(MODELS)[::3])
def test_short_runs_go_in_one(name):
    """All of them, from the first on, as given or lowered: no step is even built."""
    one = MODELS[name]
    used = InferenceSession(one.path)
    engines = used._engines.compiled
    for seed in range(9):
        used.run(None, one.example(max((1, 2, 4)[seed % 3], one.least), seed))
    assert engines.whole is not None, engines.declined
    assert engines.declined == ""
    assert sum(tier.taken for tier in engines.tiers[:2]) == 9, engines.tiers[0].reason
    assert not [name for name in ("steps", "given steps") if is_made(engines, name)]


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
