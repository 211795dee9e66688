# An array cut into pieces.

cimport numpy as cnp
from seqcore.core.buffer cimport GapBuffer

cdef enum:
    RELEASE_FROM = 1024         # with fewer pieces than this, giving the GIL away takes longer than the work

cdef GapBuffer *cut_equally(cnp.ndarray array, int axis, Py_ssize_t length, bint drop_axis) except NULL
cdef GapBuffer *cut_by_lengths(cnp.ndarray array, int axis, cnp.ndarray lengths, str name) except NULL
cdef GapBuffer *cut_by_offsets(cnp.ndarray array, cnp.ndarray offsets) except NULL
