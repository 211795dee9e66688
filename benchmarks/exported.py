"""The rows about exported models (tests/models/exported): how many run as fast as in onnxruntime's session.

`python -m benchmarks.exported [PATTERN]` prints a line for each model and size, the slowest of ours last.
With `--sizes 0,1,3,16,50,512`, every model runs at these numbers of elements, up to twice its own largest.
"""

import argparse
import gc
import importlib
import json
import math
import re
import statistics
import sys
import time
from functools import cache, partial
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from .declare import OURS, Limit, Side, case, optional

TESTS = Path(__file__).parent.parent / "tests"
NWARM, NROUNDS, NLOADS = 20, 31, 5
SECONDS = 0.002  # what the runs of one side take in a round, at least
PATIENCE = 0.4  # what warming a side, or all of its rounds, may take where a run is slow


class Timed(NamedTuple):
    """A model at a size: seconds of a run in our session, in onnxruntime's, and there of the lowered model.

    `lowered` is not a number where onnxruntime fails. Loading is ours and onnxruntime's of the given model.
    """

    model: str
    size: str
    ours: float
    theirs: float
    lowered: float
    loads: tuple[float, float]

    @property
    def ratio(self):
        return self.ours / self.theirs

    @property
    def ratio_to_better(self):
        return self.ours / min(self.theirs, self.lowered)  # the first, beside what is not a number

    @property
    def lowered_ratio(self):
        return self.lowered / self.theirs

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
    """Seconds of a run of ours, the given and the lowered model; where they fail, forever or not a number."""
    fine = [side for side in sides if works(side)]
    slower = max([warm_up(side) for side in fine])
    nrounds = max(3, min(NROUNDS, round(PATIENCE / slower)))
    times = dict(zip(fine, least_times(fine, nrounds, max(1, round(SECONDS / slower))), strict=True))
    return [
        times.get(side, missing) for side, missing in zip(sides, (math.inf, math.nan, math.nan), strict=True)
    ]


def sizes_of(model, numbers):
    """The sizes that a model is measured at, by what they are called."""
    if not numbers:
        return model.sizes
    return {str(n): n for n in numbers if model.least <= n <= 2 * max(model.sizes.values())}


def measure_model(one, numbers=()):
    """Yield a model's cases. One session of each kind has all of its sizes, as a program would."""
    from onnxruntime import InferenceSession as Theirs
    from onnxruntime import SessionOptions

    from seqcore.onnx import InferenceSession as Ours
    from seqcore.onnx import lower

    path = str(one.path)
    options = SessionOptions()
    options.log_severity_level = 3  # errors: it warns in each run of models whose shapes an exporter mistook
    load = [partial(make, path, options, providers=["CPUExecutionProvider"]) for make in (Ours, Theirs)]
    loads = least_times(load, NLOADS)
    sessions = [make() for make in load]
    sessions.append(Theirs(lower(path).SerializeToString(), options, providers=["CPUExecutionProvider"]))
    for size, n in sizes_of(one, numbers).items():
        runs = [partial(session.run, None, one.example(n)) for session in sessions]
        if works(runs[1]):  # onnxruntime fails on one of the models
            yield Timed(one.name, size, *run_times(runs), loads)


@cache
def measured(pattern="", numbers=()):
    """All cases; None where a package isn't installed."""
    if not (optional("onnxruntime") and optional("onnx")):
        return None
    chosen = [one for one in models().values() if re.search(pattern, one.name)]
    gc.collect()
    gc.disable()
    try:
        return [timed for one in chosen for timed in measure_model(one, numbers)]
    finally:
        gc.enable()


def share_within(cases, ratio, of=attrgetter("ratio")):
    return 100 * sum(of(one) <= ratio for one in cases) / len(cases)


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


@case(
    "exported models: cases within 1.2 times the faster of onnxruntime and the lowered model",
    Limit(None, 90, aim=99, at_least=True),
    unit="%",
)
def cases_within_the_better():
    return sides(partial(share_within, ratio=1.2, of=attrgetter("ratio_to_better")))


@case(
    "exported models: lowered models within 1.2 times the given ones",
    Limit(None, 80, aim=97, at_least=True),
    unit="%",
)
def lowered_within():
    return sides(partial(share_within, ratio=1.2, of=attrgetter("lowered_ratio")))


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
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exported", description=__doc__.splitlines()[0]
    )
    parser.add_argument("pattern", nargs="?", default="", help="of the names of models")
    parser.add_argument("--sizes", default="", help="numbers of elements, with commas between them")
    parser.add_argument("--json", type=Path, help="write the cases to this file")
    asked = parser.parse_args()
    numbers = tuple(int(n) for n in asked.sizes.split(",") if n)
    cases = measured(asked.pattern, numbers)
    if not cases:
        sys.exit("nothing to measure: no model matches, or onnx or onnxruntime isn't installed")
    if asked.json:
        asked.json.write_text(json.dumps([one._asdict() for one in cases]))
    width = max(len(one.model) for one in cases)
    print(
        f"{'model':{width}}  size    ours µs  theirs µs  ratio  lowered µs  ratio  load ms  theirs ms  ratio"
    )
    for one in sorted(cases, key=lambda one: one.ratio_to_better):
        a, b = one.loads
        print(
            f"{one.model:{width}}  {one.size:6}{one.ours * 1e6:9.1f}{one.theirs * 1e6:11.1f}{one.ratio:6.2f}"
            f"{one.lowered * 1e6:11.1f}{one.lowered_ratio:6.2f}"
            f"{a * 1e3:8.1f}{b * 1e3:10.1f}{one.load_ratio:6.1f}"
        )
    better, lowered = attrgetter("ratio_to_better"), attrgetter("lowered_ratio")
    print(f"\n{len(cases)} cases: at most 1.2: {share_within(cases, 1.2):.1f} %", end=", ")
    print(f"at most 1.5: {share_within(cases, 1.5):.1f} %, worst: {worst(cases):.2f}")
    print(f"at most 1.2 beside the faster of both: {share_within(cases, 1.2, better):.1f} %", end=", ")
    print(f"lowered, at most 1.2: {share_within(cases, 1.2, lowered):.1f} %")
    loads = [one.load_ratio for one in cases]
    print(f"loading: median {median_load(cases):.1f}, worst {max(loads):.1f}")


if __name__ == "__main__":
    main()
