"""Elements copied one behind the other into new memory, whatever their shapes; and how large they are.

::

    elements    [a b; c d] [e f g]
    items       a b c d e f g           each element's in C order

The caller has a share of the store. Numbers of files may change between adding up and copying, so that each
copy is checked against the room that is left, and all of it must have been written at the end.
"""

from libc.string cimport memcpy, memset
cimport numpy as cnp

from seqcore.core.copying cimport copy_piece
from seqcore.core.counters cimport COPIED_WITHOUT_GIL, RUNS_COPIED, count
from seqcore.core.join cimport count_strings, new_array
from seqcore.core.limits cimport RELEASE_FROM
from seqcore.core.reader cimport (
    Reader, Span, begin, ends_of, fetch_data, next_block, raise_damaged, take_singly,
)
from seqcore.core.source cimport (
    DAMAGED, EVEN, MAX_BYTES, NOT_SOLID, OFFSETS, OK, Piece, Source, Status, Table, resolve, row_nbytes,
    same_layout, solid_row,
)
from seqcore.core.store cimport Store, size_of

cnp.import_array()


cdef object span_length(const Span *span, Py_ssize_t *dims):
    """The positions of a span's elements together, a Python integer; None where each must be read."""
    cdef Source *source = span.source
    cdef Piece first, last
    if source.kind == EVEN:
        short = 0
        if span.first == (<Table *>source).n - 1 or (
                span.first + (span.n - 1) * span.step == (<Table *>source).n - 1):
            short = span.n if span.step == 0 else 1
        return <object>span.n * source.length - short * <object>(source.length - (<Table *>source).last)
    if source.kind != OFFSETS or span.step != 1 or not ends_of(span, &first, &last, dims):
        return None
    length = last.start + last.length - first.start
    return length if length >= 0 else None


cdef object total_nbytes(Store *store):
    """Bytes of all elements. Views of broadcast arrays can have more together than 63 bits count."""
    cdef Reader reader
    cdef Span span
    cdef Piece *piece
    cdef Source *known = NULL
    cdef Py_ssize_t i, nbytes, row = 0, total = 0
    carried = 0
    begin(&reader, store, 0, size_of(store))
    while next_block(&reader, &span):
        if span.n:
            length = span_length(&span, reader.dims)
            if length is not None:
                resolve(span.source, span.first, &reader.pieces[0], reader.dims)
                carried += length * row_nbytes(&reader.pieces[0])
                continue
            take_singly(&reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if not same_layout(known, piece):
                known = piece.source
                row = row_nbytes(piece)
            # NumPy has checked that the product fits, for the array that this is a part of.
            nbytes = row * piece.length if piece.source.axis >= 0 else row
            if nbytes > MAX_BYTES - total:
                carried += total
                total = 0
            total += nbytes
    if reader.damaged:
        raise_damaged(store, reader.at)
    return carried + total


cdef Status copy_compact(const Store *store, char *out, Py_ssize_t room) noexcept nogil:
    """Copy all elements one behind the other, each in C order, into memory of their size."""
    cdef Reader reader
    cdef Span span
    cdef Piece *piece
    cdef Piece last
    cdef Source *known = NULL
    cdef Py_ssize_t i, nbytes, row = NOT_SOLID, nblocks = 0
    begin(&reader, store, 0, size_of(store))
    while next_block(&reader, &span):
        if span.n:
            nbytes = compact_nbytes(&span, &reader.pieces[0], &last, reader.dims)
            if nbytes >= 0:
                if nbytes > room:
                    return DAMAGED
                memcpy(out, reader.pieces[0].data, nbytes)
                out += nbytes
                room -= nbytes
                nblocks += 1
                continue
            take_singly(&reader, &span)
        i = 0
        while i < reader.n:
            piece = &reader.pieces[i]
            if not same_layout(known, piece):
                known = piece.source
                row = solid_row(piece)
            fetch_data(&reader, i)
            nbytes = row_nbytes(piece) * (piece.length if piece.source.axis >= 0 else 1)
            i += 1
            if row != NOT_SOLID:
                # Those that follow in the same memory are copied with it.
                while (i < reader.n and same_layout(known, &reader.pieces[i])
                       and reader.pieces[i].data == piece.data + nbytes
                       and reader.pieces[i].length <= (room - nbytes) // max(row, 1)):
                    nbytes += row * (reader.pieces[i].length if known.axis >= 0 else 1)
                    i += 1
            if nbytes > room:
                return DAMAGED
            if row != NOT_SOLID:
                memcpy(out, piece.data, nbytes)
            else:
                copy_piece(out, piece)
            out += nbytes
            room -= nbytes
            nblocks += 1
    count(RUNS_COPIED, nblocks)
    return DAMAGED if reader.damaged or room else OK


cdef Py_ssize_t compact_nbytes(const Span *span, Piece *first, Piece *last, Py_ssize_t *dims) noexcept nogil:
    """Bytes of a span whose elements are one behind the other in C order, or -1."""
    cdef Source *source = span.source
    cdef Py_ssize_t row, length
    if span.step != 1 or (source.kind != EVEN and source.kind != OFFSETS) or (
            not ends_of(span, first, last, dims)):
        return -1
    row = solid_row(first)
    if row == NOT_SOLID or (source.axis < 0 and (<Table *>source).pitch != row):
        return -1
    if source.axis < 0:
        return span.n * row
    length = last.start - first.start
    # Without items, elements may be longer together than can be counted; there is nothing to copy.
    return 0 if row == 0 else -1 if length < 0 else (length + last.length) * row


cdef cnp.ndarray compact_items(Store *store, cnp.dtype dtype, bint keep_gil=False):
    """Return a new array of rank 1 of all items of the elements, each element's in C order."""
    cdef object nbytes = total_nbytes(store)
    cdef Status status
    if nbytes > MAX_BYTES:
        raise MemoryError(f"no memory for {nbytes} bytes of {size_of(store)} tensors")
    cdef Py_ssize_t items = nbytes // dtype.itemsize, room = nbytes
    cdef cnp.ndarray memory = new_array(dtype, 1, &items)
    cdef char *data = cnp.PyArray_BYTES(memory)
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    if strings or keep_gil or room < 8 * RELEASE_FROM:
        status = copy_compact(store, data, room)
    else:
        with nogil:
            status = copy_compact(store, data, room)
        count(COPIED_WITHOUT_GIL, 1)
    if strings and status != OK:
        memset(data, 0, room)           # pointers that nobody has counted
    if status != OK:
        raise ValueError(f"the elements of {size_of(store)} tensors have changed in their file while they "
                         "were copied")
    if strings:
        count_strings(memory)
    return memory
