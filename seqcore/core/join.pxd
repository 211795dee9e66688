# Elements copied together: into one array, or into one tight buffer that a sequence is cut from again.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer
from seqcore.core.pieces cimport Piece

cdef object join(GapBuffer *buffer, cnp.dtype dtype, int axis, bint stacking)
cdef GapBuffer *tighten(GapBuffer *buffer, cnp.dtype dtype) except NULL
cdef cnp.ndarray tight_items(GapBuffer *buffer, cnp.dtype dtype)
cdef GapBuffer *cut_like(cnp.ndarray items, GapBuffer *buffer) except NULL
cdef GapBuffer *cut_along(cnp.ndarray array, GapBuffer *buffer) except NULL
cdef bint fits_behind(const Piece *first, const Piece *piece) noexcept nogil
cdef object total_nbytes(GapBuffer *buffer)
cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape)
cdef void count_strings(cnp.ndarray array) noexcept
cdef tuple shape_of(Piece *piece)
