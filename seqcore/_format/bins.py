"""Count lengths in bins of integers."""

from math import isqrt
from typing import NamedTuple

import numpy as np

_MOST = 32  # bins


class Bin(NamedTuple):
    """The number of lengths from `first` to `last`."""

    first: int
    last: int
    number: int


class Bins(NamedTuple):
    """Bins of one width without a gap, and one bin each for outliers below and above them."""

    below: Bin | None
    bins: list[Bin]
    above: Bin | None


def sorted_lengths(snapshot):
    """Return the lengths along axis 0 in ascending order, without elements of rank 0. O(n log n)."""
    if len(snapshot) == 0:
        return np.zeros(0, np.int64)
    try:
        lengths = snapshot.lengths()
    except ValueError:  # an element of rank 0
        lengths = np.array([shape[0] for shape in snapshot.shapes if shape], np.int64)
    lengths.sort()
    return lengths


def have_one_shape(snapshot):
    """Return whether all elements, one at least, have one shape."""
    from seqcore.core.layout import first_misfit  # a circular import

    (shape,) = snapshot[:1].shapes
    return first_misfit(snapshot, len(shape), len(shape), shape) == len(snapshot)


def bins_of(lengths):
    """Return sorted lengths, one at least, in bins that begin at multiples of 1, 2, 5, 10, 20, …

    Examples
    --------
    >>> import numpy as np
    >>> bins_of(np.array([1, 1, 3])).bins
    [Bin(first=1, last=1, number=2), Bin(first=2, last=2, number=0), Bin(first=3, last=3, number=1)]
    """
    n = len(lengths)
    most = min(_MOST, max(8, 2 * isqrt(n)))
    low, high = _bulk(lengths, most)
    width = _width(low, high, most)
    start = low - low % width
    # The last length of each bin, at most the largest length, which may be the largest int64.
    largest = int(lengths[-1])
    lasts = [min(first + width - 1, largest) for first in range(start, high + 1, width)]
    begin = int(np.searchsorted(lengths, start))
    ends = np.searchsorted(lengths, np.array(lasts, np.int64), side="right").tolist()
    bins, before, first = [], begin, max(start, int(lengths[0]))
    for last, end in zip(lasts, ends, strict=True):
        bins.append(Bin(first, last, end - before))
        before, first = end, last + 1
    below = Bin(int(lengths[0]), int(lengths[begin - 1]), begin) if begin else None
    above = Bin(int(lengths[before]), largest, n - before) if before < n else None
    return Bins(below, bins, above)


def _bulk(lengths, most):
    """Return the least and the largest length that the bins should span, without outliers.

    On either side at most 1% of the lengths are outliers (one of 20 to 199), and only if the axis would have
    to be three times as long with them.
    """
    n = len(lengths)
    least, largest = int(lengths[0]), int(lengths[-1])
    if n < 20 or largest - least < most:
        return least, largest
    cut = max(1, n // 100)
    low, high = int(lengths[cut]), int(lengths[-1 - cut])
    spread = high - low
    if low - least > 2 * spread:
        least = int(lengths[np.searchsorted(lengths, low - spread // 2)])
    if largest - high > 2 * spread:
        largest = int(lengths[np.searchsorted(lengths, high + spread // 2, side="right") - 1])
    return least, largest


def _width(low, high, most):
    """Return the least width of 1, 2, 5, 10, 20, … that needs at most so many bins."""
    decade = 1
    while True:
        for width in (decade, 2 * decade, 5 * decade):
            if high // width - low // width < most:
                return width
        decade *= 10
