"""Reductions beside NumPy, element by element: all types, special numbers, and `initial`."""

import itertools
import warnings

import numpy as np
import pytest
from support.strategies import NUMERIC_NAMES, dtype_of

from seqcore import TensorSequence

UFUNCS = [
    np.add, np.multiply, np.maximum, np.minimum, np.fmax, np.fmin, np.logical_and, np.logical_or, np.hypot,
    np.bitwise_or, np.bitwise_xor, np.bitwise_and, np.logical_xor, np.gcd, np.subtract, np.logaddexp,
]  # fmt: skip
FUNCTIONS = [np.sum, np.prod, np.mean, np.min, np.max, np.any, np.all, np.argmin, np.argmax]
LOGICAL = [np.logical_and, np.logical_or, np.logical_xor]
TAKE_INITIAL = [np.sum, np.prod, np.min, np.max]


def specials(name):
    """Numbers of a type, those at its ends above all."""
    dtype = dtype_of(name)
    if dtype.kind == "b":
        return [False, True]
    if dtype.kind in "iu":
        info = np.iinfo(dtype)
        return [0, 1, 2, info.min, info.max, info.max - 1]
    info = np.finfo(dtype)
    return [0.0, -0.0, 1.0, -1.0, 0.1, np.inf, -np.inf, np.nan, float(info.max), float(info.tiny)]


def reference(how, arrays, axis, options):
    """Return what NumPy gives for each element, stacked; or the error."""
    call = how.reduce if isinstance(how, np.ufunc) else how
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings(action="error"):
            return np.stack([call(array, axis=axis, **options) for array in arrays])
    except (TypeError, ValueError, RuntimeWarning) as error:
        return error


def agrees(found, wanted, how):
    """Whether two results are the same; sums of a different order may differ in last digits."""
    if found.dtype != wanted.dtype or found.shape != wanted.shape:
        return False
    zeros = (found == 0) & (wanted == 0)
    if (
        how in (np.add, np.sum)
        and found.dtype.kind == "f"
        and (np.signbit(found) != np.signbit(wanted))[zeros].any()
    ):
        return False
    if (
        how in (np.add, np.sum, np.mean, np.multiply, np.prod, np.hypot, np.logaddexp)
        and found.dtype.kind in "fc"
    ):
        eps = np.finfo(found.dtype).eps * 64
        with np.errstate(all="ignore"):
            # Where one way overflows and another doesn't, numbers are near the end of what the type holds.
            finite = np.isfinite(found) & np.isfinite(wanted)
            close = np.isclose(found, wanted, rtol=eps, atol=0, equal_nan=True)
        return bool(np.all(close | (~finite & (found.dtype.kind == "c"))))
    return np.array_equal(found, wanted, equal_nan=found.dtype.kind in "fc")


def check(seq, arrays, how, axis, **options):
    wanted = reference(how, arrays, axis, options)
    with np.errstate(all="ignore"):
        if isinstance(wanted, Exception):
            with pytest.raises((TypeError, ValueError)):
                raise AssertionError(
                    f"{how}, {options}: {seq.reduce(how, axis=axis, **options)}, NumPy: {wanted}"
                )
        else:
            found = seq.reduce(how, axis=axis, **options)
            assert agrees(found, wanted, how), (how, axis, options, arrays, found, wanted)


def pairs(name):
    """Return elements of each special number alone, and of each pair."""
    numbers = specials(name)
    elements = [[one] for one in numbers] + [[*pair] for pair in itertools.product(numbers, repeat=2)]
    return [np.array(element, dtype_of(name)) for element in elements]


@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_special_numbers(name):
    arrays = pairs(name)
    rows = [np.stack([array, array[::-1]], axis=1) for array in arrays]
    for how in UFUNCS + FUNCTIONS:
        check(TensorSequence(arrays), arrays, how, 0)
        check(TensorSequence(rows), rows, how, 0)


@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_usual_numbers(name):
    """Each reduction of each width, whose result says of every number whether it was counted."""
    rng = np.random.default_rng(0)
    for how, width, axis in itertools.product(UFUNCS + FUNCTIONS, [(), (3,), (2, 3)], [0, -1, None]):
        shapes = [(n, *width) for n in (1, 2, 9)] if axis != -1 else [(2, *width[:1], n) for n in (1, 2, 9)]
        arrays = [rng.integers(1, 4, shape).astype(dtype_of(name)) for shape in shapes]
        for seq in (TensorSequence(arrays), TensorSequence(arrays, copy=True)):
            check(seq, arrays, how, axis)


@pytest.mark.parametrize("name", NUMERIC_NAMES)
def test_special_numbers_with_a_beginning(name):
    """`initial` is the first operand of each element's reduction, empty ones too."""
    arrays = [*pairs(name), np.empty(0, dtype_of(name))]
    for how in UFUNCS + TAKE_INITIAL:
        for number in specials(name):
            initial = bool(number) if how in LOGICAL else dtype_of(name).type(number)
            check(TensorSequence(arrays), arrays, how, 0, initial=initial)
