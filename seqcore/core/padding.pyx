"""Padding: elements of different extents side by side in one array, and back.

::

    elements      padded, side="right"    side="left"       mask
    [1 2 3]          1 2 3                  1 2 3           T T T
    [4]              4 · ·                  · · 4           T · ·

The output is gone through once, from its front to its back: for each element, the outermost axis that falls
short is filled behind (or in front of) what is copied, and so on inwards. From the innermost such axis on an
element is one block, whose copy is one `memcpy` where it lies together.
"""

from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport numpy as cnp
import numpy as np

from seqcore.core.buffer cimport (
    GapBuffer, back_of, back_size, empty_buffer, fill, new_buffer, release, size_of, slot_at,
)
from seqcore.core.counters cimport COPIED_WITHOUT_GIL, count
from seqcore.core.join cimport count_strings, new_array, shape_of
from seqcore.core.owner cimport Owner, hold_fresh, owner_of_pieces, pieces_of, take_whole
from seqcore.core.pieces cimport (
    MAX_BYTES, MAX_NDIM, Piece, Source, copy_strided, extent, strides_of,
)
from seqcore.core.split cimport RELEASE_FROM

from seqcore._integers import integer_row
from seqcore._padding import (
    as_extents, as_padding_value, checked_out, left_side, padded_extents, rank_of_nothing,
)
from seqcore._shown import got, shown

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


# -- the longest -------------------------------------------------------------------------------------

cdef Py_ssize_t find_longest(GapBuffer *buffer, int ndim, Py_ssize_t *longest, Py_ssize_t *shortest,
                             ) noexcept nogil:
    """The extremes of each axis; the position of an element of another rank, or the number of elements."""
    cdef Py_ssize_t n = size_of(buffer), i, length
    cdef int axis
    cdef Piece *piece
    cdef Source *known = NULL
    for axis in range(ndim):
        longest[axis] = 0
        shortest[axis] = MAX_BYTES
    for i in range(n):
        piece = slot_at(buffer, i)[0]
        if piece.source != known:
            known = piece.source
            if known.ndim != ndim:
                return i
            for axis in range(ndim):
                if axis != known.axis:
                    longest[axis] = max(longest[axis], known.shape[axis])
                    shortest[axis] = min(shortest[axis], known.shape[axis])
        if known.axis >= 0:
            length = piece.length
            longest[known.axis] = max(longest[known.axis], length)
            shortest[known.axis] = min(shortest[known.axis], length)
    return n


cdef Py_ssize_t first_beyond(GapBuffer *buffer, int axis, Py_ssize_t most) noexcept:
    cdef Py_ssize_t i
    for i in range(size_of(buffer)):
        if extent(slot_at(buffer, i)[0], axis) > most:
            return i
    return -1


# -- filling and copying -----------------------------------------------------------------------------

cdef void fill_row(char *out, Py_ssize_t n, const Layout *to) noexcept nogil:
    """Write the padding value to n items that lie together."""
    cdef Py_ssize_t i, done, nbytes = n * to.itemsize
    if n <= 0:
        return
    if to.uniform:
        memset(out, to.value[0], nbytes)
        return
    # What is written doubles, up to a size that stays in the nearest cache: few calls, each a plain copy.
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
    cdef const Py_ssize_t *strides = strides_of(piece.source)
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


cdef void pad_pieces(char *out, Py_ssize_t step, Piece **slots, Py_ssize_t n,
                     const Layout *to) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        pad_piece(out + i * step, slots[i], to)


cdef void write_mask(char *mask, Py_ssize_t width, Piece **slots, Py_ssize_t n, bint left) noexcept nogil:
    cdef Py_ssize_t i, there
    for i in range(n):
        there = min(extent(slots[i], 0), width)
        memset(mask, not left, there if not left else width - there)
        memset(mask + (there if not left else width - there), left, width - there if not left else there)
        mask += width


cdef bint all_alike(const char *item, Py_ssize_t nbytes) noexcept:
    cdef Py_ssize_t i
    for i in range(1, nbytes):
        if item[i] != item[0]:
            return False
    return True


# -- the call ----------------------------------------------------------------------------------------

