"""Read integers, lengths and offsets of any integer type; a bool is not an integer here, except in flags."""

import operator
from array import array
from collections.abc import Sequence

import numpy as np

from seqcore._arguments.protocols import is_bool
from seqcore._arguments.shown import MASKED, got, shown
from seqcore.core.lists import row_of_integers

LONGEST = int(np.iinfo(np.int64).max)
_OF_ONE_KIND = (range, array, memoryview, bytearray)
_PLURALS = ("lengths", "offsets")


def as_integer(value):
    """Return a value as a Python int, or None if it is not an integer.

    Raises
    ------
    Exception
        What the value's own `__index__` raises.
    """
    if type(value) is int:
        return value
    if is_bool(value) or isinstance(value, np.ma.MaskedArray) or not hasattr(type(value), "__index__"):
        return None
    if isinstance(value, np.ndarray) and (np.ndim(value) or value.dtype.kind not in "iu"):
        return None
    return operator.index(value)


def integer(name, value, what="an integer", least=None):
    """Return a value as a Python int.

    Raises
    ------
    TypeError
        If it is not an integer; the message says what `name` must be.
    ValueError
        If it is less than `least`.
    """
    number = as_integer(value)
    if number is None:
        raise TypeError(f"{name} must be {what}, got {got(value)}")
    if least is not None and number < least:
        raise ValueError(f"{name} is {shown(number)}, but must be at least {least}")
    return number


def boolean(name, value):
    """Return a bool of Python or NumPy as Python's."""
    if not isinstance(value, bool | np.bool_):
        raise TypeError(f"{name} must be a bool, got {got(value)}")
    return bool(value)


def flag(name, value):
    """Return whether a value is 1 and not 0. A bool counts as one of them here."""
    number = int(value) if isinstance(value, bool) else integer(name, value)
    if number not in (0, 1):
        raise ValueError(f"{name} must be 0 or 1, got {shown(number)}")
    return number == 1


def as_count(name, value, default=""):
    """Return a positive integer, or None where none is given.

    Parameters
    ----------
    name : str
        The name of the argument in messages.
    value : int or None
        The value given.
    default : str, optional
        The meaning of None, for messages.

    Raises
    ------
    TypeError
        If it is not an integer.
    ValueError
        If it is less than 1.
    """
    if value is None:
        return None
    count = integer(name, value, "an integer or None")
    if count < 1:
        remedy = f"; {name}=None {default}" if default else ""
        raise ValueError(f"{name} is {shown(count)}, but must be at least 1{remedy}")
    return count


def integers(name, value):
    """Return a value as an array of integers, an object array where some need more than 64 bits.

    Raises
    ------
    TypeError
        If it has other values than integers; `name` is its name in messages.
    ValueError
        If it is a ragged list.
    """
    if type(value) in (list, tuple):
        row = row_of_integers(value)
        if row is not None:
            return row
    if isinstance(value, np.ma.MaskedArray):
        raise TypeError(f"{name} must be integers, got {MASKED}")
    if isinstance(value, str | bytes):
        not_integral(name, value)
    if isinstance(value, Sequence) and not isinstance(value, _OF_ONE_KIND):
        value = [*value]  # a list, whose length can be trusted
        _check_items(name, value)
        if not value:
            return np.empty(0, np.int64)
    try:
        lengths = np.asarray(value)
        if lengths.dtype.kind in "fO" and not isinstance(value, np.ndarray | np.generic):
            lengths = np.asarray(value, dtype=object)
    except ValueError:
        raise ValueError(
            f"{name} must be an integer or a 1-D array of integers, got a ragged list: {shown(value)}"
        ) from None
    if lengths.dtype.kind in "iu":
        return lengths
    items = lengths.reshape(-1)  # not .flat, which NumPy has up to rank 32 only
    if lengths.dtype != object or not all(map(_is_integer, items)):
        not_integral(name, value)
    # All Python integers, because NumPy's don't compare to those past 64 bits.
    return np.fromiter(map(operator.index, items), object, items.size).reshape(lengths.shape)


def _check_items(name, items):
    """Refuse bools, masked arrays of rank 0 and strings, which NumPy would mix with integers."""
    for item in items:
        if isinstance(item, bool | str | np.ma.MaskedArray) or getattr(item, "dtype", None) == np.bool_:
            not_integral(name, items)


def _is_integer(item):
    # NumPy counts timedelta64 among its integers.
    if isinstance(item, int):
        return not isinstance(item, bool)
    return isinstance(item, np.integer) and not isinstance(item, np.timedelta64)


def within_64_bits(row):
    """An array of integers as int64, aligned and in C order; what is past 64 bits is brought to their ends.

    Without a copy where that is what it is: whoever reads it reads each number once.
    """
    if row.dtype == object:
        row = [min(max(number, -LONGEST - 1), LONGEST) for number in row]
    elif row.dtype.kind == "u":
        row = np.minimum(row.astype(np.uint64), np.uint64(LONGEST))
    row = np.ascontiguousarray(row, dtype=np.int64)
    return row if row.flags.aligned else row.copy()


def not_integral(name, value):
    """Raise the TypeError for lengths, offsets or a split of other values than integers."""
    what = "must be integers" if name in _PLURALS else "must be an integer"
    masks = name == "lengths" and str(getattr(value, "dtype", "")) in ("bool", "torch.bool")
    remedy = ": a mask has them by mask.sum(axis=1)" if masks else ""
    raise TypeError(f"{name} {what}, got {got(value)}{remedy}")
