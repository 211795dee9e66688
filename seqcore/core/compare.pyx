"""Which elements are equal: in shape and in value, where NaN equals nothing, as in NumPy.

The caller has a share of the stores, so nobody edits them while the GIL is released. A little work is done at
once; then it goes on in portions, between which signals are seen and other threads come in.
"""

cimport numpy as cnp

from seqcore.core.counters cimport COMPARED_ON, count as tally
from seqcore.core.equality cimport (
    EQUAL, FAILED, PAUSED, TEXT, UNEQUAL, Comparison, Equality, begin_comparison, equal_pieces,
)
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.limits cimport COMPARED_BETWEEN_SIGNALS, COMPARED_WITH_GIL
from seqcore.core.reader cimport Reader, begin, fetch_data, next_pieces, raise_damaged
from seqcore.core.source cimport MAX_BYTES, Piece
from seqcore.core.store cimport Store, size_of

cnp.import_array()

# Work is counted in bytes compared, and so many for each element.
cdef Py_ssize_t EACH = 32


cdef int raise_what_is_set() except -1:
    return -1


cdef inline Py_ssize_t portion_of(const Comparison *comparison) noexcept:
    # Strings keep the GIL, and nobody knows how long they are.
    return COMPARED_WITH_GIL if comparison.kind == TEXT else COMPARED_BETWEEN_SIGNALS


cdef bint equal_stores(Store *a, Store *b, cnp.dtype dtype) except -1:
    cdef Comparison comparison
    cdef Reader left, right
    cdef Py_ssize_t n = size_of(a), i = 0, k = 0, work = COMPARED_WITH_GIL
    cdef Equality result
    if size_of(b) != n:
        return False
    if n == 0:                          # where there may be no type either
        return True
    begin_comparison(&comparison, dtype)
    begin(&left, a, 0, n)
    begin(&right, b, 0, n)
    while True:
        if comparison.kind == TEXT or work == COMPARED_WITH_GIL:
            result = equal_from(&comparison, &left, &i, &right, &k, work)
        else:
            with nogil:
                result = equal_from(&comparison, &left, &i, &right, &k, work)
        if result == FAILED:
            raise_what_is_set()
        if result != PAUSED:
            break
        let_others_in()
        tally(COMPARED_ON, 1)
        work = portion_of(&comparison)
    if left.damaged:
        raise_damaged(a, left.at)
    if right.damaged:
        raise_damaged(b, right.at)
    return result == EQUAL


cdef Equality equal_from(Comparison *comparison, Reader *left, Py_ssize_t *i, Reader *right, Py_ssize_t *k,
                         Py_ssize_t work) noexcept nogil:
    """Return whether the remaining elements are equal; i and k are the next ones of those that were read."""
    cdef const Piece *ours
    cdef const Piece *theirs
    cdef Equality result
    while True:
        if i[0] == left.n:
            i[0] = 0
            if not next_pieces(left):
                return UNEQUAL if left.damaged else EQUAL
        if work <= 0:
            return PAUSED
        if k[0] == right.n:
            k[0] = 0
            if not next_pieces(right):
                return UNEQUAL
        fetch_data(left, i[0])
        fetch_data(right, k[0])
        ours, theirs = &left.pieces[i[0]], &right.pieces[k[0]]
        result = equal_pieces(comparison, ours, theirs, &work)
        if result != EQUAL:
            return result
        work -= EACH
        i[0] += 1
        k[0] += 1


cdef Py_ssize_t find(Store *store, Py_ssize_t start, Py_ssize_t stop, const Piece *piece, cnp.dtype dtype,
                     bint locked) except -2:
    """The first position from start to stop of an element equal to the piece, or -1.

    If locked, there is no pause, and no foreign code runs.
    """
    return search(store, start, stop, piece, dtype, NULL, locked)


cdef Py_ssize_t count_equal(Store *store, const Piece *piece, cnp.dtype dtype) except -1:
    cdef Py_ssize_t count = 0
    search(store, 0, size_of(store), piece, dtype, &count, False)
    return count


cdef Py_ssize_t search(Store *store, Py_ssize_t start, Py_ssize_t stop, const Piece *piece, cnp.dtype dtype,
                       Py_ssize_t *count, bint locked) except -2:
    """The first position of an equal element, or -1; or, where there is a `count`, how many are."""
    cdef Comparison comparison
    cdef Reader reader
    cdef Py_ssize_t work = MAX_BYTES if locked else COMPARED_WITH_GIL, i = 0
    cdef Equality result
    if start >= stop:                   # where there may be no type either
        return -1
    begin_comparison(&comparison, dtype)
    begin(&reader, store, start, stop)
    while True:
        if locked or comparison.kind == TEXT or work == COMPARED_WITH_GIL:
            result = search_on(&comparison, &reader, &i, piece, work, count)
        else:
            with nogil:
                result = search_on(&comparison, &reader, &i, piece, work, count)
        if result == FAILED:
            raise_what_is_set()
        if result != PAUSED:
            break
        if not locked:
            let_others_in()
            tally(COMPARED_ON, 1)
            work = portion_of(&comparison)
    if reader.damaged:
        raise_damaged(store, reader.at)
    return reader.at - reader.n + i if result == EQUAL else -1


cdef Equality search_on(Comparison *comparison, Reader *reader, Py_ssize_t *i, const Piece *piece,
                        Py_ssize_t work, Py_ssize_t *count) noexcept nogil:
    """As `search`; i is the next element of those that were read."""
    cdef const Piece *element
    cdef Equality result
    while work > 0:
        if i[0] == reader.n:
            i[0] = 0
            if not next_pieces(reader):
                return UNEQUAL
        fetch_data(reader, i[0])
        element = &reader.pieces[i[0]]
        work -= EACH
        result = equal_pieces(comparison, element, piece, &work)
        if result == EQUAL and count != NULL:
            count[0] += 1
        elif result != UNEQUAL:
            return result
        i[0] += 1
    return PAUSED
