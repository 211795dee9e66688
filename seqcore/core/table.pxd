# Tables: an array, and numbers that say where in it each of many elements is.

from libc.stdint cimport int64_t
cimport numpy as cnp
from seqcore.core.owner cimport TableOwner
from seqcore.core.source cimport Piece, Status
from seqcore.core.store cimport Store

cdef TableOwner even_table(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t length)
cdef TableOwner offsets_table(cnp.ndarray array, int axis, cnp.ndarray offsets, Py_ssize_t low,
                              Py_ssize_t high, bint checked)
cdef TableOwner views_table(cnp.ndarray array, int axis, cnp.ndarray starts, cnp.ndarray lengths)
cdef TableOwner padded_table(cnp.ndarray batch, cnp.ndarray lengths, bint left)
cdef TableOwner shaped_table(cnp.ndarray items, cnp.ndarray offsets, Py_ssize_t low, Py_ssize_t high,
                             cnp.ndarray shapes, tuple order)
cdef TableOwner even_table_like(cnp.ndarray items, Py_ssize_t first, const Piece *like, Py_ssize_t n,
                                Py_ssize_t length, Py_ssize_t last)
cdef TableOwner offsets_table_like(cnp.ndarray items, Py_ssize_t first, const Piece *like,
                                   cnp.ndarray offsets)
cdef Store *store_of(TableOwner owner) except NULL
cdef TableOwner twin_of(TableOwner owner)
