# What a TensorSequence can do with all of its elements in one piece.

from seqcore.core.buffer cimport GapBuffer
from seqcore.core.container cimport Container

cdef class Ragged(Container):
    cdef GapBuffer *whole(self) except NULL
