# How much memory the elements of a sequence keep alive.

from seqcore.core.buffer cimport Store

cdef object pinned_nbytes(Store *store)
