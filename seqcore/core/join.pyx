"""Elements joined into one array, along an axis or stacked.

A join takes elements in *blocks* that are one strided copy each: a span of a table, or pieces that follow
each other in their source. It goes through them twice, first to check that they fit and to add up their
lengths, then to copy. The numbers of a file may have changed in between, so that each block is checked again
against the room that is left, and all of the result must have been written at the end.

The caller has a share of the store, so nobody edits it while the GIL is released.
"""

from cpython.ref cimport Py_INCREF, PyObject
from libc.string cimport memcpy, memset
cimport numpy as cnp

from seqcore.core.arrays cimport array_from
from seqcore.core.copying cimport copy_strided
from seqcore.core.counters cimport COPIED_WITHOUT_GIL, RUNS_COPIED, count
from seqcore.core.directory cimport Slot, number_in
from seqcore.core.limits cimport FETCH_AHEAD, RELEASE_FROM
from seqcore.core.owner cimport kept_memory, shape_of
from seqcore.core.reader cimport (
    Reader, Span, begin, ends_of, fetch_data, next_block, raise_damaged, read_one, rows_ahead,
    take_singly,
)
from seqcore.core.source cimport (
    DAMAGED, EVEN, MAX_BYTES, MAX_NDIM, OFFSETS, OK, RANK_DIFFERS, SHAPE_DIFFERS, TOO_LARGE, WHOLE, Piece,
    Source, Status, Table, extent, owner_of, prefetch, resolve, same_layout, solid, strides_of,
)
from seqcore.core.store cimport Store, find_run, has_runs, locate, runs_of, size_of, slot_at

cnp.import_array()

cdef struct Block:
    # Elements that are one strided copy.
    Piece first
    Py_ssize_t n
    Py_ssize_t length           # along the joined axis
    Py_ssize_t step             # bytes

cdef struct Join:
    bint stacking               # along a new axis, instead of one that the elements have
    int axis
    int ndim                    # of the result, as is `shape`
    int itemsize
    Py_ssize_t shape[MAX_NDIM]
    Py_ssize_t strides[MAX_NDIM]
    Piece first                 # element 0
    Py_ssize_t first_dims[2 * MAX_NDIM]
    Py_ssize_t seen             # elements: after a failure, the position of the one at fault
    Py_ssize_t nblocks
    Source *known               # whose elements fit, those of `known_length` at least
    Py_ssize_t known_length
    Reader reader
    Py_ssize_t used             # of the pieces that were read
    Py_ssize_t[2 * MAX_NDIM] dims


cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape):
    return array_from(<PyObject *>dtype, ndim, shape, NULL, NULL, NULL)


cdef void count_strings(cnp.ndarray array) noexcept:
    """Take the references that a copy of bare pointers has not taken."""
    cdef PyObject **items = <PyObject **>cnp.PyArray_DATA(array)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(array)):
        Py_INCREF(<object>items[i])


# -- blocks --------------------------------------------------------------------------------------------

cdef bint block_of_span(Join *join, const Span *span, Block *block) noexcept nogil:
    """A span as one block, if it is one."""
    cdef Source *source = span.source
    cdef Piece last
    cdef Py_ssize_t length
    if source.kind != EVEN and source.kind != OFFSETS:
        return False
    if join.stacking:
        # Any distance will do: rows, every third row, rows backwards, one row again and again.
        if source.kind != EVEN or not ends_of(span, &block.first, &last, join.dims) or (
                last.length != source.length or block.first.length != source.length):
            return False
        block.n = block.length = span.n
        block.step = (<Table *>source).pitch * span.step
        return True
    if source.axis != join.axis or span.step != 1 or not ends_of(span, &block.first, &last, join.dims):
        return False
    length = last.start - block.first.start
    if length < 0 or last.length > MAX_BYTES - length:
        return False
    block.n = span.n
    block.length = length + last.length
    block.step = (<Table *>source).step
    return True


