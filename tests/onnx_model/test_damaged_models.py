"""Damaged models: whatever is wrong with a file, there is a result or an exception that says what it is."""

import os
import subprocess
import sys

import pytest
from support.random_cases import seeds

SCRIPT = "import sys; from support.models import damage; damage.main(*map(int, sys.argv[1:]))"

pytestmark = pytest.mark.thread_unsafe


COUNT = 50  # models in one process


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("first", seeds(100, 400)[::COUNT])
def test_damaged_models(first):
    command = [sys.executable, "-W", "error", "-c", SCRIPT, str(first), str(first + COUNT)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    cases = [line for line in ended.stdout.splitlines() if line.startswith("case ")]
    assert "FAULT" not in ended.stdout, ended.stdout[ended.stdout.index("FAULT") :]
    assert ended.returncode == 0, f"the process ended at {cases[-1:]}: {ended.stderr}"
    assert len(cases) == COUNT
