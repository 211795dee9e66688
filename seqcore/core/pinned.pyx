"""The memory that the elements of a sequence keep alive.

::

    element ── owner ── view ── np.memmap ── memoryview ── mmap     what keeps what
                                                           └── from here to there, what is counted

The last one in the chain tells where its memory is. Where it doesn't tell, or elements lie elsewhere, memory
is what lies from the first to the last of them. Memory that several have is counted once, by its addresses.
"""

from cpython.buffer cimport (
    PyBUF_RECORDS_RO, PyBuffer_Release, PyObject_CheckBuffer, PyObject_GetBuffer,
)
from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from cpython.memoryview cimport PyMemoryView_Check
from cpython.ref cimport PyObject
from libc.stdint cimport SIZE_MAX
from libc.stdlib cimport qsort
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport base_of
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.limits cimport SIGNALS_EVERY
from seqcore.core.owner cimport ArrayOwner, TableOwner, kept_by, kept_memory
from seqcore.core.reader cimport Reader, Span, begin, next_block, raise_damaged, take_singly
from seqcore.core.source cimport MAX_NDIM, Piece, Source, extent, piece_nbytes, strides_of
from seqcore.core.store cimport Store, size_of

cnp.import_array()

# The objects between the views of as_strided or sliding_window_view and their array.
cdef object STRIDED = type(np.lib.stride_tricks.as_strided(np.zeros(1)).base)


cdef struct Reach:
    # From the first to behind the last byte.
    size_t low
    size_t high

cdef struct Reaches:
    Reach *each
    Py_ssize_t n
    Py_ssize_t room
    bint rising                 # each begins where the one before it does, or behind


cdef object pinned_nbytes(Store *store):
    """Bytes of all memory that the elements keep alive, in one pass."""
    cdef Reaches reaches = Reaches(NULL, 0, 0, True)
    try:
        add_memories(&reaches, store)
        return united(&reaches)
    finally:
        PyMem_RawFree(reaches.each)


cdef int add_memories(Reaches *reaches, Store *store) except -1:
    cdef Reader reader
    cdef Span span
    cdef Py_ssize_t i, seen = 0
    cdef Source *known = NULL
    cdef Reach told = Reach(SIZE_MAX, 0), reach = Reach(SIZE_MAX, 0)
    cdef dict ends = {}                 # of chains, by the ids of their objects, and these
    cdef dict untold = {}               # of memories that don't tell, by their ids: how far elements reach
    memory = None
    begin(&reader, store, 0, size_of(store))
    while next_block(&reader, &span):
        if span.n:
            if span.source != known:
                known = span.source
                if kept_memory(known) is not memory:
                    widen(untold, memory, &reach)
                    memory = kept_memory(known)
                    told = end_of(memory, ends)
                    add_reach(reaches, &told)
            if told.low <= <size_t>known.data <= told.high:
                continue                # and so are all elements of the table
            take_singly(&reader, &span)
        seen += reader.n
        if seen >= SIGNALS_EVERY:
            seen = 0
            let_others_in()
        for i in range(reader.n):
            if reader.pieces[i].source != known:
                known = reader.pieces[i].source
                if kept_memory(known) is not memory:
                    widen(untold, memory, &reach)
                    memory = kept_memory(known)
                    told = end_of(memory, ends)
                    add_reach(reaches, &told)
            if not told.low <= <size_t>reader.pieces[i].data <= told.high:
                add_piece(&reach, &reader.pieces[i])
    if reader.damaged:
        raise_damaged(store, reader.at)
    widen(untold, memory, &reach)
    for low, high in untold.values():
        reach = Reach(low, high)
        add_reach(reaches, &reach)
    return 0


cdef int widen(dict untold, memory, Reach *reach) except -1:
    """Note how far elements reach in a memory, and begin anew."""
    if reach.low < reach.high:
        low, high = untold.get(id(memory), (SIZE_MAX, 0))
        untold[id(memory)] = min(low, reach.low), max(high, reach.high)
    reach[0] = Reach(SIZE_MAX, 0)
    return 0


# -- who keeps whom ----------------------------------------------------------------------------------

cdef Reach end_of(memory, dict ends) except *:
    """The memory that an object leads to, or none where that doesn't tell."""
    cdef Reach reach
    cdef list chain = []
    if cnp.PyArray_Check(memory) and keeper_of(memory) is None:
        # The usual case, an array of its own memory, is worth no note.
        return reach_of_array(memory)
    keeper = memory
    # Views of views may be long chains, with elements at each link: no link is followed twice.
    while keeper is not None and id(keeper) not in ends:
        ends[id(keeper)] = SIZE_MAX, 0, keeper
        chain.append(keeper)
        keeper = keeper_of(keeper)
    if keeper is None:
        reach = reach_of(chain[-1])
    else:
        low, high, _ = ends[id(keeper)]
        reach = Reach(low, high)
    for keeper in chain:
        ends[id(keeper)] = reach.low, reach.high, keeper
    return reach


