# Copies of elements, without the GIL.

from libc.stdint cimport int64_t
cimport numpy as cnp

from seqcore.core.store cimport Piece, Status, Store

# -- copying ---------------------------------------------------------------------------------------------
# Copies of elements, without the GIL.

cdef void copy_strided(char *out, const Py_ssize_t *out_strides, const char *data,
                       const Py_ssize_t *strides, const Py_ssize_t *shape, int ndim,
                       Py_ssize_t itemsize) noexcept nogil
cdef char *copy_piece(char *out, const Piece *piece) noexcept nogil

# -- selection -------------------------------------------------------------------------------------------
# Selections: several elements at once, by their positions or by a mask.

cdef cnp.ndarray selection_of(object key, Py_ssize_t n)
cdef cnp.ndarray selection_in_rows(object key, Py_ssize_t n)
cdef bint is_mask(cnp.ndarray selection) noexcept

cdef Status select(Store *store, cnp.ndarray selection, Store **selected, Py_ssize_t *at) noexcept
cdef Status check_positions(Py_ssize_t n, const int64_t *positions, Py_ssize_t k,
                            Py_ssize_t *at) noexcept nogil
cdef Status mark(Py_ssize_t n, cnp.ndarray selection, char **marks, Py_ssize_t *marked,
                 Py_ssize_t *at) noexcept
cdef int raise_for_selection(Status status, cnp.ndarray selection, Py_ssize_t at, Py_ssize_t n) except -1

# -- split -----------------------------------------------------------------------------------------------
# Sequences made of an array and numbers: splits, and ragged layouts of others.

cdef Store *split_equal(cnp.ndarray array, int axis, Py_ssize_t length, bint drop_axis) except NULL
cdef Store *split_lengths(cnp.ndarray array, int axis, object lengths, str name) except NULL
cdef Store *split_offsets(cnp.ndarray array, object offsets) except NULL
cdef Store *split_padded(cnp.ndarray batch, object lengths, bint left) except NULL
cdef Store *split_views(cnp.ndarray array, int axis, object starts, object lengths) except NULL
cdef Store *split_shaped(cnp.ndarray items, object offsets, object shapes) except NULL

# -- join ------------------------------------------------------------------------------------------------
# Elements joined into one array.

cdef object join(Store *store, cnp.dtype dtype, int axis, bint stacking)
cdef object joined_view(Store *store, cnp.dtype dtype, bint stacking)
cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape)
cdef void count_strings(cnp.ndarray array) noexcept

# -- compact ---------------------------------------------------------------------------------------------


cdef cnp.ndarray compact_items(Store *store, cnp.dtype dtype, bint keep_gil=*)
cdef object total_nbytes(Store *store)