cdef void block_of_pieces(Join *join, Block *block) noexcept nogil:
    """The longest block that begins with the next of the pieces that were read."""
    cdef Reader *reader = &join.reader
    cdef Piece *pieces = reader.pieces + join.used
    cdef Source *source = pieces[0].source
    cdef Py_ssize_t n = reader.n - join.used, k = 1
    cdef char *end
    block.first = pieces[0]
    if join.stacking:
        block.step = pieces[1].data - pieces[0].data if n > 1 and same_layout(source, &pieces[1]) else 0
        while (k < n and same_layout(source, &pieces[k]) and pieces[k].length == pieces[0].length
               and pieces[k].data - pieces[k - 1].data == block.step):
            k += 1
        block.length = k
    else:
        block.length = extent(&pieces[0], join.axis)
        block.step = strides_of(&pieces[0])[join.axis]
        if source.axis == join.axis:
            end = pieces[0].data + block.length * block.step
            # Views of a broadcast array never end: their lengths can sum to more than there is.
            while (k < n and same_layout(source, &pieces[k]) and pieces[k].data == end
                   and pieces[k].length <= MAX_BYTES - block.length):
                end += pieces[k].length * block.step
                block.length += pieces[k].length
                k += 1
    block.n = k
    join.used += k


cdef Status fit(Join *join, const Piece *piece) noexcept nogil:
    """Return whether an element fits the first one."""
    cdef Source *source = piece.source
    cdef int axis
    if same_layout(join.known, piece) and (piece.length == join.known_length or source.axis < 0
                                           or (source.axis == join.axis and not join.stacking)):
        return OK
    if source.ndim != join.ndim - join.stacking:
        return RANK_DIFFERS
    for axis in range(join.ndim):
        if axis != join.axis and extent(piece, axis - (join.stacking and axis > join.axis)) != (
                join.shape[axis]):
            return SHAPE_DIFFERS
    join.known = source
    join.known_length = piece.length
    return OK


cdef Status next_of(Join *join, Block *block) noexcept nogil:
    """The next block, checked; at the end its n is 0."""
    cdef Reader *reader = &join.reader
    cdef Span span
    cdef Status status
    block.n = 0
    if join.used == reader.n:
        join.used = reader.n = 0
        if not next_block(reader, &span):
            return DAMAGED if reader.damaged else OK
        if span.n and not block_of_span(join, &span, block):
            if not take_singly(reader, &span):
                return DAMAGED
    if block.n == 0:
        block_of_pieces(join, block)
    status = fit(join, &block.first)
    join.nblocks += 1
    if status == OK:
        join.seen += block.n
    return status


# -- join ----------------------------------------------------------------------------------------------

cdef void start(Join *join, const Store *store) noexcept nogil:
    begin(&join.reader, store, 0, size_of(store))
    join.used = join.seen = join.nblocks = 0
    join.known = NULL


