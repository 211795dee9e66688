"""What the operators call: inputs checked, then one call each."""

from cpython.bool cimport PyBool_Check
cimport numpy as cnp

import numpy as np

from seqcore.core.arrays cimport own_view
from seqcore.core.buffer cimport GapBuffer, release, size_of, slot_at
from seqcore.core.positions cimport PyIndex_Check, PyNumber_AsSsize_t, as_position
from seqcore.core.join cimport join, shape_of
from seqcore.core.sequence cimport TensorSequence, new_sequence
from seqcore.core.split cimport cut_by_lengths, cut_equally

from seqcore._shown import got, shown_number
from seqcore._tensors import as_tensor
from seqcore.dtypes import element_type

cnp.import_array()


cdef Py_ssize_t as_integer(axis) except? -1:
    """What an axis says; foreign code runs here, so before anything is looked at that it could change."""
    if not PyIndex_Check(axis) or PyBool_Check(axis) or cnp.PyArray_Check(axis):
        raise TypeError(f"axis must be an integer, got {got(axis)}")
    return PyNumber_AsSsize_t(axis, NULL)


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


def split_equally(input, axis, Py_ssize_t length, bint drop_axis):
    """Cut a tensor into pieces of one length; `drop_axis` needs length 1."""
    cdef Py_ssize_t given = as_integer(axis)
    cdef cnp.ndarray array = own_view(as_tensor(input))     # as in values_to_cut
    cdef int at = axis_of(array, given, axis)
    if length < 1:
        raise ValueError(f"split must be positive, got {length}")
    if drop_axis and length > 1:
        raise ValueError(f"the axis can be dropped only where split is 1, got {length}")
    return new_sequence(element_type(array.dtype), cut_equally(array, at, length, drop_axis))


def split_by_lengths(input, axis, lengths):
    """Cut a tensor into pieces whose lengths an int64 array gives."""
    cdef Py_ssize_t given = as_integer(axis)
    # A copy, so that nobody else can write to what is checked first and then relied upon.
    cdef cnp.ndarray own = np.array(lengths, dtype=np.int64, order="C", copy=True, ndmin=1)
    cdef cnp.ndarray array = own_view(as_tensor(input))     # as in values_to_cut
    return new_sequence(
        element_type(array.dtype), cut_by_lengths(array, axis_of(array, given, axis), own, "split"))


def element_at(TensorSequence sequence not None, position):
    """The element at a position, for which an array of one element will do too, whatever its rank."""
    return sequence.element(as_position(position), position)


def join_elements(TensorSequence sequence not None, axis, bint stacking):
    """Join elements along an axis, a new one if `stacking`."""
    cdef Py_ssize_t rank, given = as_integer(axis)
    cdef GapBuffer *buffer = sequence.snapshot()
    try:
        if size_of(buffer) == 0:
            raise ValueError("an empty sequence can't be joined, because the shape of the result is unknown")
        shape = shape_of(slot_at(buffer, 0)[0])
        rank = len(shape) + stacking
        if rank == 0:
            raise ValueError("elements of rank 0 have no axis to join along: pass new_axis=1 to stack them")
        what = f"elements of shape {shape}" + (" and a new axis" if stacking else "")
        return join(buffer, sequence._dtype, as_axis(given, axis, rank, what), stacking)
    finally:
        release(buffer)
