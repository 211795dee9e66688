"""The tasks of pyproject.toml are those of CONTRIBUTING's table, and the files that they name are there."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

if not (ROOT / "CONTRIBUTING.md").exists():
    pytest.skip("outside of the repository", allow_module_level=True)

TASKS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["poe"]["tasks"]


def test_contributing_has_each_task():
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    table = text[text.index("| task |") : text.index("\n\n", text.index("| task |"))]
    assert set(re.findall(r"`poe ([\w-]+)", table)) == TASKS.keys()


def test_files_of_tasks_are_there():
    named = [word for command in TASKS.values() for word in command.split() if "/" in word]
    ours = [
        word for word in named if (ROOT / ".ci").exists() or not word.startswith(".ci/")
    ]  # no .ci in an sdist
    assert [word for word in ours if not (ROOT / word).exists()] == []
