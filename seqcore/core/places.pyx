"""Where the pieces of a snapshot stand, to find them again in what others have made of the sequence since.

::

    snapshot    a b c d e f          what took long was done with these, while others edited
    sequence    f d x a b            … and is still of use here, but for x
    place_of    5 3 - 0 1

As long as the snapshot is held, no other piece can stand at the address of one of its own. Edits leave most
neighbours beside each other, so that most places are next to the last one; for the others there is a hash
table of open addresses, half of it free.
"""

from cpython.mem cimport PyMem_RawCalloc, PyMem_RawFree
from libc.stdint cimport uint64_t

from seqcore.core.buffer cimport GapBuffer, fill, new_buffer, size_of, slot_at
from seqcore.core.owner cimport hold_all
from seqcore.core.pieces cimport MAX_BYTES, NO_MEMORY, OK, Piece, Status


cdef inline uint64_t home_of(const Places *places, const Piece *piece) noexcept nogil:
    return (<uint64_t><size_t>piece * <uint64_t>0x9E3779B97F4A7C15) >> places.shift


cdef Status note_places(Places *places, GapBuffer *buffer, Py_ssize_t n) noexcept nogil:
    """Note the first n elements of a buffer, which the caller holds until it lets `places` be forgotten."""
    cdef Py_ssize_t size = 2, i
    cdef uint64_t at
    cdef Piece *piece
    places.shift = 63
    while size < 2 * n:
        if size > MAX_BYTES // (2 * <Py_ssize_t>sizeof(Py_ssize_t)):
            return NO_MEMORY
        size *= 2
        places.shift -= 1
    places.table = <Py_ssize_t *>PyMem_RawCalloc(size, sizeof(Py_ssize_t))
    if places.table == NULL:
        return NO_MEMORY
    places.buffer = buffer
    places.n = n
    places.mask = size - 1
    places.last = -1
    for i in range(n):
        piece = slot_at(buffer, i)[0]
        at = home_of(places, piece)
        while places.table[at] and slot_at(buffer, places.table[at] - 1)[0] != piece:
            at = (at + 1) & places.mask
        if places.table[at] == 0:
            places.table[at] = i + 1
    return OK


cdef Py_ssize_t place_of(Places *places, const Piece *piece) noexcept nogil:
    """A position at which the piece was noted, or -1."""
    cdef Py_ssize_t last = places.last, found = -1
    cdef uint64_t at
    if last + 1 < places.n and slot_at(places.buffer, last + 1)[0] == piece:
        found = last + 1
    elif last > 0 and slot_at(places.buffer, last - 1)[0] == piece:       # they were turned round
        found = last - 1
    else:
        at = home_of(places, piece)
        while places.table[at]:
            if slot_at(places.buffer, places.table[at] - 1)[0] == piece:
                found = places.table[at] - 1
                break
            at = (at + 1) & places.mask
    if found >= 0:
        places.last = found
    return found


cdef void forget(Places *places) noexcept nogil:
    PyMem_RawFree(places.table)
    places.table = NULL


cdef Status exchanged(GapBuffer *buffer, Places *places, GapBuffer *others, GapBuffer **result) noexcept:
    """A new buffer of a buffer's elements, those that were noted exchanged for the ones in the same places of
    `others`."""
    cdef Py_ssize_t n = size_of(buffer), i, place
    cdef GapBuffer *new = new_buffer(n)
    if new == NULL:
        return NO_MEMORY
    for i in range(n):
        new.slots[i] = slot_at(buffer, i)[0]
        place = place_of(places, new.slots[i])
        if place >= 0:
            new.slots[i] = slot_at(others, place)[0]
    hold_all(new.slots, n)
    fill(new)
    result[0] = new
    return OK
