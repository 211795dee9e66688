# Selections: several elements at once, by their positions or by a mask.

from libc.stdint cimport int64_t
cimport numpy as cnp
from seqcore.core.source cimport Status
from seqcore.core.store cimport Store

cdef cnp.ndarray selection_of(object key, Py_ssize_t n)
cdef cnp.ndarray selection_in_rows(object key, Py_ssize_t n)
cdef bint is_mask(cnp.ndarray selection) noexcept

cdef Status select(Store *store, cnp.ndarray selection, Store **selected, Py_ssize_t *at) noexcept
cdef Status check_positions(Py_ssize_t n, const int64_t *positions, Py_ssize_t k,
                            Py_ssize_t *at) noexcept nogil
cdef Status mark(Py_ssize_t n, cnp.ndarray selection, char **marks, Py_ssize_t *marked,
                 Py_ssize_t *at) noexcept
cdef int raise_for_selection(Status status, cnp.ndarray selection, Py_ssize_t at, Py_ssize_t n) except -1
