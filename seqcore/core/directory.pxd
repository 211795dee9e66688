# Slots: an element in 8 bytes; and the directory of tables that slots name.

from libc.stdint cimport int64_t, uint64_t
from seqcore.core.source cimport WHOLE, Source, Table

# An even number is the address of a source that is a single element. An odd one is a table's id and an
# element's number in that table.
ctypedef uint64_t Slot

cdef enum:
    NUMBER_BITS = 37
    ID_SHIFT = 38               # behind the tag and the number
    BLOCK_BITS = 13             # of an id: ids of a block of the directory
    BLOCK_SHIFT = 51            # ID_SHIFT + BLOCK_BITS

cdef Table ***directory         # blocks of tables, by id

cdef inline Source *source_of(Slot slot) noexcept nogil:
    if slot & 1:
        return <Source *>directory[slot >> BLOCK_SHIFT][(slot >> ID_SHIFT) & ((1 << BLOCK_BITS) - 1)]
    return <Source *><size_t>slot

cdef inline Py_ssize_t number_in(Slot slot) noexcept nogil:
    return <Py_ssize_t>((slot >> 1) & ((<Slot>1 << NUMBER_BITS) - 1)) if slot & 1 else 0

cdef inline bint same_source(Slot a, Slot b) noexcept nogil:
    return a == b or (a & b & 1 and (a ^ b) >> ID_SHIFT == 0)

cdef inline Slot slot_for(const Source *source, Py_ssize_t number) noexcept nogil:
    """The slot of an element; of a table that has an id."""
    if source.kind == WHOLE:
        return <Slot><size_t>source
    return <Slot>(<const Table *>source).id << ID_SHIFT | <Slot>number << 1 | 1

cdef bint give_id(Source *source) noexcept nogil
cdef void forget_id(Table *table) noexcept nogil
