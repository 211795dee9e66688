/* Loaded before the C library (LD_PRELOAD): some of the process's mallocs fail, in a row. */

#include <errno.h>
#include <stddef.h>

void *__libc_malloc(size_t nbytes);
void *__libc_calloc(size_t n, size_t nbytes);
void *__libc_realloc(void *block, size_t nbytes);

static long until;                      /* allocations up to the first that fails; 0: none does */
static int rest;                        /* how many behind it fail too */
static long failed;

/* Arm or, with 0, disarm; return how many have failed since the last call. */
long fail_allocation(long number, int in_a_row)
{
    long before = __atomic_exchange_n(&failed, 0, __ATOMIC_SEQ_CST);
    __atomic_store_n(&rest, in_a_row - 1, __ATOMIC_SEQ_CST);
    __atomic_store_n(&until, number, __ATOMIC_SEQ_CST);
    return before;
}

static int fails(void)
{
    long left = __atomic_load_n(&until, __ATOMIC_RELAXED);
    if (left == 0)
        return 0;
    left = __atomic_fetch_sub(&until, 1, __ATOMIC_SEQ_CST);
    if (left > 1)
        return 0;
    __atomic_store_n(&until, __atomic_fetch_sub(&rest, 1, __ATOMIC_SEQ_CST) > 0, __ATOMIC_SEQ_CST);
    __atomic_fetch_add(&failed, 1, __ATOMIC_SEQ_CST);
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t nbytes) { return fails() ? NULL : __libc_malloc(nbytes); }
void *calloc(size_t n, size_t nbytes) { return fails() ? NULL : __libc_calloc(n, nbytes); }
void *realloc(void *block, size_t nbytes) { return fails() ? NULL : __libc_realloc(block, nbytes); }
