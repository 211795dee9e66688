"""Measuring the sides of a case against each other.

The sides run in turn, round after round, and each round gives a ratio of its own; what counts is the median
of these. A machine that slows down for a while slows both halves of a pair, and a round that was disturbed
drops out, where the minima of two sides may come from different weather.
"""

import gc
import statistics
import time
import tracemalloc
from dataclasses import dataclass

from .declare import OURS, Case, Limit, Side


@dataclass(frozen=True)
class Result:
    """One row of the table: values in the case's unit, per operation; None where the peer isn't installed."""

    case: Case
    limit: Limit
    ours: float | None
    peer: float | None
    ratio: float | None

    def shortfall(self, bound):
        """By which factor the ratio misses a bound; up to 1 it holds."""
        return bound / self.ratio if self.limit.at_least else self.ratio / bound

    @property
    def holds(self):
        return None if self.ratio is None else self.shortfall(self.limit.target) <= 1

    @property
    def meets_aim(self):
        return self.holds and self.limit.aim is not None and self.shortfall(self.limit.aim) <= 1


def measure(case: Case, nrounds: int, seconds: float) -> list[Result]:
    """Measure a case: a result for each of its limits."""
    sides = case.make_sides()
    if OURS not in sides:
        return [Result(case, limit, None, None, None) for limit in case.limits]
    gc.collect()
    if case.unit != "s":
        values = {name: [round(side.run() / side.noperations, 1)] for name, side in sides.items()}
    else:
        values = take_turns(sides, min(nrounds, case.most_rounds or nrounds), seconds)
    return [compare(case, limit, values) for limit in case.limits]


def compare(case, limit, values):
    ours, peer = values[OURS], values.get(limit.peer)
    if limit.peer is None:
        return Result(case, limit, statistics.median(ours), None, statistics.median(ours))
    if peer is None:
        return Result(case, limit, statistics.median(ours), None, None)
    over, under = (peer, ours) if limit.at_least else (ours, peer)
    ratio = statistics.median(a / b for a, b in zip(over, under, strict=True))
    return Result(case, limit, statistics.median(ours), statistics.median(peer), ratio)


def take_turns(sides, nrounds, seconds):
    """Seconds per operation of each side in each round; every other round goes through them backwards."""
    nruns = {name: enough_runs(side, seconds) for name, side in sides.items()}
    times = {name: [] for name in sides}
    for turn in range(nrounds):
        for name in [*sides][:: 1 if turn % 2 == 0 else -1]:
            times[name].append(clock(sides[name], nruns[name]) / (nruns[name] * sides[name].noperations))
    return times


def enough_runs(side, seconds):
    """Return how many runs take that long, at most 20 where each needs fresh state; also warm up."""
    if side.tells_seconds:
        return 1
    once = clock(side, 1)
    if once < 1:
        once = min(once, *(clock(side, 1) for _ in range(2)))
    nruns = max(1, round(seconds / once))
    return nruns if side.fresh is None else min(nruns, 20)


def clock(side: Side, nruns: int) -> float:
    """Seconds that so many runs take, with the garbage collector off; making fresh state isn't counted."""
    if side.tells_seconds:
        return sum(side.run() for _ in range(nruns))
    elapsed = 0.0
    collecting = gc.isenabled()
    gc.disable()
    try:
        if side.fresh is None:
            start = time.perf_counter()
            for _ in range(nruns):
                side.run()
            return time.perf_counter() - start
        for _ in range(nruns):
            state = side.fresh()
            start = time.perf_counter()
            side.run(state)
            elapsed += time.perf_counter() - start
            del state
        return elapsed
    finally:
        if collecting:
            gc.enable()


def traced_nbytes(make) -> int:
    """Bytes that what a function makes takes."""
    make()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        made = make()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    del made
    return after - before
