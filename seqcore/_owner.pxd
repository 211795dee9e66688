# Owner: the Python object around a source. It keeps the memory alive and is the base of every element.

from cpython.ref cimport PyObject
cimport numpy as cnp
from seqcore._pieces cimport Piece, Source

cdef enum:
    INLINE_NDIM = 4             # shapes and strides up to this rank are stored in the owner itself

cdef class Owner:
    cdef Source source
    cdef Piece whole                            # the one piece of a whole array
    cdef Piece *cut                             # or the block of pieces of a split; else NULL
    cdef Py_ssize_t[2 * INLINE_NDIM] dims       # shape, then strides
    cdef object memory                          # what owns the data: an array, or what it is a view of

cdef Piece *take_whole(cnp.ndarray array) except NULL
cdef Owner owner_of_pieces(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t n)
cdef void hold_fresh(Owner owner, Py_ssize_t n) noexcept
cdef object make_element(Piece *piece, cnp.dtype dtype)
cdef void hold(Piece *piece) noexcept
cdef void hold_all(Piece **slots, Py_ssize_t n) noexcept
cdef void drop(Piece *piece) noexcept
cdef void drop_all(Piece **slots, Py_ssize_t n) noexcept
