"""Positions as arguments, and the exceptions that name them."""

from cpython.long cimport PyLong_CheckExact
cimport numpy as cnp

import numpy as np

from seqcore.core.source cimport NO_MEMORY, OUT_OF_RANGE, Status

from seqcore._integers import MASKED
from seqcore._shown import shown, shown_number

cnp.import_array()


cdef Py_ssize_t as_position(position) except? -1:
    """A position from a Python or NumPy integer or an int32 or int64 array of one element."""
    if PyLong_CheckExact(position):
        return PyNumber_AsSsize_t(position, NULL)
    if cnp.PyArray_Check(position):
        return position_in(position)
    if PyIndex_Check(position):
        return PyNumber_AsSsize_t(position, NULL)
    if type(position) is tuple and len(position) == 1 and cnp.PyArray_Check(position[0]):
        raise TypeError("a selection is an array, not a tuple that holds one: seq[mask] takes the mask "
                        "itself, and np.flatnonzero gives its positions")
    if type(position) is tuple and len(position) > 1:
        raise TypeError(f"a sequence has one axis, so {shown(position)} is no position: seq[i][j] looks into "
                        "an element, and sequence_map or map_batches into all")
    raise TypeError(f"a position is an integer, not {shown(position)} of type {type(position).__name__}")


cdef Py_ssize_t position_in(cnp.ndarray position) except? -1:
    """The position in an array, as its own memory has it: a subclass may say anything."""
    cdef cnp.ndarray array = position
    if not cnp.PyArray_CheckExact(position):
        if isinstance(position, np.ma.MaskedArray):
            raise TypeError(f"a position is one int32 or int64, not {MASKED}")
        array = np.ndarray.view(position, np.ndarray)
    dtype = array.dtype
    if cnp.PyArray_SIZE(array) != 1 or dtype.kind != "i" or dtype.itemsize not in (4, 8):
        raise TypeError(f"a position is one int32 or int64, not an array of {dtype} "
                        f"and shape {(<object>array).shape}")
    return PyNumber_AsSsize_t((<object>array).item(), NULL)


cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=False) except -1:
    """Turn a status into an exception; `n` is the length that the operation found."""
    if status == NO_MEMORY:
        raise MemoryError(f"no memory for the slots of a sequence of {n} tensors")
    if status == OUT_OF_RANGE:
        position = shown_number(position)
        if n == 0 and not inserting:
            raise IndexError(f"position {position} is out of range: the sequence is empty")
        raise IndexError(f"position {position} is out of range for a sequence of {n} "
                         f"tensor{'s' if n != 1 else ''} ({-n} to {n if inserting else n - 1})")
    return 0
