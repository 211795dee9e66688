"""Integers as people write them: a number, lengths and offsets, of any type; a bool is none."""

import operator
from array import array
from collections.abc import Sequence

import numpy as np

from seqcore._shown import shown
from seqcore.core.integers import row_of_integers

LONGEST = int(np.iinfo(np.int64).max)
_OF_ONE_KIND = (range, array, memoryview, bytearray)
MASKED = "a masked array, whose mask would be lost: use .filled() or .data"


def as_integer(value):
    """Return the Python int that a value is, or None if it is no integer.

    Raises
    ------
    Exception
        What the value's own `__index__` raises.
    """
    if type(value) is int:
        return value
    if isinstance(value, bool | np.ma.MaskedArray) or not hasattr(type(value), "__index__"):
        return None
    if isinstance(value, np.ndarray) and (np.ndim(value) or value.dtype.kind not in "iu"):
        return None
    return operator.index(value)


def as_count(name, value):
    """Return a number from 1 on, or None where none is given.

    Raises
    ------
    TypeError
        If it is no integer; `name` says in messages what it is.
    ValueError
        If it is less than 1.
    """
    if value is None:
        return None
    count = as_integer(value)
    if count is None:
        raise TypeError(f"{name} is a number or None, not {shown(value)}")
    if count < 1:
        raise ValueError(f"{name} is {shown(count)}, but must be at least 1")
    return count


def integers(name, value):
    """A value as an array of integers, of Python's own where some are past 64 bits.

    Raises
    ------
    TypeError
        If it is not integral; `name` says in messages what it is.
    ValueError
        If it is a ragged list.
    """
    if type(value) in (list, tuple):
        row = row_of_integers(value)
        if row is not None:
            return row
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} is {MASKED}")
    if isinstance(value, str | bytes):
        not_integral(name, value)
    if isinstance(value, Sequence) and not isinstance(value, _OF_ONE_KIND):
        value = [*value]  # which is as long as it says
        _check_items(name, value)
        if not value:
            return np.empty(0, np.int64)
    try:
        lengths = np.asarray(value)
        if lengths.dtype.kind in "fO" and not isinstance(value, np.ndarray | np.generic):
            lengths = np.asarray(value, dtype=object)
    except ValueError:
        raise ValueError(f"{name} is one number or a row of them, not {shown(value)}") from None
    if lengths.dtype.kind in "iu":
        return lengths
    items = lengths.reshape(-1)  # not .flat, which NumPy has up to rank 32 only
    if lengths.dtype != object or not all(map(_is_integer, items)):
        not_integral(name, value)
    # All of one kind, in an array of our own: NumPy's integers don't compare to Python's past 64 bits.
    return np.fromiter(map(operator.index, items), object, items.size).reshape(lengths.shape)


def _check_items(name, items):
    """Refuse what NumPy takes for integers among others, bools and masked arrays of rank 0, and text."""
    for item in items:
        if isinstance(item, bool | str | np.ma.MaskedArray) or getattr(item, "dtype", None) == np.bool_:
            not_integral(name, items)


def _is_integer(item):
    # NumPy counts spans of time among its integers.
    if isinstance(item, int):
        return not isinstance(item, bool)
    return isinstance(item, np.integer) and not isinstance(item, np.timedelta64)


def within_64_bits(row):
    """An array of integers as int64, in C order; what is past 64 bits is brought to their ends.

    Without a copy where that is what it is: whoever reads it reads each number once.
    """
    if row.dtype == object:
        row = [min(max(number, -LONGEST - 1), LONGEST) for number in row]
    elif row.dtype.kind == "u":
        row = np.minimum(row.astype(np.uint64), np.uint64(LONGEST))
    return np.ascontiguousarray(row, dtype=np.int64)


def not_integral(name, value):
    raise TypeError(f"{name} is integral, not {shown(value)} of type {type(value).__name__}")
