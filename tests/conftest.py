import gc
import itertools
import os
import random
import shlex
import sys
from collections import defaultdict
from importlib.util import find_spec

import pytest
from seqcore.core.store import SMALL_LIMITS
from support import case_ids, random_cases
from support.old_versions import skip_faults

FEW = 8  # cases of a product of parameters that pytest runs without -m
SOME = 20  # cases that a merge waits for, of a product that is mostly slow

try:
    HAS_ONNX = find_spec("onnx") and find_spec("onnxruntime")
except ImportError:  # of a test that hides packages
    HAS_ONNX = False
collect_ignore_glob = [] if HAS_ONNX else ["onnx_*"]

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    # Dask's profiler reads frames that other threads run, which can end the process there.
    os.environ.setdefault("DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED", "False")


def pytest_addoption(parser):
    parser.addoption(
        "--seed", help="a number for the random tests, or 'new': many new cases, not the few of always"
    )


@pytest.fixture
def path(tmp_path):
    """Where a test saves a file."""
    return tmp_path / "tensors.arrow"


@pytest.hookimpl(tryfirst=True)
def pytest_configure(config):
    """Decide on the seed before workers start, which find it in the environment.

    Workers take tests from each other's ends: so what a file has built is most often built once.
    """
    if hasattr(config, "workerinput"):
        random_cases.settle(None)
    else:
        try:
            random_cases.settle(config.getoption("--seed"))
        except ValueError as error:
            raise pytest.UsageError(str(error)) from None
    if getattr(config.option, "dist", "no") == "load":
        config.option.dist = "worksteal"
    random_cases.load_profile()
    if (seed := random_cases.run_seed()) is not None:
        config.option.hypothesis_seed = str(seed)


def pytest_report_header():
    seed = random_cases.run_seed()
    cases = "random tests: the few cases of always" if seed is None else f"random tests: --seed {seed}"
    return [cases] if HAS_ONNX else [cases, "tests/onnx_*: left out, for they need onnx and onnxruntime"]


def pytest_terminal_summary(terminalreporter):
    """Say it at the end too, for -q prints no header, and what ends a worker has no report of its own."""
    if (seed := random_cases.run_seed()) is not None:
        terminalreporter.write_line(f"random tests: --seed {seed}")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    """Say with a failure how to have the same random numbers again."""
    report = yield
    seed = random_cases.run_seed()
    if report.failed and seed is not None:
        again = f"pytest -m '' --seed {seed} {shlex.quote(item.nodeid)}"
        report.sections.append(("the same random cases again", again))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Leave out what a build with small thresholds costs, and what old versions of others do wrong."""
    skip_faults(items)
    if SMALL_LIMITS:
        costs = [item for item in items if item.get_closest_marker("usual_limits")]
        config.hook.pytest_deselected(items=costs)
        items[:] = [item for item in items if not item.get_closest_marker("usual_limits")]


def pytest_make_parametrize_id(val, argname):
    return case_ids.case_id(val, argname)


@pytest.hookimpl(wrapper=True)
def pytest_pycollect_makeitem(collector):
    """Mark the cases of a test that are slow or left to the night, and make no others than the run asks for.

    One stays at least, so that a test can always be named.
    """
    made = yield
    if not isinstance(made, list) or not made or not all(isinstance(one, pytest.Function) for one in made):
        return made
    mark_cases(made)
    left_to = [mark for mark in ("slow", "at_night") if f"not {mark}" in collector.config.option.markexpr]
    return [one for one in made if not any(map(one.get_closest_marker, left_to))] or made[:1]


def mark_cases(cases):
    """Mark what `mostly_slow` and `mostly_at_night` say, and most of a large product."""
    first = cases[0]
    quick = first.get_closest_marker("mostly_slow")
    merged = first.get_closest_marker("mostly_at_night")
    for number, case in enumerate(cases):
        if quick and number % quick.args[0]:
            case.add_marker(pytest.mark.slow)
        if merged and number % merged.args[0]:
            case.add_marker(pytest.mark.at_night)
        if case.get_closest_marker("at_night"):
            case.add_marker(pytest.mark.slow)
    if hasattr(first, "callspec") and not (quick and quick.args[0] == 1):
        cases = random.Random(first.nodeid.partition("[")[0]).sample(cases, len(cases))
        quick_ones = {*chosen([one for one in cases if not one.get_closest_marker("slow")], 1, FEW)}
        by_day = [one for one in cases if not one.get_closest_marker("at_night")]
        is_mostly_slow = any(one.get_closest_marker("slow") for one in by_day)
        merged_ones = {*chosen(by_day, 2, SOME)} if is_mostly_slow else quick_ones
        for case in cases:
            if case not in quick_ones:
                case.add_marker(pytest.mark.slow)
                if case not in merged_ones:
                    case.add_marker(pytest.mark.at_night)


def chosen(cases, together, least):
    """Yield so many cases, and those with values of so many parameters that none before had together."""
    met = set()
    for number, case in enumerate(cases):
        values = sorted(values_of_parameters(case))
        combined = {*itertools.combinations(values, min(together, max(len(values) - 1, 1)))}
        if number < least or not combined <= met:
            yield case
        met |= combined


def values_of_parameters(case):
    """Return what stands for the value of each parameter. Parameters of one mark have one value together."""
    together = {name: name for name in case.callspec.params}
    for mark in case.iter_markers("parametrize"):
        names = mark.args[0].split(",") if isinstance(mark.args[0], str) else mark.args[0]
        together |= {name.strip(): names[0] for name in names}
    values = defaultdict(tuple)
    for name, value in case.callspec.params.items():
        values[together[name]] += (id(value),)
    return {*values.items()}


def pytest_collection():
    """Search for no garbage until all tests are collected: they are a million objects, and none is."""
    gc.disable()


def pytest_collection_finish():
    """Let searches for garbage, of which there are many, pass by the modules of all packages."""
    gc.enable()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item, nextitem):
    """And by what a file has loaded, and by pytest's reports: that grows to a million objects."""
    if nextitem is None or nextitem.path != item.path:
        freeze()


def freeze():
    gc.collect()
    gc.freeze()


def pytest_unconfigure():
    """At the end of the process extensions look for what nobody has collected."""
    gc.unfreeze()


def reads_in_vain(given):
    """Whether a model reads a list that never has an element: without a check, "portable" gives it a rank."""
    types = sys.modules["seqcore.onnx._model.types"]
    return hasattr(given, "shape") and any(
        node.is_op("SequenceAt", "ConcatFromSequence") and given.shape(node.inputs[0]) == types.NEVER
        for node in given.model.graph.all_nodes()
    )


@pytest.fixture(autouse=True)
def no_lowered_model_is_refused(request, monkeypatch):
    """Of a lowered model that onnx or onnxruntime refuses, `lower` returns the given: no fault would show."""
    lowering, pipeline = (
        sys.modules.get(f"seqcore.onnx.{name}") for name in ("lowering", "_lowering.pipeline")
    )
    refused = []

    def noting(function):
        def noted(made, given):
            why = function(made, given)
            if why and not reads_in_vain(given):
                refused.append(why)
            return why

        return noted

    if lowering is not None and not request.node.get_closest_marker("may_be_refused"):
        for module, name in ((lowering, "_why_refused"), (pipeline, "new_fault")):
            monkeypatch.setattr(module, name, noting(getattr(module, name)))
    yield
    assert refused == []


@pytest.fixture
def frequent_switches():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
