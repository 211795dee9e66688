"""The rows about a zoo of exported models: each in our session beside onnxruntime's, at three sizes.

`python -m benchmarks.exported [PATTERN]` prints a line for each case, the slowest beside onnxruntime last.
"""

import sys
import time
from functools import cache
from pathlib import Path
from typing import NamedTuple

from .declare import optional

TESTS = Path(__file__).parent.parent / "tests"
NWARM, NROUNDS, SECONDS = 20, 9, 0.002
NLOADS = 3


class Timed(NamedTuple):
    """A model at a size, and what a run takes in both sessions, in seconds."""

    model: str
    size: str
    ours: float
    theirs: float
    ratio: float
    load_ours: float
    load_theirs: float


def models():
    sys.path.insert(0, str(TESTS))
    try:
        from exported import MODELS
    finally:
        sys.path.remove(str(TESTS))
    return MODELS


def clock(work, nruns=1):
    start = time.perf_counter()
    for _ in range(nruns):
        work()
    return (time.perf_counter() - start) / nruns


def take_turns(ours, theirs, nrounds, nruns=1):
    """The least time of each; a round goes the other way than the one before."""
    pairs = []
    for turn in range(nrounds):
        a = clock(ours, nruns) if turn % 2 == 0 else None
        b = clock(theirs, nruns)
        pairs.append((clock(ours, nruns) if a is None else a, b))
    return tuple(min(times) for times in zip(*pairs, strict=True))


def run_times(ours, theirs, feed):
    """Seconds of a run in both sessions, once they know the size.

    Sessions go by what they have seen: so each runs alone until it is warm. Slow models get few runs.
    """
    warm = [clock(lambda: one.run(None, feed)) for one in (ours, theirs)]
    for one, first in zip((ours, theirs), warm, strict=True):
        for _ in range(NWARM if first < 0.05 else 3):
            one.run(None, feed)
    slower = max(clock(lambda one=one: one.run(None, feed)) for one in (ours, theirs))
    nruns = max(1, round(SECONDS / slower))
    nrounds = NROUNDS if slower < 0.05 else 3
    return take_turns(lambda: ours.run(None, feed), lambda: theirs.run(None, feed), nrounds, nruns)


def measure_model(one):
    """A model's cases: new sessions for each model, one for all of its sizes."""
    import onnxruntime

    from seqcore.onnx import InferenceSession

    path = str(one.path)

    def load_theirs():
        return onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])

    load_ours = lambda: InferenceSession(path)  # noqa: E731
    loads = take_turns(load_ours, load_theirs, NLOADS)
    ours, theirs = load_ours(), load_theirs()
    for size, n in one.sizes.items():
        a, b = run_times(ours, theirs, one.example(n))
        yield Timed(one.name, size, a, b, a / b, *loads)


@cache
def timed():
    """All cases, measured once in a process."""
    if not (optional("onnxruntime") and optional("onnx")):
        return []
    return [found for one in models().values() for found in measure_model(one)]
