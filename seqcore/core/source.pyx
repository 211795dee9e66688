"""Elements of sources as they are read: where one begins, how long it is, and whether that is in the source.

::

    kind       start of element i       its length                     e.g.
    WHOLE      0                        length                         an array that was put in
    EVEN       i * pitch                length, the last one `last`    a split into equal parts
    OFFSETS    offsets[i]               offsets[i + 1] - offsets[i]    a split by lengths, a file,
                                                                       Arrow's lists
    VIEWS      starts[i]                lengths[i]                     Arrow's list views
    PADDED     i * pitch, and padding   lengths[i]                     a padded batch
    SHAPED     offsets[i]               shapes[i][0]                   images, in a file

Numbers of files and of Arrow are used where they are, and are never trusted: each use reads a number once,
checks it, and then uses the `Piece` that it made alone.
"""


cdef bint resolve_other(Table *table, Py_ssize_t number, Piece *piece, Py_ssize_t *dims) noexcept nogil:
    """As `resolve`, for the kinds of tables that are rarer."""
    cdef Source *source = &table.source
    cdef Py_ssize_t start, stop, room, items, stride
    cdef int axis, place, ndim = source.ndim
    if source.kind == VIEWS:
        start = number_at(table.starts, number, table.width)
        piece.length = number_at(table.lengths, number, table.lengths_width)
        if not (table.low <= start <= table.high and 0 <= piece.length <= table.high - start):
            return False
        piece.data = source.data + (start - table.low) * table.step
        piece.start = start
        return True
    if source.kind == PADDED:
        piece.length = number_at(table.lengths, number, table.lengths_width)
        if not 0 <= piece.length <= table.high:
            return False
        piece.start = table.high - piece.length if table.left else 0
        piece.data = source.data + number * table.pitch + piece.start * table.step
        return True
    # SHAPED: each in C order, except for the order in which its axes are in memory.
    start = number_at(table.starts, number, table.width)
    stop = number_at(table.starts, number + 1, table.width)
    if not table.low <= start <= stop <= table.high:
        return False
    piece.data = source.data + (start - table.low) * table.step
    piece.start = start
    piece.shape = dims
    items = 1
    stride = source.itemsize
    room = MAX_BYTES // source.itemsize     # NumPy counts an extent of 0 as 1 where it limits the size
    for axis in range(ndim - 1, -1, -1):
        place = source.shape[axis]
        dims[place] = number_at(table.lengths, number * ndim + axis, table.lengths_width)
        dims[ndim + place] = stride
        if dims[place] < 0 or (dims[place] > 1 and dims[place] > room):
            return False
        room //= max(dims[place], 1)
        stride *= max(dims[place], 1)
        items *= dims[place]
    piece.length = dims[0]
    return items == stop - start


cdef Py_ssize_t piece_nbytes(const Piece *piece) noexcept nogil:
    # NumPy has checked that the product fits, for the array that this is a part of.
    cdef Py_ssize_t nbytes = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim):
        nbytes *= extent(piece, axis)
    return nbytes


cdef bint same_shape(const Piece *a, const Piece *b) noexcept nogil:
    cdef int axis
    if same_layout(a.source, b):
        return a.length == b.length
    if a.source.ndim != b.source.ndim:
        return False
    for axis in range(a.source.ndim):
        if extent(a, axis) != extent(b, axis):
            return False
    return True


cdef bint fits_behind(const Piece *first, const Piece *piece) noexcept nogil:
    """Return whether two elements have one shape except for axis 0."""
    cdef int axis
    if piece.source.ndim != first.source.ndim:
        return False
    for axis in range(1, first.source.ndim):
        if extent(piece, axis) != extent(first, axis):
            return False
    return True
