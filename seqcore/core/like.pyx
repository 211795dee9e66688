"""Sequences of new memory whose elements are as long as another's: results of maps, `astype` and `compact`.

::

    elements      [[1 2] [3 4]]  [5 6]          shapes (2, 2), (2,)
    items         [a b c d e f]                 of a map's body, say
    store_like    [[a b] [c d]]  [e f]          of the same shapes
    store_along   an array as long as all elements, in parts as long as each

Elements of one rank become one table: of one length, with offsets, or, where they differ behind axis 0, with
shapes. A table's own numbers are copied: those in a file would keep it open, and may change.
"""

from libc.stdint cimport int64_t
cimport numpy as cnp
import numpy as np

from seqcore.core.compact cimport compact_items, total_nbytes
from seqcore.core.limits cimport CAST_NBYTES
from seqcore.core.owner cimport TableOwner
from seqcore.core.positions cimport raise_for
from seqcore.core.reader cimport (
    Reader, Span, begin, ends_of, next_block, next_span, raise_damaged, read_one, take_singly,
)
from seqcore.core.runs cimport add_run, finished, slice_of_store
from seqcore.core.share cimport Share, share_of
from seqcore.core.source cimport (
    EVEN, MAX_BYTES, MAX_NDIM, OFFSETS, Piece, Source, Table, extent, fits_behind, same_layout,
)
from seqcore.core.store cimport Store, empty_store, new_runs, size_of
from seqcore.core.table cimport (
    even_table, even_table_like, offsets_table, offsets_table_like, shaped_table, store_of,
)
from seqcore.core.values cimport write_lengths

from seqcore.dtypes import element_type, type_name

cnp.import_array()


cdef cnp.dtype convertible(cnp.dtype own, object dtype):
    """Return the element type that a dtype names; raise if elements of a type can't be cast to it."""
    cdef cnp.dtype wanted = element_type(dtype)
    if wanted is not own and cnp.NPY_OBJECT in (wanted.type_num, own.type_num):
        raise TypeError(f"dtype {type_name(own)} can't be converted to {type_name(wanted)}: use sequence_map "
                        "with a body that converts between strings and numbers")
    return wanted


