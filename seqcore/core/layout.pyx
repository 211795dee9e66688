"""The layout of a sequence's elements in memory, and their shapes, for Arrow's columns and for maps."""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.join cimport joined_view
from seqcore.core.owner cimport kept_memory
from seqcore.core.reader cimport (
    Reader, Span, begin, ends_of, next_block, next_pieces, next_span, raise_damaged, take_singly,
)
from seqcore.core.sequence cimport TensorSequence
from seqcore.core.share cimport Share
from seqcore.core.source cimport (
    EVEN, MAX_NDIM, NOT_SOLID, OFFSETS, VIEWS, WHOLE, Piece, Source, Table, extent, owner_of, same_layout,
    same_shape, solid_row,
)
from seqcore.core.store cimport size_of
from seqcore.core.values cimport offsets_in_place, offsets_of

cnp.import_array()


# -- one array -----------------------------------------------------------------------------------------

def as_lists(TensorSequence sequence not None, offset_type, bint with_prefix):
    """Return the elements as (values, offsets), if they are one span of a table, one behind the other.

    `values` is a view in C order. With a prefix it may have more in front, and the first offset is then not
    0: so a table's own offsets can be used, without a look at each. None where they are not such a span,
    which says nothing else about them.
    """
    cdef Share share = sequence.whole()
    cdef Reader reader
    cdef Span span
    cdef Piece first, last
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t n = size_of(share.store), row, start
    cdef Table *table
    if n == 0:
        return None
    begin(&reader, share.store, 0, n)
    next_span(&reader, &span)
    if span.n != n or span.step != 1 or span.source.ndim == 0 or span.source.kind not in (EVEN, OFFSETS):
        return None
    table = <Table *>span.source
    if not ends_of(&span, &first, &last, reader.dims):
        raise_damaged(share.store, 0 if n == 1 else n - 1)
    row = solid_row(&first)
    if row == NOT_SOLID or row == 0 or last.start < first.start or (
            span.source.axis < 0 and table.pitch != row):
        return None
    memcpy(shape, span.source.shape, span.source.ndim * sizeof(Py_ssize_t))
    offsets = None
    start = 0
    if table.low == 0 and span.source.kind == OFFSETS:
        # As the table has them, and with them the values from the table's beginning.
        offsets = offsets_in_place(share.store, offset_type, not with_prefix)
        start = first.start if offsets is not None else 0
    if offsets is None:
        offsets = offsets_of(share.store, offset_type)
    if span.source.axis < 0:
        shape[0] *= n
    else:
        shape[0] = last.start - first.start + last.length + start
    return array_from(<PyObject *>sequence._dtype, span.source.ndim, shape, NULL,
                      first.data - start * table.step, owner_of(span.source)), offsets


def one_array(TensorSequence sequence not None):
    """Return elements of rank 1 or more that view one array along axis 0, as (array, starts, lengths).

    None where they are not.
    """
    cdef Share share = sequence.whole()
    cdef Reader reader
    cdef Piece *piece
    cdef Source *source
    cdef Py_ssize_t n = size_of(share.store), i, done = 0, low, high, step
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef cnp.ndarray starts, lengths
    cdef int64_t *start
    cdef int64_t *length
    cdef char *data = NULL
    if n == 0:
        return None
    starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
    start, length = <int64_t *>cnp.PyArray_DATA(starts), <int64_t *>cnp.PyArray_DATA(lengths)
    begin(&reader, share.store, 0, n)
    source = NULL
    low = high = step = 0
    while next_pieces(&reader):
        if source == NULL:
            source = reader.pieces[0].source
            if source.axis != 0 or source.kind not in (WHOLE, EVEN, OFFSETS, VIEWS):
                return None
            step = source.shape[source.ndim]
            if step <= 0:
                return None
            low = reader.pieces[0].start
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if piece.source != source:
                return None
            start[done] = piece.start
            length[done] = piece.length
            if piece.start <= low:
                low = piece.start
                data = piece.data
            high = max(high, piece.start + piece.length)
            done += 1
    if reader.damaged:
        raise_damaged(share.store, reader.at)
    for i in range(n):
        start[i] -= low
    memcpy(shape, source.shape, source.ndim * sizeof(Py_ssize_t))
    shape[0] = high - low
    array = array_from(<PyObject *>sequence._dtype, source.ndim, shape, source.shape + source.ndim, data,
                       owner_of(source))
    return array, starts, lengths


def lie_together(TensorSequence sequence not None):
    """Return whether `values` is a view, rather than a copy."""
    cdef Share share = sequence.whole()
    return size_of(share.store) > 0 and has_axis(share) and (
        joined_view(share.store, sequence._dtype, False) is not None)


