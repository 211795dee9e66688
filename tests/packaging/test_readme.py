"""README's commands, and what CONTRIBUTING says of the tests. The code on README runs in test_docs.py."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"
TESTS = [path for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"]


def test_each_command_stands_on_a_line_of_its_own():
    commands = re.findall(r"^    (pip install .*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands == [
        'pip install ".[benchmark]" && python -m benchmarks',
        'pip install ".[demo]" && python -m seqcore.demo',
        'pip install -e ".[test]" && pytest -n 2 -m "not at_night"',
        'pip install -e ".[docs]" && python -m sphinx -W --keep-going -n -b html docs site',
    ]


def test_each_folder_of_tests_is_small():
    for folder in TESTS:
        assert len([*folder.glob("*.py")]) <= 25, folder


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="outside of the repository")
def test_contributing_names_each_folder_of_tests():
    text = CONTRIBUTING.read_text(encoding="utf-8").partition("## Where the tests are")[2]
    named = re.findall(r"`(\w+)`(?=.*\|.*\|)", text.partition("\n## ")[0])
    assert sorted(named) == sorted(folder.name for folder in TESTS)


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="outside of the repository")
def test_files_that_contributing_names_are_there():
    for pattern in re.findall(r"\btests/[\w*/]+(?:\.\w+)?", CONTRIBUTING.read_text(encoding="utf-8")):
        assert [*ROOT.glob(pattern)], pattern
