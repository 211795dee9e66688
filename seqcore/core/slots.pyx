"""Slots: the elements of a store, 8 bytes for each, written one by one."""

from cpython.mem cimport PyMem_RawFree
from libc.string cimport memcpy
from seqcore.core.counters cimport SLOTS_COPIED, count
from seqcore.core.directory cimport Slot, give_id, slot_for
from seqcore.core.owner cimport retain_slots, retain_source
from seqcore.core.source cimport NO_MEMORY, OK, Status, read_counter
from seqcore.core.store cimport (
    Run, Store, back_size, begin_of, fill, find_run, has_runs, new_slots, release, runs_of, size_of, slot_at,
)


cdef Status give_ids(const Store *store) noexcept nogil:
    """Let slots name the sources of a store."""
    cdef Py_ssize_t i
    for i in range(store.nruns):            # none of slots
        if not give_id(runs_of(store)[i].source):
            return NO_MEMORY
    return OK


cdef Status write_slots(const Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                        Slot *into) noexcept nogil:
    """Write the slots of elements start, start + step, …, which don't count as users of their sources yet."""
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
        i += k
        if i < n:                                   # a single element may have any step
            start += k * step
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
