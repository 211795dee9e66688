"""Stores: how the elements of a sequence are kept.

A sequence that was split, loaded, sliced, reversed or joined is *runs*: nothing is stored per element::

    run     source, first, step, end         elements first, first + step, … of one source
    runs    [A 0 1 500] [B 9 -1 510]         500 elements of A from the front, ten of B from the back

An edit of runs makes a new, equally small store (`splice`). After many edits, and for a selection, the
sequence has *slots*, 8 bytes for each element, in a gap buffer::

    slots    0            lo            hi                  capacity
             ├─ elements ─┤···· gap ····├───── elements ─────┤

    position i  is  slots[i]              where i < lo
                    slots[i + (hi - lo)]  from there on

Invariants: 0 ≤ lo ≤ hi ≤ capacity. Each slot outside the gap is one user of its source, and so is each run.

An insert or erase at the gap moves `lo` or `hi` by one. Elsewhere the gap is moved there first: a memmove
of the slots in between, 8 bytes for each, however long the sequence is.

Stores are shared: a copy of a sequence, and every reader that works without the lock, takes a share instead
of
the elements. Runs never change. An edit of shared slots makes the editor's own first. Either way the old
store
comes back in `stale`, which the caller releases when its lock is gone, because releasing runs finalizers, and
those may come back in. No function here runs foreign code except `release` and `release_slots`. On a failure
nothing has changed.

An edit that must turn a large sequence's runs into slots says NEEDS_SLOTS to a patient caller, which makes
them without the lock and tries again.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc, PyMem_RawRealloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memmove
from seqcore.core.counters cimport GAP_MOVED, GROWN, LOOSENED, SHRUNK, SLOTS_COPIED, SPLICED, count
from seqcore.core.directory cimport Slot, give_id, slot_for, source_of
from seqcore.core.owner cimport release_slots, release_source, retain_slots, retain_source
from seqcore.core.source cimport (
    MAX_BYTES, NEEDS_SLOTS, NO_MEMORY, OK, WHOLE, Source, Status, Table, add_to, read_counter,
)

cdef extern from *:
    """
    #if defined(__linux__)
    #include <stdint.h>
    #include <sys/mman.h>
    #endif

    /* Large stores are read at random: with huge pages, which Linux gives to those who ask, addresses are
       found sooner. It may refuse, and nothing is lost. */
    static inline void seqcore_use_huge_pages(void *memory, Py_ssize_t nbytes)
    {
    #if defined(__linux__) && defined(MADV_HUGEPAGE)
        uintptr_t page = 4096, before = (page - (uintptr_t)memory % page) % page;
        if (nbytes >= (Py_ssize_t)1 << 22)
            (void)madvise((char *)memory + before, (size_t)nbytes - before, MADV_HUGEPAGE);
    #endif
    }
    """
    void use_huge_pages "seqcore_use_huge_pages"(void *memory, Py_ssize_t nbytes) noexcept nogil

cdef enum:
    MOST_RUNS = 64              # that edits make
    PER_EDIT = 32               # runs whose copying takes as long as the rest of a splice
    FEW = 16                    # elements that become runs one by one
    LARGE = 1 << 16             # elements whose slots are made without the lock

# Sequences without elements share this one, which is never theirs alone and so never edited or freed.
cdef Store nothing
nothing.shares = 1
nothing.nruns = SLOTS
nothing.capacity = nothing.lo = nothing.hi = 0


cdef Store *allocated(Py_ssize_t n, Py_ssize_t each) noexcept nogil:
    """A store with room for n slots or runs of some bytes each, and one share; NULL without memory."""
    cdef Store *store
    if n > (MAX_BYTES - <Py_ssize_t>sizeof(Store)) // each:
        return NULL
    # The struct has one slot of its own, which makes up for none where n is 0.
    store = <Store *>PyMem_RawMalloc(sizeof(Store) + n * each)
    if store != NULL:
        use_huge_pages(store, n * each)
        store.shares = 1
    return store


cdef Py_ssize_t grown(Py_ssize_t n) noexcept nogil:
    """Slots for n elements and the next n/4, so that n appends cost O(n) together."""
    return n + (n >> 2) + 6


# -- whole stores ------------------------------------------------------------------------------------

cdef Store *new_slots(Py_ssize_t capacity) noexcept nogil:
    """A store of slots that is all gap."""
    cdef Store *store = allocated(capacity, sizeof(Slot))
    if store != NULL:
        store.nruns = SLOTS
        store.capacity = capacity
        store.lo = 0
        store.hi = capacity
    return store


cdef Store *new_runs(Py_ssize_t nruns) noexcept nogil:
    """A store with room for some runs, to be added and finished."""
    cdef Store *store = allocated(nruns, sizeof(Run))
    if store != NULL:
        store.nruns = store.capacity = store.lo = store.hi = 0
    return store


cdef Store *one_run(Source *source, Py_ssize_t n) noexcept:
    """The elements of a source in order."""
    cdef Store *store
    if n == 0:
        return empty_store()
    store = new_runs(1)
    if store != NULL:
        add_run(store, source, 0, 1, n)
        retain_source(source, 1)
    return store


cdef Store *empty_store() noexcept nogil:
    return share(&nothing)


cdef void fill(Store *store) noexcept nogil:
    """All slots have been written and are users of their sources: no gap is left."""
    store.lo = store.hi = store.capacity


cdef Store *share(Store *store) noexcept nogil:
    add_to(&store.shares, 1)
    return store


cdef void release(Store *store) noexcept:
    """Return a share, and with the last one the elements. NULL is nothing to release."""
    cdef Py_ssize_t i
    if store == NULL or add_to(&store.shares, -1) > 1:
        return
    if has_runs(store):
        for i in range(store.nruns):
            release_source(runs_of(store)[i].source, 1)
    else:
        release_slots(store.slots, store.lo)
        release_slots(&store.slots[store.hi], back_size(store))
    PyMem_RawFree(store)


# -- runs ----------------------------------------------------------------------------------------------

cdef Py_ssize_t find_run(const Store *store, Py_ssize_t position, Py_ssize_t hint) noexcept nogil:
    """Which run the element at a position in range is in; perhaps `hint`, or the one behind it."""
    cdef const Run *runs = runs_of(store)
    cdef Py_ssize_t low = 0, high = store.nruns - 1, middle
    if hint < store.nruns and begin_of(store, hint) <= position:
        if position < runs[hint].end:
            return hint
        low = hint + 1
        if position < runs[low].end:
            return low
    # Parts of a file are often of one length: then this is the one.
    middle = <Py_ssize_t>(<double>position * store.nruns / store.capacity)
    if middle <= high and begin_of(store, middle) <= position < runs[middle].end:
        return middle
    while low < high:
        middle = (low + high) >> 1
        if position < runs[middle].end:
            high = middle
        else:
            low = middle + 1
    return low


cdef void add_run(Store *store, Source *source, Py_ssize_t first, Py_ssize_t step,
                  Py_ssize_t n) noexcept nogil:
    """Write a run behind the others, or make the last one longer. It is no user of its source yet."""
    cdef Run *runs = runs_of(store)
    cdef Run *last
    cdef Py_ssize_t before
    if n == 0:
        return
    if n == 1:
        step = 1
    if store.nruns and runs[store.nruns - 1].source == source:
        last = &runs[store.nruns - 1]
        before = last.end - begin_of(store, store.nruns - 1)
        if before == 1 and (first - last.first == step or (n == 1 and first - last.first == -1)):
            last.step = first - last.first
            last.end += n
            store.capacity += n
            return
        if before > 1 and first == last.first + before * last.step and (n == 1 or step == last.step):
            last.end += n
            store.capacity += n
            return
    last = &runs[store.nruns]
    last.source = source
    last.first = first
    last.step = step
    store.capacity += n
    last.end = store.capacity
    store.nruns += 1


cdef void add_runs(Store *store, const Store *of, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Write the runs of elements start to stop of another store."""
    cdef const Run *run
    cdef Py_ssize_t which, begin, n
    if start >= stop:
        return
    which = find_run(of, start, 0)
    while start < stop:
        run = &runs_of(of)[which]
        begin = begin_of(of, which)
        n = min(run.end, stop) - start
        add_run(store, run.source, run.first + (start - begin) * run.step, run.step, n)
        start += n
        which += 1


