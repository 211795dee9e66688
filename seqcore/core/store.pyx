"""Stores: how the elements of a sequence are kept.

A sequence that was split, loaded, sliced, reversed or joined is *runs*: nothing is stored per element::

    run     source, first, step, end         elements first, first + step, … of one source
    runs    [A 0 1 500] [B 9 -1 510]         500 elements of A from the front, ten of B from the back

After many edits, and for a selection, the sequence has *slots*, 8 bytes for each element, in a gap buffer::

    slots    0            lo            hi                  capacity
             ├─ elements ─┤···· gap ····├───── elements ─────┤

    position i  is  slots[i]              where i < lo
                    slots[i + (hi - lo)]  from there on

Invariants: 0 ≤ lo ≤ hi ≤ capacity. Each slot outside the gap is one user of its source, and so is each run.

Stores are shared: a copy of a sequence, and every reader that works without the lock, takes a share instead
of the elements. Runs never change, and neither do shared slots.
"""

from cpython.mem cimport PyMem_RawFree, PyMem_RawMalloc
from seqcore.core.directory cimport Slot
from seqcore.core.owner cimport release_slots, release_source, retain_source
from seqcore.core.source cimport MAX_BYTES, WHOLE, Source, Table, add_to, read_counter

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
        runs_of(store)[0] = Run(source, 0, 1, n)
        store.nruns = 1
        store.capacity = n
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


cdef str broken_invariant(Store *store):
    """Return what is wrong with a store, for tests; None if nothing is."""
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
