# Elements joined into one array.

cimport numpy as cnp
from seqcore.core.reader cimport Span
from seqcore.core.store cimport Store

cdef object join(Store *store, cnp.dtype dtype, int axis, bint stacking)
cdef object joined_view(Store *store, cnp.dtype dtype, bint stacking)
cdef cnp.ndarray tight_items(Store *store, cnp.dtype dtype, bint keep_gil=*)
cdef object total_nbytes(Store *store)
cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape)
cdef void count_strings(cnp.ndarray array) noexcept
cdef object span_length(const Span *span, Py_ssize_t *dims)
