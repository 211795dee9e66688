"""A buffer taken apart into few arrays for pickle, and put together again.

Pieces of one source become one array, the stretch of the source that they span, and a row of numbers each:
which array, from where, how long. So the data goes out once, as one buffer that pickle's protocol 5 can
leave where it is.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.buffer cimport (
    GapBuffer, fill, new_buffer, release, size_of, slot_at,
)
from seqcore.core.interrupts cimport INTERVAL, let_others_in
from seqcore.core.join cimport tighten, total_nbytes
from seqcore.core.arrays cimport array_from, own_view
from seqcore.core.owner cimport Owner, check_type, hold, owner_of, owner_of_pieces, pieces_of
from seqcore.core.pieces cimport MAX_NDIM, Piece, Source, step_of, strides_of

from seqcore._tensors import as_tensor

cnp.import_array()

# Arrays smaller than this, in bytes, cost more to pickle than to copy.
cdef Py_ssize_t SMALL = 4096


cdef Py_ssize_t position_in(Piece *piece, char *origin) noexcept:
    """Where a piece begins along its source's split axis, counted from another piece's data."""
    return (piece.data - origin) // step_of(piece.source) if step_of(piece.source) else 0


cdef Py_ssize_t taken(Piece *piece) noexcept:
    return piece.length if piece.source.axis >= 0 else 1


cdef object spanned_array(Piece *piece, Py_ssize_t start, Py_ssize_t stop, cnp.dtype dtype):
    """The stretch of a piece's source between two positions, counted from the piece, with the split axis.

    An axis that the split dropped comes first.
    """
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Source *source = piece.source
    cdef int dropped = source.axis < 0
    memcpy(&shape[dropped], source.shape, source.ndim * sizeof(Py_ssize_t))
    memcpy(&strides[dropped], strides_of(source), source.ndim * sizeof(Py_ssize_t))
    shape[0 if dropped else source.axis] = stop - start
    if dropped:
        strides[0] = step_of(source)
    return array_from(<PyObject *>dtype, source.ndim + dropped, shape, strides,
                      piece.data + start * step_of(source), owner_of(source))


cdef tuple take_apart(GapBuffer *buffer, cnp.dtype dtype):
    """Arrays as [(array, axis or -1)], and an int64 table (elements, 3): array, start, length."""
    cdef list parts
    cdef object nbytes = total_nbytes(buffer)
    cdef GapBuffer *tight
    parts, table = spans_of(buffer, dtype)
    spanned = 0
    for array, _ in parts:
        spanned += array.nbytes
    # Copied together where the stretches are mostly unused, or many and small.
    if nbytes <= 2 * spanned and (2 * nbytes < spanned or spanned < SMALL * (len(parts) - 1)):
        tight = tighten(buffer, dtype)
        try:
            parts, table = spans_of(tight, dtype)
        finally:
            release(tight)
    cdef list sent = []
    for array, axis in parts:
        if len(sent) % INTERVAL == INTERVAL - 1:
            let_others_in()
        sent.append((as_contiguous(array), axis))
    return sent, table


cdef object as_contiguous(array):
    # Only such arrays leave their data out of band.
    return array if array.flags.forc else np.ascontiguousarray(array)


cdef object key_of(Piece *piece):
    """Equal for pieces that are cut from one array, or are whole arrays of the same memory and layout."""
    cdef Source *source = piece.source
    if piece != &(<Owner>owner_of(source)).whole:
        return <size_t>source
    layout = (<char *>source.shape)[:2 * source.ndim * sizeof(Py_ssize_t)]
    return (<size_t>piece.data, layout)


cdef tuple spans_of(GapBuffer *buffer, cnp.dtype dtype):
    cdef Py_ssize_t n = size_of(buffer), i, start, stop, which = 0
    cdef cnp.ndarray table = np.empty((n, 3), np.int64)
    cdef int64_t *row = <int64_t *>cnp.PyArray_DATA(table)
    cdef Piece *piece
    cdef Source *known = NULL
    cdef char *origin = NULL
    cdef dict numbers = {}
    cdef list firsts = []               # of each part: the position of an element
    cdef list starts = []               # and how far it reaches around that element
    cdef list stops = []
    for i in range(n):
        if i % INTERVAL == INTERVAL - 1:
            let_others_in()
        piece = slot_at(buffer, i)[0]
        if piece.source != known:
            known = piece.source
            which = numbers.setdefault(key_of(piece), len(firsts))
            if which == len(firsts):
                firsts.append(i)
                starts.append(0)
                stops.append(0)
            origin = slot_at(buffer, firsts[which])[0].data
        start = position_in(piece, origin)
        stop = start + taken(piece)
        row[0] = which
        row[1] = start
        row[2] = piece.length
        row += 3
        if start < <Py_ssize_t>starts[which]:
            starts[which] = start
        if stop > <Py_ssize_t>stops[which]:
            stops[which] = stop
    parts = []
    for i, start, stop in zip(firsts, starts, stops):
        if len(parts) % INTERVAL == INTERVAL - 1:
            let_others_in()
        piece = slot_at(buffer, i)[0]
        parts.append((spanned_array(piece, start, stop, dtype), piece.source.axis))
    cdef cnp.ndarray begins = np.array(starts, np.int64)
    cdef const int64_t *begin = <const int64_t *>cnp.PyArray_DATA(begins)
    row = <int64_t *>cnp.PyArray_DATA(table)
    for _ in range(n):
        row[1] -= begin[row[0]]
        row += 3
    return parts, table


cdef list checked_parts(parts, cnp.dtype dtype):
    """The parts of a pickle as exact arrays of the type, each with its axis."""
    cdef list checked = []
    if type(parts) is not list:
        raise TypeError(f"the pickle is damaged: expected a list of parts, got a {type(parts).__name__}")
    for part in parts:
        if (type(part) is not tuple or len(part) != 2 or not isinstance(part[0], np.ndarray)
                or type(part[1]) is not int):
            raise TypeError(f"the pickle is damaged: part {len(checked)} is not an array with its axis")
        array, axis = part
        array = own_view(as_tensor(array, dtype))
        check_type(array, dtype)
        checked.append((array, axis))
    return checked


cdef cnp.ndarray checked_table(table):
    """The table of a pickle, as an array that is the caller's own."""
    if not isinstance(table, np.ndarray) or table.dtype.kind != "i" or table.dtype.itemsize != 8:
        raise TypeError("the pickle is damaged: its table of elements is not an array of int64")
    own = np.array(as_tensor(table), dtype=np.int64, order="C", copy=True)
    if own.ndim != 2 or own.shape[1] != 3:
        raise ValueError(f"the pickle is damaged: its table of elements has shape {own.shape}, expected (n, "
                         "3)")
    return own