cdef Status plan(Join *join, const Store *store) noexcept nogil:
    """Check that the elements fit the first, add up their lengths, and lay the result out in C order."""
    cdef Reader *reader = &join.reader
    cdef Span span
    cdef Block block
    cdef Piece *piece
    cdef Status status
    cdef Source *source
    cdef Py_ssize_t i, length, rows, total = 0, stride = join.itemsize
    cdef int axis
    start(join, store)
    while True:
        rows = rows_ahead(reader, join.stacking, &source) if join.axis == 0 else 0
        if rows and source.solid:
            # Rows of one table, in any order: if one fits, all do.
            resolve(source, 0, &block.first, NULL)
            status = fit(join, &block.first)
            if status != OK:
                return status
            length = 1 if join.stacking else extent(&block.first, 0)
            if length and rows > (MAX_BYTES - total) // length:
                return TOO_LARGE
            total += rows * length
            join.seen += rows
            reader.at += rows
            continue
        if not next_block(reader, &span):
            break
        if span.n:
            if block_of_span(join, &span, &block):
                status = fit(join, &block.first)
                if status != OK:
                    return status
                if block.length > MAX_BYTES - total:
                    return TOO_LARGE
                total += block.length
                join.seen += span.n
                continue
            take_singly(reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            status = fit(join, piece)
            if status != OK:
                return status
            length = 1 if join.stacking else extent(piece, join.axis)
            if length > MAX_BYTES - total:
                return TOO_LARGE
            total += length
            join.seen += 1
    if reader.damaged:
        return DAMAGED
    join.shape[join.axis] = total
    # Zero extents count as one, as in NumPy's own limit.
    for axis in range(join.ndim - 1, -1, -1):
        join.strides[axis] = stride
        if join.shape[axis] > 0:
            if stride > MAX_BYTES // join.shape[axis]:
                return TOO_LARGE
            stride *= join.shape[axis]
    return OK


cdef Py_ssize_t copy_rows(const Store *store, Py_ssize_t at, Py_ssize_t n, const Source *source, char *out,
                          Py_ssize_t nbytes) noexcept nogil:
    """Copy elements of one even table, in any order, of some bytes each; in how many copies."""
    cdef const Slot *slots = slot_at(store, at)
    cdef const char *data
    cdef Py_ssize_t pitch = (<const Table *>source).pitch, i = 0, k, ncopies = 0, number
    if has_runs(store):
        locate(store, at, &number)
        data = source.data + number * pitch
        pitch *= runs_of(store)[find_run(store, at, 0)].step
        for i in range(n):
            memcpy(out + i * nbytes, data + i * pitch, nbytes)
        return n
    while i < n:
        k = 1
        if pitch == nbytes:
            while i + k < n and slots[i + k] == slots[i + k - 1] + 2:       # the next number
                k += 1
        if i + FETCH_AHEAD < n:
            prefetch(source.data + number_in(slots[i + FETCH_AHEAD]) * pitch)
        memcpy(out, source.data + number_in(slots[i]) * pitch, k * nbytes)
        out += k * nbytes
        i += k
        ncopies += 1
    return ncopies


cdef Status copy(Join *join, char *out, const Store *store) noexcept nogil:
    cdef Reader *reader = &join.reader
    cdef Block block
    cdef Source *source
    cdef Py_ssize_t copied = 0, room = join.shape[join.axis], length, rows
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Piece *piece
    cdef Status status
    cdef int axis
    for axis in range(join.ndim):
        if join.shape[axis] == 0:
            return OK           # there is nothing to write, and strides are not those of items
    memcpy(shape, join.shape, join.ndim * sizeof(Py_ssize_t))
    start(join, store)
    while True:
        rows = rows_ahead(reader, join.stacking, &source) if join.axis == 0 and join.used == reader.n else 0
        if rows and source.solid:
            resolve(source, 0, &block.first, NULL)
            length = 1 if join.stacking else extent(&block.first, 0)
            if fit(join, &block.first) != OK or (length and rows > (room - copied) // length):
                return DAMAGED
            join.nblocks += copy_rows(store, reader.at, rows, source, out + copied * join.strides[0],
                                      length * join.strides[0])
            copied += rows * length
            reader.at += rows
            continue
        # Most pieces of random selections and of whole arrays are a copy of their own.
        while join.axis == 0 and join.used < reader.n:
            piece = &reader.pieces[join.used]
            if not solid(piece):
                break
            fetch_data(reader, join.used)
            length = 1 if join.stacking else extent(piece, 0)
            # A whole array is as it was when it was planned for.
            if (piece.source.kind != WHOLE and fit(join, piece) != OK) or length > room - copied:
                return DAMAGED
            join.used += 1
            while (join.used < reader.n
                   and reader.pieces[join.used].data == piece.data + length * join.strides[0]
                   and same_layout(piece.source, &reader.pieces[join.used])
                   and fit(join, &reader.pieces[join.used]) == OK
                   and (1 if join.stacking else extent(&reader.pieces[join.used], 0))
                   <= room - copied - length):
                length += 1 if join.stacking else extent(&reader.pieces[join.used], 0)
                join.used += 1
            memcpy(out + copied * join.strides[0], piece.data, length * join.strides[0])
            copied += length
            join.nblocks += 1
        status = next_of(join, &block)
        if status != OK:
            return DAMAGED
        if block.n == 0:
            break
        if block.length > room - copied:
            return DAMAGED
        if join.axis == 0 and solid(&block.first) and (
                block.length == 1 or block.step == join.strides[0]):
            memcpy(out + copied * join.strides[0], block.first.data, block.length * join.strides[0])
        else:
            for axis in range(join.ndim):
                strides[axis] = block.step if axis == join.axis else (
                    strides_of(&block.first)[axis - (join.stacking and axis > join.axis)])
            shape[join.axis] = block.length
            copy_strided(out + copied * join.strides[join.axis], join.strides, block.first.data, strides,
                         shape, join.ndim, join.itemsize)
        copied += block.length
    count(RUNS_COPIED, join.nblocks)
    return OK if copied == room else DAMAGED


cdef int raise_for(Status status, Join *plan, Store *store) except -1:
    cdef Piece piece
    if status == OK:
        return 0
    joined = f"{'stacked along a new' if plan.stacking else 'concatenated along'} axis {plan.axis}"
    if status == TOO_LARGE:
        raise ValueError(f"{size_of(store)} tensors {joined} would be larger than any array can be")
    if status == DAMAGED or not read_one(store, plan.seen, &piece, plan.dims):
        raise_damaged(store, min(plan.reader.at, size_of(store) - 1))
    what = "rank" if status == RANK_DIFFERS else "shape"
    also = ""
    if plan.stacking and status != RANK_DIFFERS:
        also = "; seq.to_padded() stacks them padded, list(seq) is a list of them"
    raise ValueError(
        f"element {plan.seen} has shape {shape_of(&piece)}, which can't be {joined} with "
        f"element 0 of shape {shape_of(&plan.first)}: their {what}s differ{also}"
    )


cdef int set_up(Join *join, Store *store, int axis, bint stacking) except -1:
    """Begin a join of at least one element along an axis checked against the first one's rank."""
    cdef int i, ndim
    if not read_one(store, 0, &join.first, join.first_dims):
        raise_damaged(store, 0)
    ndim = join.first.source.ndim
    if ndim + stacking > MAX_NDIM:
        raise ValueError(f"NumPy's arrays have at most {MAX_NDIM} axes: elements of rank {ndim} can't be "
                         "stacked along a new one")
    join.stacking = stacking
    join.axis = axis
    join.ndim = ndim + stacking
    join.itemsize = join.first.source.itemsize
    for i in range(ndim):
        join.shape[i + (stacking and i >= axis)] = extent(&join.first, i)
    join.shape[axis] = 0
    start(join, store)
    return 0


cdef object join(Store *store, cnp.dtype dtype, int axis, bint stacking):
    """Return a new array of all elements, at least one, along an axis checked against the first's rank."""
    cdef Join join
    cdef Status status
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    cdef char *data
    set_up(&join, store, axis, stacking)
    if size_of(store) < RELEASE_FROM:
        status = plan(&join, store)
    else:
        with nogil:
            status = plan(&join, store)
    raise_for(status, &join, store)
    result = new_array(dtype, join.ndim, join.shape)
    data = cnp.PyArray_BYTES(result)
    if strings or cnp.PyArray_NBYTES(result) < 8 * RELEASE_FROM:
        status = copy(&join, data, store)
    else:
        with nogil:
            status = copy(&join, data, store)
        count(COPIED_WITHOUT_GIL, 1)
    if strings and status != OK:
        memset(data, 0, cnp.PyArray_NBYTES(result))     # pointers that nobody has counted
    raise_for(status, &join, store)
    if strings:
        count_strings(result)
    return result


cdef object joined_view(Store *store, cnp.dtype dtype, bint stacking):
    """Return the elements joined along axis 0, or stacked, as a view; None where there must be a copy.

    They must be one behind the other in one memory: block for block, each begins where the last one ends.
    PyTorch refuses arrays with strides below zero, or that are not a multiple of the item size: then there is
    no view.
    """
    cdef Join join
    cdef Block block
    cdef Source *source = NULL
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef char *data = NULL
    cdef char *end = NULL
    cdef Py_ssize_t rows = 0, step = 0
    cdef bint stepped = False           # else there is one row so far, and the next one tells the step
    cdef int axis, first = 0 if stacking else 1
    set_up(&join, store, 0, stacking)
    memory = None
    while next_of(&join, &block) == OK and block.n:
        if block.length == 0:
            continue                    # elements without rows take no place, but must fit
        if rows == 0:
            source = block.first.source
            memcpy(dims, block.first.shape, 2 * source.ndim * sizeof(Py_ssize_t))
            data = block.first.data
            step = block.step
            stepped = block.length > 1
        else:
            if block.first.source != source:
                if memory is None:
                    memory = kept_memory(source)
                if kept_memory(block.first.source) is not memory:
                    return None
                for axis in range(first, source.ndim):
                    if strides_of(&block.first)[axis] != dims[source.ndim + axis]:
                        return None
            if not stepped:
                step = block.step if block.length > 1 else block.first.data - data
                end = data + step
                stepped = True
            if block.first.data != end or (block.length > 1 and block.step != step) or (
                    block.length > MAX_BYTES - rows):
                return None
        rows += block.length
        end = data + rows * step
    if join.seen < size_of(store) or rows == 0:
        return None
    join.shape[0] = rows
    strides[0] = step
    for axis in range(join.ndim):
        if join.shape[axis] == 0:
            return None
        if axis or not stacking:
            strides[axis] = dims[source.ndim + axis - stacking]
    if stepped or stacking:
        strides[0] = step
    for axis in range(join.ndim):
        if strides[axis] < 0 or strides[axis] % join.itemsize:
            return None
    return array_from(<PyObject *>dtype, join.ndim, join.shape, strides, data, owner_of(source))
