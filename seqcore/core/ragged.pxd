# The methods of TensorSequence that take all elements at once.

from seqcore.core.container cimport Container

cdef class Ragged(Container):
    pass
