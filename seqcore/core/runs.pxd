from seqcore.core.source cimport Source, Status
from seqcore.core.store cimport Store

cdef void add_run(Store *store, Source *source, Py_ssize_t first, Py_ssize_t step,
                  Py_ssize_t n) noexcept nogil
cdef Store *finished(Store *store) noexcept
cdef Status slice_of_store(Store *store, Py_ssize_t start, Py_ssize_t step, Py_ssize_t n,
                           Store **into) noexcept
cdef Status joined_stores(Store **stores, Py_ssize_t nstores, Store **into) noexcept
cdef Status splice(Store **store, Store **stale, Py_ssize_t start, Py_ssize_t stop,
                   const Store *news) noexcept
cdef Store *reversed_runs(const Store *store) noexcept
