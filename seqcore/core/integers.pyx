"""Lists of Python integers, read in one loop. A bool doesn't count as one, as it would for NumPy."""

from cpython.long cimport PyLong_CheckExact
from libc.stdint cimport int64_t
cimport numpy as cnp

import numpy as np

cnp.import_array()

cdef extern from "Python.h":
    long long PyLong_AsLongLongAndOverflow(object number, int *overflow) except? -1


def row_of_integers(items):
    """Return the integers of a list or tuple as an int64 array; None for other or too large items."""
    # A copy, which nobody else edits meanwhile.
    cdef tuple own = tuple(items)
    cdef Py_ssize_t n = len(own), i
    cdef cnp.ndarray row = np.empty(n, np.int64)
    cdef int64_t *numbers = <int64_t *>cnp.PyArray_DATA(row)
    cdef int beyond = 0
    for i in range(n):
        item = own[i]
        if not PyLong_CheckExact(item):
            return None
        numbers[i] = PyLong_AsLongLongAndOverflow(item, &beyond)
        if beyond:
            return None
    return row
