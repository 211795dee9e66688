"""What calls return: whether it is what was expected, and the arrays that are in it."""

import numpy as np
import pytest
from hypothesis import Phase

from seqcore import Columns, TensorSequence

# Of a fault that is known, the smallest example isn't searched for, which takes seconds.
UNSHRUNK = {"phases": (Phase.explicit, Phase.generate), "report_multiple_bugs": False}
FEW = 20  # elements of a sequence, at its ends, stand for all


def same(result, wanted):
    """Whether a result is what was expected, in types, shapes and values; a list stands for a sequence."""
    if isinstance(result, TensorSequence):
        result._check()
        kind = isinstance(wanted, list | TensorSequence)
        return kind and len(result) == len(wanted) and all(map(same, result, wanted))
    if isinstance(result, Columns):
        return result.names == wanted.names and all(same(result[name], wanted[name]) for name in result.names)
    if isinstance(result, np.ndarray):
        if result.dtype == object:
            wanted = np.asarray(wanted, object)
            return result.shape == wanted.shape and result.tolist() == wanted.tolist()
        wanted = np.asarray(wanted)
        kind = result.dtype == wanted.dtype and result.shape == wanted.shape
        return kind and np.array_equal(result, wanted, equal_nan=result.dtype.kind in "fc")
    if isinstance(result, list | tuple):
        return len(result) == len(wanted) and all(map(same, result, wanted))
    if isinstance(result, dict):
        return result.keys() == wanted.keys() and all(same(result[key], wanted[key]) for key in wanted)
    return type(result) is type(wanted) and result == wanted


def arrays_in(result, where="the result", element=False):
    """Yield each array in a result: where it is, the array, and whether it is an element or part of a row."""
    if isinstance(result, np.ndarray):
        yield where, result, element
    elif isinstance(result, TensorSequence):
        for i in [*range(len(result))][: FEW // 2] + [*range(len(result))][FEW // 2 :][-FEW // 2 :]:
            yield f"{where}[{i}]", result[i], True
    elif isinstance(result, Columns):
        for name in result.names:
            yield from arrays_in(result[name], f"{where}[{name!r}]")
    elif isinstance(result, dict):
        for name, value in result.items():
            yield from arrays_in(value, f"{where}[{name!r}]", True)
    elif isinstance(result, list | tuple):
        for i, value in enumerate(result):
            yield from arrays_in(value, f"{where}[{i}]", element)


def known(fault, error=AssertionError):
    """Mark a fault that a test has found and that nobody has mended yet: it has to fail, and as is said."""
    return pytest.mark.xfail(strict=True, raises=error, reason=fault)
