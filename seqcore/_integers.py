"""Lengths and offsets as people write them: one integer or a row of them, of any type."""

import numpy as np

LONGEST = int(np.iinfo(np.int64).max)


def integers(name, value):
    """A value as an array of integers, of Python's own where some are past 64 bits.

    Raises
    ------
    TypeError
        If it is not integral; `name` says in messages what it is.
    ValueError
        If it is a ragged list.
    """
    if isinstance(value, list | tuple) and not value:
        return np.empty(0, np.int64)
    try:
        lengths = np.asarray(value)
        if lengths.dtype.kind in "fO" and not isinstance(value, np.ndarray | np.generic):
            lengths = np.asarray(value, dtype=object)
    except ValueError:
        raise ValueError(f"{name} is one number or a row of them, not {value!r:.60}") from None
    if lengths.dtype.kind in "iu":
        return lengths
    items = lengths.reshape(-1)  # not .flat, which NumPy has up to rank 32 only
    if lengths.dtype != object or not all(map(_is_integer, items)):
        not_integral(name, value)
    # All of one kind, in an array of our own: NumPy's integers don't compare to Python's past 64 bits.
    return np.fromiter(map(int, items), object, items.size).reshape(lengths.shape)


def _is_integer(item):
    # NumPy counts spans of time among its integers.
    return type(item) is int or (isinstance(item, np.integer) and not isinstance(item, np.timedelta64))


def integer_row(name, value):
    """A new int64 array of rank 1; what is past 64 bits is brought to their ends.

    Raises
    ------
    TypeError
        If the value is not integral.
    ValueError
        If it is no row.
    """
    row = integers(name, value)
    if row.ndim != 1:
        raise ValueError(f"{name} is a row of integers, not an array of shape {row.shape}")
    if row.dtype == object:
        row = [min(max(number, -LONGEST - 1), LONGEST) for number in row]
    elif row.dtype.kind == "u":
        row = np.minimum(row.astype(np.uint64), np.uint64(LONGEST))
    return np.array(row, dtype=np.int64, order="C", copy=True)


def not_integral(name, value):
    raise TypeError(f"{name} is integral, not {value!r:.60} of type {type(value).__name__}")
