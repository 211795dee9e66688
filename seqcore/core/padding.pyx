"""Padding: elements of different extents side by side in one array, and back.

::

    elements      padded, side="right"    side="left"       mask
    [1 2 3]          1 2 3                  1 2 3           T T T
    [4]              4 · ·                  · · 4           T · ·

The output is gone through once, from its front to its back: for each element, the outermost axis that falls
short is filled behind (or in front of) what is copied, and so on inwards. From the innermost such axis on an
element is one block, whose copy is one `memcpy` where it lies together. For another dtype the elements are
cast some at a time, and then padded from there.
"""

from libc.string cimport memcpy, memset
cimport numpy as cnp
import numpy as np

from seqcore.core.counters cimport COPIED_WITHOUT_GIL, count
from seqcore.core.copying cimport copy_strided
from seqcore.core.join cimport count_strings, new_array
from seqcore.core.like cimport cast_some, convertible, count_to_cast
from seqcore.core.limits cimport RELEASE_FROM
from seqcore.core.owner cimport shape_of
from seqcore.core.reader cimport (
    Reader, Span, begin, fetch_data, next_block, next_pieces, raise_damaged, read_one, take_singly,
)
from seqcore.core.share cimport Share
from seqcore.core.source cimport (
    DAMAGED, MAX_BYTES, MAX_NDIM, NOT_SOLID, OFFSETS, OK, RANK_DIFFERS, Piece, Source, Status, Table, extent,
    number_at, same_layout, solid, strides_of,
)
from seqcore.core.store cimport Store, size_of

from seqcore._arguments.padding import (
    as_extents, as_padding_value, checked_out, left_side, padded_extents, rank_of_nothing,
)
from seqcore._arguments.shown import shown

cnp.import_array()

cdef struct Layout:
    # Where elements go: a place for each along the output's first axis, of this shape.
    int ndim
    Py_ssize_t itemsize
    Py_ssize_t *shape
    Py_ssize_t *strides
    bint left
    const char *value           # one item
    bint uniform                # whether all bytes of the item are alike


cdef struct Measures:
    # Measures of the elements: a number for each axis.
    int ndim
    Py_ssize_t at               # of the element at fault
    Py_ssize_t longest[MAX_NDIM]
    Py_ssize_t shortest[MAX_NDIM]


# -- the longest -------------------------------------------------------------------------------------

