"""The gap buffer.

::

    slots    0            lo            hi                  capacity
             ├─ elements ─┤···· gap ····├───── elements ─────┤

    position i  is  slots[i]              where i < lo
                    slots[i + (hi - lo)]  from there on

Invariants: 0 ≤ lo ≤ hi ≤ capacity, and each slot outside the gap holds its piece once (`owner.hold`).

An insert or erase at the gap moves `lo` or `hi` by one. Elsewhere the gap is moved there first: a memmove
of the slots in between, 8 bytes for each, however long the sequence is.

Buffers are shared: a copy of a sequence, and whatever reads one without the GIL, takes a share instead of
the elements. An edit of a shared buffer makes the editor's own first and hands the other back in `stale`.
The caller releases `stale` when its lock is gone, for to release is to run finalizers, and those may come
back in. No function here runs foreign code but `release`. On a failure nothing has changed.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove
from seqcore.core.counters cimport GAP_MOVED, GROWN, SHRUNK, SLOTS_COPIED, count
from seqcore.core.owner cimport drop_all, hold_all
from seqcore.core.pieces cimport (
    EVEN, MAX_BYTES, NO_MEMORY, OK, Piece, Status, add_to, read_counter, step_of,
)

# Sequences without elements share this one, which is never theirs alone and so never edited or freed.
cdef GapBuffer nothing
nothing.shares = 1
nothing.capacity = nothing.lo = nothing.hi = 0


cdef size_t nbytes_of(Py_ssize_t capacity) noexcept nogil:
    # The struct has one slot of its own, which makes up for none where the capacity is 0.
    return sizeof(GapBuffer) + <size_t>capacity * sizeof(Piece *)


cdef bint too_many(Py_ssize_t capacity) noexcept nogil:
    return capacity > (MAX_BYTES - <Py_ssize_t>sizeof(GapBuffer)) // <Py_ssize_t>sizeof(Piece *)


cdef Py_ssize_t grown(Py_ssize_t n) noexcept nogil:
    """Slots for n elements and the next n/4, so that n appends cost O(n) together."""
    return n + (n >> 2) + 6


# -- whole buffers -----------------------------------------------------------------------------------

cdef GapBuffer *new_buffer(Py_ssize_t capacity) noexcept nogil:
    """A buffer that is all gap, with one share; NULL if there is no memory."""
    if too_many(capacity):
        return NULL
    cdef GapBuffer *buffer = <GapBuffer *>PyMem_RawMalloc(nbytes_of(capacity))
    if buffer != NULL:
        buffer.shares = 1
        buffer.capacity = capacity
        buffer.lo = 0
        buffer.hi = capacity
    return buffer


cdef GapBuffer *empty_buffer() noexcept nogil:
    return share(&nothing)


cdef void fill(GapBuffer *buffer) noexcept nogil:
    """All slots have been written and hold their pieces: no gap is left."""
    buffer.lo = buffer.hi = buffer.capacity


cdef GapBuffer *share(GapBuffer *buffer) noexcept nogil:
    add_to(&buffer.shares, 1)
    return buffer


cdef void release(GapBuffer *buffer) noexcept:
    """Give up a share, and with the last one the elements. NULL is nothing to release."""
    if buffer == NULL or add_to(&buffer.shares, -1) > 1:
        return
    drop_all(buffer.slots, buffer.lo)
    drop_all(back_of(buffer), back_size(buffer))
    PyMem_RawFree(buffer)


cdef Status unshare(GapBuffer **buffer) noexcept:
    """Make a buffer the caller's own, if need be by a copy that its share is given for."""
    cdef GapBuffer *old = buffer[0]
    cdef GapBuffer *new
    if read_counter(&old.shares) > 1:
        new = new_buffer(size_of(old))
        if new == NULL:
            return NO_MEMORY
        copy_range(old, 0, 1, new)
        count(SLOTS_COPIED, 1)
        buffer[0] = new
        release(old)
    return OK


# -- the gap -----------------------------------------------------------------------------------------

