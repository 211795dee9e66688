# Positions as arguments, and the exceptions that name them.

from cpython.object cimport PyObject
from seqcore.core.source cimport Status

cdef extern from "Python.h":
    # With no exception given, a number that is too large becomes the largest.
    Py_ssize_t PyNumber_AsSsize_t(object number, PyObject *overflow) except? -1
    bint PyIndex_Check(object number)

cdef Py_ssize_t as_position(position) except? -1
cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=*) except -1
