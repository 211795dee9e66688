"""Plan, cut and join pieces, without the GIL and without Python objects.

A split of a (6, 4) array into lengths 1, 3, 2 along axis 0 writes three pieces of one source::

    source   itemsize 4, shape (·, 4), strides (16, 4), axis 0
    pieces   data + 0, length 1 | data + 16, length 3 | data + 64, length 2

A join goes the other way. Pieces that stand next to each other in their source and in the sequence make
one run, and a run is one strided copy; a run whose items lie together on both sides is one `memcpy`.
"""

from libc.string cimport memcpy
from seqcore.core.counters cimport RUNS_COPIED, count

cdef enum:
    BLOCK = 64                  # slots compared at once
    FEW = 8


cdef Py_ssize_t piece_nbytes(const Piece *piece) noexcept nogil:
    # NumPy has checked that the product fits, for the array that this is a piece of.
    cdef Py_ssize_t nbytes = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim):
        nbytes *= extent(piece, axis)
    return nbytes


cdef bint same_shape(const Piece *a, const Piece *b) noexcept nogil:
    cdef int axis
    if a.source == b.source:
        return a.length == b.length
    if a.source.ndim != b.source.ndim:
        return False
    for axis in range(a.source.ndim):
        if extent(a, axis) != extent(b, axis):
            return False
    return True


# -- cut ---------------------------------------------------------------------------------------------

cdef Status check_lengths(const int64_t *lengths, Py_ssize_t n, Py_ssize_t whole,
                          Py_ssize_t *at) noexcept nogil:
    """Whether the lengths are a split of `whole`; `at[0]` is the first at fault, or the sum if too short."""
    cdef Py_ssize_t i, total = 0
    for i in range(n):
        if lengths[i] < 0:
            at[0] = i
            return NEGATIVE_LENGTH
        if lengths[i] > whole - total:      # and not total + lengths[i] > whole, which can overflow
            at[0] = i
            return LENGTHS_TOO_LONG
        total += <Py_ssize_t>lengths[i]
    at[0] = total
    return OK if total == whole else LENGTHS_TOO_SHORT


cdef void cut_equal(Piece *pieces, Piece **slots, Py_ssize_t n, Source *source, char *data,
                    Py_ssize_t length, Py_ssize_t whole) noexcept nogil:
    """Write n pieces of `length`, the last one with what remains of `whole`."""
    cdef Py_ssize_t i, stride
    if n == 0:
        return
    # A single piece may be shorter than `length`, whose product with the step could overflow.
    stride = length * step_of(source) if n > 1 else 0
    for i in range(n):
        pieces[i].source = source
        pieces[i].data = data + i * stride
        pieces[i].length = length
        slots[i] = &pieces[i]
    pieces[n - 1].length = whole - (n - 1) * length
    source.tiled = EVEN if step_of(source) != 0 else LOOSE


cdef void cut_lengths(Piece *pieces, Piece **slots, Py_ssize_t n, Source *source, char *data,
                      const int64_t *lengths) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        pieces[i].source = source
        pieces[i].data = data
        pieces[i].length = <Py_ssize_t>lengths[i]
        slots[i] = &pieces[i]
        data += pieces[i].length * step_of(source)
    source.tiled = TILED if step_of(source) != 0 else LOOSE


# -- join --------------------------------------------------------------------------------------------

cdef void begin_join(Join *join, Piece *first, int axis, bint stacking) noexcept nogil:
    """Start a plan; the caller has checked `axis` against the first piece's rank."""
    cdef int i, ndim = first.source.ndim
    join.first = first
    join.axis = axis
    join.stacking = stacking
    join.itemsize = first.source.itemsize
    join.ndim = ndim + stacking
    join.seen = 0
    join.copied = 0
    join.nruns = 0
    for i in range(ndim):
        join.shape[i + (stacking and i >= axis)] = extent(first, i)
    join.shape[axis] = 0


cdef Py_ssize_t count_consecutive(Piece **slots, Py_ssize_t n) noexcept nogil:
    """How many slots, from the first, point to pieces that follow each other in memory."""
    cdef Py_ssize_t i = 1, j
    cdef size_t differing
    while i < n and i < FEW:        # most that are not long end here
        if slots[i] != slots[i - 1] + 1:
            return i
        i += 1
    while i + BLOCK <= n:
        # No branch inside, so that compilers make vector instructions of it.
        differing = 0
        for j in range(i, i + BLOCK):
            differing |= (<size_t>slots[j] - <size_t>slots[j - 1]) ^ sizeof(Piece)
        if differing:
            break
        i += BLOCK
    while i < n and slots[i] == slots[i - 1] + 1:
        i += 1
    return i


