import gc
import os
import random
import shlex
import sys
from collections import Counter, defaultdict

import pytest
from seqcore.core.store import SMALL_LIMITS
from support import random_cases

FEW = 8  # cases of a product of parameters that pytest runs without -m

if not getattr(sys, "_is_gil_enabled", lambda: True)():
    # Dask's profiler reads frames that other threads run, which can end the process there.
    os.environ.setdefault("DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED", "False")


def pytest_addoption(parser):
    parser.addoption(
        "--seed", help="a number for the random tests, or 'new': many new cases, not the few of always"
    )


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
    return "random tests: the few cases of always" if seed is None else f"random tests: --seed {seed}"


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
    """Leave out what a build with small thresholds costs, and mark cases as slow.

    Those are cases of a test that is mostly slow, and of one whose parameters make many cases.
    """
    if SMALL_LIMITS:
        costs = [item for item in items if item.get_closest_marker("usual_limits")]
        config.hook.pytest_deselected(items=costs)
        items[:] = [item for item in items if not item.get_closest_marker("usual_limits")]
    counts, products = Counter(), defaultdict(list)
    for item in items:
        test = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("mostly_slow")
        if mark and counts[test] % mark.args[0]:
            item.add_marker(pytest.mark.slow)
        at_night = item.get_closest_marker("mostly_at_night")
        if at_night and counts[test] % at_night.args[0]:
            item.add_marker(pytest.mark.at_night)
        if item.get_closest_marker("at_night"):
            item.add_marker(pytest.mark.slow)
        counts[test] += 1
        keeps_all = mark and mark.args[0] == 1
        if hasattr(item, "callspec") and not keeps_all and not item.get_closest_marker("slow"):
            products[test].append(item)
    for test, cases in products.items():
        for case in left_out(test, cases):
            case.add_marker(pytest.mark.slow)
            case.add_marker(pytest.mark.at_night)


def left_out(test, cases):
    """Yield the cases of a product that say little more than the others, always the same ones.

    A few remain, and those with a value of a parameter that none of the few has.
    """
    met = set()
    for number, case in enumerate(random.Random(test).sample(cases, len(cases))):
        values = values_of_parameters(case)
        if number >= FEW and values <= met:
            yield case
        met |= values


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


@pytest.fixture
def frequent_switches():
    """Threads take turns as often as Python lets them."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)
