# A store as few arrays for pickle, and back.

cimport numpy as cnp

from seqcore.core.store cimport Store

# -- pickling --------------------------------------------------------------------------------------------
# A store as few arrays for pickle, and back.

cdef tuple reduced(Store *store, cnp.dtype dtype)
cdef Store *restored(cnp.dtype dtype, parts, order) except NULL
