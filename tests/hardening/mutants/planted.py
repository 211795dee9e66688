"""A planted mistake: what the core does then, the text and what stands in its place, and the tests."""

from pathlib import Path
from typing import NamedTuple

CORE = Path(__file__).parents[3] / "seqcore" / "core"


class Mutant(NamedTuple):
    """`before` is in the sources of the core once; `tests` are paths below `tests/`."""

    what: str
    before: str
    after: str
    tests: str

    def places(self, core=CORE):
        """Return the files that have the text, each as often as it has it."""
        files = sorted([*core.glob("*.pyx"), *core.glob("*.pxd")])
        return [file for file in files for _ in range(file.read_text("utf-8").count(self.before))]