cdef void retain_runs(const Store *store) noexcept:
    cdef Py_ssize_t i
    for i in range(store.nruns):
        retain_source(runs_of(store)[i].source, 1)


cdef Store *finished(Store *store) noexcept:
    """A store to which runs were added, from now on a user of its sources; NULL, and freed, without memory.

    As slots where so many runs would be larger.
    """
    cdef Store *slots = store
    if store == NULL:
        return NULL
    if store.capacity == 0:
        PyMem_RawFree(store)
        return empty_store()
    if store.nruns <= MOST_RUNS or store.nruns <= store.capacity >> 3:
        retain_runs(store)
        return store
    slots = new_slots(store.capacity)
    if slots != NULL and as_slots(store, 0, 1, slots) != OK:
        PyMem_RawFree(slots)
        slots = NULL
    PyMem_RawFree(store)
    return slots


cdef Status splice(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t stop,
                   const Store *news) noexcept:
    """Put the elements of `news`, which may be NULL, in the place of elements start to stop of runs.

    Nothing has happened where NEEDS_SLOTS is returned.
    """
    cdef Store *old = store[0]
    cdef Store *new
    cdef Py_ssize_t n = old.capacity, more = 0, i, number, spent
    cdef Source *source
    if news != NULL and size_of(news):
        more = news.nruns if has_runs(news) else size_of(news)
        if not has_runs(news) and more > FEW:
            return NEEDS_SLOTS
        if size_of(news) > MAX_BYTES // 2 - n:
            return NO_MEMORY
    new = new_runs(old.nruns + more + 1)
    if new == NULL:
        return NO_MEMORY
    add_runs(new, old, 0, start)
    if more and has_runs(news):
        add_runs(new, news, 0, size_of(news))
    else:
        for i in range(more):
            source = locate(news, i, &number)
            add_run(new, source, number, 1, 1)
    add_runs(new, old, stop, n)
    spent = old.lo + new.nruns + PER_EDIT
    if new.capacity == 0:
        PyMem_RawFree(new)
        new = empty_store()
    elif spent > max(n, 4 * PER_EDIT) or (new.nruns > MOST_RUNS >= old.nruns):
        # By now, slots would have been cheaper.
        PyMem_RawFree(new)
        return NEEDS_SLOTS
    else:
        new.lo = new.hi = spent
        retain_runs(new)
    store[0] = new
    stale[0] = old
    count(SPLICED, 1)
    return OK