cdef void move_gap(GapBuffer *buffer, Py_ssize_t position) noexcept nogil:
    cdef Py_ssize_t lo = buffer.lo, hi = buffer.hi, n
    if position < lo:
        n = lo - position
        memmove(&buffer.slots[hi - n], &buffer.slots[position], n * sizeof(Piece *))
    elif position > lo:
        n = position - lo
        memmove(&buffer.slots[lo], &buffer.slots[hi], n * sizeof(Piece *))
    else:
        return
    count(GAP_MOVED, 1)
    buffer.hi = hi + (position - lo)
    buffer.lo = position


cdef Status grow(GapBuffer **buffer, Py_ssize_t n) noexcept nogil:
    """Make room for n elements; the gap becomes longer at its back."""
    cdef GapBuffer *old = buffer[0]
    cdef GapBuffer *new
    cdef Py_ssize_t capacity = grown(n), back = back_size(old)
    if too_many(capacity):
        return NO_MEMORY
    new = <GapBuffer *>PyMem_RawRealloc(old, nbytes_of(capacity))
    if new == NULL:
        return NO_MEMORY
    memmove(&new.slots[capacity - back], &new.slots[new.hi], back * sizeof(Piece *))
    new.hi = capacity - back
    new.capacity = capacity
    buffer[0] = new
    count(GROWN, 1)
    return OK


cdef void shrink(GapBuffer **buffer) noexcept nogil:
    """Return memory once three quarters of a buffer of one's own are gap."""
    cdef GapBuffer *old = buffer[0]
    cdef Py_ssize_t n = size_of(old), back = back_size(old), capacity
    if old.capacity < 64 or n > old.capacity >> 2 or read_counter(&old.shares) > 1:
        return
    capacity = grown(n)
    memmove(&old.slots[capacity - back], &old.slots[old.hi], back * sizeof(Piece *))
    old.hi = capacity - back
    old.capacity = capacity
    cdef GapBuffer *new = <GapBuffer *>PyMem_RawRealloc(old, nbytes_of(capacity))
    if new != NULL:                 # else the old block stays, longer than it need be
        buffer[0] = new
        count(SHRUNK, 1)


cdef Status open_gap(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position,
                     Py_ssize_t room) noexcept:
    """Have the gap at `position`, with `room` free slots, in a buffer of one's own."""
    cdef GapBuffer *old = buffer[0]
    cdef GapBuffer *new
    cdef Py_ssize_t n = size_of(old)
    if room > MAX_BYTES // 2 - n:
        return NO_MEMORY
    if read_counter(&old.shares) > 1:
        new = new_buffer(grown(n + room) if room else n)
        if new == NULL:
            return NO_MEMORY
        new.lo = position
        new.hi = new.capacity - (n - position)
        copy_slots(old, 0, 1, position, new.slots)
        copy_slots(old, position, 1, n - position, back_of(new))
        hold_all(new.slots, position)
        hold_all(back_of(new), n - position)
        buffer[0] = new
        stale[0] = old
        count(SLOTS_COPIED, 1)
        return OK
    if old.hi - old.lo < room:
        if grow(buffer, n + room) != OK:
            return NO_MEMORY
    move_gap(buffer[0], position)
    return OK


# -- elements in and out -----------------------------------------------------------------------------

cdef Status put_one(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Piece *piece) noexcept:
    """Insert a piece; the caller's hold on it becomes the slot's."""
    cdef GapBuffer *own = buffer[0]
    if own.lo != position or own.lo == own.hi or read_counter(&own.shares) > 1:
        if open_gap(buffer, stale, position, 1) != OK:
            return NO_MEMORY
        own = buffer[0]
    own.slots[own.lo] = piece
    own.lo += 1
    return OK


cdef Status put_all(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, GapBuffer *news) noexcept:
    """Insert the elements of `news`. If that is the caller's alone, it is left empty."""
    cdef Py_ssize_t n = size_of(news)
    cdef GapBuffer *own
    if n == 0:
        return OK
    if open_gap(buffer, stale, position, n) != OK:
        return NO_MEMORY
    own = buffer[0]
    copy_slots(news, 0, 1, n, &own.slots[own.lo])
    if read_counter(&news.shares) > 1:
        hold_all(&own.slots[own.lo], n)
    else:
        news.lo = 0
        news.hi = news.capacity
    own.lo += n
    return OK


