# The gap buffer: slots that point to pieces. Who edits one holds the lock of its sequence.

from libc.stdint cimport int64_t
from seqcore.core.pieces cimport Piece, Status

cdef struct GapBuffer:
    Py_ssize_t shares           # sequences and snapshots that use it; an edit needs it to be 1
    Py_ssize_t capacity         # in slots
    Py_ssize_t lo               # the gap is [lo, hi)
    Py_ssize_t hi
    Piece *slots[1]             # in truth `capacity` of them

cdef inline Py_ssize_t size_of(const GapBuffer *buffer) noexcept nogil:
    return buffer.capacity - (buffer.hi - buffer.lo)

cdef inline Piece **slot_at(GapBuffer *buffer, Py_ssize_t position) noexcept nogil:
    return &buffer.slots[position if position < buffer.lo else position + (buffer.hi - buffer.lo)]

# The elements lie in two spans, before the gap and behind it.
cdef inline Py_ssize_t back_size(const GapBuffer *buffer) noexcept nogil:
    return buffer.capacity - buffer.hi

cdef inline Piece **back_of(GapBuffer *buffer) noexcept nogil:
    return &buffer.slots[buffer.hi]

cdef GapBuffer *new_buffer(Py_ssize_t capacity) noexcept nogil
cdef GapBuffer *empty_buffer() noexcept nogil
cdef void fill(GapBuffer *buffer) noexcept nogil
cdef GapBuffer *share(GapBuffer *buffer) noexcept nogil
cdef void release(GapBuffer *buffer) noexcept
cdef Status unshare(GapBuffer **buffer) noexcept

cdef Status open_gap(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Py_ssize_t room) noexcept
cdef Status put_one(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Piece *piece) noexcept
cdef Status put_all(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, GapBuffer *news) noexcept
cdef Status take_one(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Piece **taken) noexcept
cdef Status take_range(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t start, Py_ssize_t step,
                       GapBuffer *taken) noexcept
cdef Status swap_one(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t position, Piece **piece) noexcept
cdef Status swap_range(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t start, Py_ssize_t step,
                       GapBuffer *news) noexcept
cdef Status swap_at(GapBuffer **buffer, GapBuffer **stale, const int64_t *positions,
                    GapBuffer *news) noexcept
cdef Status replace_span(GapBuffer **buffer, GapBuffer **stale, Py_ssize_t start, GapBuffer *removed,
                         GapBuffer *news) noexcept
cdef Status reverse_all(GapBuffer **buffer, GapBuffer **stale) noexcept
cdef Status take_marked(GapBuffer **buffer, GapBuffer **stale, const char *marks,
                        GapBuffer *taken) noexcept
cdef void move_all(GapBuffer *buffer, GapBuffer *into) noexcept
cdef void copy_range(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t step, GapBuffer *into) noexcept
cdef str broken_invariant(GapBuffer *buffer)
