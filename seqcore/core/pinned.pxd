# How much memory the elements of a sequence keep alive.

from seqcore.core.buffer cimport GapBuffer

cdef object pinned_nbytes(GapBuffer *buffer)
