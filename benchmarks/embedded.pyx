"""The same sum in two compiled loops: over a sequence, and over a list of arrays."""

cimport seqcore


def sum_sequence(sequence):
    """Return the sum of all rows of 8 float32, in a loop without the GIL."""
    cdef const seqcore.Snapshot *rows = seqcore.hold(sequence)
    cdef Py_ssize_t length, stride, i, k
    cdef const char *data
    cdef double total = 0
    with nogil:
        for i in range(seqcore.count(rows)):
            if seqcore.view(rows, i, &data, 1, &length, &stride) == 1:
                for k in range(length):
                    total += (<const float *>(data + k * stride))[0]
    seqcore.let_go(rows)
    return total


def sum_list(list rows):
    """Return the same of a list of arrays, each looked at through its buffer."""
    cdef const float[:] row
    cdef Py_ssize_t k
    cdef double total = 0
    for row in rows:
        for k in range(row.shape[0]):
            total += row[k]
    return total
