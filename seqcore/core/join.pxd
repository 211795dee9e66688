# Elements joined into one array.

cimport numpy as cnp
from seqcore.core.store cimport Store

cdef object join(Store *store, cnp.dtype dtype, int axis, bint stacking)
cdef object joined_view(Store *store, cnp.dtype dtype, bint stacking)
cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape)
cdef void count_strings(cnp.ndarray array) noexcept
