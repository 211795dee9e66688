# What a TensorSequence can do with all of its elements in one piece.

from seqcore.core.remedies cimport Remedies

cdef class Ragged(Remedies):
    pass
