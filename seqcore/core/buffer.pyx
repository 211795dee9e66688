"""The gap buffer: edits of a store, each O(1) near the last one.

An insert or erase at the gap moves `lo` or `hi` by one. Elsewhere the gap is moved there first: a memmove
of the slots in between, 8 bytes for each, however long the sequence is. A store of runs is spliced instead,
until slots are cheaper.

An edit of what others share makes the editor's own first. Either way the old store comes back in `stale`,
which the caller releases when its lock is gone, because releasing runs finalizers, and those may come back.
No function here runs foreign code. On a failure nothing has changed.

An edit that must turn a large sequence's runs into slots says NEEDS_SLOTS to a patient caller, which makes
them without the lock and tries again.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawRealloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove
from seqcore.core.counters cimport GAP_MOVED, GROWN, LOOSENED, SHRUNK, SLOTS_COPIED, count
from seqcore.core.directory cimport Slot, source_of
from seqcore.core.limits cimport SLOTS_UNDER_LOCK
from seqcore.core.owner cimport retain_slots
from seqcore.core.runs cimport reversed_runs, splice
from seqcore.core.slots cimport as_slots, give_ids, write_slots
from seqcore.core.source cimport MAX_BYTES, NEEDS_SLOTS, NO_MEMORY, OK, Source, Status, add_to, read_counter
from seqcore.core.store cimport (
    SLOTS, Store, back_size, fill, has_runs, new_slots, share, size_of, slot_at, use_huge_pages,
)


cdef Py_ssize_t grown(Py_ssize_t n) noexcept nogil:
    """Slots for n elements and the next n/4, so that n appends cost O(n) together."""
    return n + (n >> 2) + 6


cdef Status loosen(Store **store, Store **stale, bint patient) noexcept:
    """Have slots in the place of runs."""
    cdef Store *old = store[0]
    cdef Store *new
    if not has_runs(old):
        return OK
    if patient and size_of(old) > SLOTS_UNDER_LOCK:
        return NEEDS_SLOTS
    new = new_slots(size_of(old))
    if new == NULL:
        return NO_MEMORY
    if as_slots(old, 0, 1, new) != OK:
        PyMem_RawFree(new)
        return NO_MEMORY
    store[0] = new
    stale[0] = old
    count(LOOSENED, 1)
    return OK


cdef Status edit_runs(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t stop, const Store *news,
                      bint patient, bint *done) noexcept:
    """Of runs, put `news` in the place of elements start to stop, or have slots for whoever does it then."""
    cdef Status status = OK
    done[0] = False
    if has_runs(store[0]):
        status = splice(store, stale, start, stop, news)
        done[0] = status == OK
        if status == NEEDS_SLOTS:
            status = loosen(store, stale, patient)
    return status


# -- the gap ----------------------------------------------------------------------------------------------

cdef void move_gap(Store *store, Py_ssize_t position) noexcept nogil:
    cdef Py_ssize_t lo = store.lo, hi = store.hi, n
    if position < lo:
        n = lo - position
        memmove(&store.slots[hi - n], &store.slots[position], n * sizeof(Slot))
    elif position > lo:
        n = position - lo
        memmove(&store.slots[lo], &store.slots[hi], n * sizeof(Slot))
    else:
        return
    count(GAP_MOVED, 1)
    store.hi = hi + (position - lo)
    store.lo = position


cdef Status grow(Store **store, Py_ssize_t n) noexcept nogil:
    """Have capacity for n elements; the gap becomes longer at its back."""
    cdef Store *old = store[0]
    cdef Store *new
    cdef Py_ssize_t capacity = grown(n), back = back_size(old)
    if capacity > (MAX_BYTES - <Py_ssize_t>sizeof(Store)) // <Py_ssize_t>sizeof(Slot):
        return NO_MEMORY
    new = <Store *>PyMem_RawRealloc(old, sizeof(Store) + capacity * sizeof(Slot))
    if new == NULL:
        return NO_MEMORY
    use_huge_pages(new, capacity * sizeof(Slot))
    memmove(&new.slots[capacity - back], &new.slots[new.hi], back * sizeof(Slot))
    new.hi = capacity - back
    new.capacity = capacity
    store[0] = new
    count(GROWN, 1)
    return OK


cdef void shrink(Store **store) noexcept nogil:
    """Return memory once three quarters of slots of one's own are gap."""
    cdef Store *old = store[0]
    cdef Py_ssize_t n = size_of(old), back = back_size(old), capacity
    if old.capacity < 64 or n > old.capacity >> 2 or read_counter(&old.shares) > 1:
        return
    capacity = grown(n)
    memmove(&old.slots[capacity - back], &old.slots[old.hi], back * sizeof(Slot))
    old.hi = capacity - back
    old.capacity = capacity
    cdef Store *new = <Store *>PyMem_RawRealloc(old, sizeof(Store) + capacity * sizeof(Slot))
    if new != NULL:                 # else the old block stays, longer than it need be
        store[0] = new
        count(SHRUNK, 1)


