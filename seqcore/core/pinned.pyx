"""How much memory the elements of a sequence keep alive."""

from libc.stdint cimport SIZE_MAX
cimport numpy as cnp
import numpy as np

from seqcore.core.buffer cimport GapBuffer, size_of, slot_at
from seqcore.core.owner cimport kept_memory
from seqcore.core.pieces cimport Piece, Source, extent, piece_nbytes, strides_of

cnp.import_array()


cdef object pinned_nbytes(GapBuffer *buffer):
    """Bytes of all memory that the elements keep alive."""
    cdef Py_ssize_t i
    cdef Piece *piece
    cdef Source *known = NULL
    cdef dict sizes = {}
    for i in range(size_of(buffer)):
        piece = slot_at(buffer, i)[0]
        if piece.source == known:
            continue
        known = piece.source
        memory = kept_memory(known)
        if id(memory) not in sizes:
            sizes[id(memory)] = nbytes_of(memory, buffer)
    return sum(sizes.values())


cdef object nbytes_of(memory, GapBuffer *buffer):
    if isinstance(memory, np.ndarray):
        return memory.nbytes
    try:
        return memoryview(memory).nbytes
    except (TypeError, ValueError, BufferError):
        pass        # not a return: see take_or_null
    return reach_in(memory, buffer)


cdef object reach_in(memory, GapBuffer *buffer):
    """Bytes from the first to the last item that elements have in memory whose size nobody knows."""
    cdef Py_ssize_t i, stride
    cdef Piece *piece
    cdef size_t low = SIZE_MAX, high = 0, first, last, reach
    cdef int axis
    for i in range(size_of(buffer)):
        piece = slot_at(buffer, i)[0]
        if kept_memory(piece.source) is not memory or piece_nbytes(piece) == 0:
            continue
        first = <size_t>piece.data
        last = first + piece.source.itemsize
        for axis in range(piece.source.ndim):
            stride = strides_of(piece.source)[axis]
            reach = product(extent(piece, axis) - 1, 0 - <size_t>stride if stride < 0 else <size_t>stride)
            # Views may be made that leave what addresses there are: there they end.
            if stride < 0:
                first -= min(first, reach)
            else:
                last += min(SIZE_MAX - last, reach)
        low = min(low, first)
        high = max(high, last)
    return high - low if high > low else 0


cdef size_t product(size_t a, size_t b) noexcept:
    return SIZE_MAX if a and b > SIZE_MAX // a else a * b
