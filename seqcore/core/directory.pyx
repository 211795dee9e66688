"""The directory of tables: ids of the process, so that slots can be copied and moved as they are.

::

    slot       id (26 bits) · number (37 bits) · 1
    directory  block ──▶ [table or next free id, …]       2¹³ blocks of 2¹³ tables

A table gets an id when its first slot is made and returns it when it dies. Then no slot names it, so nobody
reads an entry that changes. Free entries are a list: each holds the next free id.
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
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

    /* A forked child has the thread alone that forked. If another one had the lock then, the child would wait
       for it for ever. */
    #if defined(_WIN32)
    static int seqcore_guard_forks(void) { return 0; }
    #else
    #include <pthread.h>
    static int seqcore_guard_forks(void)
    {
        return pthread_atfork(seqcore_lock_directory, seqcore_unlock_directory, seqcore_unlock_directory);
    }
    #endif
    """
    void lock_directory "seqcore_lock_directory"() noexcept nogil
    void unlock_directory "seqcore_unlock_directory"() noexcept nogil
    void **directory_blocks "seqcore_directory_blocks"
    int guard_forks "seqcore_guard_forks"() noexcept nogil

cdef enum:
    MOST_BLOCKS = 1 << 13

cdef size_t used = 1            # ids that were ever given; 0 is none
cdef size_t free_id = 0         # the first of the list of free ones

directory = <Table ***>directory_blocks
if guard_forks():
    raise MemoryError("no memory to be told of forks")


cdef inline Table **entry_of(size_t id) noexcept nogil:
    return &directory[id >> BLOCK_BITS][id & ((1 << BLOCK_BITS) - 1)]


cdef bint give_id(Source *source) noexcept nogil:
    """Let slots name a source; False where there is no memory or no id left."""
    cdef Table *table = <Table *>source
    cdef Table **block = NULL
    cdef bint lacks_block
    if source.kind == WHOLE:
        return True
    if table.n >> NUMBER_BITS:
        return False
    while True:
        lock_directory()
        lacks_block = take_id(table, &block)
        unlock_directory()
        if not lacks_block:
            break
        # Not under the lock: an allocator that is traced takes the GIL, and a thread may have that which
        # waits for the lock.
        block = <Table **>PyMem_RawCalloc(1 << BLOCK_BITS, sizeof(Table *))
        if block == NULL:
            return False
    PyMem_RawFree(block)            # another thread was faster
    return table.id != 0


cdef bint take_id(Table *table, Table ***block) noexcept nogil:
    """Give a table an id, if there is one left, under the lock; whether that needs a new block.

    If there is a block, the directory takes it over.
    """
    global used, free_id
    if table.id:
        return False
    if free_id:
        table.id = free_id
        free_id = <uintptr_t>entry_of(free_id)[0]
    elif used >> BLOCK_BITS == MOST_BLOCKS:
        return False
    else:
        if directory[used >> BLOCK_BITS] == NULL:
            if block[0] == NULL:
                return True
            directory[used >> BLOCK_BITS] = block[0]
            block[0] = NULL
        table.id = used
        used += 1
    entry_of(table.id)[0] = table
    return False


cdef void forget_id(Table *table) noexcept nogil:
    global free_id
    if table.id == 0:
        return
    lock_directory()
    entry_of(table.id)[0] = <Table *><uintptr_t>free_id
    free_id = table.id
    unlock_directory()
    table.id = 0
