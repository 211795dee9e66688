"""The targets of fuzzing on some hundred byte strings each, and on those that once found a fault."""

import importlib
import itertools
import random

import pytest
from support.processes import output_of
from support.random_cases import examples, run_seed

pytestmark = pytest.mark.thread_unsafe


def inputs_of(target, nseeds, nrandom):
    """What once found a fault, some of the seeds, and random bytes."""
    rng = random.Random(run_seed() or 2)
    seeds = list(target.seeds())
    lengths = itertools.islice(itertools.cycle((0, 3, 20, 60, 200)), nrandom)
    return [*target.FOUND, *rng.sample(seeds, min(nseeds, len(seeds))), *map(rng.randbytes, lengths)]


def target_of(name):
    if name in ("protos", "models"):
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    return importlib.import_module(f"hardening.fuzz.{name}")


@pytest.mark.parametrize(
    ("name", "nseeds", "nrandom"),
    [("edits", 60, 800), ("splits", 240, 4000), ("pickles", 125, 6000), ("protos", 380, 500)],
)
def test_targets(name, nseeds, nrandom):
    target = target_of(name)
    for data in inputs_of(target, examples(nseeds), examples(nrandom)):
        target.run(data)


@pytest.mark.at_night
def test_models(tmp_path):
    """In a process of its own, for there may be an onnxruntime that damaged models bring down."""
    inputs = inputs_of(target_of("models"), examples(80), examples(200))
    for i, data in enumerate(inputs):
        (tmp_path / f"{i:03}").write_bytes(data)
    output = output_of("-m", "hardening.fuzz", "models", "replay", tmp_path)
    assert len(output.splitlines()) == len(inputs)
