"""The directory of tables: ids of the process, so that slots can be copied and moved as they are.

::

    slot       id (26 bits) · number (37 bits) · 1
    directory  block ──▶ [table or next free id, …]       2¹³ blocks of 2¹³ tables

A table gets an id when its first slot is made and returns it when it dies. Then no slot names it, so nobody
reads an entry that changes. Free entries are a list: each holds the next free id.
"""

from cpython.mem cimport PyMem_RawCalloc
from libc.stdint cimport uintptr_t
from seqcore.core.source cimport WHOLE, Source, Table

cdef extern from *:
    """
    /* A lock for a few instructions. With the GIL too, because tables get ids without it. */
    #if defined(_MSC_VER)
    #include <intrin.h>
    static volatile long seqcore_directory_lock;
    static inline void seqcore_lock_directory(void)
    { while (_InterlockedExchange(&seqcore_directory_lock, 1)) ; }
    static inline void seqcore_unlock_directory(void) { _InterlockedExchange(&seqcore_directory_lock, 0); }
    #else
    static char seqcore_directory_lock;
    static inline void seqcore_lock_directory(void)
    { while (__atomic_test_and_set(&seqcore_directory_lock, __ATOMIC_ACQUIRE)) ; }
    static inline void seqcore_unlock_directory(void)
    { __atomic_clear(&seqcore_directory_lock, __ATOMIC_RELEASE); }
    #endif
    static void *seqcore_directory_blocks[1 << 13];
    """
    void lock_directory "seqcore_lock_directory"() noexcept nogil
    void unlock_directory "seqcore_unlock_directory"() noexcept nogil
    void **directory_blocks "seqcore_directory_blocks"

cdef enum:
    MOST_BLOCKS = 1 << 13

cdef size_t used = 1            # ids that were ever given; 0 is none
cdef size_t free_id = 0         # the first of the list of free ones

directory = <Table ***>directory_blocks


cdef inline Table **entry_of(size_t id) noexcept nogil:
    return &directory[id >> BLOCK_BITS][id & ((1 << BLOCK_BITS) - 1)]


cdef bint give_id(Source *source) noexcept nogil:
    """Let slots name a source; False where there is no memory or no id left."""
    cdef Table *table = <Table *>source
    cdef bint named = True
    global used, free_id
    if source.kind == WHOLE:
        return True
    if table.n >> NUMBER_BITS:
        return False
    lock_directory()
    if table.id == 0:
        if free_id:
            table.id = free_id
            free_id = <uintptr_t>entry_of(free_id)[0]
        elif used >> BLOCK_BITS == MOST_BLOCKS:
            named = False
        else:
            if directory[used >> BLOCK_BITS] == NULL:
                directory[used >> BLOCK_BITS] = <Table **>PyMem_RawCalloc(1 << BLOCK_BITS, sizeof(Table *))
            named = directory[used >> BLOCK_BITS] != NULL
            if named:
                table.id = used
                used += 1
        if named:
            entry_of(table.id)[0] = table
    unlock_directory()
    return named


cdef void forget_id(Table *table) noexcept nogil:
    global free_id
    if table.id == 0:
        return
    lock_directory()
    entry_of(table.id)[0] = <Table *><uintptr_t>free_id
    free_id = table.id
    unlock_directory()
    table.id = 0
