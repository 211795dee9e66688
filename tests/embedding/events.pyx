"""Sums over sequences of float32 events, in a loop without the GIL."""

from libc.stdlib cimport free, malloc
from cpython.pycapsule cimport PyCapsule_GetPointer, PyCapsule_New
cimport seqcore

import numpy as np


def row_sums(sequence):
    """Return the sum of each element, which is float32 and of rank 1 or 2."""
    if sequence.dtype != np.float32:
        raise TypeError(f"events are float32, not {sequence.dtype}")
    cdef const seqcore.Snapshot *events = seqcore.hold(sequence)
    cdef Py_ssize_t n = seqcore.count(events), i
    cdef double[::1] sums
    try:
        sums = np.zeros(n)
        with nogil:
            for i in range(n):
                if not add_up(events, i, &sums[i]):
                    with gil:
                        raise ValueError(f"event {i} has a rank other than 1 and 2")
    finally:
        seqcore.let_go(events)
    return np.asarray(sums)


cdef bint add_up(
    const seqcore.Snapshot *events, Py_ssize_t i, double *total
) noexcept nogil:
    cdef Py_ssize_t[2] shape
    cdef Py_ssize_t[2] strides
    cdef const char *data
    cdef Py_ssize_t row, column
    cdef int rank = seqcore.view(events, i, &data, 2, shape, strides)
    if not 1 <= rank <= 2:
        return False
    if rank == 1:               # as one row
        shape[1], strides[1] = shape[0], strides[0]
        shape[0], strides[0] = 1, 0
    for row in range(shape[0]):
        for column in range(shape[1]):
            total[0] += (<const float *>(data + row * strides[0] + column * strides[1]))[0]
    return True


cdef void free_block(object capsule) noexcept:
    free(PyCapsule_GetPointer(capsule, "events.block"))


def ramps(Py_ssize_t n):
    """Return a sequence of n events (0), (0, 1), (0, 1, 2), … in one block of C memory."""
    cdef float *block = <float *>malloc((n * (n + 1) // 2 + 1) * sizeof(float))
    cdef float *event = block
    cdef Py_ssize_t length, i
    if block == NULL:
        raise MemoryError(f"no memory for {n} events")
    owner = PyCapsule_New(block, "events.block", free_block)
    sequence = seqcore.new_sequence("float32")
    for length in range(1, n + 1):
        for i in range(length):
            event[i] = i
        seqcore.insert_memory(sequence, length - 1, event, 1, &length, NULL, owner)
        event += length
    return sequence


def drop_short(sequence, Py_ssize_t shortest):
    """Erase the events with fewer rows than `shortest`, in place; return how many there were."""
    cdef Py_ssize_t i = 0, n = seqcore.size(sequence)
    while i < seqcore.size(sequence):
        if len(seqcore.at(sequence, i)) < shortest:
            seqcore.erase(sequence, i)
        else:
            i += 1
    return n - seqcore.size(sequence)
