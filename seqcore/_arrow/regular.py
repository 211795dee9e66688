"""Read items of one shape as one array, with an axis for each level of their type."""

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
from seqcore.core.arrow import read_text
from seqcore.core.fields import BOOL, BOOL8, FIXED_SHAPE, NUMBERS, STRUCT, TEXTS, TRUE_BOOLS

_FEW = 16  # ranges of values to read one by one, at most


def regular(chunk, start, stop):
    """Return the items from `start` to `stop` as one array, with an axis for each level."""
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
    """Return bytes as bools, which must be 0 or 1 for NumPy; our own files are marked to have no others."""
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
    shape = _shape_in_memory(chunk.field)
    values = values.reshape(count, *shape)
    order = permutation_of(chunk.field, len(shape))
    return values if order is None else values.transpose(0, *(axis + 1 for axis in order))


def _shape_in_memory(field):
    """Return the shape of the tensors of an `arrow.fixed_shape_tensor`, as the axes are in memory."""
    shape, length = integers_of(field, "shape"), field.fixed_length
    if shape is None or min(shape, default=0) < 0 or np.prod(shape, dtype=object) != length:
        raise ValueError(
            f"the shape of an Arrow tensor of {length} items must have that product, got {shape}"
        )
    return shape


def fixed_shape_of(field):
    """Return the shape of the tensors of an `arrow.fixed_shape_tensor`."""
    shape = _shape_in_memory(field)
    order = permutation_of(field, len(shape))
    return tuple(shape if order is None else (shape[axis] for axis in order))


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
            raise Irregular(
                start, "is ragged, or its lists differ in length from those of other elements"
            ) from None
        return np.stack(rows)
    steps = starts - low
    if not np.array_equal(steps, np.arange(len(steps)) * length):
        values = values[(steps[:, None] + np.arange(length)).reshape(-1)]
    return values.reshape(stop - start, length, *values.shape[1:])


def one_by_one(child, start, starts, lengths):
    """Return list views as single arrays, because values between them are null or have other lengths."""
    arrays = []
    for first, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        try:
            arrays.append(regular(child, first, first + length))
        except Misfit as error:
            raise error.of(start + len(arrays)) from None
    return arrays


def _one_length(lengths, start):
    """Return the common length of lists, 0 for no lists."""
    if not lengths.size:
        return 0
    others = np.flatnonzero(lengths != lengths[0])
    if others.size:
        raise Irregular(
            start + int(others[0]),
            f"is ragged, or differs from other elements: there are lists of length {lengths[0]} and of "
            f"{lengths[others[0]]} at one level",
        )
    return int(lengths[0])


def referred(read, join, start, values, indices):
    """Decode dictionary- or run-end-encoded items: read the values, and index them.

    Unused values may be null. If the used ones are scattered, all values are read, once for all chunks that
    share them.
    """
    used, where = np.unique(indices, return_inverse=True)
    if not used.size:
        return read(values, 0, 0)
    breaks = np.flatnonzero(np.diff(used) != 1) + 1
    firsts, lasts = used[np.r_[0, breaks]], used[np.r_[breaks - 1, -1]]
    if len(firsts) > _FEW:
        with contextlib.suppress(Misfit):  # of a value that may be unused
            return _decoded(read, values)[indices.astype(np.int64)]
    parts = []
    for first, last in zip(firsts.tolist(), lasts.tolist(), strict=True):
        try:
            parts.append(read(values, first, last + 1))
        except Misfit as error:
            raise error.of(start + int(np.argmax(indices == error.at))) from None
        if read is regular and parts[-1].shape[1:] != parts[0].shape[1:]:
            raise Irregular(
                start + int(np.argmax(indices == first)), "has lists of another length than other elements"
            )
    return join(parts)[where.reshape(-1)]


def _decoded(read, values):
    field, key = values.field, (read, values.key)
    if field.decoded is None or field.decoded[0] != key:
        # With its memory, so that no other dictionary can get the same address.
        field.decoded = key, values.memory, read(values, 0, values.length)
    return field.decoded[2]


def of_struct(read, chunk, start, stop):
    """Read a struct with one field as that field."""
    try:
        return read(chunk.children[0], chunk.offset + start, chunk.offset + stop)
    except Misfit as error:
        raise type(error)(error.at - chunk.offset, *error.args[1:]) from None
