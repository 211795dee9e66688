"""Sequences without the bounds between their elements: for bodies that work number by number.

Such a body gives the same for the items of many elements in a row as for each element alone, whatever their
shapes. So a block of elements goes out as one array and what comes back is cut as they were::

    elements       [[1 2] [3 4]]  [5 6]          shapes (2, 2), (2,)
    items          [1 2 3 4 5 6]
    the body's     [a b c d e f]
    cut like       [[a b] [c d]]  [e f]
"""

from cpython.ref cimport PyObject
cimport numpy as cnp

from seqcore.core.arrays cimport array_from, own_view
from seqcore.core.buffer cimport (
    GapBuffer, empty_buffer, move_all, new_buffer, release, size_of, slot_at,
)
from seqcore.core.counters cimport JOINED, LEFT_IN_PLACE, count
from seqcore.core.join cimport cut_along, cut_like, tight_items
from seqcore.core.owner cimport owner_of, sealed
from seqcore.core.pieces cimport (
    MAX_NDIM, NOT_SOLID, Piece, Source, count_consecutive, extent, same_shape, solid_row,
)
from seqcore.core.sequence cimport TensorSequence, new_sequence
from seqcore.core.values cimport stack_of

from seqcore.dtypes import element_type, type_name

cnp.import_array()


def items_of(TensorSequence sequence not None):
    """All items of the elements, each element's in C order, as a read-only array of rank 1.

    A view where the elements are cut from one array and lie one behind the other, else a copy.
    """
    cdef GapBuffer *buffer = sequence.whole()
    try:
        items = items_view(buffer, sequence._dtype)
        count(JOINED if items is None else LEFT_IN_PLACE, 1)
        if items is None:
            items = sealed(tight_items(buffer, sequence._dtype), sequence._dtype)
        return items
    finally:
        release(buffer)


cdef object items_view(GapBuffer *buffer, cnp.dtype dtype):
    cdef Py_ssize_t n = size_of(buffer), i, run, items, row
    cdef Piece *first
    cdef Piece *piece
    cdef Source *source
    if n == 0:
        return None
    first = slot_at(buffer, 0)[0]
    source = first.source
    row = solid_row(source)
    if row == NOT_SOLID or row == 0:
        return None
    with nogil:
        i = 1
        piece = first
        while i < n:
            if source.tiled and source.axis == 0 and i < buffer.lo:
                run = count_consecutive(&buffer.slots[i - 1], buffer.lo - i + 1)
                i += run - 1
                piece = buffer.slots[i - 1]
                if i == n:
                    break
            if (slot_at(buffer, i)[0].source != source
                    or slot_at(buffer, i)[0].data != piece.data + piece.length * row):
                break
            piece = slot_at(buffer, i)[0]
            i += 1
    if i < n:
        return None
    items = ((piece.data - first.data) + piece.length * row) // source.itemsize
    return array_from(<PyObject *>dtype, 1, &items, NULL, first.data, owner_of(source))


def cut_as(cnp.ndarray items not None, TensorSequence like not None):
    """A sequence whose elements have the shapes of another's, cut from a C-ordered array of their items."""
    cdef GapBuffer *buffer = like.whole()
    cdef cnp.ndarray row = (<object>items).reshape(-1)
    try:
        return new_sequence(element_type(row.dtype),
                            cut_like(row, buffer) if size_of(buffer) else empty_buffer())
    finally:
        release(buffer)


def cut_batch(cnp.ndarray array not None, TensorSequence like not None):
    """A sequence whose elements are as long along axis 0 as another's, cut from an array as long as those."""
    cdef GapBuffer *buffer = like.whole()
    try:
        array = own_view(array)             # as in values_to_cut
        return new_sequence(element_type(array.dtype), cut_along(array, buffer))
    finally:
        release(buffer)


def chained(list sequences not None):
    """One sequence of the elements of several of one type, at least one, which nobody uses afterwards."""
    cdef TensorSequence one = sequences[0]
    cdef GapBuffer *into
    cdef GapBuffer *buffer
    cdef Py_ssize_t n = 0
    if len(sequences) == 1:
        return one
    dtype = one.dtype
    for one in sequences:
        if one._dtype is not dtype:
            raise TypeError(f"sequences of dtype {type_name(dtype)} and {type_name(one._dtype)} can't be "
                            "joined")
        n += one.size()
    into = new_buffer(n)
    if into == NULL:
        raise MemoryError(f"no memory for {n} elements")
    for one in sequences:
        buffer = one.take_out_all()
        # Nothing here can fail, for there is room. What another thread has put in since does not count.
        if size_of(buffer) <= into.hi - into.lo:
            move_all(buffer, into)
        release(buffer)
    return new_sequence(dtype, into)


def stack(TensorSequence sequence not None):
    """The elements, at least one, along a new first axis: read-only, a view where they lie evenly."""
    cdef GapBuffer *buffer = sequence.whole()
    try:
        if size_of(buffer) == 0:
            raise ValueError("an empty sequence can't be stacked, because the shape of the result is unknown")
        return stack_of(buffer, sequence._dtype)
    finally:
        release(buffer)


def first_other_shape(TensorSequence a not None, TensorSequence b not None):
    """The first position at which elements of two sequences differ in shape, or their length."""
    cdef GapBuffer *ours = a.whole()
    cdef GapBuffer *theirs = b.whole()
    cdef Py_ssize_t n = min(size_of(ours), size_of(theirs)), i = 0
    try:
        with nogil:
            while i < n and same_shape(slot_at(ours, i)[0], slot_at(theirs, i)[0]):
                i += 1
        return i
    finally:
        release(ours)
        release(theirs)


def first_misfit(TensorSequence sequence not None, Py_ssize_t least, Py_ssize_t most, tuple behind not None):
    """The first position of an element whose rank is not `least` to `most`, or its last axes not `behind`.

    An extent of -1 stands for any. The length of the sequence if all fit.
    """
    cdef Py_ssize_t n, i = 0, naxes = len(behind), k
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef Source *known = NULL
    cdef Piece *piece
    cdef GapBuffer *buffer
    if naxes > MAX_NDIM:
        return 0
    for k in range(naxes):
        extents[k] = behind[k]
    buffer = sequence.whole()
    try:
        n = size_of(buffer)
        with nogil:
            while i < n:
                piece = slot_at(buffer, i)[0]
                # Elements of one source differ along its axis alone.
                if piece.source != known or known.axis >= known.ndim - naxes:
                    known = piece.source
                    if not (max(least, naxes) <= known.ndim <= most and ends_with(piece, extents, naxes)):
                        break
                if known.tiled and known.axis < known.ndim - naxes and i < buffer.lo:
                    i += count_consecutive(&buffer.slots[i], buffer.lo - i)
                else:
                    i += 1
        return i
    finally:
        release(buffer)


cdef bint ends_with(Piece *piece, const Py_ssize_t *extents, Py_ssize_t naxes) noexcept nogil:
    cdef Py_ssize_t k
    for k in range(naxes):
        if extents[k] >= 0 and extent(piece, piece.source.ndim - naxes + k) != extents[k]:
            return False
    return True
