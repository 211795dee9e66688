# The Python objects that own sources: they keep memory alive and are the base of every element.

from cpython.ref cimport PyObject
cimport numpy as cnp
from seqcore.core.directory cimport Slot
from seqcore.core.source cimport Piece, Source, Table

cdef class ArrayOwner:
    cdef Source source                          # first, so that owner_of finds its way back
    cdef Py_ssize_t[4] dims                     # shape and strides up to rank 2
    cdef object memory                          # what owns the data: an array, or a Keeper of another object
    cdef object more                            # None, or bytes: shape and strides of a higher rank

cdef class TableOwner:
    cdef Table table                            # first
    cdef Py_ssize_t[9] dims                     # shape, strides and a dropped axis's stride up to rank 4
    cdef object memory
    cdef object more
    cdef object numbers                         # what keeps starts and lengths alive
    cdef object origin                          # None, or which file the elements are in
    cdef Py_ssize_t first                       # which element of the file is the first one
    cdef Py_ssize_t checked_from                # OFFSETS: those of elements checked_from to checked_to rise
    cdef Py_ssize_t checked_to                  # within the values: nothing else is handed on

cdef class Keeper:
    cdef object memory

cdef void retain_source(Source *source, Py_ssize_t n) noexcept
cdef void release_source(Source *source, Py_ssize_t n) noexcept

cdef void retain_slots(const Slot *slots, Py_ssize_t n) noexcept
cdef void release_slots(const Slot *slots, Py_ssize_t n) noexcept

cdef object memory_of(cnp.ndarray array)
cdef object kept_memory(const Source *source)
cdef object kept_by(object owner)
cdef int check_type(cnp.ndarray array, cnp.dtype dtype) except -1
cdef Source *take_whole(cnp.ndarray array) except NULL
cdef object make_element(const Piece *piece, cnp.dtype dtype)
cdef bint move_element(PyObject *element, int flags, const Piece *piece, cnp.dtype dtype) noexcept
cdef object sealed(cnp.ndarray array, cnp.dtype dtype)
cdef tuple shape_of(const Piece *piece)
