"""README's commands. Its code runs with that of the pages: see test_docs.py."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_each_command_stands_on_a_line_of_its_own():
    commands = re.findall(r"^    (pip install .*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands == [
        'pip install ".[demo]" && python -m seqcore.demo',
        'pip install -e ".[test]" && pytest -n 2 -m ""',
        'pip install -e ".[docs]" && python -m sphinx -W --keep-going -n -b html docs site',
    ]
