"""README's code runs, as it stands there."""

import re
from pathlib import Path

README = Path(__file__).parents[1] / "README.md"


def test_code_blocks_run_one_after_the_other(capsys):
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks) >= 3
    names = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), names)
    assert capsys.readouterr().out.startswith("<TensorSequence of 50,001 float32 tensors: (1, 8) ")


def test_each_command_stands_on_a_line_of_its_own():
    commands = re.findall(r"^    (pip install .*)$", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert commands == [
        'pip install ".[demo]" && python -m seqcore.demo',
        'pip install -e ".[test]" && pytest',
    ]
