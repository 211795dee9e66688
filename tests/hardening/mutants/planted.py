"""A planted mistake: what the core does then, the text that stands there, the other one, and the tests."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """`what` begins with the file; `before` stands in it once; `tests` are paths below `tests/`."""

    what: str
    before: str
    after: str
    tests: str

    @property
    def file(self):
        return self.what.partition(":")[0]
