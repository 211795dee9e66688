"""The core of the operators: inputs are checked, then there is one call."""

from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.slice cimport PySlice_Check, PySlice_Unpack
cimport numpy as cnp

from seqcore.core.arrays cimport descr_of, own_view
from seqcore.core.join cimport join
from seqcore.core.owner cimport shape_of
from seqcore.core.positions cimport PyNumber_AsSsize_t, as_position
from seqcore.core.reader cimport raise_damaged, read_one
from seqcore.core.selection cimport selection_in_rows
from seqcore.core.sequence cimport TensorSequence, new_sequence, selected
from seqcore.core.share cimport Share
from seqcore.core.source cimport MAX_NDIM, Piece
from seqcore.core.split cimport split_equal, split_lengths
from seqcore.core.store cimport size_of

from seqcore._arguments.integers import integer
from seqcore._arguments.shown import shown_number
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import element_type

cnp.import_array()


cdef Py_ssize_t as_integer(axis) except? -1:
    """Return an axis as an int. Foreign code runs here, so call it before anything that it could change."""
    return PyNumber_AsSsize_t(axis if PyLong_CheckExact(axis) else integer("axis", axis), NULL)


cdef int as_axis(Py_ssize_t given, axis, Py_ssize_t rank, str what) except -1:
    if not -rank <= given < rank:
        raise ValueError(f"axis {shown_number(axis)} is out of range for {what} ({-rank} to {rank - 1})")
    return <int>(given + rank if given < 0 else given)


cdef int axis_of(cnp.ndarray array, Py_ssize_t given, axis) except -1:
    """The axis to split an array along."""
    if array.ndim == 0:
        raise ValueError("the tensor has rank 0 and so no axis to split along: pass a tensor of rank 1 or "
                         "more")
    return as_axis(given, axis, array.ndim, f"a tensor of shape {(<object>array).shape}")


def key_of(TensorSequence sequence not None, key, bint several):
    """Return a key of a sequence in numbers of our own: a position, a slice, or positions or bools.

    For keys of several sequences, which must not be read for each: hooks, or other threads, could then give
    each another one. If `several`, the key is one of `__getitems__`.
    """
    cdef Py_ssize_t start, stop, step
    if several:
        return selection_in_rows(key, sequence.size())
    if PyLong_CheckExact(key):
        return key
    if PySlice_Check(key):
        PySlice_Unpack(key, &start, &stop, &step)
        return slice(start, stop, step)
    selection = selected(key, sequence.size())
    return as_position(key) if selection is None else selection


def split_equally(input, axis, Py_ssize_t length, bint drop_axis):
    """Split a tensor into views of one length; `drop_axis` needs length 1."""
    cdef Py_ssize_t given = as_integer(axis)
    cdef cnp.ndarray array = own_view(as_tensor(input))     # as in values_given
    cdef int at = axis_of(array, given, axis)
    if length < 1:
        raise ValueError(f"split must be positive, got {length}")
    if drop_axis and length > 1:
        raise ValueError(f"the axis can be dropped only where split is 1, got {length}")
    return new_sequence(element_type(array.dtype), split_equal(array, at, length, drop_axis))


def split_by_lengths(input, axis, lengths):
    """Split a tensor into views of the given lengths."""
    cdef Py_ssize_t given = as_integer(axis)
    cdef cnp.ndarray array = own_view(as_tensor(input))     # as in values_given
    return new_sequence(element_type(array.dtype),
                        split_lengths(array, axis_of(array, given, axis), lengths, "split"))


def element_at(TensorSequence sequence not None, position):
    """The element at a position, for which an array of one element will do too, whatever its rank."""
    return sequence.element(as_position(position), position)


def join_elements(TensorSequence sequence not None, axis, bint stacking):
    """Join elements along an axis, a new one if `stacking`."""
    cdef Py_ssize_t rank, given = as_integer(axis)
    cdef Share share = sequence.shared()
    cdef Piece first
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    if size_of(share.store) == 0:
        raise ValueError("an empty sequence can't be concatenated, because the shape of the result is "
                         "unknown")
    if not read_one(share.store, 0, &first, dims):
        raise_damaged(share.store, 0)
    rank = first.source.ndim + stacking
    if rank == 0:
        raise ValueError("elements of rank 0 have no axis to concatenate along: pass new_axis=1 to stack "
                         "them")
    if not -rank <= given < rank:
        what = f"elements of shape {shape_of(&first)}" + (" and a new axis" if stacking else "")
        as_axis(given, axis, rank, what)
    return join(share.store, sequence._dtype, <int>(given + rank if given < 0 else given), stacking)


def all_fit(list tensors not None, cnp.dtype dtype not None, tuple shape):
    """Return whether the items of a list are arrays of one dtype object, and of a shape unless that is None.

    A length of -1 stands for any.
    """
    cdef Py_ssize_t[MAX_NDIM] lengths
    cdef int ndim = -1 if shape is None else <int>min(len(shape), MAX_NDIM + 1), axis
    if ndim > MAX_NDIM:
        return not tensors
    for axis in range(ndim):
        lengths[axis] = shape[axis]
    for tensor in tensors:
        if not cnp.PyArray_CheckExact(tensor) or descr_of(tensor) != <PyObject *>dtype:
            return False
        if ndim >= 0 and cnp.PyArray_NDIM(tensor) != ndim:
            return False
        for axis in range(ndim):
            if lengths[axis] >= 0 and cnp.PyArray_DIM(tensor, axis) != lengths[axis]:
                return False
    return True
