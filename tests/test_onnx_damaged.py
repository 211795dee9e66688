"""Damaged models: whatever is wrong with a file, there is a result or an exception that says what it is."""

import subprocess
import sys
from pathlib import Path

import pytest
from random_cases import seeds

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

SCRIPT = "import sys; sys.path.insert(0, sys.argv[1]); import damage; damage.main(*map(int, sys.argv[2:]))"

pytestmark = pytest.mark.thread_unsafe


@pytest.mark.parametrize("first", seeds(100, 400)[::100])
def test_damaged_models(first):
    folder = str(Path(__file__).parent)
    command = [sys.executable, "-W", "error", "-c", SCRIPT, folder, str(first), str(first + 100)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    cases = [line for line in ended.stdout.splitlines() if line.startswith("case ")]
    assert "FAULT" not in ended.stdout, ended.stdout[ended.stdout.index("FAULT") :]
    assert ended.returncode == 0, f"the process ended at {cases[-1:]}: {ended.stderr}"
    assert len(cases) == 100
