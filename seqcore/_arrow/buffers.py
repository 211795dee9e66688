"""Read the buffers of Arrow arrays: offsets, nulls and indices.

All of them are checked. One that is out of range means that the array is damaged.
"""

import numpy as np

from seqcore._arguments.shown import shown
from seqcore.core.fields import LARGE_LIST, LARGE_LIST_VIEW, LIST, LIST_VIEW, NUMBERS, RUN_ENDS

OFFSETS = {LIST: np.int32, LIST_VIEW: np.int32, LARGE_LIST: np.int64, LARGE_LIST_VIEW: np.int64}
VIEWS = LIST_VIEW, LARGE_LIST_VIEW


class Misfit(Exception):
    """An item can't be converted: Misfit(position in its chunk, details)."""

    @property
    def at(self):
        return self.args[0]

    def of(self, at):
        """Return the same error for the item that contains this one, at another position."""
        return type(self)(at, *self.args[1:])


class Null(Misfit):
    """An item is null: Null(position, True if a value within the item is null)."""

    def of(self, at):
        return Null(at, True)


class Irregular(Misfit):
    """Lists that should have one length differ: Irregular(position, the reason)."""


def offsets_of(chunk, start, stop):
    """Return the offsets of lists in their child."""
    dtype = OFFSETS[chunk.field.format]
    check_range(chunk, start, stop)
    if start == stop:
        return np.zeros(1, dtype)
    offsets = chunk.buffer(1, dtype, chunk.offset + start, stop - start + 1)
    if offsets[0] < 0 or np.any(offsets[1:] < offsets[:-1]):
        raise ValueError("the Arrow array is damaged: the offsets of its lists decrease")
    return offsets


def raw_offsets_of(chunk, start, stop):
    """Return the offsets of lists as the array has them, and the range of the child's items that they use.

    Only the ends are checked. Each other offset must be checked when it is used.
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
    """Return the starts and lengths of list views."""
    dtype = OFFSETS[chunk.field.format]
    check_range(chunk, start, stop)
    starts, lengths = (chunk.buffer(k, dtype, chunk.offset + start, stop - start) for k in (1, 2))
    return starts.astype(np.int64), lengths.astype(np.int64)


def reach_of(starts, lengths, child):
    """Return the range of the child's items that list views refer to."""
    if np.any((starts < 0) | (lengths < 0) | (lengths > child.length) | (starts > child.length - lengths)):
        raise ValueError("the Arrow array is damaged: a list view reaches outside of its values")
    if not starts.size:
        return 0, 0
    return int(starts.min()), int((starts + lengths).max())


def references_of(chunk, start, stop):
    """Return the values of a dictionary- or run-end-encoded array, and the index of each item in them."""
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
        raise ValueError("the Arrow array is damaged: an index is outside of its dictionary")
    valid = validity_of(values, 0, values.length)
    if valid is not None and not valid[indices].all():
        raise Null(start + int(np.argmin(valid[indices])), False)
    return values, indices


def _run_ends(child):
    if child.field.format not in ("s", "i", "l"):
        raise ValueError(f"the run ends of an Arrow array must be integers, got type {child.field.type_name}")
    return child.buffer(1, NUMBERS[child.field.format], child.offset, child.length)


def check_range(chunk, start, stop):
    if not 0 <= start <= stop <= chunk.length:
        raise ValueError(
            f"the Arrow array is damaged: items {start} to {stop} are used of an array of {chunk.length} "
            "items"
        )


def check_nulls(chunk, start, stop):
    valid = validity_of(chunk, start, stop)
    if valid is not None and not valid.all():
        raise Null(start + int(np.argmin(valid)), False)


def validity_of(chunk, start, stop):
    """Return which items are not null; None if no item is null."""
    check_range(chunk, start, stop)
    if chunk.nulls == 0 or not chunk.addresses or chunk.addresses[0] == 0:
        return None
    return chunk.bits(0, chunk.offset + start, stop - start)


def owner_of(offsets, item):
    """Return the index of the list that contains an item of the child."""
    return int(np.searchsorted(offsets, item, side="right")) - 1


def integers_of(field, name):
    numbers = field.parameter(name)
    if numbers is None:
        return None
    if not isinstance(numbers, list) or not all(type(number) is int for number in numbers):
        raise ValueError(f"the {name} of {field.extension} must be a list of integers, got {shown(numbers)}")
    return numbers


def permutation_of(field, rank):
    """Return the permutation from the axes in memory to those of the tensor; None if it is the identity."""
    order = integers_of(field, "permutation")
    if order is None or order == list(range(rank)):
        return None
    if sorted(order) != list(range(rank)):
        raise ValueError(
            f"the permutation of {field.extension} must have the axes 0 to {rank - 1}, got {shown(order)}"
        )
    return order
