# Sequences of new memory whose elements are as long as another's.

cimport numpy as cnp
from seqcore.core.store cimport Store

cdef Store *store_like(cnp.ndarray items, Store *store) except NULL
cdef Store *store_along(cnp.ndarray array, Store *store) except NULL
cdef Store *tighten(Store *store, cnp.dtype dtype, bint keep_gil=*) except NULL