# -- slots ---------------------------------------------------------------------------------------------

cdef Status give_ids(const Store *store) noexcept nogil:
    """Let slots name the sources of a store."""
    cdef Py_ssize_t i
    for i in range(store.nruns):            # none of slots
        if not give_id(runs_of(store)[i].source):
            return NO_MEMORY
    return OK


cdef Status write_slots(const Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                        Slot *into) noexcept nogil:
    """Write the slots of elements start, start + step, …, which are no users of their sources yet."""
    cdef Py_ssize_t i = 0, k, j, front, which = 0, begin
    cdef const Run *run
    cdef Slot slot, distance
    if n == 0:
        return OK
    if not has_runs(store):
        if step == 1:
            front = min(max(store.lo - start, 0), n)
            memcpy(into, &store.slots[start], front * sizeof(Slot))
            memcpy(into + front, slot_at(store, start + front), (n - front) * sizeof(Slot))
        else:
            for i in range(n):
                into[i] = slot_at(store, start + i * step)[0]
        return OK
    if give_ids(store) != OK:
        return NO_MEMORY
    while i < n:
        which = find_run(store, start, which)
        run = &runs_of(store)[which]
        begin = begin_of(store, which)
        k = (run.end - 1 - start) // step if step > 0 else (start - begin) // -step
        k = min(k + 1, n - i)
        slot = slot_for(run.source, run.first + (start - begin) * run.step)
        # Of numbers, and of a single element nothing.
        distance = <Slot>(2 * run.step * step) if k > 1 else 0
        for j in range(k):
            into[i + j] = slot + <Slot>j * distance
        start += k * step
        i += k
    return OK


