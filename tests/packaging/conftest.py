import os

import pytest


@pytest.fixture(scope="session")
def kept_builds(tmp_path_factory):
    """A folder for compiled extensions, which all workers of a run share."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "builds"
    folder.mkdir(exist_ok=True)
    return folder
