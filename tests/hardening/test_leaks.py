"""Nothing is left behind: the short mode of leaks.py, a process for each group of operations."""

import leaks
import pytest

pytestmark = [pytest.mark.slow, pytest.mark.thread_unsafe]


@pytest.mark.parametrize("group", ["container", "c_api", "operators", "arrow", "maps", "edits"])
@pytest.mark.mostly_at_night(3)
def test_nothing_is_left_behind(group):
    assert leaks.start_group(group, quick=True, timeout=300)


@pytest.mark.parametrize("group", ["protos", "graphs"])
def test_nothing_of_onnx_is_left_behind(group):
    pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    assert leaks.start_group(group, quick=True, timeout=300)


@pytest.mark.at_night
def test_nothing_of_files_is_left_behind():
    pytest.importorskip("pyarrow")
    assert leaks.start_group("files", quick=True, timeout=300)
