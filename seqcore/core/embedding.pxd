# The C-level API: what seqcore/__init__.pxd names, with what each function promises.
#
# No object has fields here, so that what was compiled with one seqcore runs with the next: a function that
# has another signature there is a TypeError when the extension is imported.

cdef extern from *:
    """
    struct seqcore_snapshot;
    """
    # The elements that a sequence had at one moment. No edit, of whatever thread, changes one.
    cdef struct Snapshot "seqcore_snapshot":
        pass

cdef enum:
    MAX_NDIM = 64               # no tensor has a higher rank

# -- making and asking; `object` arguments other than a TensorSequence are a TypeError --------------

cdef bint is_sequence(object value) noexcept
cdef object new_sequence(object dtype)                          # empty; any name of a type
cdef int type_num(object sequence) except? -1                   # NumPy's number of the element type
cdef Py_ssize_t size(object sequence) except -1

# -- elements; positions from the back are negative; errors are the methods' -------------------------

cdef object at(object sequence, Py_ssize_t position)            # a read-only array, without a copy
cdef int insert(object sequence, Py_ssize_t position, object tensor) except -1
cdef int append(object sequence, object tensor) except -1
cdef int replace(object sequence, Py_ssize_t position, object tensor) except -1
cdef int erase(object sequence, Py_ssize_t position) except -1

# Insert memory of the sequence's type as a tensor, by reference: `owner` is kept alive for as long as
# anything may look at the memory, which must stay where it is as long. Strides are in bytes; NULL: C order.
# Not for strings.
cdef int insert_memory(object sequence, Py_ssize_t position, void *data, int ndim, const Py_ssize_t *shape,
                       const Py_ssize_t *strides, object owner) except -1

# -- splits and joins, as ONNX's SplitToSequence and ConcatFromSequence; the GIL is released meanwhile -

cdef object split(object tensor, int axis, Py_ssize_t length, bint drop_axis)
cdef object split_lengths(object tensor, int axis, const Py_ssize_t *lengths, Py_ssize_t n)
cdef object join(object sequence, int axis, bint new_axis)      # an array of its own

# -- reading without the GIL -------------------------------------------------------------------------

# O(1), without a copy. Each snapshot is released once by `let_go`, with the GIL. While there is one, an edit
# of the sequence copies its slots first, 16 bytes for each element.
cdef const Snapshot *hold(object sequence) except NULL
cdef void let_go(const Snapshot *snapshot) noexcept

cdef Py_ssize_t count(const Snapshot *snapshot) noexcept nogil

# Write where an element's first item is, and shape and strides in bytes of its first `room` axes; return its
# rank, or -1 where there is no element at the position, or its file is damaged there. The data are the
# snapshot's until it is released: read only, and PyObject pointers in a sequence of strings.
cdef int view(const Snapshot *snapshot, Py_ssize_t position, const char **data, int room,
              Py_ssize_t *shape, Py_ssize_t *strides) noexcept nogil
