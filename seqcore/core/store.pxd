# Stores: the elements of a sequence, as runs or as slots.

from seqcore.core.directory cimport Slot, number_in, slot_for, source_of
from seqcore.core.source cimport Source

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
    SLOTS = -1                  # the `nruns` of a store of slots

cdef struct Run:
    # Elements first, first + step, … of one source.
    Source *source
    Py_ssize_t first
    Py_ssize_t step
    Py_ssize_t end              # how many elements of the store come up to its last one

cdef struct Store:
    Py_ssize_t shares           # sequences and snapshots that use it
    Py_ssize_t nruns            # or SLOTS
    Py_ssize_t capacity         # slots; runs: elements
    Py_ssize_t lo               # the gap of slots is [lo, hi)
    Py_ssize_t hi               # runs: lo == hi, how many runs the edits that led here have copied
    Slot slots[1]               # in truth `capacity` of them, or `nruns` runs

cdef inline Py_ssize_t size_of(const Store *store) noexcept nogil:
    return store.capacity - (store.hi - store.lo)

cdef inline bint has_runs(const Store *store) noexcept nogil:
    return store.nruns >= 0

cdef inline Run *runs_of(const Store *store) noexcept nogil:
    return <Run *>store.slots

cdef inline Slot *slot_at(const Store *store, Py_ssize_t position) noexcept nogil:
    """The slot at a position, in a store of slots."""
    return <Slot *>&store.slots[position if position < store.lo else position + (store.hi - store.lo)]

cdef inline Py_ssize_t back_size(const Store *store) noexcept nogil:
    return store.capacity - store.hi

cdef Py_ssize_t find_run(const Store *store, Py_ssize_t position, Py_ssize_t hint) noexcept nogil

cdef inline Py_ssize_t begin_of(const Store *store, Py_ssize_t run) noexcept nogil:
    """Return how many elements come before a run's."""
    return runs_of(store)[run - 1].end if run else 0

cdef inline Source *locate(const Store *store, Py_ssize_t position, Py_ssize_t *number) noexcept nogil:
    """The source of the element at a position in range, and its number there."""
    cdef const Run *run
    cdef Py_ssize_t which
    cdef Slot slot
    if store.nruns == SLOTS:
        slot = slot_at(store, position)[0]
        number[0] = number_in(slot)
        return source_of(slot)
    which = find_run(store, position, 0) if store.nruns > 1 else 0
    run = &runs_of(store)[which]
    number[0] = run.first + (position - begin_of(store, which)) * run.step
    return run.source

cdef Store *new_slots(Py_ssize_t capacity) noexcept nogil
cdef Store *new_runs(Py_ssize_t nruns) noexcept nogil
cdef Store *one_run(Source *source, Py_ssize_t n) noexcept
cdef Store *empty_store() noexcept nogil
cdef void fill(Store *store) noexcept nogil
cdef Store *share(Store *store) noexcept nogil
cdef void release(Store *store) noexcept
cdef str broken_invariant(Store *store)
