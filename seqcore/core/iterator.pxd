# Iterators of a container.

from seqcore.core.container cimport Container

cdef class ElementIterator:
    cdef Container sequence             # never replaced, so that threads can read it without a lock
    cdef Py_ssize_t position            # of the next element, or -1 when it has come to its end
    cdef Py_ssize_t run                 # that the last element was in, where there are runs
    cdef bint backwards
