"""Seeds of random tests: none, a given one or any, and how a failure comes back; and which cases are slow."""

import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from support import case_ids, random_cases

TESTS_FOLDER = Path(__file__).parents[1]
TESTS = """
import pytest
from hypothesis import given, strategies as st
from support.random_cases import examples, seeds

@pytest.mark.parametrize("seed", seeds(2, 3))
def test_ours(seed):
    assert seed < 2

drawn = []

@given(st.integers(0, 2**40))
def test_hypothesis(n):
    drawn.append(n)

def test_drawn():
    print("DRAWN", len(drawn), sum(drawn))
    assert examples(100) == 25
"""


MOSTLY_SLOW = """
import pytest

pytestmark = pytest.mark.mostly_slow(3)

@pytest.mark.parametrize("k", range(8))
@pytest.mark.parametrize("word", ["a"])
def test_of_the_file(word, k):
    pass

class TestOne:
    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("k", range(6))
    def test_of_its_own(self, k):
        pass

    def test_single(self):
        pass
"""

MANY = """
import pytest

@pytest.fixture(params=["x", "y"])
def letter(request):
    return request.param

@pytest.mark.parametrize("i", range(11))
@pytest.mark.parametrize(("j", "k"), [(0, 1), (1, 0), (1, 1)])
def test_product(letter, i, j, k):
    pass

@pytest.mark.parametrize("j, k", [(j, k) for j in range(4) for k in range(5)])
def test_list(j, k):
    pass

@pytest.mark.parametrize("i", range(4))
def test_few(letter, i):
    pass

@pytest.mark.mostly_slow(1)
@pytest.mark.parametrize("i", range(9))
def test_kept(letter, i):
    pass
"""

PAIRS = """
import pytest

@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("i", range(5))
@pytest.mark.parametrize("j", range(5))
@pytest.mark.parametrize("k", range(5))
def test_pairs(i, j, k):
    pass
"""
NAMES = "test_product", "test_list", "test_few", "test_kept"  # the tests of MANY


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """What pytest says of the tests above, with some arguments and a seed in the environment."""
    folder = tmp_path_factory.mktemp("random")
    (folder / "support").mkdir()
    for name in (
        "conftest.py",
        *(f"support/{one}.py" for one in ("random_cases", "case_ids", "old_versions")),
    ):
        shutil.copy(TESTS_FOLDER / name, folder / name)
    (folder / "test_them.py").write_text(TESTS)
    (folder / "test_slow.py").write_text(MOSTLY_SLOW)
    (folder / "test_many.py").write_text(MANY)
    (folder / "test_pairs.py").write_text(PAIRS)

    def run(*arguments, seed=None):
        environment = {key: value for key, value in os.environ.items() if "SEQCORE" not in key}
        environment |= {"PYTHONPATH": "", "PYTEST_ADDOPTS": ""} | ({"SEQCORE_SEED": seed} if seed else {})
        command = [sys.executable, "-m", "pytest", "-q", "-rA", "-p", "no:cacheprovider", *arguments]
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def without_seed(run):
    return run("-m", "", "test_them.py", "test_slow.py")


class TestSeeds:
    @pytest.fixture
    def settle(self, monkeypatch):
        """Settle on what is given, beside what the environment has; afterwards all is as it was."""

        def settle(given, variable=""):
            monkeypatch.setenv("SEQCORE_SEED", variable)
            random_cases.settle(given)
            return random_cases.run_seed()

        return settle

    def test_none(self, settle):
        assert settle(None) is None
        assert random_cases.seeds(2, 9) == range(2)
        assert [random_cases.examples(n) for n in (300, 100, 10)] == [75, 25, 6]

    def test_one(self, settle):
        assert settle("77") == settle(None, "77") == settle("77", "78") == 77
        assert random_cases.seeds(2, 9) == range(77, 86)
        assert random_cases.examples(300) == 300
        assert settle("0") == 0
        assert random_cases.seeds(2, 9) == range(9)

    def test_any(self, settle):
        seen = {settle("new") for _ in range(20)} | {settle(None, "new") for _ in range(20)}
        assert len(seen) > 30
        assert os.environ["SEQCORE_SEED"] == str(random_cases.run_seed())  # for other processes

    @pytest.mark.parametrize("given", ["some", "-1", "1.5"])
    def test_what_is_none(self, settle, given):
        with pytest.raises(ValueError, match=f"a whole number or 'new', not '{given}'"):
            settle(given)


