# Small results of a map, moved into blocks as they arrive.

from libc.stdint cimport int64_t
cimport numpy as cnp

from seqcore.core.container cimport Container
from seqcore.core.store cimport MAX_NDIM

# -- results ---------------------------------------------------------------------------------------------
# Small results of a map, moved into blocks as they arrive.

cdef class Results:
    cdef Container output
    cdef cnp.dtype dtype
    cdef cnp.ndarray block              # items of the results that are not in the output yet
    cdef cnp.ndarray offsets            # int64: where each of them begins along axis 0, and the last one ends
    cdef char *items                    # of the block
    cdef int64_t *ends                  # of `offsets`
    cdef Py_ssize_t n                   # … how many there are
    cdef Py_ssize_t used                # … bytes of the block
    cdef Py_ssize_t capacity            # bytes that the block has
    cdef Py_ssize_t most                # results that `offsets` has room for
    cdef Py_ssize_t expected            # results to come, at most
    cdef int ndim
    cdef Py_ssize_t[MAX_NDIM] shape     # of the first of them
    cdef Py_ssize_t row                 # bytes for each position along axis 0
    cdef bint even                      # whether all are as long
    cdef int tries                      # small blocks that may still come before it gives up

    cdef int put(self, object result) except -1
    cdef bint move(self, object result, bint alone) except -1
    cdef int begin(self, cnp.ndarray array, Py_ssize_t nbytes) except -1
    cdef int fill_into(self, cnp.ndarray block, cnp.ndarray offsets) except -1
    cdef int make_room(self, Py_ssize_t nbytes) except -1
    cdef int flush(self) except -1
