import gc

import pytest
from hypothesis import HealthCheck, settings

from seqcore import mapping
from seqcore._maps.flat import FlatWork

# How fast a machine is, a sanitized interpreter above all, is no finding.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


def pytest_collection_finish():
    """Let searches for garbage, of which there are many, pass by the modules of all packages."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def jobs(monkeypatch):
    """The jobs of a test's maps. `sizes` has how many units each chunk brought, in the order of coming."""
    made = []

    class Kept(mapping.Job):
        def __init__(self, *arguments):
            super().__init__(*arguments)
            self.sizes = []
            made.append(self)

        def take_back(self, chunk):
            self.sizes.append(chunk.count)
            super().take_back(chunk)

    monkeypatch.setattr(mapping, "Job", Kept)
    return made


@pytest.fixture
def blocks(monkeypatch):
    """The blocks that maps tried in one piece: where each began and ended, and whether it succeeded."""
    tried, run = [], FlatWork._run_block

    def spy(self, form, start, stop, *others):
        chunk = run(self, form, start, stop, *others)
        tried.append((start, stop, chunk is not None))
        return chunk

    monkeypatch.setattr(FlatWork, "_run_block", spy)
    return tried
