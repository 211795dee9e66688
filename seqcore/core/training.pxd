# Positions sorted by length, divided into batches, and mixed.

from libc.stdint cimport int32_t, int64_t
cimport numpy as cnp

# -- order -----------------------------------------------------------------------------------------------
# Positions sorted by length, divided into batches, and mixed.

ctypedef fused narrow:
    # Positions and lengths: 32 bits where they fit, which halves the memory to go through.
    int32_t
    int64_t

cdef int check_lengths(cnp.ndarray lengths, int64_t most) except -1
cdef tuple sorted_by_keys(cnp.ndarray keys, cnp.ndarray order, bint falling)
