from seqcore.core.directory cimport Slot
from seqcore.core.source cimport Status
from seqcore.core.store cimport Store

cdef Status give_ids(const Store *store) noexcept nogil
cdef Status write_slots(const Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                        Slot *into) noexcept nogil
cdef void retain_elements(const Store *store) noexcept
cdef Status as_slots(Store *store, Py_ssize_t start, Py_ssize_t step, Store *into) noexcept
cdef Status unshare(Store **store) noexcept
