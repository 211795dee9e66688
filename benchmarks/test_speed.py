"""One group for each case, its sides in it: `pytest benchmarks --benchmark-columns=min,median,rounds`."""

import pytest

from . import container, embedded, exported, files, loaders, maps, models, ragged  # noqa: F401  (rows)
from .chart import as_value
from .declare import CASES, OURS

# The memory of workers and the exported models take half a minute each: `python -m benchmarks` measures them.
TIMED = [case for case in CASES if case.unit == "s" or (case.unit == "bytes" and case.limits[0].peer is None)]
SIDES = [(case, side) for case in TIMED for side in (OURS, *(limit.peer for limit in case.limits))]
SIDES = [(case, side) for case, side in SIDES if case.unit == "s" or side == OURS]


@pytest.fixture(scope="module")
def built(request):
    """A case with its sides made; pytest keeps it for as long as tests of this case follow."""
    return request.param, request.param.make_sides()


@pytest.mark.benchmark(disable_gc=True)
@pytest.mark.parametrize(
    ("built", "name"),
    SIDES,
    indirect=["built"],
    scope="module",
    ids=[f"{case.title} | {name}" for case, name in SIDES],
)
def test_speed(benchmark, built, name):
    case, sides = built
    if name not in sides:
        pytest.skip(f"for {name}: not installed")
    side = sides[name]
    benchmark.group = case.title
    benchmark.name = name if side.noperations == 1 else f"{name} ({side.noperations:,} operations)"
    if case.unit == "bytes":
        benchmark.name = f"{name} ({as_value(side.run() / side.noperations, case.unit)})"
    if side.fresh is None:
        benchmark(side.run)
    else:
        benchmark.pedantic(side.run, setup=lambda: ((side.fresh(),), {}), rounds=10, warmup_rounds=1)
