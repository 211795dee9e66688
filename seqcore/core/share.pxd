# A share of a store for as long as an object lives.

from seqcore.core.store cimport Store

cdef class Share:
    cdef Store *store

cdef Share share_of(Store *store)