def test_ids_say_which_values_a_case_has():
    values = [3, None, "7", "word", len, lambda seq: seq.append(1), [1, np.int8(2)], {"a": (object(),)}]
    values += [
        np.zeros((2, 3)),
        np.arange(2),
        ValueError("no"),
        {"b", "c"},
        slice(2),
        np.dtype("int8"),
        "\x08y",
    ]
    assert [case_ids.case_id(value, "n") for value in values] == [
        *("n=3", "n=None", "n='7'", "word", "len", "n=append-1", "n=[1, int8(2)]", "n={a: [object]}"),
        *("n=float64[2, 3]", "n=int64[2] [0, 1]", "n=ValueError('no')", "n=set", "n=slice(None, 2, None)"),
        *("n=int8", "\\x08y"),
    ]


def drawn(said):
    return re.search(r"DRAWN (\d+) (\d+)", said).groups()


@pytest.mark.at_night
def test_without_a_seed_the_same_few_and_not_the_slow_ones(run, without_seed):
    assert "19 passed" in without_seed
    assert int(drawn(without_seed)[0]) == 25
    said = run("-m", "not slow", "test_them.py", "test_slow.py")
    assert drawn(said) == drawn(without_seed)
    assert re.findall(r"PASSED test_slow.py::(?:\w+::)?(\S+)", said) == [
        "test_of_the_file[a-k=0]",
        "test_of_the_file[a-k=3]",
        "test_of_the_file[a-k=6]",
        "test_of_its_own[k=0]",
        "test_of_its_own[k=5]",
        "test_single",
    ]


@pytest.mark.at_night
def test_of_a_product_each_value_remains(run):
    said = [run("-m", marks, "test_many.py") for marks in ("not slow", "not slow", "")]
    few, again, whole = (
        [re.findall(rf"PASSED test_many.py::{name}\[(\S+)\]", one) for name in NAMES] for one in said
    )
    assert few == again
    assert [len(cases) for cases in whole] == [66, 20, 8, 18]
    assert few[1:] == whole[1:]
    assert 11 <= len(few[0]) < 25
    left, every = (
        [{*values} for values in zip(*(case.split("-") for case in cases), strict=True)]
        for cases in (few[0], whole[0])
    )
    assert left == every


@pytest.mark.at_night
def test_a_merge_sees_any_two_values_together(run):
    said = run("-m", "not at_night", "test_pairs.py")
    cases = [tuple(map(int, one)) for one in re.findall(r"PASSED \S+\[k=(\d)-j=(\d)-i=(\d)\]", said)]
    assert len(cases) < 80
    assert "deselected" not in said
    for one, other in itertools.combinations(range(3), 2):
        assert len({(case[one], case[other]) for case in cases}) == 25


@pytest.mark.at_night
def test_a_seed_gives_many_others_to_workers_too(run, without_seed):
    pytest.importorskip("xdist")
    here = run("--seed", "77", "test_them.py")
    there = run("-n", "2", "--dist", "loadfile", "test_them.py", seed="77")
    for said in (here, there):
        assert all(f"FAILED test_them.py::test_ours[seed={seed}]" in said for seed in (77, 78, 79))
        assert "random tests: --seed 77" in said
    assert int(drawn(here)[0]) == 100
    assert drawn(here) == drawn(there)
    assert drawn(here) != drawn(without_seed)


@pytest.mark.at_night
def test_a_failure_says_how_it_comes_back(run, without_seed):
    said = run("test_them.py", seed="new")
    seed = int(re.search(r"random tests: --seed (\d+)", said)[1])
    assert drawn(said) != drawn(without_seed)
    commands = re.findall("^pytest (.*test_them.*)$", said, re.M)
    assert len(commands) == 4
    (command,) = (one for one in commands if f"[seed={seed + 1}]" in one)
    again = run(*shlex.split(command))
    assert "1 failed" in again
    assert f"assert {seed + 1} < 2" in again


@pytest.mark.at_night
def test_what_is_no_seed(run):
    assert "a seed is a whole number or 'new', not 'some'" in run("--seed", "some")
