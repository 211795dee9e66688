# Python numbers, strings and nested lists of them, read straight into memory.

from cpython.list cimport PyList_CheckExact, PyList_GET_SIZE
from cpython.ref cimport PyObject
from cpython.tuple cimport PyTuple_CheckExact, PyTuple_GET_SIZE
cimport numpy as cnp

from seqcore.core.store cimport MAX_NDIM

# -- lists -----------------------------------------------------------------------------------------------
# Python numbers, strings and nested lists of them, read straight into memory.

cdef extern from *:
    """
    /* The items of an exact list or tuple, borrowed. */
    #define seqcore_items(row) \
        (PyList_CheckExact(row) ? ((PyListObject *)(row))->ob_item : ((PyTupleObject *)(row))->ob_item)
    """
    PyObject **items_of "seqcore_items"(object row) noexcept

# Writes n items to memory; False, with nothing to undo, if one isn't of an exact type that the dtype takes.
ctypedef bint (*Writer)(PyObject **items, Py_ssize_t n, char *to) noexcept

cdef struct Shape:
    int ndim
    Py_ssize_t items
    Py_ssize_t[MAX_NDIM] extents

cdef inline bint is_list(object value) noexcept:
    return PyList_CheckExact(value) or PyTuple_CheckExact(value)

cdef inline Py_ssize_t length_of(object row) noexcept:
    return PyList_GET_SIZE(row) if PyList_CheckExact(row) else PyTuple_GET_SIZE(row)

cdef bint is_python_value(object value) noexcept
cdef bint measure(object value, Shape *shape) except -1
cdef cnp.dtype type_of_items(object value, const Shape *shape)
cdef Writer writer_for(cnp.dtype dtype) except? NULL
cdef bint write_value(object value, const Shape *shape, Writer writer, Py_ssize_t itemsize,
                      char *to) except -1
cdef object array_of(object value, cnp.dtype dtype)
