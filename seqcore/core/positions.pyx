"""Positions as arguments, and the exceptions that name them."""

from cpython.long cimport PyLong_CheckExact

import numpy as np

from seqcore.core.pieces cimport NO_MEMORY, OUT_OF_RANGE, Status


cdef Py_ssize_t as_position(position) except? -1:
    """A position from a Python or NumPy integer or an int32 or int64 array of one element."""
    if PyLong_CheckExact(position):
        return PyNumber_AsSsize_t(position, NULL)
    if isinstance(position, np.ndarray):
        if position.size != 1 or position.dtype.kind != "i" or position.dtype.itemsize not in (4, 8):
            raise TypeError(f"a position is one int32 or int64, not an array of {position.dtype} "
                            f"and shape {position.shape}")
        return PyNumber_AsSsize_t(position.item(), NULL)
    if PyIndex_Check(position):
        return PyNumber_AsSsize_t(position, NULL)
    if isinstance(position, tuple) and len(position) == 1 and isinstance(position[0], np.ndarray):
        raise TypeError("a selection is an array, not a tuple that holds one: seq[mask] takes the mask "
                        "itself, and np.flatnonzero gives its positions")
    if isinstance(position, tuple) and len(position) > 1:
        raise TypeError(f"a sequence has one axis, so {position!r:.60} is no position: seq[i][j] looks into "
                        "an element, and sequence_map or map_batches into all")
    raise TypeError(f"a position is an integer, not {position!r:.60} of type {type(position).__name__}")


cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=False) except -1:
    """Turn a status into an exception; `n` is the length that the operation found."""
    if status == NO_MEMORY:
        raise MemoryError(f"no memory for the slots of a sequence of {n} tensors")
    if status == OUT_OF_RANGE:
        position = np.asarray(position).item()
        if n == 0 and not inserting:
            raise IndexError(f"position {position} is out of range: the sequence is empty")
        raise IndexError(f"position {position} is out of range for a sequence of {n} "
                         f"tensor{'s' if n != 1 else ''} ({-n} to {n if inserting else n - 1})")
    return 0
