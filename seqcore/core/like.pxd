# Sequences of new memory whose elements are as long as another's.

cimport numpy as cnp
from seqcore.core.share cimport Share
from seqcore.core.store cimport Store

cdef cnp.dtype convertible(cnp.dtype own, object dtype)
cdef Py_ssize_t count_to_cast(Store *store) except -1
cdef Share cast_some(Store *store, Py_ssize_t first, Py_ssize_t n, cnp.dtype own, object wanted)
cdef Store *store_like(cnp.ndarray items, Store *store) except NULL
cdef Store *store_along(cnp.ndarray array, Store *store) except NULL
cdef Store *tighten(Store *store, cnp.dtype dtype, bint keep_gil=*) except NULL
