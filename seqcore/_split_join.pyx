"""Splits and joins as functions of Python: axes and inputs checked, then one call each."""

cimport numpy as cnp

import numpy as np

from seqcore._buffer cimport GapBuffer, release, size_of, slot_at
from seqcore._container cimport PyIndex_Check, PyNumber_AsSsize_t
from seqcore._join cimport join, shape_of
from seqcore._sequence cimport TensorSequence, new_sequence
from seqcore._split cimport cut_by_lengths, cut_equally

from seqcore._tensors import as_tensor
from seqcore.dtypes import element_type

cnp.import_array()


cdef int as_axis(axis, Py_ssize_t rank, str what) except -1:
    cdef Py_ssize_t given
    if not PyIndex_Check(axis) or isinstance(axis, np.ndarray):
        raise TypeError(f"axis is an integer, not {axis!r:.60} of type {type(axis).__name__}")
    given = PyNumber_AsSsize_t(axis, NULL)
    if not -rank <= given < rank:
        raise ValueError(f"axis {axis} is out of range for {what} ({-rank} to {rank - 1})")
    return <int>(given + rank if given < 0 else given)


cdef object as_input(input):
    array = as_tensor(input)
    if array.ndim == 0:
        raise ValueError("a scalar has no axis to be split along: give a tensor of rank 1 or more")
    return array


def split_equally(input, axis, Py_ssize_t length, bint drop_axis):
    """Cut a tensor into pieces of one length; `drop_axis` needs length 1."""
    cdef cnp.ndarray array = as_input(input)
    cdef int at = as_axis(axis, array.ndim, f"a tensor of shape {(<object>array).shape}")
    if length < 1 or (drop_axis and length > 1):
        raise ValueError(f"a length of {length} can't be cut")
    return new_sequence(element_type(array.dtype), cut_equally(array, at, length, drop_axis))


def split_by_lengths(input, axis, lengths):
    """Cut a tensor into pieces whose lengths an int64 array gives."""
    cdef cnp.ndarray array = as_input(input)
    cdef int at = as_axis(axis, array.ndim, f"a tensor of shape {(<object>array).shape}")
    # A copy, so that nobody else can write to what is checked first and then relied upon.
    cdef cnp.ndarray own = np.array(lengths, dtype=np.int64, order="C", copy=True, ndmin=1)
    return new_sequence(element_type(array.dtype), cut_by_lengths(array, at, own))


def join_elements(TensorSequence sequence not None, axis, bint stacking):
    """Join elements along an axis, a new one if `stacking`."""
    cdef GapBuffer *buffer = sequence.snapshot()
    cdef Py_ssize_t rank
    try:
        if size_of(buffer) == 0:
            raise ValueError("an empty sequence can't be joined: the shape of the result is unknown")
        shape = shape_of(slot_at(buffer, 0)[0])
        rank = len(shape) + stacking
        if rank == 0:
            raise ValueError("scalars have no axis to be joined along: use new_axis=1")
        what = f"tensors of shape {shape}" + (" and a new axis" if stacking else "")
        return join(buffer, sequence._dtype, as_axis(axis, rank, what), stacking)
    finally:
        release(buffer)