cdef Py_ssize_t count_to_cast(Store *store) except -1:
    """Return how many elements to cast at a time, so that they stay in the cache."""
    cdef Py_ssize_t n = size_of(store)
    return max(1, min(n, n * CAST_NBYTES // max(total_nbytes(store), 1)))


cdef Share cast_some(Store *store, Py_ssize_t first, Py_ssize_t n, cnp.dtype own, object wanted):
    """Elements first to first + n cast to another type, in memory of their own."""
    cdef Store *slice_ = NULL
    cdef Share part
    raise_for(slice_of_store(store, first, 1, n, &slice_), None, n)
    part = share_of(slice_)
    return share_of(store_like((<object>compact_items(part.store, own)).astype(wanted), part.store))


cdef Store *tighten(Store *store, cnp.dtype dtype, bint keep_gil=False) except NULL:
    """The same elements in fresh memory, without space between them."""
    return store_like(compact_items(store, dtype, keep_gil), store)


cdef Store *store_like(cnp.ndarray items, Store *store) except NULL:
    """Elements of the shapes that a store's have, in a row of as many items, each in C order."""
    cdef Py_ssize_t n = size_of(store), done = 0, count, first = 0
    cdef bint alike
    cdef Store *into
    cdef TableOwner owner
    cdef list owners = []
    while done < n:
        count = count_group(store, done, &alike)
        if alike:
            owner, taken = alike_group(items, first, store, done, count)
        else:
            owner, taken = shaped_group(items, first, store, done, count)
        owners.append(owner)
        first += taken
        done += count
    if first > cnp.PyArray_SIZE(items):
        raise ValueError(f"{n} elements have {first} items together, and there are {cnp.PyArray_SIZE(items)}")
    into = new_runs(len(owners))
    if into != NULL:
        for owner in owners:
            add_run(into, &owner.table.source, 0, 1, owner.table.n)
        into = finished(into)
    if into == NULL:
        raise MemoryError(f"no memory for a sequence of {n} tensors")
    return into


cdef Py_ssize_t count_group(Store *store, Py_ssize_t start, bint *alike) except -1:
    """Return how many elements from `start` on have one rank, and whether they differ along axis 0 only."""
    cdef Reader reader
    cdef Span span
    cdef Piece first, last
    cdef Piece *piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t[2 * MAX_NDIM] other
    cdef Source *known = NULL
    cdef Py_ssize_t room, i, n
    cdef int axis
    if not read_one(store, start, &first, dims):
        raise_damaged(store, start)
    alike[0] = True
    # Elements without items may be longer together than can be counted.
    room = MAX_BYTES // first.source.itemsize
    for axis in range(1, first.source.ndim):
        room //= max(extent(&first, axis), 1)
    n = 0
    begin(&reader, store, start, size_of(store))
    while next_block(&reader, &span):
        if span.n:
            if span.source.axis == 0 and span.step == 1 and span.source.kind in (EVEN, OFFSETS) and ends_of(
                    &span, &reader.pieces[0], &last, other) and (
                    0 <= last.start - reader.pieces[0].start <= room - last.length):
                if span.source.ndim != first.source.ndim:
                    return n
                alike[0] &= fits_behind(&first, &reader.pieces[0])
                room -= last.start - reader.pieces[0].start + last.length
                n += span.n
                continue
            take_singly(&reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if not same_layout(known, piece) or known.axis > 0:
                if piece.source.ndim != first.source.ndim:
                    return n
                alike[0] &= fits_behind(&first, piece)
                known = piece.source
            if piece.source.ndim:
                if room < extent(piece, 0):
                    return max(n, 1)
                room -= extent(piece, 0)
            n += 1
    if reader.damaged:
        raise_damaged(store, reader.at)
    return n


cdef tuple alike_group(cnp.ndarray items, Py_ssize_t first, Store *store, Py_ssize_t start, Py_ssize_t n):
    """A table of n elements that are alike except for axis 0, and how many items they take."""
    cdef Reader reader
    cdef Span span
    cdef Piece like
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t row = 1, length, last, i
    cdef int64_t *each
    cdef int axis
    if not read_one(store, start, &like, dims):
        raise_damaged(store, start)
    for axis in range(1, like.source.ndim):
        row *= extent(&like, axis)
    if like.source.ndim == 0:
        return even_table_like(items, first, &like, n, 1, 1), n
    begin(&reader, store, start, start + n)
    next_span(&reader, &span)
    if span.n == n and span.source.kind == EVEN and span.step == 1:
        # All are as long as the first, except perhaps the last: there is no need to write the lengths.
        length = span.source.length if span.source.axis == 0 else like.shape[0]
        last = (<Table *>span.source).last if (
            span.source.axis == 0 and span.first + n == (<Table *>span.source).n) else length
        if n == 1:
            length = last
        if length:
            return even_table_like(items, first, &like, n, length, last), ((n - 1) * length + last) * row
    offsets = np.empty(n + 1, np.int64)
    each = <int64_t *>cnp.PyArray_DATA(offsets)
    each[0] = 0
    # With the GIL, as the sums: `move_together` relies on it where others edit all the time.
    write_lengths(store, start, start + n, each + 1, True)
    length, last = each[1], each[n]
    for i in range(n):
        each[i + 1] += each[i]
    if each[n - 1] == (n - 1) * length and is_even(each, n, length):
        return even_table_like(items, first, &like, n, length, last), each[n] * row
    return offsets_table_like(items, first, &like, offsets), each[n] * row


cdef bint is_even(const int64_t *offsets, Py_ssize_t n, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if offsets[i] != i * length:
            return False
    return 0 < offsets[n] - offsets[n - 1] <= length


cdef tuple shaped_group(cnp.ndarray items, Py_ssize_t first, Store *store, Py_ssize_t start, Py_ssize_t n):
    """A table of n elements of one rank, each of a shape of its own, and how many items they take."""
    cdef Reader reader
    cdef Span span
    cdef Piece *piece
    cdef Py_ssize_t done = 0, taken, largest, i
    cdef int rank = 0, axis
    cdef int64_t *shape
    cdef int64_t *offset
    begin(&reader, store, start, start + n)
    reader.singly = reader.stop
    while next_block(&reader, &span):
        if done == 0:
            rank = reader.pieces[0].source.ndim
            shapes, offsets = np.empty((n, rank), np.int64), np.empty(n + 1, np.int64)
            shape, offset = <int64_t *>cnp.PyArray_DATA(shapes), <int64_t *>cnp.PyArray_DATA(offsets)
            offset[0] = 0
        for i in range(reader.n):
            piece = &reader.pieces[i]
            taken = 1
            largest = cnp.PyArray_ITEMSIZE(items)
            for axis in range(rank):
                shape[axis] = extent(piece, axis)
                if largest > MAX_BYTES // max(shape[axis], 1):
                    raise ValueError("an element without items has a shape that is too large for an array of "
                                     "another dtype")
                largest *= max(shape[axis], 1)
                taken *= shape[axis]
            shape += rank
            offset[done + 1] = offset[done] + taken
            done += 1
    if reader.damaged:
        raise_damaged(store, reader.at)
    taken = offset[n]
    owner = shaped_table(items, offsets, 0, taken, shapes, None)
    (<TableOwner>owner).table.source.data += first * cnp.PyArray_ITEMSIZE(items)
    return owner, taken


cdef Store *store_along(cnp.ndarray array, Store *store) except NULL:
    """Elements as long as a store's, of an array whose axis 0 is as long as they are together.

    The sum of the lengths fits int64, because the store's elements have been joined.
    """
    cdef Py_ssize_t n = size_of(store), whole = cnp.PyArray_DIM(array, 0) if array.ndim else -1, i
    cdef Reader reader
    cdef Span span
    cdef int64_t *each
    if n == 0:
        return empty_store()
    if whole < 0:
        raise ValueError("an array of rank 0 can't be split")
    begin(&reader, store, 0, n)
    next_span(&reader, &span)
    if span.n == n and span.source.kind == EVEN and span.source.axis == 0 and span.step == 1 and (
            whole == (n - 1) * span.source.length + (
                (<Table *>span.source).last if span.first + n == (<Table *>span.source).n
                else span.source.length)):
        return store_of(even_table(array, 0, False, span.source.length))
    offsets = np.empty(n + 1, np.int64)
    each = <int64_t *>cnp.PyArray_DATA(offsets)
    each[0] = 0
    write_lengths(store, 0, n, each + 1)
    for i in range(n):
        each[i + 1] += each[i]
    if each[n] != whole:
        raise ValueError(f"the array has length {whole} along axis 0, which is not the sum of the lengths of "
                         f"{n} elements")
    return store_of(offsets_table(array, 0, offsets, 0, whole, True))
