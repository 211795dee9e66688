# A sequence as one array and numbers: values, lengths, offsets.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer

cdef object values_view(GapBuffer *buffer, cnp.dtype dtype)
cdef object values_of(GapBuffer *buffer, cnp.dtype dtype)
cdef object stack_of(GapBuffer *buffer, cnp.dtype dtype)
cdef object lengths_of(GapBuffer *buffer, object dtype)
cdef object offsets_of(GapBuffer *buffer, object dtype)
cdef cnp.ndarray values_to_cut(object values)
cdef GapBuffer *cut_at_lengths(cnp.ndarray values, object lengths) except NULL
cdef GapBuffer *cut_at_offsets(cnp.ndarray values, object offsets) except NULL