cdef void retain_elements(const Store *store) noexcept:
    """Count a slot more for each element of a store."""
    cdef Py_ssize_t i
    for i in range(store.nruns):
        retain_source(runs_of(store)[i].source, runs_of(store)[i].end - begin_of(store, i))
    if not has_runs(store):
        retain_slots(store.slots, store.lo)
        retain_slots(&store.slots[store.hi], back_size(store))


cdef Status as_slots(Store *store, Py_ssize_t start, Py_ssize_t step, Store *into) noexcept:
    """Fill slots, all gap before, with elements start, start + step, …"""
    if write_slots(store, start, step, into.capacity, into.slots) != OK:
        return NO_MEMORY
    if step == 1 and into.capacity == size_of(store):
        retain_elements(store)
    else:
        retain_slots(into.slots, into.capacity)
    fill(into)
    return OK


cdef Status loosen(Store **store, Store **stale, bint patient) noexcept:
    """Have slots in the place of runs."""
    cdef Store *old = store[0]
    cdef Store *new
    if not has_runs(old):
        return OK
    if patient and size_of(old) > LARGE:
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


cdef Status unshare(Store **store) noexcept:
    """Make a store slots of the caller's own, if need be by a copy that its share is given for."""
    cdef Store *old = store[0]
    cdef Store *new
    if has_runs(old) or read_counter(&old.shares) > 1:
        new = new_slots(size_of(old))
        if new == NULL:
            return NO_MEMORY
        if as_slots(old, 0, 1, new) != OK:
            PyMem_RawFree(new)
            return NO_MEMORY
        count(SLOTS_COPIED, 1)
        store[0] = new
        release(old)
    return OK


# -- parts and sums ------------------------------------------------------------------------------------

cdef Status slice_of_store(Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                           Store **into) noexcept:
    """A store of elements start, start + step, …, n of them: runs of runs, slots of slots."""
    cdef Store *new
    cdef const Run *run
    cdef Py_ssize_t which, last, begin, k
    if n == 0:
        into[0] = empty_store()
        return OK
    if n == size_of(store) and step == 1:
        into[0] = share(store)
        return OK
    if not has_runs(store):
        new = new_slots(n)
        if new == NULL:
            return NO_MEMORY
        as_slots(store, start, step, new)           # of slots it can't fail
        into[0] = new
        return OK
    which = find_run(store, start, 0)
    last = find_run(store, start + (n - 1) * step, which)
    new = new_runs(abs(last - which) + 1)
    if new == NULL:
        return NO_MEMORY
    while n:
        which = find_run(store, start, which)
        run = &runs_of(store)[which]
        begin = begin_of(store, which)
        k = (run.end - 1 - start) // step if step > 0 else (start - begin) // -step
        k = min(k + 1, n)
        add_run(new, run.source, run.first + (start - begin) * run.step, run.step * step if k > 1 else 1, k)
        start += k * step
        n -= k
    into[0] = finished(new)
    return OK if into[0] != NULL else NO_MEMORY


