"""A share of a store as long as an object lives, so that no way out of a function forgets to release it."""

cimport cython

from seqcore.core.store cimport empty_store, release


@cython.final
@cython.no_gc
@cython.freelist(32)
cdef class Share:

    def __cinit__(self):
        self.store = empty_store()

    def __dealloc__(self):
        release(self.store)


cdef Share share_of(Store *store):
    """Take over a share, even when this fails."""
    cdef Share share
    try:
        share = Share.__new__(Share)
    except BaseException:
        release(store)
        raise
    release(share.store)            # of nothing
    share.store = store
    return share
