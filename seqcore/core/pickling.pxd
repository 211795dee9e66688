# A buffer taken apart into few arrays for pickle, and put together again.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer

cdef tuple take_apart(GapBuffer *buffer, cnp.dtype dtype)
cdef GapBuffer *put_together(cnp.dtype dtype, given_parts, given_table) except NULL