cdef object padded(GapBuffer *buffer, cnp.dtype dtype, object padding_value, object side, object shape,
                   object multiple_of, object truncate, object return_mask, object out):
    """See `TensorSequence.to_padded`."""
    cdef Py_ssize_t[MAX_NDIM] longest
    cdef Py_ssize_t[MAX_NDIM] shortest
    cdef Py_ssize_t[MAX_NDIM + 1] extents
    cdef Py_ssize_t[MAX_NDIM + 1] strides
    cdef Py_ssize_t n = size_of(buffer), at, i
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    # Asked once: an object may answer otherwise the next time.
    cdef bint cuts = bool(truncate), wants_mask = bool(return_mask)
    if shape is not None:
        shape = as_extents("shape", shape, 0)
    if multiple_of is not None:
        multiple_of = as_extents("multiple_of", multiple_of, 1)
    cdef int ndim = min(rank_of_nothing(shape, multiple_of), MAX_NDIM) if n == 0 else (
        slot_at(buffer, 0)[0].source.ndim)
    cdef cnp.ndarray value = as_padding_value(padding_value, dtype)
    cdef Layout to
    cdef char *data
    cdef cnp.ndarray batch, mask
    to.left = left_side(side)
    if ndim == MAX_NDIM:
        raise ValueError(f"NumPy's arrays have at most {MAX_NDIM} axes: elements of rank {ndim} can't be "
                         "padded into one batch")
    with nogil:
        at = find_longest(buffer, ndim, longest, shortest)
    if at < n:
        raise ValueError(f"element {at} has shape {shape_of(slot_at(buffer, at)[0])}, but element 0 has "
                         f"shape {shape_of(slot_at(buffer, 0)[0])}: elements of different ranks can't be "
                         "padded into one batch")
    cdef list most = []
    cdef list least = []
    for i in range(ndim):
        most.append(longest[i])
        least.append(shortest[i] if n else 0)
    wanted = padded_extents(most, least, shape, multiple_of)
    nbytes = n * dtype.itemsize
    extents[0] = n
    for i in range(ndim):
        if most[i] > wanted[i] and not cuts:
            at = first_beyond(buffer, i, wanted[i])
            raise ValueError(f"element {at} has shape {shape_of(slot_at(buffer, at)[0])}, which is longer "
                             f"than {shown(wanted[i])} along axis {i}: pass truncate=True to cut it, or a "
                             "larger shape")
        nbytes *= max(wanted[i], 1)
        if nbytes > MAX_BYTES or wanted[i] > MAX_BYTES:
            raise ValueError(f"{n} elements padded to ({', '.join(map(shown, wanted))}) would be larger than "
                             "any array can be")
        extents[i + 1] = wanted[i]
    if wants_mask and ndim == 0:
        raise ValueError("return_mask=True needs elements of rank 1 or more, but they have rank 0 and so no "
                         "length")

    result = checked_out(out, (n, *wanted), dtype) if out is not None else None
    cdef bint direct = result is not None and not strings and not overlaps(buffer, result)
    batch = result if direct else new_array(dtype, ndim + 1, extents)
    for i in range(ndim + 1):
        strides[i] = cnp.PyArray_STRIDE(batch, i)
    to.ndim = ndim
    to.itemsize = dtype.itemsize
    to.shape = extents + 1
    to.strides = strides + 1
    to.value = cnp.PyArray_BYTES(value)
    to.uniform = all_alike(to.value, to.itemsize)
    data = cnp.PyArray_BYTES(batch)
    if strings or cnp.PyArray_NBYTES(batch) < 8 * RELEASE_FROM:
        pad_all(data, strides[0], buffer, &to)
    else:
        with nogil:
            pad_all(data, strides[0], buffer, &to)
        count(COPIED_WITHOUT_GIL, 1)
    if strings:
        count_strings(batch)
    if result is None:
        result = batch
    elif not direct:
        result[...] = batch
    if out is not None:
        result = out
    if not wants_mask:
        return result
    mask = new_array(np.dtype(np.bool_), 2, extents)
    data = cnp.PyArray_BYTES(mask)
    write_mask(data, extents[1], buffer.slots, buffer.lo, to.left)
    write_mask(data + buffer.lo * extents[1], extents[1], back_of(buffer), back_size(buffer), to.left)
    return result, mask


cdef void pad_all(char *data, Py_ssize_t step, GapBuffer *buffer, const Layout *to) noexcept nogil:
    pad_pieces(data, step, buffer.slots, buffer.lo, to)
    pad_pieces(data + buffer.lo * step, step, back_of(buffer), back_size(buffer), to)