cdef bint has_axis(Share share):
    cdef Reader reader
    begin(&reader, share.store, 0, 1)
    return next_pieces(&reader) == 0 or reader.pieces[0].source.ndim > 0


def memory_bounds(TensorSequence sequence not None, Py_ssize_t most):
    """Return the positions at which elements of another memory begin, then n; None if these are too many."""
    cdef Share share = sequence.whole()
    cdef Reader reader
    cdef Span span
    cdef Source *known = NULL
    cdef Py_ssize_t at = 0
    cdef list bounds = []
    memory = None
    begin(&reader, share.store, 0, size_of(share.store))
    while next_span(&reader, &span):
        if span.source != known:
            known = span.source
            if at == 0 or kept_memory(known) is not memory:
                memory = kept_memory(known)
                if len(bounds) == most:
                    return None
                bounds.append(at)
        at = reader.at
    bounds.append(at)
    return bounds


# -- shapes --------------------------------------------------------------------------------------------

def shapes_of(TensorSequence sequence not None, Py_ssize_t rank):
    """Return the shapes of elements of one rank, as an int64 array of shape (n, rank)."""
    cdef Share share = sequence.whole()
    cdef Reader reader
    cdef Py_ssize_t i
    cdef int axis
    cdef cnp.ndarray shapes = np.empty((size_of(share.store), rank), np.int64)
    cdef int64_t *row = <int64_t *>cnp.PyArray_DATA(shapes)
    begin(&reader, share.store, 0, size_of(share.store))
    while next_pieces(&reader):
        for i in range(reader.n):
            if reader.pieces[i].source.ndim != rank:
                raise ValueError(f"tensor {reader.at - reader.n + i} is not of rank {rank}")
            for axis in range(rank):
                row[0] = extent(&reader.pieces[i], axis)
                row += 1
    if reader.damaged:
        raise_damaged(share.store, reader.at)
    return shapes


def first_other_shape(TensorSequence a not None, TensorSequence b not None):
    """Return the first position at which elements of two sequences differ in shape, or their length."""
    cdef Share ours = a.whole()
    cdef Share theirs = b.whole()
    cdef Reader left, right
    cdef Py_ssize_t n = min(size_of(ours.store), size_of(theirs.store)), i = 0, at = 0, k = 0
    begin(&left, ours.store, 0, n)
    begin(&right, theirs.store, 0, n)
    with nogil:
        while at < n:
            if i == left.n:
                i = 0
                if not next_pieces(&left):
                    break
            if k == right.n:
                k = 0
                if not next_pieces(&right):
                    break
            if not same_shape(&left.pieces[i], &right.pieces[k]):
                break
            i += 1
            k += 1
            at += 1
    if left.damaged:
        raise_damaged(ours.store, left.at)
    if right.damaged:
        raise_damaged(theirs.store, right.at)
    return at


def first_misfit(TensorSequence sequence not None, Py_ssize_t least, Py_ssize_t most, tuple behind not None):
    """Return the first position of an element of a rank not `least` to `most`, or of last axes not `behind`.

    An extent of -1 stands for any. The length of the sequence if all fit.
    """
    cdef Share share
    cdef Py_ssize_t i, naxes = len(behind), k, n
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef Source *known = NULL
    cdef Reader reader
    cdef Span span
    cdef Piece *piece
    if naxes > MAX_NDIM:
        return 0
    for k in range(naxes):
        extents[k] = behind[k]
    share = sequence.whole()
    n = size_of(share.store)
    begin(&reader, share.store, 0, n)
    with nogil:
        while next_block(&reader, &span):
            if span.n:
                # Elements of one table differ along its axis alone, or in all extents.
                if span.source.kind in (EVEN, OFFSETS) and span.source.axis < span.source.ndim - naxes and (
                        ends_of(&span, &reader.pieces[0], &reader.pieces[1], reader.dims)):
                    if not fits(&reader.pieces[0], least, most, extents, naxes):
                        n = reader.at - span.n
                        break
                    continue
                take_singly(&reader, &span)
            for i in range(reader.n):
                piece = &reader.pieces[i]
                if same_layout(known, piece) and known.axis < known.ndim - naxes:
                    continue
                known = piece.source
                if not fits(piece, least, most, extents, naxes):
                    n = reader.at - reader.n + i
                    break
            else:
                continue
            break
    if reader.damaged:
        raise_damaged(share.store, reader.at)
    return n


cdef bint fits(const Piece *piece, Py_ssize_t least, Py_ssize_t most, const Py_ssize_t *extents,
               Py_ssize_t naxes) noexcept nogil:
    cdef Py_ssize_t k
    if not max(least, naxes) <= piece.source.ndim <= most:
        return False
    for k in range(naxes):
        if extents[k] >= 0 and extent(piece, piece.source.ndim - naxes + k) != extents[k]:
            return False
    return True
