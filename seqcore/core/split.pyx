"""An array cut into pieces: one source, one block of pieces, one buffer, whatever the number of pieces."""

from libc.stdint cimport int64_t
cimport numpy as cnp

from seqcore.core.buffer cimport GapBuffer, empty_buffer, fill, new_buffer
from seqcore.core.counters cimport CUT_WITHOUT_GIL, count
from seqcore.core.owner cimport Owner, hold_fresh, owner_of_pieces, pieces_of
from seqcore.core.pieces cimport (
    LENGTHS_TOO_LONG, LENGTHS_TOO_SHORT, NEGATIVE_LENGTH, Piece, Source, Status, check_lengths, cut_equal,
    cut_lengths,
)

cnp.import_array()


cdef GapBuffer *cut(cnp.ndarray array, int axis, bint drop_axis, Py_ssize_t n, Py_ssize_t length,
                    const int64_t *lengths) except NULL:
    """n pieces of one length, or of each its own where `lengths` is not NULL."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, axis)
    cdef char *data = cnp.PyArray_BYTES(array)
    cdef GapBuffer *buffer
    cdef Owner owner
    cdef Source *source
    cdef Piece *pieces
    if n == 0:
        return empty_buffer()
    owner = owner_of_pieces(array, axis, drop_axis, n)
    source, pieces = &owner.source, pieces_of(owner)
    buffer = new_buffer(n)
    if buffer == NULL:
        raise MemoryError(f"no memory for {n} elements")
    if n < RELEASE_FROM:
        write_pieces(pieces, buffer.slots, n, source, data, length, whole, lengths)
    else:
        with nogil:
            write_pieces(pieces, buffer.slots, n, source, data, length, whole, lengths)
        count(CUT_WITHOUT_GIL, 1)
    hold_fresh(owner, n)
    fill(buffer)
    return buffer


cdef void write_pieces(Piece *pieces, Piece **slots, Py_ssize_t n, Source *source, char *data,
                       Py_ssize_t length, Py_ssize_t whole, const int64_t *lengths) noexcept nogil:
    if lengths == NULL:
        cut_equal(pieces, slots, n, source, data, length, whole)
    else:
        cut_lengths(pieces, slots, n, source, data, lengths)


cdef GapBuffer *cut_equally(cnp.ndarray array, int axis, Py_ssize_t length, bint drop_axis) except NULL:
    """Pieces of `length` > 0 along the axis, the last one of what remains. O(pieces), no copy."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, axis)
    return cut(array, axis, drop_axis, whole // length + (whole % length != 0), length, NULL)


cdef GapBuffer *cut_by_lengths(cnp.ndarray array, int axis, cnp.ndarray lengths, str name) except NULL:
    """Pieces of the given lengths, a contiguous int64 array that nobody else writes to."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, axis), n = cnp.PyArray_SIZE(lengths), at = 0
    cdef const int64_t *each = <const int64_t *>cnp.PyArray_DATA(lengths)
    cdef Status status
    if n < RELEASE_FROM:
        status = check_lengths(each, n, whole, &at)
    else:
        with nogil:
            status = check_lengths(each, n, whole, &at)
    if status == NEGATIVE_LENGTH:
        raise ValueError(f"{name}[{at}] is {each[at]}, but a length can't be negative")
    if status == LENGTHS_TOO_LONG:
        raise ValueError(f"{name}[{at}] is {each[at]}: the sum of the lengths up to there exceeds axis "
                         f"{axis}, which has length {whole}{offsets_hint(each, n, whole, name)}")
    if status == LENGTHS_TOO_SHORT:
        raise ValueError(f"{name} sums to {at}, but axis {axis} has length {whole}")
    return cut(array, axis, False, n, 0, each)


cdef str lengths_hint(const int64_t *each, Py_ssize_t n, Py_ssize_t whole):
    """Return what to add to a message where the offsets sum to the extent, as lengths do."""
    cdef Py_ssize_t i, left = whole
    for i in range(n):
        if not 0 <= each[i] <= left:
            return ""
        left -= each[i]
    return "" if left else "; did you pass lengths? use from_lengths(values, lengths)"


cdef str offsets_hint(const int64_t *each, Py_ssize_t n, Py_ssize_t whole, str name):
    """Return what to add to a message where the lengths look like offsets."""
    cdef Py_ssize_t i
    if n < 2 or each[0] < 0 or each[n - 1] > whole:
        return ""
    for i in range(1, n):
        if each[i] < each[i - 1]:
            return ""
    use = f"{name}=np.diff(offsets)" if name == "split" else "from_offsets(values, offsets)"
    return f"; did you pass offsets? use {use}"


cdef GapBuffer *cut_by_offsets(cnp.ndarray array, cnp.ndarray offsets) except NULL:
    """Pieces from each offset to the next, along axis 0; as for lengths, and overwritten."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, 0), n = cnp.PyArray_SIZE(offsets) - 1, i
    cdef int64_t *each = <int64_t *>cnp.PyArray_DATA(offsets)
    cdef int64_t first
    if n < 0:
        raise ValueError("offsets must have one more item than there are elements, got none: [0] makes an "
                         "empty sequence")
    first = each[0]
    if not 0 <= first <= whole:
        raise ValueError(f"offsets[0] is {first}, but values has length {whole} along axis 0")
    for i in range(n):
        if each[i + 1] < each[i]:
            raise ValueError(f"offsets[{i + 1}] is {each[i + 1]}, less than offsets[{i}], which is "
                             f"{each[i]}: offsets can't decrease{lengths_hint(each, n + 1, whole)}")
    if each[n] > whole:
        raise ValueError(f"offsets[{n}] is {each[n]}, but values has length {whole} along axis 0")
    array = array[first:each[n]]
    for i in range(n):
        each[i] = each[i + 1] - each[i]
    return cut(array, 0, False, n, 0, each)
