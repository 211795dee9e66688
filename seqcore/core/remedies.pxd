# What people type first, and a sequence has not: errors that lead on.

from seqcore.core.container cimport Container

cdef class Remedies(Container):
    pass
