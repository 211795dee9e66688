# The methods of TensorSequence that convert it to and from other forms.

from seqcore.core.container cimport Container

cdef class Convertible(Container):
    pass