cdef Run next_run(const Join *join, Piece **slots, Py_ssize_t n) noexcept nogil:
    """The longest run that the first of n slots begins, n > 0."""
    cdef Run run
    cdef Piece *piece = slots[0]
    cdef Source *source = piece.source
    cdef char *end
    run.first = piece
    run.pieces = 1
    if source.tiled and source.axis == (-1 if join.stacking else join.axis):
        # Most joins follow a split: as long as the slots go through a block in order, there is no need to
        # read its pieces.
        run.pieces = count_consecutive(slots, n)
        piece = slots[run.pieces - 1]
    if join.stacking:
        # Any constant distance will do: rows, every third row, rows backwards, one row again and again.
        run.step = slots[1].data - run.first.data if n > 1 and slots[1].source == source else 0
        while (run.pieces < n and slots[run.pieces].source == source
               and slots[run.pieces].data - slots[run.pieces - 1].data == run.step
               and slots[run.pieces].length == piece.length):
            run.pieces += 1
        run.length = run.pieces
    else:
        run.length = extent(piece, join.axis)
        run.step = strides_of(source)[join.axis]
        if run.pieces > 1:
            run.length += (piece.data - run.first.data) // run.step
        if source.axis == join.axis:
            end = piece.data + extent(piece, join.axis) * step_of(source)
            while run.pieces < n:
                piece = slots[run.pieces]
                # Views of a broadcast array never end: their lengths can sum to more than there is.
                if piece.source != source or piece.data != end or piece.length > MAX_BYTES - run.length:
                    break
                end += piece.length * step_of(source)
                run.length += piece.length
                run.pieces += 1
    return run


cdef Run like_first(const Join *join, Piece **slots, Py_ssize_t n) noexcept nogil:
    """As `next_run`, of pieces that fit if the first one does, wherever they lie."""
    cdef Run run
    cdef Source *source = slots[0].source
    cdef Py_ssize_t length = slots[0].length, most
    run.first = slots[0]
    run.pieces = 1
    run.step = 0
    if join.stacking:
        while run.pieces < n and slots[run.pieces].source == source and slots[run.pieces].length == length:
            run.pieces += 1
        run.length = run.pieces
        return run
    run.length = extent(slots[0], join.axis)
    if source.axis == join.axis:
        while run.pieces < n and slots[run.pieces].source == source:
            most = MAX_BYTES - run.length
            if slots[run.pieces].length > most:
                break
            run.length += slots[run.pieces].length
            run.pieces += 1
            if run.pieces + AHEAD < n:
                prefetch(slots[run.pieces + AHEAD])
    return run


cdef Status check_fit(const Join *join, const Piece *piece) noexcept nogil:
    cdef int axis
    if piece.source.ndim != join.ndim - join.stacking:
        return RANK_DIFFERS
    for axis in range(join.ndim):
        if axis != join.axis and extent(piece, axis - (join.stacking and axis > join.axis)) != (
                join.shape[axis]):
            return SHAPE_DIFFERS
    return OK


cdef Status plan_join(Join *join, Piece **slots, Py_ssize_t n) noexcept nogil:
    """Check that the pieces fit the first and add up what they take along the axis."""
    cdef Py_ssize_t i = 0
    cdef Status status
    cdef Run run
    while i < n:
        status = check_fit(join, slots[i])
        if status != OK:
            join.seen += i
            return status
        if join.nruns < MAX_RUNS:
            run = next_run(join, slots + i, n - i)
            join.runs[join.nruns] = run
        else:                   # more than are kept: what counts is the length alone
            run = like_first(join, slots + i, n - i)
        if run.length > MAX_BYTES - join.shape[join.axis]:
            return TOO_LARGE
        join.shape[join.axis] += run.length
        join.nruns += 1
        i += run.pieces
    join.seen += n
    return OK


cdef Status finish_plan(Join *join) noexcept nogil:
    """Lay the result out in C order; zero extents count as one, as in NumPy's own limit."""
    cdef Py_ssize_t stride = join.itemsize
    cdef int axis
    for axis in range(join.ndim - 1, -1, -1):
        join.strides[axis] = stride
        if join.shape[axis] > 0:
            if stride > MAX_BYTES // join.shape[axis]:
                return TOO_LARGE
            stride *= join.shape[axis]
    return OK


cdef void copy_join(Join *join, char *out, Piece **slots, Py_ssize_t n) noexcept nogil:
    """Copy planned pieces behind those copied before."""
    cdef Run run
    cdef Py_ssize_t i = 0, runs = 0
    while i < n:
        run = next_run(join, slots + i, n - i)
        copy_run(join, out, &run)
        i += run.pieces
        runs += 1
    count(RUNS_COPIED, runs)


cdef void copy_kept_runs(Join *join, char *out) noexcept nogil:
    """Copy all that was planned, where the plan has kept each run."""
    cdef Py_ssize_t i
    for i in range(join.nruns):
        copy_run(join, out, &join.runs[i])
    count(RUNS_COPIED, join.nruns)