cdef Status joined_stores(Store **stores, Py_ssize_t nstores, Store **into) noexcept:
    """A store of the elements of several, one behind the other."""
    cdef Store *new
    cdef Py_ssize_t i, n = 0, nruns = 0
    cdef bint loose = False
    for i in range(nstores):
        if size_of(stores[i]) > MAX_BYTES // 2 - n:
            return NO_MEMORY
        n += size_of(stores[i])
        nruns += max(stores[i].nruns, 0)
        loose |= size_of(stores[i]) and not has_runs(stores[i])
        if n and size_of(stores[i]) == n:
            into[0] = stores[i]                     # the only one so far
    if n == 0:
        into[0] = empty_store()
        return OK
    if size_of(into[0]) == n:
        into[0] = share(into[0])
        return OK
    if not loose:
        new = new_runs(nruns)
        if new == NULL:
            return NO_MEMORY
        for i in range(nstores):
            if has_runs(stores[i]):
                add_runs(new, stores[i], 0, size_of(stores[i]))
        into[0] = finished(new)
        return OK if into[0] != NULL else NO_MEMORY
    new = new_slots(n)
    if new == NULL:
        return NO_MEMORY
    for i in range(nstores):
        if write_slots(stores[i], 0, 1, size_of(stores[i]), &new.slots[new.lo]) != OK:
            PyMem_RawFree(new)
            return NO_MEMORY
        new.lo += size_of(stores[i])
    retain_slots(new.slots, n)
    into[0] = new
    return OK


# -- the gap -----------------------------------------------------------------------------------------

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


# -- elements in and out -----------------------------------------------------------------------------

cdef Status put_one(Store **store, Store **stale, Py_ssize_t position, Source *whole, bint patient) noexcept:
    """Insert a whole array; the caller's use of it becomes the store's."""
    cdef Store *own = store[0]
    cdef Store news
    cdef Status status
    if has_runs(own):
        news.nruns = SLOTS
        news.capacity = news.lo = news.hi = 1
        news.slots[0] = <Slot><size_t>whole
        status = splice(store, stale, position, position, &news)
        if status == OK:
            add_to(&whole.users, -1)        # the run counts itself
        if status != NEEDS_SLOTS:
            return status
        status = loosen(store, stale, patient)
        if status != OK:
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
    if n == 0:
        return OK
    if size_of(store[0]) == 0:
        stale[0] = store[0]
        store[0] = share(news)
        return OK
    if has_runs(store[0]):
        status = splice(store, stale, position, position, news)
        if status == NEEDS_SLOTS:
            status = loosen(store, stale, patient)
        elif status == OK:
            return OK
        if status != OK:
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
    cdef Store *own = store[0]
    cdef Status status
    if has_runs(own):
        status = splice(store, stale, position, position + 1, NULL)
        if status == NEEDS_SLOTS:
            status = loosen(store, stale, patient)
        elif status == OK:
            return OK
        if status != OK:
            return status
        own = store[0]
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
    if has_runs(store[0]):
        status = NEEDS_SLOTS
        if step == 1:
            status = splice(store, stale, start, start + n, NULL)
            if status == OK:
                return OK
        if status == NEEDS_SLOTS:
            status = loosen(store, stale, patient)
        if status != OK:
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
    """Move the n elements whose mark is 1 into a store that is made; none is no edit."""
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
    if has_runs(store[0]):
        news.nruns = SLOTS
        news.capacity = news.lo = news.hi = 1
        news.slots[0] = slot[0]
        status = splice(store, stale, position, position + 1, &news)
        if status == OK:
            add_to(&source_of(slot[0]).users, -1)       # the run counts itself
            slot[0] = 0
        if status != NEEDS_SLOTS:
            return status
        status = loosen(store, stale, patient)
        if status != OK:
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


cdef Status replace_range(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t step, Store *news,
                          bint patient) noexcept:
    """Exchange elements start, start + step, … for those of `news`, slots of the caller's own."""
    cdef Py_ssize_t i
    cdef Status status = OK
    cdef Slot *place
    cdef Slot *new
    if size_of(news):
        status = own_slots(store, stale, patient)
    if status == OK:
        for i in range(size_of(news)):
            place, new = slot_at(store[0], start + i * step), slot_at(news, i)
            place[0], new[0] = new[0], place[0]
    return status


