# Copies of elements, without the GIL.

from seqcore.core.source cimport Piece

cdef void copy_strided(char *out, const Py_ssize_t *out_strides, const char *data,
                       const Py_ssize_t *strides, const Py_ssize_t *shape, int ndim,
                       Py_ssize_t itemsize) noexcept nogil
cdef char *copy_piece(char *out, const Piece *piece) noexcept nogil
