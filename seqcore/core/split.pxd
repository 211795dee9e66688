# Sequences made of an array and numbers: splits, and ragged layouts of others.

cimport numpy as cnp
from seqcore.core.store cimport Store

cdef Store *split_equal(cnp.ndarray array, int axis, Py_ssize_t length, bint drop_axis) except NULL
cdef Store *split_lengths(cnp.ndarray array, int axis, object lengths, str name) except NULL
cdef Store *split_offsets(cnp.ndarray array, object offsets) except NULL
cdef Store *split_padded(cnp.ndarray batch, object lengths, bint left) except NULL
cdef Store *split_views(cnp.ndarray array, int axis, object starts, object lengths) except NULL
cdef Store *split_shaped(cnp.ndarray items, object offsets, object shapes) except NULL
