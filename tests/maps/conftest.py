import pytest
from support.ways import Ways

from seqcore import mapping
from seqcore._maps.elementwise import ElementwiseWork


@pytest.fixture(scope="package")
def ways():
    with Ways() as ways:
        yield ways


@pytest.fixture
def threads(ways):
    return ways.get("thread_executor")["executor"]


@pytest.fixture
def processes(ways):
    return ways.get("process_executor")["executor"]


@pytest.fixture(params=["inline", "thread_executor", "process_executor"])
def executor(request, ways):
    return ways.get(request.param)["executor"]


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
