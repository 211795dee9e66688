"""What of many cases runs each time, and what stands behind the marker."""

import pytest


def each_nth(cases, n):
    """Cases of which all but each n-th are slow."""
    slow = pytest.mark.slow
    return [case if k % n == 0 else pytest.param(case, marks=slow) for k, case in enumerate(cases)]
