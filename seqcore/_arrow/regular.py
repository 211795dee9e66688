"""Items of one shape as one array, with an axis for each level of their type."""

import contextlib

import numpy as np

from seqcore._arrow.buffers import (
    OFFSETS,
    VIEWS,
    Irregular,
    Misfit,
    check_nulls,
    integers_of,
    offsets_of,
    owner_of,
    permutation_of,
    reach_of,
    references_of,
    spans_of,
)
from seqcore._arrow.fields import BOOL, BOOL8, FIXED_SHAPE, NUMBERS, STRUCT, TRUE_BOOLS
from seqcore._arrow.text import TEXTS, read_text

_FEW = 16  # stretches of values that are read one by one


def regular(chunk, start, stop):
    """The items from `start` to `stop` as one array, with an axis for each level."""
    if chunk.field.is_encoded:
        values, indices = references_of(chunk, start, stop)
        return referred(regular, np.concatenate, start, values, indices)
    check_nulls(chunk, start, stop)
    return regular_items(chunk, start, stop)


def regular_items(chunk, start, stop):
    field, first, count = chunk.field, chunk.offset + start, stop - start
    if field.format == BOOL:
        return chunk.bits(1, first, count)
    if field.format in NUMBERS:
        values = chunk.buffer(1, NUMBERS[field.format], first, count)
        return _bools(field, values) if field.extension == BOOL8 else values
    if field.format in TEXTS:
        return read_text(chunk, first, count)
    if field.format == STRUCT:
        return of_struct(regular, chunk, start, stop)
    if field.format in OFFSETS:
        return _equal_lists(chunk, start, stop)
    return _fixed_lists(chunk, first, count)


def _bools(field, values):
    """Bytes as bools, for which NumPy wants 0 and 1; a file of ours says that it has no others."""
    if field.metadata.get(TRUE_BOOLS) or not np.any(values.view(np.uint8) > 1):
        return values.view(bool)
    return values != 0


def _fixed_lists(chunk, first, count):
    length = chunk.field.fixed_length
    try:
        values = regular(chunk.children[0], first * length, (first + count) * length)
    except Misfit as error:
        raise error.of(error.at // length - chunk.offset) from None
    values = values.reshape(count, length, *values.shape[1:])
    if chunk.field.extension != FIXED_SHAPE:
        return values
    shape = integers_of(chunk.field, "shape")
    if shape is None or min(shape, default=0) < 0 or np.prod(shape, dtype=object) != length:
        raise ValueError(f"the shape of an Arrow array of tensors of {length} items is {shape}")
    values = values.reshape(count, *shape)
    order = permutation_of(chunk.field, len(shape))
    return values if order is None else values.transpose(0, *(axis + 1 for axis in order))


def _equal_lists(chunk, start, stop):
    child = chunk.children[0]
    if chunk.field.format in VIEWS:
        return _equal_views(chunk, start, stop)
    offsets = offsets_of(chunk, start, stop)
    length = _one_length(np.diff(offsets), start)
    try:
        values = regular(child, int(offsets[0]), int(offsets[-1]))
    except Misfit as error:
        raise error.of(start + owner_of(offsets, error.at)) from None
    return values.reshape(stop - start, length, *values.shape[1:])


def _equal_views(chunk, start, stop):
    child = chunk.children[0]
    starts, lengths = spans_of(chunk, start, stop)
    low, high = reach_of(starts, lengths, child)
    length = _one_length(lengths, start)
    try:
        values = regular(child, low, high)
    except Misfit:
        rows = one_by_one(child, start, starts, lengths)
        if any(row.shape != rows[0].shape for row in rows):
            raise Irregular(start, "is ragged, or differs from others in the lengths of its lists") from None
        return np.stack(rows)
    steps = starts - low
    if not np.array_equal(steps, np.arange(len(steps)) * length):
        values = values[(steps[:, None] + np.arange(length)).reshape(-1)]
    return values.reshape(stop - start, length, *values.shape[1:])


def one_by_one(child, start, starts, lengths):
    """The arrays of views from `start` on, for what lies between them is null or of other lengths."""
    arrays = []
    for first, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        try:
            arrays.append(regular(child, first, first + length))
        except Misfit as error:
            raise error.of(start + len(arrays)) from None
    return arrays


def _one_length(lengths, start):
    """The length of all lists from `start` on, 0 of none."""
    if not lengths.size:
        return 0
    others = np.flatnonzero(lengths != lengths[0])
    if others.size:
        raise Irregular(
            start + int(others[0]),
            f"is ragged, or differs from others: there are lists of {lengths[0]} and of {lengths[others[0]]} "
            "items where all tensors have one extent",
        )
    return int(lengths[0])


def referred(read, join, start, values, indices):
    """Read what items from `start` on refer to, and give each its own.

    Values that nobody refers to may be null. Where references are scattered all values are read, once for all
    chunks that share them.
    """
    used, where = np.unique(indices, return_inverse=True)
    if not used.size:
        return read(values, 0, 0)
    breaks = np.flatnonzero(np.diff(used) != 1) + 1
    firsts, lasts = used[np.r_[0, breaks]], used[np.r_[breaks - 1, -1]]
    if len(firsts) > _FEW:
        with contextlib.suppress(Misfit):  # which may be of what nobody refers to
            return _decoded(read, values)[indices.astype(np.int64)]
    parts = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        try:
            parts.append(read(values, first, last + 1))
        except Misfit as error:
            raise error.of(start + int(np.argmax(indices == error.at))) from None
        if read is regular and parts[-1].shape[1:] != parts[0].shape[1:]:
            raise Irregular(
                start + int(np.argmax(indices == first)), "has lists of another length than others"
            )
    return join(parts)[where.reshape(-1)]


def _decoded(read, values):
    field, key = values.field, (read, values.key)
    if field.decoded is None or field.decoded[0] != key:
        # With its memory, lest another dictionary come to lie where this one did.
        field.decoded = key, values.memory, read(values, 0, values.length)
    return field.decoded[2]


def of_struct(read, chunk, start, stop):
    """The only field of a struct counts as the struct."""
    try:
        return read(chunk.children[0], chunk.offset + start, chunk.offset + stop)
    except Misfit as error:
        raise type(error)(error.at - chunk.offset, *error.args[1:]) from None
