"""Whether elements are equal: in shape and in value, where NaN equals nothing, as in NumPy."""

from libc.string cimport memchr
cimport numpy as cnp

from seqcore.core.buffer cimport GapBuffer, size_of, slot_at
from seqcore.core.counters cimport COMPARED_ALONE, ROWS_GATHERED, count
from seqcore.core.join cimport count_strings, new_array
from seqcore.core.owner cimport make_element
from seqcore.core.pieces cimport Piece, copy_tight, piece_nbytes, same_shape

cnp.import_array()

# NumPy compares as many bytes at once; many small elements are copied together for that.
cdef Py_ssize_t BATCH = 1 << 18


cdef bint equal_buffers(GapBuffer *a, GapBuffer *b, cnp.dtype dtype) except -1:
    cdef Py_ssize_t n = size_of(a), i, start = 0, nbytes = 0, more
    if size_of(b) != n:
        return False
    for i in range(n):
        if not same_shape(slot_at(a, i)[0], slot_at(b, i)[0]):
            return False
    for i in range(n):
        more = piece_nbytes(slot_at(a, i)[0])
        if more > BATCH:
            if not equal_values(slot_at(a, i)[0], slot_at(b, i)[0], dtype):
                return False
            more = 0
        # What has been compared on its own is left out when the batch is copied.
        nbytes += more
        if nbytes > BATCH or i == n - 1:
            if not all_hold(gathered(a, start, i + 1, nbytes, dtype)
                            == gathered(b, start, i + 1, nbytes, dtype)):
                return False
            start = i + 1
            nbytes = 0
    return True


cdef cnp.ndarray gathered(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t stop, Py_ssize_t nbytes,
                          cnp.dtype dtype):
    """The small elements from start to stop in one row."""
    cdef Py_ssize_t i, items = nbytes // dtype.itemsize
    cdef cnp.ndarray row = new_array(dtype, 1, &items)
    cdef char *end = cnp.PyArray_BYTES(row)
    for i in range(start, stop):
        if piece_nbytes(slot_at(buffer, i)[0]) <= BATCH:
            end = copy_tight(end, slot_at(buffer, i), 1)
    if dtype.type_num == cnp.NPY_OBJECT:
        count_strings(row)
    count(ROWS_GATHERED, 1)
    return row


cdef bint equal_values(Piece *a, Piece *b, cnp.dtype dtype) except -1:
    count(COMPARED_ALONE, 1)
    return all_hold(make_element(a, dtype) == make_element(b, dtype))


cdef bint all_hold(object equal) except -1:
    """Whether a comparison came out true for each item."""
    # Not .all(): where memory is short, NumPy's reductions fail without an exception of theirs.
    if not cnp.PyArray_CheckExact(equal):
        return equal                        # of scalars
    return memchr(cnp.PyArray_DATA(equal), 0, cnp.PyArray_SIZE(equal)) == NULL


cdef Py_ssize_t find(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t stop, Piece *piece,
                     cnp.dtype dtype) except -2:
    """The first position from start to stop of an element equal to the piece, or -1."""
    cdef Py_ssize_t i
    cdef Piece *element
    for i in range(start, stop):
        element = slot_at(buffer, i)[0]
        if same_shape(element, piece) and equal_values(element, piece, dtype):
            return i
    return -1
