"""Each function of `cimport seqcore` as one of Python, for the tests."""

cimport seqcore


def is_sequence(value):
    return seqcore.is_sequence(value)


def new_sequence(dtype):
    return seqcore.new_sequence(dtype)


def type_num(sequence):
    return seqcore.type_num(sequence)


def size(sequence):
    return seqcore.size(sequence)


def at(sequence, Py_ssize_t position):
    return seqcore.at(sequence, position)


def insert(sequence, Py_ssize_t position, tensor):
    return seqcore.insert(sequence, position, tensor)


def append(sequence, tensor):
    return seqcore.append(sequence, tensor)


def replace(sequence, Py_ssize_t position, tensor):
    return seqcore.replace(sequence, position, tensor)


def erase(sequence, Py_ssize_t position):
    return seqcore.erase(sequence, position)


def split(tensor, int axis, Py_ssize_t length, bint drop_axis=False):
    return seqcore.split(tensor, axis, length, drop_axis)


def split_lengths(tensor, int axis, Py_ssize_t[::1] lengths, n=None):
    cdef const Py_ssize_t *first = &lengths[0] if lengths.shape[0] else NULL
    return seqcore.split_lengths(tensor, axis, first, lengths.shape[0] if n is None else n)


def join(sequence, int axis, bint new_axis=False):
    return seqcore.join(sequence, axis, new_axis)


def insert_memory(sequence, Py_ssize_t position, const unsigned char[::1] memory, shape, strides, owner,
                  int ndim=-1):
    cdef Py_ssize_t[8] extents
    cdef Py_ssize_t[8] steps
    for axis, extent in enumerate(shape):
        extents[axis] = extent
    for axis, step in enumerate(strides or ()):
        steps[axis] = step
    cdef const unsigned char *data = &memory[0] if memory is not None else NULL
    return seqcore.insert_memory(sequence, position, <void *>data, len(shape) if ndim < 0 else ndim, extents,
                                 steps if strides is not None else NULL, owner)


cdef class Held:
    """A snapshot that is let go by `close`."""

    cdef const seqcore.Snapshot *snapshot

    def __init__(self, sequence):
        self.snapshot = seqcore.hold(sequence)

    def close(self):
        seqcore.let_go(self.snapshot)
        self.snapshot = NULL

    def count(self):
        return seqcore.count(self.snapshot)

    def view(self, Py_ssize_t position, int room=8):
        """Return (rank, address, shape, strides), the rank -1 where there is no element."""
        cdef Py_ssize_t[8] shape
        cdef Py_ssize_t[8] strides
        cdef const char *data = NULL
        cdef int rank
        for axis in range(8):
            shape[axis] = strides[axis] = -7
        with nogil:
            rank = seqcore.view(self.snapshot, position, &data, room, shape, strides)
        return rank, <size_t>data, tuple(shape), tuple(strides)

    def addresses(self, Py_ssize_t rounds):
        """Return the sum of all data addresses over some rounds, without the GIL, and their number."""
        cdef Py_ssize_t[1] shape
        cdef Py_ssize_t[1] strides
        cdef const char *data
        cdef size_t total = 0
        cdef Py_ssize_t i, _, n = 0
        with nogil:
            for _ in range(rounds):
                for i in range(seqcore.count(self.snapshot)):
                    if seqcore.view(self.snapshot, i, &data, 1, shape, strides) == 1:
                        total += <size_t>data
                        n += 1
        return total, n
