"""README's commands, whose code runs with that of the pages (test_docs.py), and what CONTRIBUTING names."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
CONTRIBUTING = ROOT / "CONTRIBUTING.md"


def test_each_command_stands_on_a_line_of_its_own():
    commands = re.findall(r"^    (pip install .*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands == [
        'pip install ".[benchmark]" && python -m benchmarks',
        'pip install ".[demo]" && python -m seqcore.demo',
        'pip install -e ".[test]" && pytest -n 2 -m ""',
        'pip install -e ".[docs]" && python -m sphinx -W --keep-going -n -b html docs site',
    ]


@pytest.mark.skipif(not CONTRIBUTING.exists(), reason="outside of the repository")
def test_contributing_knows_the_tests_of_each_module():
    text = CONTRIBUTING.read_text(encoding="utf-8").partition("## Where the tests of a module are")[2]
    text = text.partition("\n## ")[0]
    for pattern in re.findall(r"`(test_[\w*]+\.py)`", text):
        assert [*Path(__file__).parent.glob(pattern)], pattern
    modules = [path.stem for path in (ROOT / "seqcore").glob("*.py")]
    modules += [path.stem for path in (ROOT / "seqcore" / "core").glob("*.pyx")]
    for module in modules:
        own = Path(__file__).with_name(f"test_{module.strip('_')}.py")
        assert own.exists() or module == "__init__" or re.search(rf"`(core/)?{module}`", text), module
