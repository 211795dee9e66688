# Which elements are equal: loops over stores that see signals and let other threads in.

cimport numpy as cnp
from seqcore.core.source cimport Piece
from seqcore.core.store cimport Store

cdef bint equal_stores(Store *a, Store *b, cnp.dtype dtype) except -1
cdef Py_ssize_t find(Store *store, Py_ssize_t start, Py_ssize_t stop, const Piece *piece, cnp.dtype dtype,
                     bint locked) except -2
cdef Py_ssize_t count_equal(Store *store, const Piece *piece, cnp.dtype dtype) except -1
