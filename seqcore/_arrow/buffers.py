"""What the buffers of Arrow's arrays say: where lists begin, what is null, what is referred to.

Everything is checked that can be: numbers that reach outside of what there is mean that an array is damaged.
"""

import numpy as np

from seqcore._arrow.fields import LARGE_LIST, LARGE_LIST_VIEW, LIST, LIST_VIEW, NUMBERS, RUN_ENDS
from seqcore._shown import shown

OFFSETS = {LIST: np.int32, LIST_VIEW: np.int32, LARGE_LIST: np.int64, LARGE_LIST_VIEW: np.int64}
VIEWS = LIST_VIEW, LARGE_LIST_VIEW


class Misfit(Exception):
    """An item can't be what it should; Misfit(position in its chunk, more)."""

    @property
    def at(self):
        return self.args[0]

    def of(self, at):
        """The same, of the item around it at another position."""
        return type(self)(at, *self.args[1:])


class Null(Misfit):
    """An item is null; Null(position, whether it is within the item at that position)."""

    def of(self, at):
        return Null(at, True)


class Irregular(Misfit):
    """Lists that should be of one length are not; Irregular(position, what is wrong)."""


def offsets_of(chunk, start, stop):
    """Where lists begin among their child's items, and where the last one ends."""
    dtype = OFFSETS[chunk.field.format]
    check_range(chunk, start, stop)
    if start == stop:
        return np.zeros(1, dtype)
    offsets = chunk.buffer(1, dtype, chunk.offset + start, stop - start + 1)
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("the offsets of an Arrow array of lists don't rise: it is damaged")
    return offsets


def raw_offsets_of(chunk, start, stop):
    """Where lists begin, as the array says, and from where to where among their child's items they may be.

    Only the ends are checked: whoever uses another offset checks that one.
    """
    dtype = OFFSETS[chunk.field.format]
    check_range(chunk, start, stop)
    if start == stop:
        return np.zeros(1, dtype), 0, 0
    offsets = chunk.buffer(1, dtype, chunk.offset + start, stop - start + 1)
    low, high = int(offsets[0]), int(offsets[-1])
    if not 0 <= low <= high:
        raise ValueError("the offsets of an Arrow array of lists don't rise: it is damaged")
    return offsets, low, high


def spans_of(chunk, start, stop):
    """Where the lists of an array of views begin, and how long they are."""
    dtype = OFFSETS[chunk.field.format]
    check_range(chunk, start, stop)
    starts, lengths = (chunk.buffer(k, dtype, chunk.offset + start, stop - start) for k in (1, 2))
    return starts.astype(np.int64), lengths.astype(np.int64)


def reach_of(starts, lengths, child):
    """The stretch of a child's items that views see."""
    if np.any((starts < 0) | (lengths < 0) | (lengths > child.length) | (starts > child.length - lengths)):
        raise ValueError("a view of an Arrow array of lists reaches outside of its items: it is damaged")
    if not starts.size:
        return 0, 0
    return int(starts.min()), int((starts + lengths).max())


def references_of(chunk, start, stop):
    """The values that items of a dictionary or of runs refer to, and which of them each is."""
    check_range(chunk, start, stop)
    if chunk.field.format == RUN_ENDS:
        ends = _run_ends(chunk.children[0])
        positions = np.arange(chunk.offset + start, chunk.offset + stop)
        values, indices = chunk.children[1], np.searchsorted(ends, positions, side="right")
    else:
        check_nulls(chunk, start, stop)
        indices = chunk.buffer(1, NUMBERS[chunk.field.format], chunk.offset + start, stop - start)
        values = chunk.dictionary
    if indices.size and not 0 <= int(indices.min()) <= int(indices.max()) < values.length:
        raise ValueError("an Arrow array refers to a value that its dictionary does not have: it is damaged")
    valid = validity_of(values, 0, values.length)
    if valid is not None and not valid[indices].all():
        raise Null(start + int(np.argmin(valid[indices])), False)
    return values, indices


def _run_ends(child):
    if child.field.format not in ("s", "i", "l"):
        raise ValueError(f"the ends of Arrow's runs are integers, not of type {child.field.type_name}")
    return child.buffer(1, NUMBERS[child.field.format], child.offset, child.length)


def check_range(chunk, start, stop):
    if not 0 <= start <= stop <= chunk.length:
        raise ValueError(
            f"an Arrow array of {chunk.length} items is used from {start} to {stop}: it is damaged"
        )


def check_nulls(chunk, start, stop):
    valid = validity_of(chunk, start, stop)
    if valid is not None and not valid.all():
        raise Null(start + int(np.argmin(valid)), False)


def validity_of(chunk, start, stop):
    """Which items are no nulls; None where all are known to be none."""
    check_range(chunk, start, stop)
    if chunk.nulls == 0 or not chunk.addresses or chunk.addresses[0] == 0:
        return None
    return chunk.bits(0, chunk.offset + start, stop - start)


def owner_of(offsets, item):
    """The number of the list that an item of the child is in."""
    return int(np.searchsorted(offsets, item, side="right")) - 1


def integers_of(field, name):
    numbers = field.parameter(name)
    if numbers is None:
        return None
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError(f"the {name} of {field.extension} is {shown(numbers)}, no list of integers")
    return numbers


def permutation_of(field, rank):
    """How the axes in memory become those of the tensor; None where they are in order."""
    order = integers_of(field, "permutation")
    if order is None or order == list(range(rank)):
        return None
    if sorted(order) != list(range(rank)):
        raise ValueError(f"the permutation of {field.extension} is {shown(order)}, not of {rank} axes")
    return order
