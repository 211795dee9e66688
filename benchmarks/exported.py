"""The rows about exported models (tests/models/exported): how many run as fast as in onnxruntime's session.

`python -m benchmarks.exported [PATTERN]` prints a line for each model and size, the slowest of ours last.
"""

import gc
import importlib
import math
import re
import statistics
import sys
import time
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

from .declare import OURS, Limit, Side, case, optional

TESTS = Path(__file__).parent.parent / "tests"
NWARM, NROUNDS, NLOADS = 20, 31, 5
SECONDS = 0.002  # what the runs of one side take in a round, at least
PATIENCE = 0.4  # what warming a side, or all of its rounds, may take where a run is slow


class Timed(NamedTuple):
    """A model at a size: seconds of a run and of loading, in our session and in onnxruntime's."""

    model: str
    size: str
    ours: float
    theirs: float
    loads: tuple[float, float]

    @property
    def ratio(self):
        return self.ours / self.theirs

    @property
    def load_ratio(self):
        return self.loads[0] / self.loads[1]


def models():
    """Return the models, with the inputs that the tests feed them."""
    sys.path.insert(0, str(TESTS))
    try:
        return importlib.import_module("support.models.exported").MODELS
    finally:
        sys.path.remove(str(TESTS))


def clock(work, nruns=1):
    start = time.perf_counter()
    for _ in range(nruns):
        work()
    return (time.perf_counter() - start) / nruns


def least_times(sides, nrounds, nruns=1):
    """The least time of each side. They take turns, for a disturbance meets both; the least is free of it."""
    times = [[] for _ in sides]
    for turn in range(nrounds):
        for k in range(len(sides))[:: 1 if turn % 2 == 0 else -1]:
            times[k].append(clock(sides[k], nruns))
    return tuple(map(min, times))


def warm_up(side):
    """Run a side often enough that it knows the size, and return what a run takes then."""
    start = time.perf_counter()
    for k in range(NWARM):
        if k >= 3 and time.perf_counter() - start > PATIENCE:
            break
        last = clock(side)
    return last


def works(side):
    try:
        side()
    except Exception:
        return False
    return True


def run_times(sides):
    """Seconds of a run of each; forever for ours where it fails."""
    if not works(sides[0]):
        return math.inf, clock(sides[1])
    slower = max([warm_up(side) for side in sides])
    nrounds = max(3, min(NROUNDS, round(PATIENCE / slower)))
    return least_times(sides, nrounds, max(1, round(SECONDS / slower)))


def measure_model(one):
    """Yield a model's cases. One pair of sessions has all of its sizes, as a program would."""
    from onnxruntime import InferenceSession as Theirs
    from onnxruntime import SessionOptions

    from seqcore.onnx import InferenceSession as Ours

    path = str(one.path)
    options = SessionOptions()
    options.log_severity_level = 3  # errors: it warns in each run of models whose shapes an exporter mistook
    load = [partial(make, path, options, providers=["CPUExecutionProvider"]) for make in (Ours, Theirs)]
    loads = least_times(load, NLOADS)
    sessions = [make() for make in load]
    for size, n in one.sizes.items():
        runs = [partial(session.run, None, one.example(n)) for session in sessions]
        if works(runs[1]):  # onnxruntime fails on one of the models
            yield Timed(one.name, size, *run_times(runs), loads)


@cache
def measured(pattern=""):
    """All cases; None where a package isn't installed."""
    if not (optional("onnxruntime") and optional("onnx")):
        return None
    chosen = [one for one in models().values() if re.search(pattern, one.name)]
    gc.collect()
    gc.disable()
    try:
        return [timed for one in chosen for timed in measure_model(one)]
    finally:
        gc.enable()


def share_within(cases, ratio):
    return 100 * sum(one.ratio <= ratio for one in cases) / len(cases)


def worst(cases):
    return max(one.ratio for one in cases)


def median_load(cases):
    return statistics.median({one.model: one.load_ratio for one in cases}.values())


def sides(figure):
    """A figure of all cases, which are measured once for all rows."""
    return {OURS: Side(lambda: figure(measured()))} if optional("onnxruntime") and optional("onnx") else {}


@case(
    "exported models: cases within 1.2 times onnxruntime's time",
    Limit(None, 95, aim=100, at_least=True),
    unit="%",
)
def cases_within():
    return sides(partial(share_within, ratio=1.2))


@case("exported models: the slowest case beside onnxruntime", Limit(None, 1.5), unit="times")
def slowest_case():
    return sides(worst)


@case("exported models: loading beside onnxruntime, the median", Limit(None, 2.5), unit="times")
def loading():
    return sides(median_load)


@case("exported models: loading beside onnxruntime, the slowest", Limit(None, 5), unit="times")
def slowest_load():
    return sides(lambda cases: max(one.load_ratio for one in cases))


def main():
    cases = measured(sys.argv[1] if len(sys.argv) > 1 else "")
    if not cases:
        sys.exit("nothing to measure: no model matches, or onnx or onnxruntime isn't installed")
    width = max(len(one.model) for one in cases)
    print(f"{'model':{width}}  size    ours µs  theirs µs  ratio  load ms  theirs ms  ratio")
    for one in sorted(cases, key=lambda one: one.ratio):
        a, b = one.loads
        print(
            f"{one.model:{width}}  {one.size:6}{one.ours * 1e6:9.1f}{one.theirs * 1e6:11.1f}{one.ratio:7.2f}"
            f"{a * 1e3:9.1f}{b * 1e3:11.1f}{one.load_ratio:7.1f}"
        )
    print(f"\n{len(cases)} cases: at most 1.2: {share_within(cases, 1.2):.1f} %", end=", ")
    print(f"at most 1.5: {share_within(cases, 1.5):.1f} %, worst: {worst(cases):.2f}")
    loads = [one.load_ratio for one in cases]
    print(f"loading: median {median_load(cases):.1f}, worst {max(loads):.1f}")


if __name__ == "__main__":
    main()