cdef bint overlaps(GapBuffer *buffer, cnp.ndarray out) noexcept:
    """Whether an element has memory within the bounds of an array that is to be written to."""
    cdef size_t low, high, first, last
    cdef Py_ssize_t i
    cdef Piece *piece
    cdef int axis
    low = high = <size_t>cnp.PyArray_BYTES(out)
    for axis in range(cnp.PyArray_NDIM(out)):
        widen(&low, &high, cnp.PyArray_STRIDE(out, axis), cnp.PyArray_DIM(out, axis))
    for i in range(size_of(buffer)):
        piece = slot_at(buffer, i)[0]
        first = last = <size_t>piece.data
        for axis in range(piece.source.ndim):
            widen(&first, &last, strides_of(piece.source)[axis], extent(piece, axis))
        if first < high + cnp.PyArray_ITEMSIZE(out) and low < last + piece.source.itemsize:
            return True
    return False


cdef void widen(size_t *first, size_t *last, Py_ssize_t stride, Py_ssize_t length) noexcept nogil:
    if length > 0:
        if stride < 0:
            first[0] += (length - 1) * stride
        else:
            last[0] += (length - 1) * stride


# -- back --------------------------------------------------------------------------------------------

cdef bint is_mask_of_batch(cnp.ndarray lengths) noexcept:
    return lengths.ndim == 2 and cnp.PyArray_TYPE(lengths) == cnp.NPY_BOOL


cdef GapBuffer *cut_padded(cnp.ndarray batch, object lengths, object side) except NULL:
    """The elements of a padded batch, views of it: row i without its padding along axis 1."""
    cdef bint left = left_side(side)
    cdef cnp.ndarray own
    cdef const int64_t *each
    cdef Py_ssize_t n, width, i, step, row
    if batch.ndim < 2:
        raise ValueError(f"batch must have rank 2 or more, got shape {(<object>batch).shape}")
    if lengths is None:
        raise TypeError("from_padded needs lengths, one for each row of the batch; split_to_sequence(batch, "
                        "keepdims=0) makes elements of whole rows")
    if cnp.PyArray_Check(lengths) and is_mask_of_batch(lengths):
        raise TypeError(f"lengths must be integers, got {got(lengths)}, which may be a mask: "
                        "mask.sum(axis=1) gives the lengths")
    own = integer_row("lengths", lengths)
    each = <const int64_t *>cnp.PyArray_DATA(own)
    n = cnp.PyArray_DIM(batch, 0)
    width = cnp.PyArray_DIM(batch, 1)
    if cnp.PyArray_SIZE(own) != n:
        raise ValueError(f"lengths has {cnp.PyArray_SIZE(own)} items, but the batch has {n} rows")
    for i in range(n):
        if not 0 <= each[i] <= width:
            raise ValueError(f"lengths[{i}] is {each[i]}, expected 0 to {width}, the length of the batch "
                             "along axis 1")
    if n == 0:
        return empty_buffer()
    step = cnp.PyArray_STRIDE(batch, 1)
    row = cnp.PyArray_STRIDE(batch, 0)
    if n > 1 and (step <= 0 or row % step or row < width * step):
        return cut_rows(batch, own, left)
    # All rows are stretches of one long axis.
    cdef Owner owner = owner_of_pieces(batch[0], 0, False, n)
    cdef Piece *pieces = pieces_of(owner)
    cdef GapBuffer *buffer = new_buffer(n)
    if buffer == NULL:
        raise MemoryError(f"no memory for {n} elements")
    if cnp.PyArray_SIZE(batch) == 0:
        step = row = 0
    for i in range(n):
        pieces[i].source = &owner.source
        pieces[i].data = cnp.PyArray_BYTES(batch) + i * row + ((width - each[i]) * step if left else 0)
        pieces[i].length = each[i]
        buffer.slots[i] = &pieces[i]
    hold_fresh(owner, n)
    fill(buffer)
    return buffer


cdef GapBuffer *cut_rows(cnp.ndarray batch, cnp.ndarray lengths, bint left) except NULL:
    """As `cut_padded`, where rows lie in each other's way: each becomes a source of its own."""
    cdef Py_ssize_t n = cnp.PyArray_SIZE(lengths), width = cnp.PyArray_DIM(batch, 1), i
    cdef const int64_t *each = <const int64_t *>cnp.PyArray_DATA(lengths)
    cdef GapBuffer *buffer = new_buffer(n)
    if buffer == NULL:
        raise MemoryError(f"no memory for {n} elements")
    try:
        for i in range(n):
            row = batch[i, width - each[i]:] if left else batch[i, :each[i]]
            buffer.slots[i] = take_whole(row)
            buffer.lo = i + 1
    except BaseException:
        release(buffer)
        raise
    fill(buffer)
    return buffer
