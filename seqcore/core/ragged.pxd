# The methods of TensorSequence about the elements together.

from seqcore.core.conversion cimport Convertible

cdef class Ragged(Convertible):
    pass
