"""Positions as arguments, and the exceptions that name them."""

from cpython.long cimport PyLong_CheckExact
cimport numpy as cnp

import numpy as np

from seqcore.core.source cimport NO_MEMORY, OUT_OF_RANGE, Status

from seqcore._arguments.integers import MASKED
from seqcore._arguments.shown import got, shown, shown_number

cnp.import_array()


cdef Py_ssize_t as_position(position) except? -1:
    """A position from a Python or NumPy integer or an int32 or int64 array of one element."""
    if PyLong_CheckExact(position):
        return PyNumber_AsSsize_t(position, NULL)
    if cnp.PyArray_Check(position):
        return position_in(position)
    if isinstance(position, bool):      # as from seq[len(seq) > 2], which would be element 0 or 1
        raise TypeError(f"a position must be an integer, got {position}: seq[seq.lengths() > 2] selects "
                        "elements by a mask of one bool for each")
    if PyIndex_Check(position):
        return PyNumber_AsSsize_t(position, NULL)
    if type(position) is tuple and len(position) == 1 and cnp.PyArray_Check(position[0]):
        raise TypeError("the index is a tuple with one array, as from np.where: pass the array itself, or "
                        "seq[mask], or seq[np.flatnonzero(mask)]")
    if type(position) is tuple and len(position) > 1:
        raise TypeError(f"a sequence has one axis, got the index {shown(position)}: seq[i][j] indexes one "
                        "element, sequence_map(lambda a: a[j], seq) or map_batches all")
    raise TypeError(f"a position must be an integer, got {got(position)}")


cdef Py_ssize_t position_in(cnp.ndarray position) except? -1:
    """The position in an array, as its own memory has it: a subclass may say anything."""
    cdef cnp.ndarray array = position
    if not cnp.PyArray_CheckExact(position):
        if isinstance(position, np.ma.MaskedArray):
            raise TypeError(f"a position must be an integer, got {MASKED}")
        array = np.ndarray.view(position, np.ndarray)
    dtype = array.dtype
    if cnp.PyArray_SIZE(array) != 1 or dtype.kind != "i" or dtype.itemsize not in (4, 8):
        raise TypeError(f"a position must be one int32 or int64, got {got(array)}")
    return PyNumber_AsSsize_t((<object>array).item(), NULL)


cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=False) except -1:
    """Turn a status into an exception; `n` is the length that the operation found."""
    if status == NO_MEMORY:
        raise MemoryError(f"no memory for a sequence of {n} tensors")
    if status == OUT_OF_RANGE:
        position = shown_number(position)
        if n == 0 and not inserting:
            raise IndexError(f"position {position} is out of range: the sequence is empty")
        raise IndexError(f"position {position} is out of range for a sequence of {n} "
                         f"tensor{'s' if n != 1 else ''} ({-n} to {n if inserting else n - 1})")
    return 0
