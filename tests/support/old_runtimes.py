"""What older versions of onnxruntime do wrong: the tests that meet it are skipped there."""

from importlib.metadata import version

import pytest

# The end of a test's name → the first version that does it right, and what those before do.
FAULTS = {
    "[proposals]": ((1, 31), "TopK of no rows along their axis 1 ends the process"),
    "[ArgMax]": ((1, 32), "an axis of nothing that is reduced stays"),
    "[ArgMin]": ((1, 32), "an axis of nothing that is reduced stays"),
    " over the last axis of nothing]": ((1, 32), "an axis of nothing that is reduced stays"),
}


def skip_faults(items):
    """Mark the tests that meet a fault of the onnxruntime that is installed."""
    installed = tuple(map(int, version("onnxruntime").split(".")[:2]))
    for end, (first, why) in FAULTS.items():
        mark = pytest.mark.skipif(installed < first, reason=f"onnxruntime before {first}: {why}")
        for item in items:
            if item.name.endswith(end):
                item.add_marker(mark)
