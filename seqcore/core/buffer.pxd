# Edits of stores; whoever edits holds the lock of the sequence.

from libc.stdint cimport int64_t
from seqcore.core.directory cimport Slot
from seqcore.core.source cimport Source, Status
from seqcore.core.store cimport Store

cdef Status grow(Store **store, Py_ssize_t n) noexcept nogil
cdef Status put_one(Store **store, Store **stale, Py_ssize_t position, Source *whole, bint patient) noexcept
cdef Status put_all(Store **store, Store **stale, Py_ssize_t position, Store *news, bint patient) noexcept
cdef Status take_one(Store **store, Store **stale, Py_ssize_t position, Slot *taken, bint patient) noexcept
cdef Status take_range(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                       Store **taken, bint patient) noexcept
cdef Status take_marked(Store **store, Store **stale, const char *marks, Py_ssize_t n, Store **taken,
                        bint patient) noexcept
cdef Status replace_one(Store **store, Store **stale, Py_ssize_t position, Slot *slot, bint patient) noexcept
cdef Status replace_each(Store **store, Store **stale, const int64_t *positions, Py_ssize_t start,
                         Py_ssize_t step, Store *news, bint patient) noexcept
cdef Status replace_span(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t n, Store **removed,
                         Store *news, bint patient) noexcept
cdef Status reverse_all(Store **store, Store **stale) noexcept
