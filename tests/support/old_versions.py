"""What older versions of other packages do wrong: the tests that meet it are skipped there."""

from importlib.metadata import version

import pytest

_REDUCED = ("onnxruntime", (1, 32), "an axis of nothing that is reduced stays")
# A part of a test's name → a package, its first version that does it right, and what those before do.
FAULTS = {
    "[proposals]": ("onnxruntime", (1, 31), "TopK of no rows along their axis 1 ends the process"),
    "[ArgMax]": _REDUCED,
    "[ArgMin]": _REDUCED,
    " over the last axis of nothing]": _REDUCED,
    "test_two_lists[": ("onnx", (1, 23), "its evaluator makes one axis of no rows"),
    "[elsewhere-shared GIL]": ("numpy", (2, 1), "interpreters beside the main one can't all import it"),
}


def skip_faults(items):
    """Mark the tests that meet a fault of what is installed."""
    for part, (package, first, why) in FAULTS.items():
        for item in [one for one in items if part in one.name]:
            installed = tuple(map(int, version(package).split(".")[:2]))
            item.add_marker(pytest.mark.skipif(installed < first, reason=f"{package} before {first}: {why}"))
