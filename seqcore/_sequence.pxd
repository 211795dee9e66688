# The container, as the other modules of seqcore see it.

cimport numpy as cnp
from seqcore._buffer cimport GapBuffer
from seqcore._pieces cimport Piece

cdef class TensorSequence:
    cdef GapBuffer *_buffer             # never NULL; read and replaced under the lock of the object
    cdef cnp.dtype _dtype               # set once; None in an object that __init__ has not seen
    cdef object __weakref__

    cdef GapBuffer *snapshot(self) noexcept
    cdef Piece *take(self, object tensor) except NULL
    cdef Piece *take_or_null(self, object tensor) except? NULL
    cdef Py_ssize_t first_equal(self, object tensor, Py_ssize_t start, Py_ssize_t stop) except -2
    cdef TensorSequence sliced(self, object key)
    cdef int assign_slice(self, object key, object tensors) except -1

cdef TensorSequence new_sequence(cnp.dtype dtype, GapBuffer *buffer, object cls=*)
