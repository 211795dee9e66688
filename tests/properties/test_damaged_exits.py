"""Every exit over damaged data: a result that is right or an error, and never the end of the process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "support" / "damaged_exits.py"
KINDS = ["lists", "lists of pairs", "tensors", "strings"]


def run(which, each, *kinds):
    pytest.importorskip("pyarrow")
    ended = subprocess.run(
        [sys.executable, "-X", "faulthandler", SCRIPT, which, str(each), *kinds],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    lines = ended.stdout.splitlines()
    faults = [i for i, line in enumerate(lines) if line.startswith("FAULT")]
    assert not faults, "\n".join(lines[faults[0] - 1 :][:20])
    assert ended.returncode == 0, f"the process ended at {lines[-1:]}: {ended.stderr[-3000:]}"
    assert lines[-1] == "ended"
    assert len(lines) > 80


def test_public_calls():
    run("calls", 151, *KINDS)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_night
def test_public_calls_with_all_damages(kind):
    run("calls", 1, kind)


def test_exports_of_lists():
    run("exports", 61, "lists", "lists of pairs")


def test_exports_of_what_is_decoded():
    run("exports", 61, "tensors", "strings")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.at_night
def test_exports_with_all_damages(kind):
    run("exports", 1, kind)
