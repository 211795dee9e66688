# What a TensorSequence can do with all of its elements in one piece.

from seqcore.core.buffer cimport GapBuffer
from seqcore.core.remedies cimport Remedies

cdef class Ragged(Remedies):
    cdef GapBuffer *whole(self) except NULL