cdef Status open_gap(Store **store, Store **stale, Py_ssize_t position, Py_ssize_t room) noexcept:
    """Have the gap at `position`, with `room` free slots, in slots of one's own."""
    cdef Store *old = store[0]
    cdef Store *new
    cdef Py_ssize_t n = size_of(old)
    if room > MAX_BYTES // 2 - n:
        return NO_MEMORY
    if read_counter(&old.shares) > 1:
        new = new_slots(grown(n + room) if room else n)
        if new == NULL:
            return NO_MEMORY
        new.lo = position
        new.hi = new.capacity - (n - position)
        write_slots(old, 0, 1, position, new.slots)
        write_slots(old, position, 1, n - position, &new.slots[new.hi])
        retain_slots(new.slots, position)
        retain_slots(&new.slots[new.hi], n - position)
        store[0] = new
        stale[0] = old
        count(SLOTS_COPIED, 1)
        return OK
    if old.hi - old.lo < room:
        if grow(store, n + room) != OK:
            return NO_MEMORY
    move_gap(store[0], position)
    return OK


# -- elements in and out ----------------------------------------------------------------------------------

cdef Status put_one(Store **store, Store **stale, Py_ssize_t position, Source *whole, bint patient) noexcept:
    """Insert a whole array; the caller's use of it becomes the store's."""
    cdef Store *own = store[0]
    cdef Store news
    cdef Status status
    cdef bint done
    if has_runs(own):
        news.nruns = SLOTS
        news.capacity = news.lo = news.hi = 1
        news.slots[0] = <Slot><size_t>whole
        status = edit_runs(store, stale, position, position, &news, patient, &done)
        if done:
            add_to(&whole.users, -1)        # the run counts itself
        if status != OK or done:
            return status
        own = store[0]
    if own.lo != position or own.lo == own.hi or read_counter(&own.shares) > 1:
        if open_gap(store, stale, position, 1) != OK:
            return NO_MEMORY
        own = store[0]
    own.slots[own.lo] = <Slot><size_t>whole
    own.lo += 1
    return OK


cdef Status put_all(Store **store, Store **stale, Py_ssize_t position, Store *news, bint patient) noexcept:
    """Insert the elements of `news`. If these are slots that are the caller's alone, it may be left empty."""
    cdef Py_ssize_t n = size_of(news)
    cdef Store *own
    cdef Status status
    cdef bint done
    if n == 0:
        return OK
    if size_of(store[0]) == 0:
        stale[0] = store[0]
        store[0] = share(news)
        return OK
    status = edit_runs(store, stale, position, position, news, patient, &done)
    if status != OK or done:
        return status
    if give_ids(news) != OK or open_gap(store, stale, position, n) != OK:
        return NO_MEMORY
    own = store[0]
    write_slots(news, 0, 1, n, &own.slots[own.lo])
    if has_runs(news) or read_counter(&news.shares) > 1:
        retain_slots(&own.slots[own.lo], n)
    else:
        news.lo = 0
        news.hi = news.capacity
    own.lo += n
    return OK


cdef Status take_one(Store **store, Store **stale, Py_ssize_t position, Slot *taken, bint patient) noexcept:
    """Remove an element; a slot's use of its source is the caller's. The gap comes from the nearer side."""
    cdef bint done
    cdef Status status = edit_runs(store, stale, position, position + 1, NULL, patient, &done)
    cdef Store *own = store[0]
    if status != OK or done:
        return status
    if read_counter(&own.shares) > 1:
        if open_gap(store, stale, position, 0) != OK:
            return NO_MEMORY
        own = store[0]
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
    shrink(store)
    return OK


cdef Status take_range(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                       Store **taken, bint patient) noexcept:
    """Move elements start, start + step, … into a store that is made; step > 0.

    Of runs they stay in `stale` alone.
    """
    cdef Py_ssize_t i = 0, found = 0
    cdef Store *own
    cdef Store *into
    cdef Status status
    cdef bint done = False
    if step == 1:
        status = edit_runs(store, stale, start, start + n, NULL, patient, &done)
    else:
        status = loosen(store, stale, patient)
    if status != OK or done:
        return status
    into = taken[0] = new_slots(n)
    if into == NULL or open_gap(store, stale, start, 0) != OK:
        return NO_MEMORY
    own = store[0]
    # Elements come through the gap from its back: those to take leave, the others line up before it.
    while found < n:
        if i == found * step:
            into.slots[found] = own.slots[own.hi]
            found += 1
        else:
            own.slots[own.lo] = own.slots[own.hi]
            own.lo += 1
        own.hi += 1
        i += 1
    fill(into)
    shrink(store)
    return OK