cdef int check_table(list parts, cnp.ndarray table) except -1:
    """Refuse a table that reaches outside the parts: a damaged pickle must not become a read anywhere."""
    # In loops of our own: NumPy's reductions fail without an exception of theirs where memory is short.
    cdef Py_ssize_t n = len(parts), i
    cdef cnp.ndarray reaches = np.empty(n, np.int64)
    cdef cnp.ndarray dropped = np.empty(n, np.int64)
    cdef int64_t *reach = <int64_t *>cnp.PyArray_DATA(reaches)
    cdef int64_t *drop = <int64_t *>cnp.PyArray_DATA(dropped)
    cdef const int64_t *row = <const int64_t *>cnp.PyArray_DATA(table)
    for i in range(n):
        array, axis = parts[i]
        if not -1 <= axis < array.ndim or array.ndim == 0:
            raise ValueError(f"the pickle is damaged: axis {axis} is out of range for part {i} of rank "
                             f"{array.ndim}")
        reach[i] = array.shape[max(axis, 0)]
        drop[i] = axis < 0
    for i in range(cnp.PyArray_DIM(table, 0)):
        if not 0 <= row[0] < n:
            raise ValueError(f"the pickle is damaged: element {i} is in part {row[0]}, but there are {n} "
                             "parts")
        # In this order no sum or difference overflows.
        if (row[1] < 0 or row[2] < 0 or row[1] > reach[row[0]] or row[2] > reach[row[0]] - row[1]
                or (drop[row[0]] and row[2] != 1)):
            raise ValueError(f"the pickle is damaged: element {i} has length {row[2]} from {row[1]} on, but "
                             f"its part has length {reach[row[0]]}")
        row += 3
    return 0


cdef GapBuffer *put_together(cnp.dtype dtype, given_parts, given_table) except NULL:
    """The opposite of `take_apart`; what doesn't fit is refused, for pickles may be damaged."""
    cdef list parts = checked_parts(given_parts, dtype)
    cdef cnp.ndarray table = checked_table(given_table)
    check_table(parts, table)
    cdef Py_ssize_t n = cnp.PyArray_DIM(table, 0), i, which
    cdef const int64_t *row = <const int64_t *>cnp.PyArray_DATA(table)
    cdef cnp.ndarray counts = np.zeros(len(parts), np.int64)
    cdef int64_t *unused = <int64_t *>cnp.PyArray_DATA(counts)
    for i in range(n):
        unused[row[3 * i]] += 1
    cdef list owners = []
    cdef list origins = []
    cdef Owner owner
    cdef Piece *piece
    cdef GapBuffer *buffer
    for i in range(len(parts)):
        array, axis = parts[i]
        owners.append(owner_of_pieces(array, max(axis, 0), axis < 0, unused[i]))
        origins.append(<size_t>cnp.PyArray_BYTES(array))
    buffer = new_buffer(n)
    if buffer == NULL:
        raise MemoryError(f"no memory for {n} elements")
    # Nothing from here on can fail: an element's piece is the last free one of its owner.
    for i in range(n):
        which = row[0]
        owner = <Owner>owners[which]
        unused[which] -= 1
        piece = &pieces_of(owner)[unused[which]]
        piece.source = &owner.source
        piece.data = <char *><size_t>origins[which] + row[1] * step_of(&owner.source)
        piece.length = row[2]
        hold(piece)
        buffer.slots[i] = piece
        row += 3
    fill(buffer)
    return buffer
