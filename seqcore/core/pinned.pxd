# How much memory the elements of a sequence keep alive.

from seqcore.core.store cimport Store

cdef object pinned_nbytes(Store *store)
