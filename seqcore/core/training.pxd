# Positions sorted by length, divided into batches, and mixed.

from libc.stdint cimport int32_t, int64_t
cimport numpy as cnp

from seqcore.core.store cimport Store

# -- order -----------------------------------------------------------------------------------------------
# Positions sorted by length, divided into batches, and mixed.

ctypedef fused narrow:
    # Positions and lengths: 32 bits where they fit, which halves the memory to go through.
    int32_t
    int64_t

cdef int check_lengths(cnp.ndarray lengths, int64_t most) except -1
cdef tuple sorted_by_keys(cnp.ndarray keys, cnp.ndarray order, bint falling)

# -- rows ------------------------------------------------------------------------------------------------
# Rows of each element: windows and truncated elements as views, one row of each, running sums.

cdef Store *windows_of(Store *store, cnp.dtype dtype, Py_ssize_t size, Py_ssize_t step, bint partial,
                       bint wants_ids, list ids) except NULL
cdef Store *truncated(Store *store, cnp.dtype dtype, Py_ssize_t size, bint from_end) except NULL
cdef object rows_at(Store *store, cnp.dtype dtype, Py_ssize_t position, cnp.ndarray empty, object given)
cdef Store *accumulated(Store *store, cnp.dtype dtype, object ufunc, cnp.dtype wanted) except NULL
cdef object lengths_of_mask(cnp.ndarray mask, tuple shape, bint left)
