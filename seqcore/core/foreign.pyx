"""Sequences over the numbers of files and of Arrow, which stay where they are and are checked when used.

What is checked here are the types and sizes of arrays, and the ends: from where to where values may be read.
"""

cimport numpy as cnp

from seqcore.core.arrays cimport own_view
from seqcore.core.owner cimport TableOwner
from seqcore.core.reader cimport Reader, Span, begin, next_span
from seqcore.core.sequence cimport TensorSequence, new_sequence
from seqcore.core.share cimport Share
from seqcore.core.source cimport MAX_NDIM, WHOLE, Table, owner_of
from seqcore.core.split cimport split_shaped, split_views
from seqcore.core.store cimport empty_store, size_of
from seqcore.core.table cimport offsets_table, shaped_table, store_of

from seqcore.dtypes import element_type

cnp.import_array()


cdef cnp.ndarray checked_numbers(numbers, Py_ssize_t ndim):
    cdef cnp.ndarray own = own_view(numbers)
    if own.ndim != ndim or own.dtype.kind != "i" or own.dtype.itemsize not in (4, 8) or (
            not own.dtype.isnative):
        raise TypeError(f"offsets and shapes are arrays of int32 or int64, not {own.dtype} of rank "
                        f"{own.ndim}")
    return own


def from_foreign_offsets(cnp.ndarray values not None, offsets, Py_ssize_t low, Py_ssize_t high):
    """Return a sequence of views from each offset to the next, of values that begin with number `low`. O(1).

    Each offset is checked when it is used: to be from `low` to `high`, and not below the one before it.

    Raises
    ------
    ValueError
        If there are not as many values, or no offset.
    """
    cdef cnp.ndarray numbers = checked_numbers(offsets, 1)
    values = own_view(values)
    if values.ndim == 0 or not 0 <= low <= high or high - low > cnp.PyArray_DIM(values, 0) or (
            not len(numbers)):
        raise ValueError(f"{len(numbers)} offsets from {low} to {high} don't fit values of shape "
                         f"{(<object>values).shape}")
    dtype = element_type(values.dtype)
    if len(numbers) == 1:
        return new_sequence(dtype, empty_store())
    return new_sequence(dtype, store_of(offsets_table(values, 0, numbers, low, high, False)))


def from_foreign_shapes(cnp.ndarray items not None, offsets, Py_ssize_t low, Py_ssize_t high, shapes,
                        tuple order):
    """Return a sequence of tensors of their own shapes in a row of items that begins with number `low`. O(1).

    Axis k in memory is axis order[k] of a tensor, unless that is None.
    Each tensor is checked when it is used.

    Raises
    ------
    ValueError
        If the arrays don't fit each other.
    """
    cdef cnp.ndarray numbers = checked_numbers(offsets, 1)
    cdef cnp.ndarray extents = checked_numbers(shapes, 2)
    items = own_view(items)
    if not 0 < cnp.PyArray_DIM(extents, 1) <= MAX_NDIM:
        raise ValueError(f"tensors have 1 to {MAX_NDIM} axes, not {extents.shape[1]}")
    if items.ndim != 1 or not 0 <= low <= high or high - low > len(items) or (
            len(numbers) != len(extents) + 1) or (
            not items.flags.c_contiguous) or (
            order is not None and sorted(order) != list(range(extents.shape[1]))):
        raise ValueError(f"{len(numbers)} offsets and {len(extents)} shapes don't fit {len(items)} items")
    dtype = element_type(items.dtype)
    if len(numbers) == 1:
        return new_sequence(dtype, empty_store())
    return new_sequence(dtype, store_of(shaped_table(items, numbers, low, high, extents, order)))


def from_views(cnp.ndarray values not None, starts, lengths):
    """Return a sequence of views along axis 0, in any order, shared or with gaps. O(n), no copy.

    Raises
    ------
    ValueError
        If one of them lies outside the array.
    """
    values = own_view(values)
    return new_sequence(element_type(values.dtype), split_views(values, 0, starts, lengths))


def from_shapes(cnp.ndarray items not None, offsets, shapes):
    """Return a sequence of tensors of their own shapes, each in C order, one behind the other. O(n), no copy.

    Parameters
    ----------
    items : np.ndarray
        All items, contiguous, of rank 1.
    offsets : array of int64
        The begin of each element among them, and the end of the last one: n + 1 numbers.
    shapes : array of int64
        Of shape (n, rank).

    Raises
    ------
    ValueError
        If offsets don't rise within the items, or an element has another number of items than its shape.
    """
    items = own_view(items)
    return new_sequence(element_type(items.dtype), split_shaped(items, offsets, shapes))


def mark_origin(TensorSequence sequence not None, origin):
    """Let the tables of a sequence, which nobody else has, say where in a file their elements are.

    Tables whose elements are not all there in order are left as they are: they don't tell.
    """
    cdef Share share = sequence.shared()
    cdef Reader reader
    cdef Span span
    cdef TableOwner owner
    begin(&reader, share.store, 0, size_of(share.store))
    while next_span(&reader, &span):
        if span.source.kind == WHOLE or span.first != 0 or span.step != 1 or (
                span.n != (<Table *>span.source).n):
            continue
        owner = <TableOwner><object>owner_of(span.source)
        if owner.origin is None:
            owner.origin = origin
            owner.first = reader.at - span.n


def address_of(TensorSequence sequence not None):
    """Return where the memory of the first element's table begins, without reading the element; 0 if none."""
    cdef Share share = sequence.shared()
    cdef Reader reader
    cdef Span span
    begin(&reader, share.store, 0, size_of(share.store))
    return <size_t>span.source.data if next_span(&reader, &span) else 0
