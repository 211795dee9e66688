"""Elements by where they lie in one array: how Arrow's arrays say what a list or a tensor is.

::

    values    [a b c d e f]
    starts    4 0 1            lengths  2 1 3           elements  [e f]  [a]  [b c d]
    offsets   0 2 6            shapes   (1, 2) (2, 2)   elements  [[a b]]  [[c d] [e f]]
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.buffer cimport (
    GapBuffer, back_of, back_size, empty_buffer, fill, new_buffer, release, size_of, slot_at,
)
from seqcore.core.container cimport new_container
from seqcore.core.owner cimport (
    Owner, hold_fresh, kept_memory, owner_like, owner_of, owner_of_pieces, pieces_of,
)
from seqcore.core.pieces cimport (
    EVEN, MAX_BYTES, MAX_NDIM, NOT_SOLID, Piece, Source, count_consecutive, extent, solid_row, step_of,
    strides_of,
)
from seqcore.core.sequence cimport TensorSequence
from seqcore.core.values cimport values_view

from seqcore.dtypes import element_type

cnp.import_array()


# -- cut ---------------------------------------------------------------------------------------------

def cut_spans(cnp.ndarray values not None, starts, lengths):
    """A sequence of stretches of an array along axis 0, in any order, shared or with gaps. O(n), no copy.

    Raises
    ------
    ValueError
        If one of them lies outside the array.
    """
    cdef cnp.ndarray own_starts = np.array(starts, np.int64, order="C", copy=True, ndmin=1)
    cdef cnp.ndarray own_lengths = np.array(lengths, np.int64, order="C", copy=True, ndmin=1)
    cdef const int64_t *start = <const int64_t *>cnp.PyArray_DATA(own_starts)
    cdef const int64_t *length = <const int64_t *>cnp.PyArray_DATA(own_lengths)
    cdef Py_ssize_t n = min(cnp.PyArray_SIZE(own_starts), cnp.PyArray_SIZE(own_lengths)), i
    cdef Py_ssize_t whole = cnp.PyArray_DIM(values, 0)
    cdef Piece *piece
    cdef GapBuffer *buffer
    cdef Owner owner
    for i in range(n):
        if start[i] < 0 or length[i] < 0 or start[i] > whole or length[i] > whole - start[i]:
            raise ValueError(f"element {i} has length {length[i]} from {start[i]} on, but values has length "
                             f"{whole}")
    dtype = element_type(values.dtype)
    if n == 0:
        return new_container(TensorSequence, dtype, empty_buffer())
    owner = owner_of_pieces(values, 0, False, n)
    buffer = new_buffer(n)
    if buffer == NULL:
        raise MemoryError(f"no memory for {n} elements")
    for i in range(n):
        piece = &pieces_of(owner)[i]
        piece.source = &owner.source
        piece.data = cnp.PyArray_BYTES(values) + start[i] * step_of(&owner.source)
        piece.length = length[i]
        buffer.slots[i] = piece
    hold_fresh(owner, n)
    fill(buffer)
    return new_container(TensorSequence, dtype, buffer)


def cut_shaped(cnp.ndarray items not None, offsets, shapes):
    """A sequence of tensors of shapes of their own, each in C order, one behind the other. O(n), no copy.

    Parameters
    ----------
    items : np.ndarray
        All items, contiguous, of rank 1.
    offsets : array of int64
        Where each element begins among them, and where the last one ends: n + 1 numbers.
    shapes : array of int64
        Of shape (n, rank).

    Raises
    ------
    ValueError
        If offsets don't rise within the items, or an element has another number of items than its shape.
    """
    cdef cnp.ndarray own_offsets = np.array(offsets, np.int64, order="C", copy=True, ndmin=1)
    cdef cnp.ndarray own_shapes = np.array(shapes, np.int64, order="C", copy=True, ndmin=2)
    cdef const int64_t *offset = <const int64_t *>cnp.PyArray_DATA(own_offsets)
    cdef int64_t *shape = <int64_t *>cnp.PyArray_DATA(own_shapes)
    cdef Py_ssize_t n = cnp.PyArray_DIM(own_shapes, 0), rank = cnp.PyArray_DIM(own_shapes, 1)
    cdef Py_ssize_t i, done = 0, run
    cdef Piece like, piece
    cdef Source model
    cdef GapBuffer *buffer
    cdef Owner owner
    cdef char *data = cnp.PyArray_BYTES(items)
    if not 0 < rank <= MAX_NDIM:
        raise ValueError(f"elements of rank {rank} are not supported: NumPy's arrays have at most {MAX_NDIM} "
                         "axes")
    if cnp.PyArray_SIZE(own_offsets) != n + 1:
        raise ValueError(f"expected {n + 1} offsets for {n} elements, got {cnp.PyArray_SIZE(own_offsets)}")
    for i in range(n):
        if offset[i] < 0 or offset[i + 1] < offset[i] or offset[i + 1] > cnp.PyArray_SIZE(items):
            raise ValueError(f"element {i} has offsets {offset[i]} to {offset[i + 1]}, but values has length "
                             f"{cnp.PyArray_SIZE(items)}")
        check_shape(shape + i * rank, rank, offset[i + 1] - offset[i], i)
    dtype = element_type(items.dtype)
    buffer = new_buffer(n)
    if buffer == NULL:
        raise MemoryError(f"no memory for {n} elements")
    model.ndim = rank
    model.axis = 0
    try:
        while done < n:
            run = count_alike(shape + done * rank, rank, n - done)
            model.shape = <Py_ssize_t *>(shape + done * rank)
            like.source = &model
            like.length = shape[done * rank]
            owner = owner_like(items, &like, run)
            for i in range(done, done + run):
                piece.source = &owner.source
                piece.data = data + offset[i] * cnp.PyArray_ITEMSIZE(items)
                piece.length = shape[i * rank]
                buffer.slots[i] = &pieces_of(owner)[i - done] if run > 1 else &owner.whole
                buffer.slots[i][0] = piece
            hold_fresh(owner, run)
            done += run
            buffer.lo = done
    except BaseException:
        release(buffer)
        raise
    fill(buffer)
    return new_container(TensorSequence, dtype, buffer)


cdef int check_shape(const int64_t *shape, Py_ssize_t rank, int64_t items, Py_ssize_t at) except -1:
    """Refuse a shape of another number of items, or one that no array can have."""
    cdef int64_t product = 1, limit = 1
    cdef Py_ssize_t axis
    for axis in range(rank):
        # NumPy counts an extent of 0 as 1 where it limits the size of an array.
        if shape[axis] < 0 or limit > (MAX_BYTES >> 4) // max(shape[axis], 1):
            raise ValueError(f"element {at} has an extent of {shape[axis]} along axis {axis}, which is out "
                             "of range")
        limit *= max(shape[axis], 1)
        product *= shape[axis]
    if product != items:
        raise ValueError(f"element {at} has {items} items, but its shape has {product}")
    return 0


cdef Py_ssize_t count_alike(const int64_t *shape, Py_ssize_t rank, Py_ssize_t n) noexcept:
    """How many shapes, from the first, differ from it along axis 0 alone."""
    cdef Py_ssize_t i, axis
    cdef int64_t room = MAX_BYTES >> 4         # an array of them all is one that can be
    for axis in range(1, rank):
        room //= max(shape[axis], 1)
    for i in range(n):
        room -= shape[i * rank]
        if room < 0:
            return max(i, 1)
        for axis in range(1, rank):
            if shape[i * rank + axis] != shape[axis]:
                return i
    return n


# -- look --------------------------------------------------------------------------------------------

def as_lists(TensorSequence sequence not None):
    """Elements that are one run of a block, as (values, offsets): the usual case, and one look at the slots.

    `values` is a view in C order. None where they are not such a run, which says nothing else about them.
    """
    cdef GapBuffer *buffer = sequence.whole()
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t n = size_of(buffer), row
    cdef Piece *first
    cdef Piece *last
    cdef Source *source
    cdef cnp.ndarray offsets
    cdef int64_t *offset
    try:
        if n == 0:
            return None
        first = slot_at(buffer, 0)[0]
        last = slot_at(buffer, n - 1)[0]
        source = first.source
        row = solid_row(source)
        if not source.tiled or row == NOT_SOLID or row == 0 or source.ndim == 0:
            return None
        if last.source != source or last - first != n - 1 or (source.axis < 0 and step_of(source) != row):
            return None
        if buffer.lo and back_size(buffer) and back_of(buffer)[0] != buffer.slots[buffer.lo - 1] + 1:
            return None
        if buffer.lo and count_consecutive(buffer.slots, buffer.lo) < buffer.lo:
            return None
        if back_size(buffer) and count_consecutive(back_of(buffer), back_size(buffer)) < back_size(buffer):
            return None
        offsets = np.empty(n + 1, np.int64)
        offset = <int64_t *>cnp.PyArray_DATA(offsets)
        with nogil:
            write_offsets(first, n, offset)
        memcpy(shape, source.shape, source.ndim * sizeof(Py_ssize_t))
        shape[0] = offset[n]
        return array_from(<PyObject *>sequence._dtype, source.ndim, shape, NULL, first.data,
                          owner_of(source)), offsets
    finally:
        release(buffer)


cdef void write_offsets(const Piece *pieces, Py_ssize_t n, int64_t *offset) noexcept nogil:
    """Where each of a run's n pieces begins along axis 0, from 0, and where the last one ends."""
    cdef const Source *source = pieces.source
    cdef Py_ssize_t i, total = 0, length = pieces.length if source.axis == 0 else source.shape[0]
    if source.axis < 0 or source.tiled == EVEN:
        for i in range(n):
            offset[i] = i * length
        offset[n] = (n - 1) * length + (pieces[n - 1].length if source.axis == 0 else length)
    else:
        offset[0] = 0
        for i in range(n):          # they are one array's, so that their sum is what can be counted
            total += pieces[i].length
            offset[i + 1] = total


