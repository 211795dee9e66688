"""The targets of fuzzing on some hundred byte strings each, and on those that once found a fault."""

import importlib
import itertools
import random

import pytest

# How many seeds and random byte strings each target is run on, in some seconds.
COUNTS = {"edits": (100, 400), "splits": (300, 1000), "protos": (400, 500), "models": (60, 150)}


def target_of(name):
    if name in ("protos", "models"):
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    return importlib.import_module(f"hardening.fuzz.{name}")


@pytest.mark.parametrize("name", COUNTS)
def test_what_once_found_a_fault(name):
    target = target_of(name)
    for data in target.FOUND:
        target.run(data)


@pytest.mark.parametrize("name", COUNTS)
def test_seeds(name):
    target = target_of(name)
    seeds = list(target.seeds())
    assert len({*seeds}) > 40
    for data in random.Random(1).sample(seeds, min(len(seeds), COUNTS[name][0])):
        target.run(data)


@pytest.mark.parametrize("name", COUNTS)
def test_random_bytes(name):
    target = target_of(name)
    rng = random.Random(2)
    for length in itertools.islice(itertools.cycle((0, 3, 20, 60, 200)), COUNTS[name][1]):
        target.run(rng.randbytes(length))
