# A sequence as one array and numbers: values, lengths, offsets.

from libc.stdint cimport int64_t
cimport numpy as cnp
from seqcore.core.store cimport Store

cdef object values_of(Store *store, cnp.dtype dtype)
cdef object stack_of(Store *store, cnp.dtype dtype)
cdef object items_of_store(Store *store, cnp.dtype dtype)
cdef object lengths_of(Store *store, object dtype)
cdef object offsets_of(Store *store, object dtype)
cdef object segment_ids_of(Store *store, object dtype)
cdef object position_ids_of(Store *store, object dtype)
cdef object offsets_in_place(Store *store, object dtype, bint from_zero)
cdef int write_lengths(Store *store, Py_ssize_t start, Py_ssize_t stop, int64_t *into,
                       bint keep_gil=*) except -1
