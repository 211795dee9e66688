import pytest

from seqcore import mapping
from seqcore._maps.elementwise import ElementwiseWork


@pytest.fixture
def jobs(monkeypatch):
    """The jobs of a test's maps. `sizes` has how many units each chunk brought, in the order of coming."""
    made = []

    class Kept(mapping.Job):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.sizes = []
            made.append(self)

        def collect(self, chunk):
            self.sizes.append(chunk.count)
            super().collect(chunk)

    monkeypatch.setattr(mapping, "Job", Kept)
    return made


@pytest.fixture
def blocks(monkeypatch):
    """The blocks that maps tried to run at once: start, stop, and whether it succeeded."""
    tried, run = [], ElementwiseWork._run_block

    def spy(self, plan, start, stop, *others):
        chunk = run(self, plan, start, stop, *others)
        tried.append((start, stop, chunk is not None))
        return chunk

    monkeypatch.setattr(ElementwiseWork, "_run_block", spy)
    return tried
