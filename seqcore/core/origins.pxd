# Which elements stand in a file, and where.

from seqcore.core.buffer cimport GapBuffer

cdef object origins_of(GapBuffer *buffer)