cdef object keeper_of(memory):
    """Return who keeps the memory that an object shows, or None where it does so itself, or doesn't tell."""
    cdef PyObject *base
    if cnp.PyArray_Check(memory):
        base = NULL if cnp.PyArray_CHKFLAGS(memory, cnp.NPY_ARRAY_OWNDATA) else base_of(memory)
        return <object>base if base != NULL else None
    if type(memory) is ArrayOwner or type(memory) is TableOwner:
        return kept_by(memory)
    if PyMemoryView_Check(memory):
        try:
            return memory.obj
        except ValueError:          # it was released: NumPy doesn't hold it
            pass        # not a return: see take_or_null
        return None
    return memory.base if type(memory) is STRIDED else None


cdef Reach reach_of(memory) except *:
    """Return where the memory is that an object has, or Reach(SIZE_MAX, 0) where it doesn't tell."""
    cdef Py_buffer view
    cdef Py_ssize_t one = 1
    cdef Reach reach = Reach(SIZE_MAX, 0)
    if cnp.PyArray_Check(memory):
        return reach_of_array(memory)
    if not PyObject_CheckBuffer(memory):
        return reach
    try:
        PyObject_GetBuffer(memory, &view, PyBUF_RECORDS_RO)
        # ctypes gives no strides, though they are asked for: then all lies in C order.
        if view.shape == NULL or view.strides == NULL:
            add_items(&reach, <char *>view.buf, 1, &view.len, &one, 1)
        else:
            add_items(&reach, <char *>view.buf, view.ndim, view.shape, view.strides, view.itemsize)
        PyBuffer_Release(&view)
    except (TypeError, ValueError, BufferError):
        pass        # not a return: see take_or_null
    return reach


cdef Reach reach_of_array(cnp.ndarray array) noexcept:
    cdef Reach reach = Reach(SIZE_MAX, 0)
    add_items(&reach, cnp.PyArray_BYTES(array), cnp.PyArray_NDIM(array),
              <Py_ssize_t *>cnp.PyArray_DIMS(array), <Py_ssize_t *>cnp.PyArray_STRIDES(array),
              cnp.PyArray_ITEMSIZE(array))
    return reach


# -- addresses ---------------------------------------------------------------------------------------

cdef void add_piece(Reach *reach, const Piece *piece) noexcept:
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef int axis
    if piece_nbytes(piece) == 0:
        return
    for axis in range(piece.source.ndim):
        shape[axis] = extent(piece, axis)
    add_items(reach, piece.data, piece.source.ndim, shape, strides_of(piece), piece.source.itemsize)


cdef void add_items(Reach *reach, const char *data, int ndim, const Py_ssize_t *shape,
                    const Py_ssize_t *strides, Py_ssize_t itemsize) noexcept:
    cdef size_t first = <size_t>data, last = first + itemsize, far
    cdef Py_ssize_t stride
    cdef int axis
    for axis in range(ndim):
        if shape[axis] == 0:
            return
        stride = strides[axis]
        far = product(shape[axis] - 1, 0 - <size_t>stride if stride < 0 else <size_t>stride)
        # Views may be made that leave what addresses there are: there they end.
        if stride < 0:
            first -= min(first, far)
        else:
            last += min(SIZE_MAX - last, far)
    reach.low = min(reach.low, first)
    reach.high = max(reach.high, last)


cdef size_t product(size_t a, size_t b) noexcept:
    return SIZE_MAX if a and b > SIZE_MAX // a else a * b


cdef int add_reach(Reaches *reaches, const Reach *reach) except -1:
    cdef Reach *more
    cdef Py_ssize_t room
    if reach.low >= reach.high:
        return 0
    if reaches.n == reaches.room:
        room = 2 * reaches.room + 16
        more = <Reach *>PyMem_RawRealloc(reaches.each, room * sizeof(Reach))
        if more == NULL:
            raise MemoryError(f"no memory for a table of {room} buffers")
        reaches.each, reaches.room = more, room
    if reaches.n and reach.low < reaches.each[reaches.n - 1].low:
        reaches.rising = False
    reaches.each[reaches.n] = reach[0]
    reaches.n += 1
    return 0


cdef int by_beginning(const void *a, const void *b) noexcept nogil:
    cdef size_t left = (<const Reach *>a).low, right = (<const Reach *>b).low
    return (left > right) - (left < right)


cdef object united(Reaches *reaches):
    """Bytes that lie in one of them or in several."""
    cdef size_t low, high = 0, total = 0        # which can't be more than there are addresses
    cdef Py_ssize_t i
    if not reaches.rising:
        with nogil:
            qsort(reaches.each, reaches.n, sizeof(Reach), by_beginning)
    for i in range(reaches.n):
        low = max(reaches.each[i].low, high)
        high = max(high, reaches.each[i].high)
        total += high - low
    return total