cdef Status take_one(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Piece **taken) noexcept:
    """Remove an element; the slot's hold becomes the caller's. The gap comes from the nearer side."""
    cdef GapBuffer *own = buffer[0]
    if read_counter(&own.shares) > 1:
        if open_gap(buffer, stale, position, 0) != OK:
            return NO_MEMORY
        own = buffer[0]
    elif position < own.lo:
        move_gap(own, position + 1)
    else:
        move_gap(own, position)
    if position < own.lo:
        own.lo -= 1
        taken[0] = own.slots[own.lo]
    else:
        taken[0] = own.slots[own.hi]
        own.hi += 1
    shrink(buffer)
    return OK


cdef Status take_range(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t start, Py_ssize_t step,
                       GapBuffer *taken) noexcept:
    """Move elements start, start + step, … into `taken`, all gap before and filled after; step > 0."""
    cdef Py_ssize_t n = taken.capacity, i = 0, found = 0
    cdef GapBuffer *own
    if open_gap(buffer, stale, start, 0) != OK:
        return NO_MEMORY
    own = buffer[0]
    # Elements come through the gap from its back: those to take leave, the others line up before it.
    while found < n:
        if i == found * step:
            taken.slots[found] = own.slots[own.hi]
            found += 1
        else:
            own.slots[own.lo] = own.slots[own.hi]
            own.lo += 1
        own.hi += 1
        i += 1
    fill(taken)
    shrink(buffer)
    return OK


cdef Status take_marked(GapBuffer **buffer, GapBuffer **stale, const char *marks,
                        GapBuffer *taken) noexcept:
    """Move the elements whose mark is 1 into `taken`, all gap before and filled after; none is no edit."""
    cdef Py_ssize_t n = taken.capacity, i = 0, found = 0, marked
    cdef GapBuffer *own
    cdef Piece *piece
    if n == 0:
        return OK
    while not marks[i]:
        i += 1
    if open_gap(buffer, stale, i, 0) != OK:
        return NO_MEMORY
    own = buffer[0]
    while found < n:
        # Written to both sides, and one of them moves on: without a branch that nobody could predict. The
        # first element is marked, so that the gap always has a slot for what stays.
        piece = own.slots[own.hi]
        own.hi += 1
        marked = marks[i]
        taken.slots[found] = piece
        found += marked
        own.slots[own.lo] = piece
        own.lo += 1 - marked
        i += 1
    fill(taken)
    shrink(buffer)
    return OK


cdef Status replace_span(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t start, GapBuffer *removed,
                         GapBuffer *news) noexcept:
    """Put the elements of `news` in the place of as many as `removed`, all gap before, has slots for."""
    cdef Py_ssize_t n = removed.capacity
    cdef GapBuffer *own
    if open_gap(buffer, stale, start, size_of(news)) != OK:
        return NO_MEMORY
    own = buffer[0]
    memcpy(removed.slots, back_of(own), n * sizeof(Piece *))
    own.hi += n
    fill(removed)
    put_all(buffer, stale, start, news)         # can't fail: the room is there
    shrink(buffer)
    return OK


cdef Status swap_one(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Piece **piece) noexcept:
    """Exchange the element at a position for a piece, and the holds with them."""
    cdef Piece **slot
    if read_counter(&buffer[0].shares) > 1 and open_gap(buffer, stale, position, 0) != OK:
        return NO_MEMORY
    slot = slot_at(buffer[0], position)
    slot[0], piece[0] = piece[0], slot[0]
    return OK