cdef Status measure(Store *store, Measures *measures) noexcept nogil:
    """Find the extremes of each axis."""
    cdef Reader reader
    cdef Piece *piece
    cdef Source *known = NULL
    cdef Span span
    cdef Py_ssize_t i
    cdef int axis
    for axis in range(measures.ndim):
        measures.longest[axis] = 0
        measures.shortest[axis] = MAX_BYTES
    begin(&reader, store, 0, size_of(store))
    while next_block(&reader, &span):
        if span.n and not measure_span(measures, &span, &reader):
            take_singly(&reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if same_layout(known, piece):
                axis = known.axis               # all others are as they were
                if axis >= 0:
                    note(measures, axis, piece.length)
                continue
            known = piece.source
            if known.ndim != measures.ndim:
                measures.at = reader.at - reader.n + i
                return RANK_DIFFERS
            for axis in range(measures.ndim):
                note(measures, axis, extent(piece, axis))
    measures.at = reader.at
    return DAMAGED if reader.damaged else OK


cdef bint measure_span(Measures *measures, const Span *span, Reader *reader) noexcept nogil:
    """As `measure`, for elements of a split; whether it could be done so."""
    cdef Source *source = span.source
    cdef Table *table = <Table *>source
    cdef Py_ssize_t i, start, stop, least = MAX_BYTES, most = 0
    cdef int axis
    if source.ndim != measures.ndim or source.axis < 0 or source.kind != OFFSETS or span.step != 1:
        return False
    stop = number_at(table.starts, span.first, table.width)
    for i in range(span.n):
        start = stop
        stop = number_at(table.starts, span.first + i + 1, table.width)
        if not table.low <= start <= stop <= table.high:
            return False                # the reader will find it
        least = min(least, stop - start)
        most = max(most, stop - start)
    for axis in range(measures.ndim):
        note(measures, axis, most if axis == source.axis else source.shape[axis])
    note(measures, source.axis, least)
    return True


cdef inline void note(Measures *measures, int axis, Py_ssize_t length) noexcept nogil:
    measures.longest[axis] = max(measures.longest[axis], length)
    measures.shortest[axis] = min(measures.shortest[axis], length)


cdef Py_ssize_t first_beyond(Store *store, int axis, Py_ssize_t most) noexcept nogil:
    """The first element that is longer along an axis; where that has changed meanwhile, the last one."""
    cdef Reader reader
    cdef Py_ssize_t i
    begin(&reader, store, 0, size_of(store))
    while next_pieces(&reader):
        for i in range(reader.n):
            if extent(&reader.pieces[i], axis) > most:
                return reader.at - reader.n + i
    return size_of(store) - 1


# -- filling and copying -----------------------------------------------------------------------------

cdef void fill_row(char *out, Py_ssize_t n, const Layout *to) noexcept nogil:
    """Write the padding value to n items that lie together."""
    cdef Py_ssize_t i, done, nbytes = n * to.itemsize
    if n <= 0:
        return
    if to.uniform:
        memset(out, to.value[0], nbytes)
        return
    # Each copy doubles the filled part, up to a size that stays in the nearest cache: few and plain copies.
    memcpy(out, to.value, to.itemsize)
    done = to.itemsize
    while done < nbytes:
        i = min(min(done, 4096 // to.itemsize * to.itemsize), nbytes - done)
        memcpy(out + done, out, i)
        done += i


cdef void fill_block(char *out, Py_ssize_t n, int axis, const Layout *to) noexcept nogil:
    """Write the padding value to n places along an axis, with all that they have along those behind it."""
    cdef Py_ssize_t i, together = to.itemsize, items = 1
    cdef int inner
    for inner in range(to.ndim - 1, axis, -1):
        if to.strides[inner] != together:
            break
        together *= to.shape[inner]
        items *= to.shape[inner]
    else:
        if axis >= to.ndim:
            fill_row(out, 1, to)
            return
        if to.strides[axis] == together:
            fill_row(out, n * items, to)
            return
    for i in range(n):
        fill_block(out + i * to.strides[axis], to.shape[axis + 1] if axis + 1 < to.ndim else 1, axis + 1, to)


cdef void pad_piece(char *out, const Piece *piece, const Layout *to) noexcept nogil:
    """Copy a piece to its place, and fill the rest of it."""
    cdef int last = to.ndim - 1
    # Behind the last axis on which it falls short or is cut, a piece is as its place.
    while last >= 0 and extent(piece, last) == to.shape[last]:
        last -= 1
    pad_axis(out, piece.data, piece, 0, last, to)


cdef void pad_axis(char *out, const char *data, const Piece *piece, int axis, int last,
                   const Layout *to) noexcept nogil:
    cdef Py_ssize_t i, copied, room
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef const Py_ssize_t *strides = strides_of(piece)
    cdef int inner
    if last < 0:
        copy_strided(out, to.strides, data, strides, to.shape, to.ndim, to.itemsize)
        return
    copied = min(extent(piece, axis), to.shape[axis])
    room = to.shape[axis] - copied
    if to.left:
        fill_block(out, room, axis, to)
        out += room * to.strides[axis]
    if axis < last:
        for i in range(copied):
            pad_axis(out + i * to.strides[axis], data + i * strides[axis], piece, axis + 1, last, to)
    else:
        shape[axis] = copied
        for inner in range(axis + 1, to.ndim):
            shape[inner] = to.shape[inner]
        copy_strided(out, to.strides + axis, data, strides + axis, &shape[axis], to.ndim - axis, to.itemsize)
    if not to.left:
        fill_block(out + copied * to.strides[axis], room, axis, to)


cdef Py_ssize_t plain_row(const Piece *piece, const Layout *to) noexcept nogil:
    """Items of each position along axis 0, if they lie together here and in the output; else NOT_SOLID."""
    cdef Py_ssize_t items = 1
    cdef int axis
    if to.ndim == 0 or piece.source.axis > 0 or not solid(piece):
        return NOT_SOLID
    for axis in range(to.ndim - 1, 0, -1):
        if extent(piece, axis) != to.shape[axis] or to.strides[axis] != items * to.itemsize:
            return NOT_SOLID
        items *= to.shape[axis]
    return items if to.strides[0] == items * to.itemsize else NOT_SOLID


cdef void pad_rows(char *out, const Piece *piece, Py_ssize_t items, const Layout *to) noexcept nogil:
    """As `pad_piece`, for an element of plain rows: one copy, and one fill."""
    cdef Py_ssize_t copied = min(extent(piece, 0), to.shape[0]) * items
    cdef Py_ssize_t room = to.shape[0] * items - copied
    if to.left:
        fill_row(out, room, to)
        memcpy(out + room * to.itemsize, piece.data, copied * to.itemsize)
    else:
        memcpy(out, piece.data, copied * to.itemsize)
        fill_row(out + copied * to.itemsize, room, to)


cdef Status pad_all(char *out, Py_ssize_t step, char *mask, Store *store, const Layout *to) noexcept nogil:
    """Write all elements, and, unless it is NULL, the mask. Elements that have become longer are cut."""
    cdef Reader reader
    cdef Piece *piece
    cdef Source *known = NULL
    cdef Py_ssize_t i, there, items = NOT_SOLID, width = to.shape[0] if to.ndim else 0
    begin(&reader, store, 0, size_of(store))
    while next_pieces(&reader):
        for i in range(reader.n):
            fetch_data(&reader, i)
            piece = &reader.pieces[i]
            if not same_layout(known, piece):
                known = piece.source
                items = plain_row(piece, to)
            if items != NOT_SOLID:
                pad_rows(out, piece, items, to)
            else:
                pad_piece(out, piece, to)
            out += step
            if mask != NULL:
                there = min(extent(piece, 0), width)
                memset(mask, not to.left, there if not to.left else width - there)
                memset(mask + (there if not to.left else width - there), to.left,
                       width - there if not to.left else there)
                mask += width
    return DAMAGED if reader.damaged else OK


cdef bint all_alike(const char *item, Py_ssize_t nbytes) noexcept:
    cdef Py_ssize_t i
    for i in range(1, nbytes):
        if item[i] != item[0]:
            return False
    return True


# -- the call ----------------------------------------------------------------------------------------

cdef object padded(Store *store, cnp.dtype own, object padding_value, object side, object shape,
                   object multiple_of, object truncate, object asked, object return_mask, object out):
    """See `TensorSequence.to_padded`; `asked` is the dtype asked for, or None."""
    cdef cnp.dtype dtype = own if asked is None else convertible(own, asked)
    cdef Py_ssize_t n = size_of(store)
    # Asked once: an object may answer otherwise the next time.
    cdef bint cuts = bool(truncate), wants_mask = bool(return_mask)
    if shape is not None:
        shape = as_extents("shape", shape, 0)
    if multiple_of is not None:
        multiple_of = as_extents("multiple_of", multiple_of, 1)
    cdef cnp.ndarray value = as_padding_value(padding_value, dtype)
    cdef bint left = left_side(side)
    extents = extents_of(store, shape, multiple_of, cuts)
    nbytes = dtype.itemsize
    for extent_ in (n, *extents):
        nbytes *= max(extent_, 1)
    if (nbytes > MAX_BYTES and n) or max(extents, default=0) > MAX_BYTES:
        raise ValueError(f"{n} elements padded to ({', '.join(map(shown, extents))}) would be larger than "
                         "any array can be")
    if wants_mask and not extents:
        raise ValueError("return_mask=True needs elements of rank 1 or more, but they have rank 0 and so no "
                         "length")
    result = checked_out(out, (n, *extents), dtype) if out is not None else None
    mask = np.empty((n, extents[0]), np.bool_) if wants_mask else None
    direct = result is not None and dtype.type_num != cnp.NPY_OBJECT and not overlaps(store, result)
    batch = result if direct else empty_batch(dtype, (n, *extents))
    if dtype is own:
        write(store, batch, mask, value, left)
    else:
        write_cast(store, own, batch, mask, value, left)
    if result is not None and not direct:
        result[...] = batch
    batch = batch if out is None else out
    return (batch, mask) if wants_mask else batch


cdef object empty_batch(cnp.dtype dtype, tuple shape):
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef int axis, ndim = len(shape)
    for axis in range(ndim):
        extents[axis] = shape[axis]
    return new_array(dtype, ndim, extents)


cdef list extents_of(Store *store, object shape, object multiple_of, bint cuts):
    """Return what the elements are padded to, along each axis."""
    cdef Measures measures
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t n = size_of(store), at
    cdef Status status
    cdef int axis
    measures.ndim = min(rank_of_nothing(shape, multiple_of), MAX_NDIM)
    if n:
        if not read_one(store, 0, &piece, dims):
            raise_damaged(store, 0)
        measures.ndim = piece.source.ndim
    if measures.ndim == MAX_NDIM:
        raise ValueError(f"NumPy's arrays have at most {MAX_NDIM} axes: elements of rank {measures.ndim} "
                         "can't be padded into one batch")
    with nogil:
        status = measure(store, &measures)
    if status == DAMAGED:
        raise_damaged(store, measures.at)
    if status != OK:
        read_one(store, measures.at, &piece, dims)
        other = shape_of(&piece)
        read_one(store, 0, &piece, dims)
        raise ValueError(f"element {measures.at} has shape {other}, but element 0 has shape "
                         f"{shape_of(&piece)}: elements of different ranks can't be padded into one batch")
    cdef list most = []
    cdef list least = []
    for axis in range(measures.ndim):
        most.append(measures.longest[axis])
        least.append(measures.shortest[axis] if n else 0)
    wanted = padded_extents(most, least, shape, multiple_of)
    for axis in range(measures.ndim):
        if most[axis] > wanted[axis] and not cuts:
            at = first_beyond(store, axis, wanted[axis])
            read_one(store, at, &piece, dims)
            raise ValueError(f"element {at} has shape {shape_of(&piece)}, which is longer than "
                             f"{shown(wanted[axis])} along axis {axis}: pass truncate=True to cut it, or a "
                             "larger shape")
    return wanted


cdef int write(Store *store, cnp.ndarray batch, mask, cnp.ndarray value, bint left) except -1:
    """Write the elements, and the mask unless it is None, to where nobody else reads."""
    cdef Layout to
    cdef int ndim = cnp.PyArray_NDIM(batch) - 1
    cdef bint strings = cnp.PyArray_TYPE(batch) == cnp.NPY_OBJECT
    cdef char *data = cnp.PyArray_BYTES(batch)
    cdef char *marks = NULL if mask is None else cnp.PyArray_BYTES(mask)
    cdef Status status
    to.ndim = ndim
    to.left = left
    to.itemsize = cnp.PyArray_ITEMSIZE(batch)
    to.shape = <Py_ssize_t *>cnp.PyArray_DIMS(batch) + 1
    to.strides = <Py_ssize_t *>cnp.PyArray_STRIDES(batch) + 1
    to.value = cnp.PyArray_BYTES(value)
    to.uniform = all_alike(to.value, to.itemsize)
    if strings or cnp.PyArray_NBYTES(batch) < 8 * RELEASE_FROM:
        status = pad_all(data, cnp.PyArray_STRIDE(batch, 0), marks, store, &to)
    else:
        with nogil:
            status = pad_all(data, cnp.PyArray_STRIDE(batch, 0), marks, store, &to)
        count(COPIED_WITHOUT_GIL, 1)
    if strings and status != OK:
        memset(data, 0, cnp.PyArray_NBYTES(batch))      # pointers that nobody has counted
    if status != OK:
        raise ValueError("the elements have changed in their file while they were padded: it is damaged")
    if strings:
        count_strings(batch)
    return 0


cdef int write_cast(Store *store, cnp.dtype own, cnp.ndarray batch, mask, cnp.ndarray value,
                    bint left) except -1:
    """As `write`, to another dtype: some elements at a time, so that what is cast stays in the cache."""
    cdef Py_ssize_t n = size_of(store), first = 0, some = count_to_cast(store)
    cdef Share cast
    while first < n:
        some = min(some, n - first)
        cast = cast_some(store, first, some, own, batch.dtype)
        write(cast.store, batch[first:first + some], None if mask is None else mask[first:first + some],
              value, left)
        first += some
    return 0


cdef bint overlaps(Store *store, cnp.ndarray out) noexcept:
    """Return whether an element has memory within the bounds of an array that is to be written to."""
    cdef size_t low, high, first, last
    cdef Reader reader
    cdef Piece *piece
    cdef Py_ssize_t i
    cdef int axis
    low = high = <size_t>cnp.PyArray_BYTES(out)
    for axis in range(cnp.PyArray_NDIM(out)):
        widen(&low, &high, cnp.PyArray_STRIDE(out, axis), cnp.PyArray_DIM(out, axis))
    begin(&reader, store, 0, size_of(store))
    while next_pieces(&reader):
        for i in range(reader.n):
            piece = &reader.pieces[i]
            first = last = <size_t>piece.data
            for axis in range(piece.source.ndim):
                widen(&first, &last, strides_of(piece)[axis], extent(piece, axis))
            if first < high + cnp.PyArray_ITEMSIZE(out) and low < last + piece.source.itemsize:
                return True
    return reader.damaged


cdef void widen(size_t *first, size_t *last, Py_ssize_t stride, Py_ssize_t length) noexcept nogil:
    if length > 0:
        if stride < 0:
            first[0] += (length - 1) * stride
        else:
            last[0] += (length - 1) * stride