cdef void copy_run(Join *join, char *out, const Run *run) noexcept nogil:
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef const Py_ssize_t *of_piece = strides_of(run.first.source)
    cdef int axis
    for axis in range(join.ndim):
        shape[axis] = join.shape[axis]
        strides[axis] = run.step if axis == join.axis else (
            of_piece[axis - (join.stacking and axis > join.axis)])
    shape[join.axis] = run.length
    copy_strided(out + join.copied * join.strides[join.axis], join.strides, run.first.data, strides, shape,
                 join.ndim, join.itemsize)
    join.copied += run.length


cdef char *copy_runs(char *out, Piece **slots, Py_ssize_t n, Py_ssize_t *runs) noexcept nogil:
    """Copy the pieces one behind the other, each in C order, and count the runs that they came in.

    Returned is where the next one would go.
    """
    cdef Py_ssize_t i = 0, run, row = NOT_SOLID
    cdef Piece *last
    cdef Piece piece
    cdef Source *known = NULL
    while i < n:
        if i + 2 * AHEAD < n:           # pieces first, then what they point to
            prefetch(slots[i + 2 * AHEAD])
            prefetch(slots[i + AHEAD].data)
        piece = slots[i][0]
        if piece.source != known:
            known = piece.source
            row = solid_row(known)
        run = 1
        if known.tiled and known.axis == 0 and i + 1 < n and slots[i + 1] == slots[i] + 1:
            run = count_consecutive(slots + i, n - i)
            last = slots[i + run - 1]
            piece.length = (last.data - piece.data) // step_of(known) + last.length
        if row == NOT_SOLID:
            out = copy_one(out, &piece)
        else:
            memcpy(out, piece.data, piece.length * row)
            out += piece.length * row
        i += run
        runs[0] += 1
    return out


cdef Py_ssize_t solid_row(const Source *source) noexcept nogil:
    """Bytes for each of a piece's length, if the pieces of a source lie in memory in C order."""
    cdef Py_ssize_t stride = source.itemsize
    cdef int axis, first = source.axis + 1
    if source.axis > 0:
        return NOT_SOLID
    for axis in range(source.ndim - 1, first - 1, -1):
        if source.shape[axis] != 1 and strides_of(source)[axis] != stride:
            return NOT_SOLID
        stride *= source.shape[axis]
    # A piece of length 1 would do with any step, but the next one may be longer; without items there is none.
    if source.axis == 0 and strides_of(source)[0] != stride:
        return NOT_SOLID
    return stride


cdef char *copy_one(char *out, const Piece *piece) noexcept nogil:
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Py_ssize_t stride = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim - 1, -1, -1):
        shape[axis] = extent(piece, axis)
        strides[axis] = stride
        stride *= shape[axis]
    copy_strided(out, strides, piece.data, strides_of(piece.source), shape, piece.source.ndim,
                 piece.source.itemsize)
    return out + stride


# -- copy --------------------------------------------------------------------------------------------

cdef void copy_strided(char *out, const Py_ssize_t *out_strides, const char *data,
                       const Py_ssize_t *strides, const Py_ssize_t *shape, int ndim,
                       Py_ssize_t itemsize) noexcept nogil:
    """Copy items between two layouts of one shape that share no memory."""
    # The axes again, innermost first: those of extent 1 dropped, neighbours that lie together made one.
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef Py_ssize_t[MAX_NDIM] to_strides
    cdef Py_ssize_t[MAX_NDIM] from_strides
    cdef Py_ssize_t[MAX_NDIM] index
    cdef int axis, last = -1
    for axis in range(ndim - 1, -1, -1):
        if shape[axis] == 0:
            return
        if shape[axis] == 1:
            continue
        if (last >= 0 and out_strides[axis] == to_strides[last] * extents[last]
                and strides[axis] == from_strides[last] * extents[last]):
            extents[last] *= shape[axis]
            continue
        last += 1
        extents[last] = shape[axis]
        to_strides[last] = out_strides[axis]
        from_strides[last] = strides[axis]
        index[last] = 0
    if last < 0:
        memcpy(out, data, itemsize)
        return
    while True:
        copy_row(out, to_strides[0], data, from_strides[0], extents[0], itemsize)
        axis = 1
        while axis <= last:
            index[axis] += 1
            out += to_strides[axis]
            data += from_strides[axis]
            if index[axis] < extents[axis]:
                break
            out -= to_strides[axis] * extents[axis]
            data -= from_strides[axis] * extents[axis]
            index[axis] = 0
            axis += 1
        if axis > last:
            return


cdef void copy_row(char *out, Py_ssize_t out_stride, const char *data, Py_ssize_t stride, Py_ssize_t n,
                   Py_ssize_t itemsize) noexcept nogil:
    # A memcpy of a constant size is one move, aligned or not.
    cdef Py_ssize_t i
    if out_stride == itemsize and stride == itemsize:
        memcpy(out, data, n * itemsize)
    elif itemsize == 1:
        for i in range(n):
            out[i * out_stride] = data[i * stride]
    elif itemsize == 2:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 2)
    elif itemsize == 4:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 4)
    elif itemsize == 8:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 8)
    else:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, itemsize)