cdef Status swap_range(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t start, Py_ssize_t step,
                       GapBuffer *news) noexcept:
    """Exchange elements start, start + step, … for those of `news`, a buffer of the caller's own."""
    cdef Py_ssize_t i
    for i in range(size_of(news)):
        # Only the first exchange can fail, since after it the buffer is nobody else's.
        if swap_one(buffer, stale, start + i * step, slot_at(news, i)) != OK:
            return NO_MEMORY
    return OK


cdef Status swap_at(GapBuffer **buffer, GapBuffer **stale, const int64_t *positions,
                    GapBuffer *news) noexcept:
    """Exchange the elements at some positions, in range, one after the other for those of `news`."""
    cdef Py_ssize_t i, n = size_of(buffer[0])
    for i in range(size_of(news)):
        # As in `swap_range`, only the first exchange can fail.
        if swap_one(buffer, stale, positions[i] + (n if positions[i] < 0 else 0), slot_at(news, i)) != OK:
            return NO_MEMORY
    return OK


cdef Status reverse_all(GapBuffer **buffer, GapBuffer **stale) noexcept:
    cdef Py_ssize_t n = size_of(buffer[0]), i
    cdef GapBuffer *own
    if open_gap(buffer, stale, n, 0) != OK:
        return NO_MEMORY
    own = buffer[0]
    for i in range(n // 2):
        own.slots[i], own.slots[n - 1 - i] = own.slots[n - 1 - i], own.slots[i]
    return OK


cdef void copy_slots(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                     Piece **into) noexcept nogil:
    cdef Py_ssize_t i, front
    if step == 1:
        front = min(max(buffer.lo - start, 0), n)
        memcpy(into, &buffer.slots[start], front * sizeof(Piece *))
        memcpy(into + front, slot_at(buffer, start + front), (n - front) * sizeof(Piece *))
    else:
        for i in range(n):
            into[i] = slot_at(buffer, start + i * step)[0]


cdef void move_all(GapBuffer *buffer, GapBuffer *into) noexcept:
    """Put the elements of a buffer behind those of another, all at the front and with room for them.

    Their holds are moved with them, if the buffer is the caller's alone.
    """
    cdef Py_ssize_t n = size_of(buffer)
    if n == 0:
        return
    copy_slots(buffer, 0, 1, n, &into.slots[into.lo])
    if read_counter(&buffer.shares) > 1:
        hold_all(&into.slots[into.lo], n)
    else:
        buffer.lo = 0
        buffer.hi = buffer.capacity
    into.lo += n


cdef void copy_range(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t step, GapBuffer *into) noexcept:
    """Fill `into` with elements start, start + step, …"""
    copy_slots(buffer, start, step, into.capacity, into.slots)
    hold_all(into.slots, into.capacity)
    fill(into)


cdef str broken_invariant(GapBuffer *buffer):
    """What is wrong with a buffer, for tests; None if nothing is."""
    cdef Py_ssize_t i
    cdef Piece *piece
    cdef Piece *before
    cdef dict held = {}
    if not 0 <= buffer.lo <= buffer.hi <= buffer.capacity:
        return f"the gap is [{buffer.lo}, {buffer.hi}) of {buffer.capacity} slots"
    if read_counter(&buffer.shares) < 1:
        return f"the buffer has {buffer.shares} shares"
    for i in range(size_of(buffer)):
        piece = slot_at(buffer, i)[0]
        key = <size_t>piece.source
        held[key] = held.get(key, 0) + 1
        if held[key] > read_counter(&piece.source.slots):
            return f"the source of element {i} counts {piece.source.slots} slots, but has more"
        if piece.length < 0:
            return f"element {i} has length {piece.length}"
        if piece.source.tiled and i and slot_at(buffer, i - 1)[0] + 1 == piece:
            before = slot_at(buffer, i - 1)[0]
            if before.data + before.length * step_of(piece.source) != piece.data:
                return f"element {i} does not begin where element {i - 1} ends, though their block is tiled"
            if piece.source.tiled == EVEN and i > 1 and slot_at(buffer, i - 2)[0] + 1 == before and (
                    slot_at(buffer, i - 2)[0].length != before.length):
                return f"elements {i - 2} and {i - 1} differ in length, though their block is even"
    return None
