# A sequence as one array and numbers: values, lengths, offsets.

from libc.stdint cimport int64_t
cimport numpy as cnp

from seqcore.core.store cimport Share, Store

# -- values ----------------------------------------------------------------------------------------------
# A sequence as one array and numbers: values, lengths, offsets.

cdef object values_of(Store *store, cnp.dtype dtype)
cdef object stack_of(Store *store, cnp.dtype dtype)
cdef object items_of_store(Store *store, cnp.dtype dtype)
cdef object lengths_of(Store *store, object dtype)
cdef object offsets_of(Store *store, object dtype)
cdef object segment_ids_of(Store *store, object dtype)
cdef object position_ids_of(Store *store, object dtype, object start=*)
cdef object offsets_in_place(Store *store, object dtype, bint from_zero)
cdef int write_lengths(Store *store, Py_ssize_t start, Py_ssize_t stop, int64_t *into,
                       bint keep_gil=*) except -1
cdef Py_ssize_t first_other_shape_of(Store *ours, Store *theirs) except -1

# -- like ------------------------------------------------------------------------------------------------
# Sequences of new memory whose elements are as long as another's.

cdef cnp.dtype convertible(cnp.dtype own, object dtype)
cdef Py_ssize_t count_to_cast(Store *store) except -1
cdef Share cast_some(Store *store, Py_ssize_t first, Py_ssize_t n, cnp.dtype own, object wanted)
cdef Store *store_like(cnp.ndarray items, Store *store) except NULL
cdef Store *store_along(cnp.ndarray array, Store *store) except NULL
cdef Store *compact_store(Store *store, cnp.dtype dtype, bint keep_gil=*) except NULL

# -- padding ---------------------------------------------------------------------------------------------
# Elements of different extents side by side in one array.

cdef object padded(Store *store, cnp.dtype own, object padding_value, object side, object shape,
                   object multiple_of, object truncate, object asked, object return_mask, object out)
