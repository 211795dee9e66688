# Arrow's C data interface: the three structs that libraries hand each other columns in.

from libc.stdint cimport int64_t

# -- arrow -----------------------------------------------------------------------------------------------
# Arrow's C data interface: the three structs that libraries hand each other columns in.
#
# Who releases what: whoever has a struct whose `release` is not NULL calls it once. To move a struct is to
# copy it and to set `release` in the old place to NULL. A parent releases those children that nobody
# has moved.
# Source: https://arrow.apache.org/docs/format/CDataInterface.html and CStreamInterface.html.

cdef enum:
    ARROW_NULLABLE = 2          # among a schema's flags

cdef struct ArrowSchema:
    const char *format          # the type, in a letter or a few
    const char *name
    const char *metadata        # NULL, or pairs of texts, each behind its length
    int64_t flags
    int64_t n_children
    ArrowSchema **children
    ArrowSchema *dictionary
    void (*release)(ArrowSchema *) noexcept nogil
    void *private_data

cdef struct ArrowArray:
    int64_t length
    int64_t null_count          # -1: nobody has counted
    int64_t offset              # how many items of the buffers come before the first
    int64_t n_buffers
    int64_t n_children
    const void **buffers
    ArrowArray **children
    ArrowArray *dictionary
    void (*release)(ArrowArray *) noexcept nogil
    void *private_data

cdef struct ArrowArrayStream:
    # Each call gives 0 or an errno; `get_last_error` says more, until the next call.
    int (*get_schema)(ArrowArrayStream *, ArrowSchema *out) noexcept nogil
    int (*get_next)(ArrowArrayStream *, ArrowArray *out) noexcept nogil
    const char *(*get_last_error)(ArrowArrayStream *) noexcept nogil
    void (*release)(ArrowArrayStream *) noexcept nogil
    void *private_data
