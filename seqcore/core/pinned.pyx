"""How much memory the elements of a sequence keep alive."""

from libc.stdint cimport SIZE_MAX
cimport numpy as cnp
import numpy as np

from seqcore.core.buffer cimport GapBuffer, size_of, slot_at
from seqcore.core.owner cimport kept_memory
from seqcore.core.pieces cimport Piece, Source, extent, piece_nbytes, strides_of

cnp.import_array()


cdef struct Reach:
    # From the first to behind the last item that elements have in a memory.
    size_t low
    size_t high


cdef object pinned_nbytes(GapBuffer *buffer):
    """Bytes of all memory that the elements keep alive, in one pass."""
    cdef Py_ssize_t i
    cdef Piece *piece
    cdef Source *known = NULL
    cdef Reach reach = Reach(SIZE_MAX, 0)
    cdef dict sizes = {}                # of each memory: its size, or None where it doesn't tell
    cdef dict reaches = {}              # of each such memory, how far elements reach in it
    cdef bint told = True
    memory = None
    for i in range(size_of(buffer)):
        piece = slot_at(buffer, i)[0]
        if piece.source != known:
            if not told:
                widen(reaches, id(memory), &reach)
            known = piece.source
            memory = kept_memory(known)
            if id(memory) not in sizes:
                sizes[id(memory)] = nbytes_of(memory)
            told = sizes[id(memory)] is not None
            reach = Reach(SIZE_MAX, 0)
        if not told:
            add_piece(&reach, piece)
    if not told:
        widen(reaches, id(memory), &reach)
    total = 0
    for size in sizes.values():
        total += size or 0
    for low, high in reaches.values():
        total += high - low if high > low else 0
    return total


cdef int widen(dict reaches, key, const Reach *reach) except -1:
    low, high = reaches.get(key, (SIZE_MAX, 0))
    reaches[key] = min(low, reach.low), max(high, reach.high)
    return 0


cdef object nbytes_of(memory):
    """The size of a memory, or None where it doesn't tell."""
    if cnp.PyArray_Check(memory):       # and not what a subclass says
        return cnp.PyArray_NBYTES(memory)
    try:
        return memoryview(memory).nbytes
    except (TypeError, ValueError, BufferError):
        pass        # not a return: see take_or_null
    return None


cdef void add_piece(Reach *reach, const Piece *piece) noexcept:
    cdef Py_ssize_t stride
    cdef size_t first = <size_t>piece.data, last = first + piece.source.itemsize, far
    cdef int axis
    if piece_nbytes(piece) == 0:
        return
    for axis in range(piece.source.ndim):
        stride = strides_of(piece.source)[axis]
        far = product(extent(piece, axis) - 1, 0 - <size_t>stride if stride < 0 else <size_t>stride)
        # Views may be made that leave what addresses there are: there they end.
        if stride < 0:
            first -= min(first, far)
        else:
            last += min(SIZE_MAX - last, far)
    reach.low = min(reach.low, first)
    reach.high = max(reach.high, last)


cdef size_t product(size_t a, size_t b) noexcept:
    return SIZE_MAX if a and b > SIZE_MAX // a else a * b
