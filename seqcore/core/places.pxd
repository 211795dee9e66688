# Where the pieces of a snapshot stand, to find them again in what others have made of the sequence since.

from libc.stdint cimport uint64_t
from seqcore.core.buffer cimport GapBuffer
from seqcore.core.pieces cimport Piece, Status

cdef struct Places:
    GapBuffer *buffer
    Py_ssize_t n                # of the elements from the first on
    Py_ssize_t *table           # 1 + a position, or 0, where the hash of its piece leads to
    int shift
    uint64_t mask
    Py_ssize_t last             # that was found

cdef Status note_places(Places *places, GapBuffer *buffer, Py_ssize_t n) noexcept nogil
cdef Py_ssize_t place_of(Places *places, const Piece *piece) noexcept nogil
cdef void forget(Places *places) noexcept nogil
cdef Status exchanged(GapBuffer *buffer, Places *places, GapBuffer *others, GapBuffer **result) noexcept
