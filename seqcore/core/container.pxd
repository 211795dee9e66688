# What TensorSequence is made of: a buffer, a type and a lock.

from cpython.object cimport PyObject
cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer
from seqcore.core.pieces cimport Piece, Status

cdef extern from "Python.h":
    # With no exception given, a number that is too large becomes the largest.
    Py_ssize_t PyNumber_AsSsize_t(object number, PyObject *overflow) except? -1
    bint PyIndex_Check(object number)

cdef Py_ssize_t as_position(position) except? -1
cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=*) except -1

cdef class Container:
    cdef GapBuffer *_buffer             # never NULL; read and replaced under the lock of the object
    cdef cnp.dtype _dtype               # set once; None in an object that __init__ has not seen
    cdef object __weakref__

    cdef GapBuffer *snapshot(self) noexcept
    cdef Py_ssize_t size(self) noexcept
    cdef Piece *take(self, object tensor) except NULL
    cdef int check_initialised(self, GapBuffer *news) except -1

    cdef object element(self, Py_ssize_t at, object given)
    cdef GapBuffer *slice_of(self, object key) except NULL

    cdef int put(self, Py_ssize_t at, object given, Piece *piece) except -1
    cdef int put_behind(self, Piece *piece) except -1
    cdef int put_all_behind(self, GapBuffer *news) except -1
    cdef int replace(self, Py_ssize_t at, object given, Piece *piece) except -1
    cdef int replace_slice(self, object key, GapBuffer *news) except -1

    cdef object take_out(self, Py_ssize_t at, object given, bint wanted)
    cdef bint take_out_equal(self, Piece *wanted) except -1
    cdef int take_out_slice(self, object key) except -1
    cdef GapBuffer *take_out_all(self) noexcept

    cdef int turn_round(self) except -1
    cdef int move_together(self) except -1
