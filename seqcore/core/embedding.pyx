"""The C-level API: sequences for other compiled extensions.

The same functions have two doors: `cimport seqcore` in Cython, and the table behind `seqcore.h` for C and
C++. They check what they are given as the methods do.
"""

from cpython.object cimport PyObject
from cpython.pycapsule cimport PyCapsule_New
cimport numpy as cnp

import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.sequence cimport TensorSequence
from seqcore.core.store cimport Piece, Store, extent, read_one, release, size_of, strides_of, take_whole

from seqcore._arguments.shown import got
from seqcore.core.maps import join_elements, split_by_lengths, split_equally

cnp.import_array()


cdef TensorSequence checked(object value):
    """The value as a sequence that has a type."""
    if not isinstance(value, TensorSequence):
        raise TypeError(f"expected a TensorSequence, got {got(value)}")
    cdef TensorSequence sequence = <TensorSequence>value
    sequence.check_initialized(NULL)
    return sequence


# -- making and asking -------------------------------------------------------------------------------

cdef bint is_sequence(object value) noexcept:
    return isinstance(value, TensorSequence)


cdef object new_sequence(object dtype):
    return TensorSequence(dtype=dtype)


cdef int type_num(object sequence) except? -1:
    return checked(sequence)._dtype.type_num


cdef Py_ssize_t size(object sequence) except -1:
    return checked(sequence).size()


# -- elements ----------------------------------------------------------------------------------------

cdef object at(object sequence, Py_ssize_t position):
    return checked(sequence).element(position, position)


cdef int insert(object sequence, Py_ssize_t position, object tensor) except -1:
    cdef TensorSequence into = checked(sequence)
    return into.put(position, position, into.take(tensor))


cdef int append(object sequence, object tensor) except -1:
    cdef TensorSequence into = checked(sequence)
    return into.append_source(into.take(tensor))


cdef int replace(object sequence, Py_ssize_t position, object tensor) except -1:
    cdef TensorSequence into = checked(sequence)
    return into.replace(position, position, into.take(tensor))


cdef int erase(object sequence, Py_ssize_t position) except -1:
    checked(sequence).take_out(position, position, False)
    return 0


cdef int insert_memory(object sequence, Py_ssize_t position, void *data, int ndim, const Py_ssize_t *shape,
                       const Py_ssize_t *strides, object owner) except -1:
    cdef TensorSequence into = checked(sequence)
    if into._dtype.type_num == cnp.NPY_OBJECT:
        raise TypeError("memory can't be inserted into a sequence of strings: insert an array of str")
    if owner is None:
        raise ValueError("memory needs an owner that keeps it alive, for example a capsule that frees it")
    if data == NULL and not has_no_items(ndim, shape):
        raise ValueError("the data pointer of the tensor is NULL, but its shape has items")
    # Without items there may be no memory: NumPy then makes some, and needs no owner for it.
    array = array_from(<PyObject *>into._dtype, ndim, shape, strides if data != NULL else NULL, data,
                       <PyObject *>owner if data != NULL else NULL)
    return into.put(position, position, take_whole(array))


cdef bint has_no_items(int ndim, const Py_ssize_t *shape) noexcept:
    cdef int axis
    for axis in range(ndim):
        if shape[axis] == 0:
            return True
    return False


# -- splits and joins --------------------------------------------------------------------------------

cdef object split(object tensor, int axis, Py_ssize_t length, bint drop_axis):
    return split_equally(tensor, axis, length, drop_axis)


cdef object split_lengths(object tensor, int axis, const Py_ssize_t *lengths, Py_ssize_t n):
    if n < 0:
        raise ValueError(f"the number of lengths is {n}, but can't be negative")
    if n and lengths == NULL:
        raise ValueError(f"lengths is NULL, expected {n} lengths")
    cdef cnp.ndarray own = np.empty(n, np.intp)
    cdef Py_ssize_t *into = <Py_ssize_t *>cnp.PyArray_DATA(own)
    cdef Py_ssize_t i
    for i in range(n):
        into[i] = lengths[i]
    return split_by_lengths(tensor, axis, own)


cdef object join(object sequence, int axis, bint new_axis):
    return join_elements(checked(sequence), axis, new_axis)


# -- reading without the GIL -------------------------------------------------------------------------
# A snapshot is a share of a store: an edit of the sequence makes a store of its own first.

cdef const Snapshot *hold(object sequence) except NULL:
    return <const Snapshot *>checked(sequence).snapshot()


cdef void let_go(const Snapshot *snapshot) noexcept:
    release(<Store *>snapshot)


cdef Py_ssize_t count(const Snapshot *snapshot) noexcept nogil:
    return size_of(<const Store *>snapshot)


cdef int view(const Snapshot *snapshot, Py_ssize_t position, const char **data, int room,
              Py_ssize_t *shape, Py_ssize_t *strides) noexcept nogil:
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef int axis
    if not 0 <= position < size_of(<const Store *>snapshot) or (
            not read_one(<const Store *>snapshot, position, &piece, dims)):
        return -1
    data[0] = piece.data
    for axis in range(min(room, piece.source.ndim)):
        shape[axis] = extent(&piece, axis)
        strides[axis] = strides_of(&piece)[axis]
    return piece.source.ndim


# -- the table for C ---------------------------------------------------------------------------------

cdef extern from "seqcore.h":
    enum: SEQCORE_API_VERSION
    struct seqcore_api:
        int version
        int oldest
        bint (*is_sequence)(object) noexcept
        object (*new_sequence)(object)
        int (*type_num)(object) except? -1
        Py_ssize_t (*size)(object) except -1
        object (*at)(object, Py_ssize_t)
        int (*insert)(object, Py_ssize_t, object) except -1
        int (*append)(object, object) except -1
        int (*replace)(object, Py_ssize_t, object) except -1
        int (*erase)(object, Py_ssize_t) except -1
        int (*insert_memory)(object, Py_ssize_t, void *, int, const Py_ssize_t *, const Py_ssize_t *,
                             object) except -1
        object (*split)(object, int, Py_ssize_t, bint)
        object (*split_lengths)(object, int, const Py_ssize_t *, Py_ssize_t)
        object (*join)(object, int, bint)
        const Snapshot *(*hold)(object) except NULL
        void (*let_go)(const Snapshot *) noexcept
        Py_ssize_t (*count)(const Snapshot *) noexcept nogil
        int (*view)(const Snapshot *, Py_ssize_t, const char **, int, Py_ssize_t *,
                    Py_ssize_t *) noexcept nogil

cdef seqcore_api table
table.version = SEQCORE_API_VERSION
table.oldest = 1        # raised if a function is changed or removed, so that older extensions can't call it
table.is_sequence = is_sequence
table.new_sequence = new_sequence
table.type_num = type_num
table.size = size
table.at = at
table.insert = insert
table.append = append
table.replace = replace
table.erase = erase
table.insert_memory = insert_memory
table.split = split
table.split_lengths = split_lengths
table.join = join
table.hold = hold
table.let_go = let_go
table.count = count
table.view = view

api = PyCapsule_New(&table, "seqcore.core.embedding.api", NULL)
