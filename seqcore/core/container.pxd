# The base of TensorSequence: a store, a type and a lock.

cimport numpy as cnp

from seqcore.core.store cimport Piece, Share, Source, Store

# -- container -------------------------------------------------------------------------------------------
# The base of TensorSequence: a store, a type and a lock.

cdef cnp.dtype own_type(object dtype)
cdef Container new_container(object cls, cnp.dtype dtype, Store *store, tuple positional=*, dict named=*)
cdef object copied_strings(cnp.ndarray array)
cdef Source *take_tensor(object tensor, cnp.dtype dtype, Py_ssize_t at) except NULL

cdef class Container:
    cdef Store *_store                  # never NULL; read and replaced under the lock of the object
    cdef cnp.dtype _dtype               # set once; None in an object that __init__ has not seen
    cdef object __weakref__

    cdef bint claim(self, cnp.dtype dtype, Store *store) noexcept
    cdef Store *snapshot(self) noexcept
    cdef Share shared(self)
    cdef Share whole(self)
    cdef Py_ssize_t size(self) noexcept
    cdef Source *take(self, object tensor) except NULL
    cdef int check_initialized(self, Store *news) except -1

    cdef object element(self, Py_ssize_t at, object given)
    cdef Store *slice_of(self, object key) except NULL
    cdef Store *selected_by(self, cnp.ndarray selection) except NULL

    cdef int raise_damaged_at(self, Py_ssize_t at) except -1
    cdef int put(self, Py_ssize_t at, object given, Source *whole) except -1
    cdef int append_source(self, Source *whole) except -1
    cdef int append_store(self, Store *news) except -1
    cdef int replace(self, Py_ssize_t at, object given, Source *whole) except -1
    cdef int replace_slice(self, object key, Store *news) except -1
    cdef int replace_selected(self, cnp.ndarray selection, Store *news) except -1

    cdef object take_out(self, Py_ssize_t at, object given, bint wanted)
    cdef bint take_out_equal(self, const Piece *wanted) except -1
    cdef int take_out_slice(self, object key) except -1
    cdef int take_out_selected(self, cnp.ndarray selection) except -1
    cdef Store *take_out_all(self) noexcept

    cdef int reverse_elements(self) except -1
    cdef int compact_elements(self) except -1

# -- iterator --------------------------------------------------------------------------------------------
# Iterators of a container.

cdef class ElementIterator:
    cdef Container sequence             # never replaced, so that threads can read it without a lock
    cdef Py_ssize_t position            # of the next element, or -1 when it has come to its end
    cdef Py_ssize_t run                 # that the last element was in, where there are runs
    cdef bint backwards
