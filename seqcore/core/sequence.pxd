# The sequence, as seqcore's other modules see it.

cimport numpy as cnp
from seqcore.core.ragged cimport Ragged
from seqcore.core.source cimport Source
from seqcore.core.store cimport Store

cdef class TensorSequence(Ragged):
    cdef Source *take_or_null(self, object tensor) except? NULL
    cdef Py_ssize_t first_equal(self, object tensor, Py_ssize_t start, Py_ssize_t stop) except -2

cdef TensorSequence new_sequence(cnp.dtype dtype, Store *store)
cdef cnp.ndarray selected(object key, Py_ssize_t n)
