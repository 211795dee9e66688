"""Which elements are equal: in shape and in value, where NaN equals nothing, as in NumPy.

The caller has a share of the buffers, so nobody edits them while the GIL is away. A little work is done at
once; then it goes on in portions, between which signals are seen and other threads come in.
"""

cimport numpy as cnp

from seqcore.core.buffer cimport GapBuffer, size_of, slot_at
from seqcore.core.counters cimport COMPARED_ON, count as tally
from seqcore.core.equality cimport (
    EQUAL, FAILED, PAUSED, TEXT, UNEQUAL, Comparison, Equality, begin_comparison, equal_pieces,
)
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.pieces cimport AHEAD, MAX_BYTES, Piece, prefetch, same_shape
from seqcore.core.places cimport Places, place_of

cnp.import_array()

# Work is counted in bytes compared, and so many for each element.
cdef Py_ssize_t EACH = 32
cdef Py_ssize_t AT_ONCE = 1 << 16       # with the GIL, for giving it away takes some time too
cdef Py_ssize_t PORTION = 1 << 26       # some ten milliseconds


cdef int raise_what_is_set() except -1:
    return -1


cdef inline Py_ssize_t portion_of(const Comparison *comparison) noexcept:
    # Strings keep the GIL, and nobody knows how long they are.
    return AT_ONCE if comparison.kind == TEXT else PORTION


cdef bint equal_buffers(GapBuffer *a, GapBuffer *b, cnp.dtype dtype) except -1:
    cdef Comparison comparison
    cdef Py_ssize_t n = size_of(a), at = 0, work = AT_ONCE
    cdef Equality result
    if size_of(b) != n:
        return False
    if n == 0:                          # where there may be no type either
        return True
    begin_comparison(&comparison, dtype)
    while True:
        if comparison.kind == TEXT or work == AT_ONCE:
            result = equal_from(&comparison, a, b, &at, n, work)
        else:
            with nogil:
                result = equal_from(&comparison, a, b, &at, n, work)
        if result == FAILED:
            raise_what_is_set()
        if result != PAUSED:
            return result == EQUAL
        let_others_in()
        tally(COMPARED_ON, 1)
        work = portion_of(&comparison)


cdef Equality equal_from(Comparison *comparison, GapBuffer *a, GapBuffer *b, Py_ssize_t *at, Py_ssize_t n,
                         Py_ssize_t work) noexcept nogil:
    """Whether elements from `at` on are equal; `at` is where the comparison was paused."""
    cdef Py_ssize_t i = at[0]
    cdef Piece *left
    cdef Piece *right
    cdef Equality result
    while i < n and work > 0:
        if i + 2 * AHEAD < n:           # pieces first, then what they point to
            prefetch(slot_at(a, i + 2 * AHEAD)[0])
            prefetch(slot_at(b, i + 2 * AHEAD)[0])
            prefetch(slot_at(a, i + AHEAD)[0].data)
            prefetch(slot_at(b, i + AHEAD)[0].data)
        left, right = slot_at(a, i)[0], slot_at(b, i)[0]
        result = equal_pieces(comparison, left, right, &work) if same_shape(left, right) else UNEQUAL
        if result != EQUAL:
            at[0] = i
            return result
        work -= EACH
        i += 1
    at[0] = i
    return EQUAL if i == n else PAUSED


cdef Py_ssize_t find(GapBuffer *buffer, Py_ssize_t start, Py_ssize_t stop, Piece *piece,
                     cnp.dtype dtype) except -2:
    """The first position from start to stop of an element equal to the piece, or -1."""
    cdef Py_ssize_t at = start
    return at if search(buffer, &at, stop, piece, dtype, NULL) else -1


cdef Py_ssize_t find_among(GapBuffer *buffer, Places *places, Piece *piece, cnp.dtype dtype) except -2:
    """As `find` in all of a buffer, where those noted are known to be unequal, and the last of them equal.

    No foreign code runs here, and the GIL stays: it may be called under a lock.
    """
    cdef Comparison comparison
    cdef Piece *element
    cdef Py_ssize_t i, place, work
    cdef Equality result
    begin_comparison(&comparison, dtype)
    for i in range(size_of(buffer)):
        element = slot_at(buffer, i)[0]
        place = place_of(places, element)
        if place >= 0:
            result = EQUAL if place == places.n - 1 else UNEQUAL
        else:
            work = MAX_BYTES        # under a lock there is no pause
            result = UNEQUAL
            if same_shape(element, piece):
                result = equal_pieces(&comparison, element, piece, &work)
        if result == FAILED:
            raise_what_is_set()
        if result == EQUAL:
            return i
    return -1


cdef Py_ssize_t count_equal(GapBuffer *buffer, Piece *piece, cnp.dtype dtype) except -1:
    cdef Py_ssize_t at = 0, count = 0
    search(buffer, &at, size_of(buffer), piece, dtype, &count)
    return count


cdef bint search(GapBuffer *buffer, Py_ssize_t *at, Py_ssize_t stop, Piece *piece, cnp.dtype dtype,
                 Py_ssize_t *count) except -1:
    """Whether an element from `at` on is equal, and where; or, where there is a `count`, how many are."""
    cdef Comparison comparison
    cdef Py_ssize_t work = AT_ONCE
    cdef Equality result
    if at[0] >= stop:                   # where there may be no type either
        return False
    begin_comparison(&comparison, dtype)
    while True:
        if comparison.kind == TEXT or work == AT_ONCE:
            result = search_on(&comparison, buffer, at, stop, piece, work, count)
        else:
            with nogil:
                result = search_on(&comparison, buffer, at, stop, piece, work, count)
        if result == FAILED:
            raise_what_is_set()
        if result != PAUSED:
            return result == EQUAL
        let_others_in()
        tally(COMPARED_ON, 1)
        work = portion_of(&comparison)


cdef Equality search_on(Comparison *comparison, GapBuffer *buffer, Py_ssize_t *at, Py_ssize_t stop,
                        Piece *piece, Py_ssize_t work, Py_ssize_t *count) noexcept nogil:
    """As `search`; `at` is also where it was paused."""
    cdef Py_ssize_t i = at[0]
    cdef Piece *element
    cdef Equality result = UNEQUAL
    while i < stop and work > 0:
        if i + 2 * AHEAD < stop:        # pieces first, then what they point to
            prefetch(slot_at(buffer, i + 2 * AHEAD)[0])
            prefetch(slot_at(buffer, i + AHEAD)[0].data)
        element = slot_at(buffer, i)[0]
        work -= EACH
        if same_shape(element, piece):
            result = equal_pieces(comparison, element, piece, &work)
            if result == EQUAL and count != NULL:
                count[0] += 1
            elif result != UNEQUAL:
                at[0] = i
                return result
        i += 1
    at[0] = i
    return UNEQUAL if i == stop else PAUSED
