"""Runs: elements at equal distances in one source; nothing is stored for each.

::

    seq                    [A 0 1 500] [B 9 -1 510]
    seq[::-1]              [B 0 1 10] [A 499 -1 510]
    seq.insert(2, x)       [A 0 1 2] [x 0 1 3] [A 2 1 501] [B 9 -1 511]      a splice

Neighbours that continue each other are merged. A splice makes a new, equally small store. When there are many
runs, slots take less room, and an edit that moves a gap less time.
"""

from cpython.mem cimport PyMem_RawFree
from seqcore.core.counters cimport SPLICED, count
from seqcore.core.limits cimport MOST_RUNS, RUNS_OF_AN_EDIT, SINGLE_RUNS
from seqcore.core.owner cimport retain_slots, retain_source
from seqcore.core.slots cimport as_slots, write_slots
from seqcore.core.source cimport MAX_BYTES, NEEDS_SLOTS, NO_MEMORY, OK, Source, Status
from seqcore.core.store cimport (
    Run, Store, begin_of, empty_store, find_run, has_runs, locate, new_runs, new_slots, runs_of, share,
    size_of,
)


cdef void add_run(Store *store, Source *source, Py_ssize_t first, Py_ssize_t step,
                  Py_ssize_t n) noexcept nogil:
    """Write a run behind the others, or make the last one longer. It counts as no user of its source yet."""
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
        if not has_runs(news) and more > SINGLE_RUNS:
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
    spent = old.lo + new.nruns + RUNS_OF_AN_EDIT
    if new.capacity == 0:
        PyMem_RawFree(new)
        new = empty_store()
    elif spent > max(n, 4 * RUNS_OF_AN_EDIT) or (new.nruns > MOST_RUNS >= old.nruns):
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
        n -= k
        if n:                                       # a single element may have any step
            start += k * step
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


cdef Store *reversed_runs(const Store *store) noexcept:
    """The same runs from back to front; NULL without memory."""
    cdef Store *new = new_runs(store.nruns)
    cdef const Run *run
    cdef Py_ssize_t i, n
    if new == NULL:
        return NULL
    for i in range(store.nruns - 1, -1, -1):
        run = &runs_of(store)[i]
        n = run.end - begin_of(store, i)
        add_run(new, run.source, run.first + (n - 1) * run.step, -run.step, n)
    new.lo = new.hi = store.lo
    retain_runs(new)
    return new
