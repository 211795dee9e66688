# What a TensorSequence can do with all of its elements in one piece.

from seqcore.core.container cimport Container

cdef class Ragged(Container):
    pass
