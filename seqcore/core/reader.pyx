"""Reading the elements of a store, for all loops: spans, blocks of pieces, or whichever is longer.

::

    next_span       elements at equal distances in one table, as many as there are
    next_pieces     up to 64 elements, each read and checked
    next_block      a span where it is long, pieces where spans would be short

A loop that can take many elements of a table at once asks for spans: a whole run is one, and so are slots
whose numbers are at equal distances. All other loops take pieces and know neither runs nor slots.

After `next_pieces` or `next_block` came to an end, `damaged` says whether that was at an element which is
outside of its source: `at` is then its position.
"""

from seqcore.core.directory cimport ID_SHIFT, Slot, number_in, same_source, source_of
from seqcore.core.limits cimport BLOCK, FETCH_AHEAD, SPAN_FROM
from seqcore.core.owner cimport TableOwner
from seqcore.core.source cimport (
    EVEN, OFFSETS, SHAPED, Piece, Source, Table, number_at, owner_of, prefetch, resolve, resolve_whole,
)
from seqcore.core.store cimport Run, begin_of, find_run, has_runs, runs_of, slot_at


cdef void begin(Reader *reader, const Store *store, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Have elements start to stop read, which are in range."""
    reader.store = store
    reader.at = start
    reader.stop = stop
    reader.run = 0
    reader.n = reader.singly = 0
    reader.damaged = False


# -- spans ---------------------------------------------------------------------------------------------

cdef Py_ssize_t count_even(const Slot *slots, Py_ssize_t n) noexcept nogil:
    """Return how many slots, from the first, are numbers at equal distances in one table."""
    cdef Py_ssize_t i = 2, j
    cdef Slot distance, differing
    if n < 2 or not slots[0] & 1 or not slots[1] & 1 or slots[0] >> ID_SHIFT != slots[1] >> ID_SHIFT:
        return 1
    distance = slots[1] - slots[0]
    while i < n and i < SPAN_FROM:       # most that are not long end here
        if slots[i] - slots[i - 1] != distance:
            break
        i += 1
    else:
        while i + BLOCK <= n:
            # No branch inside, so that compilers make vector instructions of it.
            differing = 0
            for j in range(i, i + BLOCK):
                differing |= (slots[j] - slots[j - 1]) ^ distance
            if differing:
                break
            i += BLOCK
        while i < n and slots[i] - slots[i - 1] == distance:
            i += 1
    # Numbers at equal distances may lead into another table.
    while slots[i - 1] >> ID_SHIFT != slots[0] >> ID_SHIFT:
        i -= 1
    return i


cdef void find_span(Reader *reader, Span *span) noexcept nogil:
    """The span at which the reader is."""
    cdef const Store *store = reader.store
    cdef const Run *run
    cdef const Slot *slots
    cdef Py_ssize_t n = reader.stop - reader.at
    if has_runs(store):
        reader.run = find_run(store, reader.at, reader.run)
        run = &runs_of(store)[reader.run]
        span.source = run.source
        span.first = run.first + (reader.at - begin_of(store, reader.run)) * run.step
        span.step = run.step
        span.n = min(run.end, reader.stop) - reader.at
        return
    slots = slot_at(store, reader.at)
    if reader.at < store.lo:
        n = min(n, store.lo - reader.at)        # the gap is in between
    span.source = source_of(slots[0])
    span.first = number_in(slots[0])
    span.n = count_even(slots, n)
    span.step = number_in(slots[1]) - span.first if span.n > 1 else 1


cdef bint next_span(Reader *reader, Span *span) noexcept nogil:
    """The next elements at equal distances in one source; whether there are any. None is read."""
    if reader.at >= reader.stop:
        return False
    find_span(reader, span)
    reader.at += span.n
    return True


cdef bint ends_of(const Span *span, Piece *first, Piece *last, Py_ssize_t *dims) noexcept nogil:
    """Read the first and the last element of a span; whether both are within their source."""
    return (resolve(span.source, span.first + (span.n - 1) * span.step, last, dims)
            and resolve(span.source, span.first, first, dims))


# -- pieces --------------------------------------------------------------------------------------------

cdef inline void fetch(Slot slot) noexcept nogil:
    """Have what a slot leads to brought near."""
    cdef Table *table
    if not slot & 1:
        prefetch(<void *><size_t>slot)
        return
    table = <Table *>source_of(slot)
    if table.source.kind != EVEN:
        prefetch(<const char *>(table.starts if table.starts != NULL else table.lengths)
                 + number_in(slot) * table.width)


cdef Py_ssize_t next_pieces(Reader *reader) noexcept nogil:
    """Read the next elements into `pieces`, up to BLOCK of them; how many."""
    cdef Py_ssize_t n = 0, used = 0, before = -1
    # As long as there is room, and as the last ones were good.
    while n < BLOCK and reader.at < reader.stop and n > before:
        before = n
        if has_runs(reader.store):
            n = read_run(reader, n, &used)
        else:
            n = read_slots(reader, n, &used)
    reader.damaged = n == 0 and reader.at < reader.stop
    reader.n = n
    return n


cdef Py_ssize_t read_run(Reader *reader, Py_ssize_t n, Py_ssize_t *used) noexcept nogil:
    """Read elements of the run at which the reader is behind n others; how many there are then."""
    cdef const Store *store = reader.store
    cdef const Run *run
    cdef Source *source
    cdef Py_ssize_t first = n, number, end, dims
    reader.run = find_run(store, reader.at, reader.run)
    run = &runs_of(store)[reader.run]
    source = run.source
    dims = 2 * source.ndim if source.kind == SHAPED else 0
    number = run.first + (reader.at - begin_of(store, reader.run)) * run.step
    end = n + min(BLOCK - n, min(run.end, reader.stop) - reader.at)
    if source.kind == OFFSETS and run.step == 1:
        n = read_offsets(reader, <Table *>source, number, n, end)
    else:
        while n < end and used[0] + dims <= DIMS and (
                resolve(source, number, &reader.pieces[n], reader.dims + used[0])):
            used[0] += dims
            number += run.step
            n += 1
    reader.at += n - first
    return n


cdef Py_ssize_t read_offsets(Reader *reader, Table *table, Py_ssize_t number, Py_ssize_t n,
                             Py_ssize_t end) noexcept nogil:
    """As `read_run`, from each offset to the next: each is read once, not twice."""
    cdef Py_ssize_t start, stop = number_at(table.starts, number, table.width)
    cdef Piece *piece
    while n < end:
        number += 1
        start = stop
        stop = number_at(table.starts, number, table.width)
        if not table.low <= start <= stop <= table.high:
            break
        piece = &reader.pieces[n]
        piece.source = &table.source
        piece.shape = table.source.shape
        piece.data = table.source.data + (start - table.low) * table.step
        piece.start = start
        piece.length = stop - start
        n += 1
    return n


cdef Py_ssize_t read_slots(Reader *reader, Py_ssize_t n, Py_ssize_t *used) noexcept nogil:
    """Read elements of slots from the reader on, up to the gap, behind n others; how many there are then."""
    cdef const Store *store = reader.store
    cdef const Slot *slots = slot_at(store, reader.at)
    cdef Source *source
    cdef Py_ssize_t i, dims, first = n, there = reader.stop - reader.at
    if reader.at < store.lo:
        there = min(there, store.lo - reader.at)
    for i in range(min(BLOCK - n, there)):
        if i + FETCH_AHEAD < there:
            fetch(slots[i + FETCH_AHEAD])
        source = source_of(slots[i])
        if not slots[i] & 1:
            resolve_whole(source, &reader.pieces[n])
            n += 1
            continue
        dims = 2 * source.ndim if source.kind == SHAPED else 0
        if used[0] + dims > DIMS or not resolve(source, number_in(slots[i]), &reader.pieces[n],
                                                reader.dims + used[0]):
            break
        used[0] += dims
        n += 1
    reader.at += n - first
    return n


cdef bint next_block(Reader *reader, Span *span) noexcept nogil:
    """The next span if it is long, else pieces, and then span.n is 0; whether there is anything."""
    span.n = 0
    if reader.at >= reader.stop or reader.damaged:
        return False
    if reader.at >= reader.singly:
        find_span(reader, span)
        if span.n >= SPAN_FROM or (span.n > 1 and reader.at + span.n == reader.stop):
            reader.at += span.n
            reader.n = 0
            return True
        span.n = 0
    return next_pieces(reader) > 0


cdef Py_ssize_t rows_ahead(Reader *reader, bint stacking, Source **source) noexcept nogil:
    """Return how many of the next elements have one length in one even table and are not in a span; or 0.

    None of them needs to be read: element `number` is at data + number * pitch.
    """
    cdef const Store *store = reader.store
    cdef const Slot *slots = slot_at(store, reader.at)
    cdef const Run *run
    cdef Py_ssize_t i = 1, n = reader.stop - reader.at
    if not has_runs(store) and reader.at < store.lo:
        n = min(n, store.lo - reader.at)
    if n < SPAN_FROM:
        return 0
    if has_runs(store):
        reader.run = find_run(store, reader.at, reader.run)
        run = &runs_of(store)[reader.run]
        source[0] = run.source
        n = min(run.end, reader.stop) - reader.at if run.step != 1 and not stacking else 0
    else:
        if count_even(slots, SPAN_FROM) == SPAN_FROM:
            return 0
        source[0] = source_of(slots[0])
    if source[0].kind != EVEN or (<Table *>source[0]).last != source[0].length:
        return 0
    if has_runs(store):
        return n if n >= SPAN_FROM else 0
    while i < n and same_source(slots[i], slots[0]):
        i += 1
    return i if i >= SPAN_FROM else 0


cdef Py_ssize_t take_singly(Reader *reader, Span *span) noexcept nogil:
    """Have the elements of the span that came last as pieces after all, from its first one on."""
    reader.singly = reader.at
    reader.at -= span.n
    span.n = 0
    return next_pieces(reader)


# -- damage --------------------------------------------------------------------------------------------

cdef int raise_damaged(const Store *store, Py_ssize_t position) except -1:
    """Say which element is outside of its values. Its numbers are not read again: they may have changed."""
    cdef Py_ssize_t number = 0
    cdef Source *source = locate(store, position, &number)
    cdef TableOwner owner = <TableOwner>owner_of(source)
    where = "its Arrow array" if owner.origin is None else owner.origin.path
    whose = "" if owner.origin is None else f", number {owner.first + number} of the file,"
    what = "leave its values, or make no tensor of its shape" if source.kind == SHAPED else "leave its values"
    raise ValueError(f"element {position}{whose} can't be read: its offsets {what}, so {where} is damaged")