cdef Status take_marked(Store **store, Store **stale, const char *marks, Py_ssize_t n, Store **taken,
                        bint patient) noexcept:
    """Move the n elements whose mark is 1 into a store that is made. Without any, nothing is edited."""
    cdef Py_ssize_t i = 0, found = 0, marked
    cdef Store *own
    cdef Store *into
    cdef Slot slot
    cdef Status status
    if n == 0:
        return OK
    status = loosen(store, stale, patient)
    if status != OK:
        return status
    while not marks[i]:
        i += 1
    into = taken[0] = new_slots(n)
    if into == NULL or open_gap(store, stale, i, 0) != OK:
        return NO_MEMORY
    own = store[0]
    while found < n:
        # Written to both sides, and one of them moves on: without a branch that nobody could predict. The
        # first element is marked, so that the gap always has a slot for what stays.
        slot = own.slots[own.hi]
        own.hi += 1
        marked = marks[i]
        into.slots[found] = slot
        found += marked
        own.slots[own.lo] = slot
        own.lo += 1 - marked
        i += 1
    fill(into)
    shrink(store)
    return OK


cdef Status replace_one(Store **store, Store **stale, Py_ssize_t position, Slot *slot, bint patient) noexcept:
    """Exchange the element at a position for a whole array, and the uses of their sources with them.

    Of runs the old element stays in `stale` alone: `slot` is then 0.
    """
    cdef Store news
    cdef Slot *place
    cdef Status status
    cdef bint done
    if has_runs(store[0]):
        news.nruns = SLOTS
        news.capacity = news.lo = news.hi = 1
        news.slots[0] = slot[0]
        status = edit_runs(store, stale, position, position + 1, &news, patient, &done)
        if done:
            add_to(&source_of(slot[0]).users, -1)       # the run counts itself
            slot[0] = 0
        if status != OK or done:
            return status
    if read_counter(&store[0].shares) > 1 and open_gap(store, stale, position, 0) != OK:
        return NO_MEMORY
    place = slot_at(store[0], position)
    place[0], slot[0] = slot[0], place[0]
    return OK


cdef Status own_slots(Store **store, Store **stale, bint patient) noexcept:
    """Have slots of one's own."""
    cdef Status status = loosen(store, stale, patient)
    if status == OK and read_counter(&store[0].shares) > 1:
        status = open_gap(store, stale, size_of(store[0]), 0)
    return status


cdef Status replace_each(Store **store, Store **stale, const int64_t *positions, Py_ssize_t start,
                         Py_ssize_t step, Store *news, bint patient) noexcept:
    """Exchange elements for those of `news`, slots of the caller's own, one after the other.

    They are at positions in range, or where that is NULL at start, start + step, …
    """
    cdef Py_ssize_t i, at, n = size_of(store[0])
    cdef Status status = OK
    cdef Slot *place
    cdef Slot *new
    if size_of(news):
        status = own_slots(store, stale, patient)
    if status == OK:
        for i in range(size_of(news)):
            at = start + i * step if positions == NULL else positions[i]
            place, new = slot_at(store[0], at + (n if at < 0 else 0)), slot_at(news, i)
            place[0], new[0] = new[0], place[0]
    return status


cdef Status replace_span(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t n, Store **removed,
                         Store *news, bint patient) noexcept:
    """Put the elements of `news` in the place of n others, which move into a store that is made.

    Of runs those that were removed stay in `stale` alone.
    """
    cdef Store *own
    cdef bint done
    cdef Status status = edit_runs(store, stale, start, start + n, news, patient, &done)
    if status != OK or done:
        return status
    removed[0] = new_slots(n)
    if removed[0] == NULL or give_ids(news) != OK or open_gap(store, stale, start, size_of(news)) != OK:
        return NO_MEMORY
    own = store[0]
    memcpy(removed[0].slots, &own.slots[own.hi], n * sizeof(Slot))
    own.hi += n
    fill(removed[0])
    write_slots(news, 0, 1, size_of(news), &own.slots[own.lo])
    retain_slots(&own.slots[own.lo], size_of(news))
    own.lo += size_of(news)
    shrink(store)
    return OK


cdef Status reverse_all(Store **store, Store **stale) noexcept:
    cdef Store *own = store[0]
    cdef Py_ssize_t n = size_of(own), i
    if has_runs(own):
        own = reversed_runs(own)
        if own == NULL:
            return NO_MEMORY
        store[0], stale[0] = own, store[0]
        return OK
    if open_gap(store, stale, n, 0) != OK:
        return NO_MEMORY
    own = store[0]
    for i in range(n // 2):
        own.slots[i], own.slots[n - 1 - i] = own.slots[n - 1 - i], own.slots[i]
    return OK
