import pytest
from support.ways import Ways

from seqcore._maps import elementwise, reductions
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


@pytest.fixture(scope="module")
def blocks_of_few():
    """Maps over few elements try blocks too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(elementwise, "FEW", 1)
        patch.setattr(reductions, "FEW", 1)
        yield


@pytest.fixture
def blocks(monkeypatch):
    """The blocks that maps tried to run at once: start, stop, and whether it succeeded."""
    tried, run = [], ElementwiseWork.run_block

    def spy(self, plan, start, stop):
        ran = run(self, plan, start, stop)
        tried.append((start, stop, ran is not None))
        return ran

    monkeypatch.setattr(ElementwiseWork, "run_block", spy)
    return tried
