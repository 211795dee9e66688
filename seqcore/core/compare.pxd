# Whether elements are equal: in shape and in value, where NaN equals nothing, as in NumPy.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer
from seqcore.core.pieces cimport Piece

cdef bint equal_buffers(GapBuffer *a, GapBuffer *b, cnp.dtype dtype) except -1
cdef Py_ssize_t find(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t stop, Piece *piece,
                     cnp.dtype dtype) except -2
