# Owner: the Python object around a source. It keeps the memory alive and is the base of every element.

from cpython.bytes cimport PyBytes_AS_STRING
from cpython.ref cimport PyObject
cimport numpy as cnp
from seqcore.core.pieces cimport Piece, Source

cdef enum:
    INLINE_NDIM = 2             # shape and strides of whole arrays up to this rank are in the owner itself

cdef class Owner:
    cdef Source source                          # first, so that owner_of finds its way back
    cdef Piece whole                            # the one piece of a whole array
    cdef Py_ssize_t[2 * INLINE_NDIM] dims       # shape, then strides
    cdef object memory                          # what owns the data: an array, or a Keeper of another object
    cdef object more                            # None, or bytes: pieces of a split, dims of a higher rank

cdef class Keeper:
    cdef object memory

cdef class Stored:
    # What the owner of elements in a file has in place of its memory; no other owner takes it over.
    cdef object memory          # as the owner had it
    cdef object origin          # which file
    cdef Py_ssize_t first       # where in it the owner's first piece stands

cdef inline PyObject *owner_of(const Source *source) noexcept nogil:
    return <PyObject *>(<char *>source - sizeof(PyObject))

cdef inline Piece *pieces_of(Owner owner) noexcept:
    return <Piece *>PyBytes_AS_STRING(owner.more)

cdef object kept_memory(const Source *source)
cdef object kept_by(Owner owner)
cdef int check_type(cnp.ndarray array, cnp.dtype dtype) except -1
cdef Piece *take_whole(cnp.ndarray array) except NULL
cdef Owner owner_of_pieces(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t n)
cdef Owner owner_like(cnp.ndarray items, Piece *like, Py_ssize_t n)
cdef void hold_fresh(Owner owner, Py_ssize_t n) noexcept
cdef object make_element(Piece *piece, cnp.dtype dtype)
cdef object sealed(cnp.ndarray array, cnp.dtype dtype)
cdef void hold(Piece *piece) noexcept
cdef void hold_all(Piece **slots, Py_ssize_t n) noexcept
cdef void drop(Piece *piece) noexcept
cdef void drop_all(Piece **slots, Py_ssize_t n) noexcept