def one_span(TensorSequence sequence not None):
    """Elements of rank 1 or more that are cut from one array along axis 0, as (array, starts, lengths).

    None where they are not.
    """
    cdef GapBuffer *buffer = sequence.whole()
    cdef Py_ssize_t n = size_of(buffer), step, i
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Piece *piece
    cdef Source *source
    cdef char *low = NULL
    cdef char *high = NULL
    cdef cnp.ndarray starts
    cdef cnp.ndarray lengths
    cdef int64_t *start
    cdef int64_t *length
    try:
        if n == 0:
            return None
        source = slot_at(buffer, 0)[0].source
        step = step_of(source)
        if source.axis != 0 or step <= 0:
            return None
        low = high = slot_at(buffer, 0)[0].data
        for i in range(n):
            piece = slot_at(buffer, i)[0]
            if piece.source != source:
                return None
            low = min(low, piece.data)
            high = max(high, piece.data + piece.length * step)
        starts, lengths = np.empty(n, np.int64), np.empty(n, np.int64)
        start, length = <int64_t *>cnp.PyArray_DATA(starts), <int64_t *>cnp.PyArray_DATA(lengths)
        for i in range(n):
            piece = slot_at(buffer, i)[0]
            start[i] = (piece.data - low) // step
            length[i] = piece.length
        memcpy(shape, source.shape, source.ndim * sizeof(Py_ssize_t))
        shape[0] = (high - low) // step
        array = array_from(<PyObject *>sequence._dtype, source.ndim, shape, strides_of(source), low,
                           owner_of(source))
        return array, starts, lengths
    finally:
        release(buffer)


