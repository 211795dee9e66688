cimport numpy as cnp
from seqcore.core.reader cimport Span
from seqcore.core.store cimport Store

cdef cnp.ndarray compact_items(Store *store, cnp.dtype dtype, bint keep_gil=*)
cdef object total_nbytes(Store *store)
cdef object span_length(const Span *span, Py_ssize_t *dims)
