# How a loop over many elements stays open to Ctrl-C, and to other threads.

from cpython.exc cimport PyErr_CheckSignals

cdef inline int let_others_in() except -1:
    """Run handlers of signals that have come, and let other threads have the GIL.

    That is foreign code: call it under no lock, and where an exception leaves everything as it was.
    """
    PyErr_CheckSignals()
    with nogil:
        pass
    return 0