def lie_together(TensorSequence sequence not None):
    """Whether `values` is a view of elements that stand one behind the other, rather than a copy."""
    cdef GapBuffer *buffer = sequence.whole()
    try:
        return values_view(buffer, sequence._dtype) is not None
    finally:
        release(buffer)


def shapes_of(TensorSequence sequence not None, Py_ssize_t rank):
    """The shapes of elements of one rank, as an int64 array of shape (n, rank)."""
    cdef GapBuffer *buffer = sequence.whole()
    cdef Py_ssize_t n = size_of(buffer), i
    cdef int axis
    cdef cnp.ndarray shapes
    cdef int64_t *row
    try:
        shapes = np.empty((n, rank), np.int64)
        row = <int64_t *>cnp.PyArray_DATA(shapes)
        for i in range(n):
            if slot_at(buffer, i)[0].source.ndim != rank:
                raise ValueError(f"element {i} has another rank than {rank}")
            for axis in range(rank):
                row[0] = extent(slot_at(buffer, i)[0], axis)
                row += 1
        return shapes
    finally:
        release(buffer)


def memory_bounds(TensorSequence sequence not None, Py_ssize_t most):
    """The positions at which elements of another memory begin, then n; None where these are too many."""
    cdef GapBuffer *buffer = sequence.whole()
    cdef Py_ssize_t i
    cdef Source *known = NULL
    cdef list bounds = []
    memory = None
    try:
        for i in range(size_of(buffer)):
            if slot_at(buffer, i)[0].source == known:
                continue
            known = slot_at(buffer, i)[0].source
            if i and kept_memory(known) is memory:
                continue
            memory = kept_memory(known)
            if len(bounds) == most:
                return None
            bounds.append(i)
        bounds.append(size_of(buffer))
        return bounds
    finally:
        release(buffer)