cdef Status replace_at(Store **store, Store **stale, const int64_t *positions, Store *news,
                       bint patient) noexcept:
    """Exchange the elements at some positions, in range, one after the other for those of `news`."""
    cdef Py_ssize_t i, n = size_of(store[0])
    cdef Status status = OK
    cdef Slot *place
    cdef Slot *new
    if size_of(news):
        status = own_slots(store, stale, patient)
    if status == OK:
        for i in range(size_of(news)):
            place = slot_at(store[0], positions[i] + (n if positions[i] < 0 else 0))
            new = slot_at(news, i)
            place[0], new[0] = new[0], place[0]
    return status


cdef Status replace_span(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t n, Store **removed,
                         Store *news, bint patient) noexcept:
    """Put the elements of `news` in the place of n others, which move into a store that is made.

    Of runs those that were removed stay in `stale` alone.
    """
    cdef Store *own
    cdef Status status
    if has_runs(store[0]):
        status = splice(store, stale, start, start + n, news)
        if status == NEEDS_SLOTS:
            status = loosen(store, stale, patient)
        elif status == OK:
            return OK
        if status != OK:
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
    cdef Store *old = store[0]
    cdef Store *new
    cdef const Run *run
    cdef Py_ssize_t n = size_of(old), i, length
    if has_runs(old):
        new = new_runs(old.nruns)
        if new == NULL:
            return NO_MEMORY
        for i in range(old.nruns - 1, -1, -1):
            run = &runs_of(old)[i]
            length = run.end - begin_of(old, i)
            add_run(new, run.source, run.first + (length - 1) * run.step, -run.step, length)
        new.lo = new.hi = old.lo
        retain_runs(new)
        store[0] = new
        stale[0] = old
        return OK
    if open_gap(store, stale, n, 0) != OK:
        return NO_MEMORY
    new = store[0]
    for i in range(n // 2):
        new.slots[i], new.slots[n - 1 - i] = new.slots[n - 1 - i], new.slots[i]
    return OK


# -- tests ---------------------------------------------------------------------------------------------

cdef str broken_invariant(Store *store):
    """What is wrong with a store, for tests; None if nothing is."""
    cdef Py_ssize_t i, n, number = 0, before = 0
    cdef Source *source
    cdef dict used = {}
    if not 0 <= store.lo <= store.hi <= store.capacity and not has_runs(store):
        return f"the gap is [{store.lo}, {store.hi}) of {store.capacity} slots"
    if read_counter(&store.shares) < 1:
        return f"the store has {store.shares} shares"
    if has_runs(store):
        if store.lo != store.hi or not store.nruns:
            return f"a store of {store.nruns} runs has a gap [{store.lo}, {store.hi})"
        for i in range(store.nruns):
            if runs_of(store)[i].end <= before:
                return f"run {i} ends at {runs_of(store)[i].end}, and the one before at {before}"
            before = runs_of(store)[i].end
            key = <size_t>runs_of(store)[i].source
            used[key] = used.get(key, 0) + 1
            if used[key] > read_counter(&runs_of(store)[i].source.users):
                return f"the source of run {i} counts {runs_of(store)[i].source.users} users, but has more"
        if before != store.capacity:
            return f"the last run ends at {before} of {store.capacity} elements"
    for i in range(size_of(store)):
        source = locate(store, i, &number)
        n = 1 if source.kind == WHOLE else (<Table *>source).n
        if not 0 <= number < n:
            return f"element {i} is number {number} of {n} of its source"
        if has_runs(store):
            continue
        key = <size_t>source
        used[key] = used.get(key, 0) + 1
        if used[key] > read_counter(&source.users):
            return f"the source of element {i} counts {source.users} users, but has more"
    return None
