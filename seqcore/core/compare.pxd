# Which elements are equal: loops over buffers that see signals and let other threads in.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer
from seqcore.core.pieces cimport Piece
from seqcore.core.places cimport Places

cdef bint equal_buffers(GapBuffer *a, GapBuffer *b, cnp.dtype dtype) except -1
cdef Py_ssize_t find(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t stop, Piece *piece,
                     cnp.dtype dtype) except -2
cdef Py_ssize_t find_among(GapBuffer *buffer, Places *places, Piece *piece, cnp.dtype dtype) except -2
cdef Py_ssize_t count_equal(GapBuffer *buffer, Piece *piece, cnp.dtype dtype) except -1
