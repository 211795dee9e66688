"""Faults that a test has found and that nobody has mended yet: the test has to fail, and as it is said."""

import pytest
from hypothesis import Phase

# Of a fault that is known, the smallest example isn't searched for, which takes seconds.
UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "report_multiple_bugs": False}


def known(fault, error=AssertionError):
    return pytest.mark.xfail(strict=True, raises=error, reason=fault)
