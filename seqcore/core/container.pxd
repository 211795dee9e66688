# What TensorSequence is made of: a buffer, a type and a lock.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer
from seqcore.core.pieces cimport Piece

cdef Container new_container(object cls, cnp.dtype dtype, GapBuffer *buffer, tuple positional=*,
                             dict named=*)

cdef class Container:
    cdef GapBuffer *_buffer             # never NULL; read and replaced under the lock of the object
    cdef cnp.dtype _dtype               # set once; None in an object that __init__ has not seen
    cdef object __weakref__

    cdef bint claim(self, cnp.dtype dtype, GapBuffer *buffer) noexcept
    cdef GapBuffer *snapshot(self) noexcept
    cdef Py_ssize_t size(self) noexcept
    cdef Piece *take(self, object tensor, Py_ssize_t at=*) except NULL
    cdef int check_initialised(self, GapBuffer *news) except -1

    cdef object element(self, Py_ssize_t at, object given)
    cdef GapBuffer *slice_of(self, object key) except NULL
    cdef GapBuffer *selected_by(self, cnp.ndarray selection) except NULL

    cdef int put(self, Py_ssize_t at, object given, Piece *piece) except -1
    cdef int put_behind(self, Piece *piece) except -1
    cdef int put_all_behind(self, GapBuffer *news) except -1
    cdef int replace(self, Py_ssize_t at, object given, Piece *piece) except -1
    cdef int replace_slice(self, object key, GapBuffer *news) except -1
    cdef int replace_selected(self, cnp.ndarray selection, GapBuffer *news) except -1

    cdef object take_out(self, Py_ssize_t at, object given, bint wanted)
    cdef bint take_out_equal(self, Piece *wanted) except -1
    cdef int take_out_slice(self, object key) except -1
    cdef int take_out_selected(self, cnp.ndarray selection) except -1
    cdef GapBuffer *take_out_all(self) noexcept

    cdef int turn_round(self) except -1
    cdef int move_together(self) except -1
