# Elements of different extents side by side in one array, and back.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer

cdef object padded(GapBuffer *buffer, cnp.dtype dtype, object padding_value, object side, object shape,
                   object multiple_of, object truncate, object return_mask, object out)
cdef GapBuffer *cut_padded(cnp.ndarray batch, object lengths, object side) except NULL
