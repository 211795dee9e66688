"""A sequence as one array and numbers, and back: what other systems know ragged data as.

::

    elements   [a b c]  []  [d e]
    values     [a b c d e]              joined along axis 0
    lengths    3 0 2                    extents along it
    offsets    0 3 3 5                  where each begins, and where the last one ends

Where elements stand one behind the other in one memory, as after a split, values are a view of it: element
for element the next one's data begin where the last one's end. Otherwise they are joined, in one copy.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from, own_view
from seqcore.core.buffer cimport GapBuffer, back_of, back_size, size_of, slot_at
from seqcore.core.counters cimport JOINED, LEFT_IN_PLACE, count
from seqcore.core.join cimport fits_behind, join, new_array
from seqcore.core.owner cimport kept_memory, owner_of, sealed
from seqcore.core.pieces cimport (
    MAX_BYTES, MAX_NDIM, Piece, Source, count_consecutive, extent, step_of, strides_of,
)
from seqcore.core.split cimport RELEASE_FROM, cut_by_lengths, cut_by_offsets

from seqcore._integers import integer_row
from seqcore._shown import shown
from seqcore._tensors import as_tensor
from seqcore.dtypes import numpy_type

cnp.import_array()

cdef enum:
    NONE = -1


# -- values ------------------------------------------------------------------------------------------

cdef struct Stretch:
    # Elements that stand one behind the other; `step` is not known before a second row is.
    Piece *first
    Py_ssize_t rows
    Py_ssize_t step             # bytes from row to row
    char *end
    bint stepped


cdef object values_of(GapBuffer *buffer, cnp.dtype dtype):
    """The elements joined along axis 0, read-only."""
    cdef Py_ssize_t none = 0
    cdef Piece *first
    if size_of(buffer) == 0:
        values = new_array(dtype, 1, &none)
    else:
        first = slot_at(buffer, 0)[0]
        if first.source.ndim == 0:
            raise ValueError("elements of rank 0 have no axis to join along: np.array(seq) or "
                             "concat_from_sequence(seq, 0, new_axis=1) stacks them")
        values = values_view(buffer, dtype)
        if values is not None:
            count(LEFT_IN_PLACE, 1)
            return values
        values = join(buffer, dtype, 0, False)
        count(JOINED, 1)
    return sealed(values, dtype)


cdef object values_view(GapBuffer *buffer, cnp.dtype dtype):
    """As `values_of` without a copy, or None where there must be one."""
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Py_ssize_t n = size_of(buffer), i = 0, k, end
    cdef Stretch stretch
    cdef Source *known = NULL
    cdef Source *source
    cdef int axis
    # Elements without rows take no place, but must fit.
    while i < n and (slot_at(buffer, i)[0].source.ndim == 0 or extent(slot_at(buffer, i)[0], 0) == 0):
        i += 1
    if i == n:
        return None
    begin(&stretch, slot_at(buffer, i)[0])
    for k in range(i):
        if not fits_behind(slot_at(buffer, k)[0], stretch.first):
            return None
    i += 1
    known = stretch.first.source
    while i < n:
        source = slot_at(buffer, i)[0].source
        if known != source:
            if kept_memory(known) is not kept_memory(source):
                return None
        known = source
        end = buffer.lo if i < buffer.lo else n         # the gap may be amid pieces of one source
        if i < buffer.lo:
            i = go_on(&stretch, buffer.slots, i, end)
        else:
            i = buffer.lo + go_on(&stretch, back_of(buffer), i - buffer.lo, back_size(buffer))
        if i < end and slot_at(buffer, i)[0].source == known:
            return None
    source = stretch.first.source
    memcpy(&strides[0], strides_of(source), source.ndim * sizeof(Py_ssize_t))
    for axis in range(source.ndim):
        shape[axis] = extent(stretch.first, axis)
        if shape[axis] == 0:
            return None
    shape[0] = stretch.rows
    if stretch.stepped:
        strides[0] = stretch.step
    return array_from(<PyObject *>dtype, source.ndim, shape, strides, stretch.first.data, owner_of(source))


cdef Py_ssize_t go_on(Stretch *stretch, Piece **slots, Py_ssize_t start, Py_ssize_t n) noexcept nogil:
    """Lengthen the stretch by pieces of one source, from slot `start` on; return the first that is none."""
    cdef Source *source = slots[start].source
    cdef Py_ssize_t i = start, run
    cdef Piece *last
    while i < n and slots[i].source == source:
        if not follows(stretch, slots[i]):
            break
        i += 1
        if (source.tiled and source.axis == 0 and i < n and slots[i - 1].length > 0
                and (not stretch.stepped or stretch.step == step_of(source))):
            # As long as the slots go through a block in order, there is no need to look at each. (An element
            # without rows may stand anywhere, so that nothing follows from where the next one is.)
            run = count_consecutive(slots + i - 1, n - i + 1)
            last = slots[i + run - 2]
            stretch.rows += ((last.data - slots[i - 1].data) // step_of(source)
                             + last.length - slots[i - 1].length)
            stretch.end = last.data + last.length * step_of(source)
            if run > 1:
                stretch.step = step_of(source)
                stretch.stepped = True
            i += run - 1
    return i


cdef void begin(Stretch *stretch, Piece *piece) noexcept nogil:
    stretch.first = piece
    stretch.rows = extent(piece, 0)
    stretch.step = strides_of(piece.source)[0]
    stretch.stepped = stretch.rows > 1
    stretch.end = piece.data + stretch.rows * stretch.step


cdef bint follows(Stretch *stretch, Piece *piece) noexcept nogil:
    """Lengthen the stretch by a piece, if it begins where the stretch ends."""
    cdef Source *source = piece.source
    cdef Py_ssize_t rows, step
    cdef int axis
    if source.ndim == 0:
        return False
    rows = extent(piece, 0)
    step = strides_of(source)[0]
    if source != stretch.first.source:
        if not fits_behind(piece, stretch.first):
            return False
        for axis in range(1, source.ndim):
            if rows and strides_of(source)[axis] != strides_of(stretch.first.source)[axis]:
                return False
    elif source.axis > 0 and piece.length != stretch.first.length:
        return False
    if rows == 0:
        return True
    if not stretch.stepped:
        # So far there is one row: the next one, or where it begins, says what the step is.
        stretch.step = step if rows > 1 else piece.data - stretch.first.data
        stretch.end = stretch.first.data + stretch.step
        stretch.stepped = True
    if piece.data != stretch.end or (rows > 1 and step != stretch.step) or rows > MAX_BYTES - stretch.rows:
        return False
    stretch.rows += rows
    stretch.end += rows * stretch.step
    return True


cdef object stack_of(GapBuffer *buffer, cnp.dtype dtype):
    """The elements, of one shape, along a new first axis: read-only, a view where they lie evenly."""
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Py_ssize_t n = size_of(buffer), i
    cdef Piece *first = slot_at(buffer, 0)[0]
    cdef Source *source = first.source
    cdef int axis
    strides[0] = slot_at(buffer, 1)[0].data - first.data if n > 1 else 0
    for i in range(1, n):
        if (slot_at(buffer, i)[0].source != source or slot_at(buffer, i)[0].length != first.length
                or slot_at(buffer, i)[0].data - slot_at(buffer, i - 1)[0].data != strides[0]):
            break
    else:
        if source.ndim < MAX_NDIM:
            shape[0] = n
            for axis in range(source.ndim):
                shape[axis + 1] = extent(first, axis)
                strides[axis + 1] = strides_of(source)[axis]
            count(LEFT_IN_PLACE, 1)
            return array_from(<PyObject *>dtype, source.ndim + 1, shape, strides, first.data,
                              owner_of(source))
    count(JOINED, 1)
    return sealed(join(buffer, dtype, 0, True), dtype)


# -- lengths and offsets -----------------------------------------------------------------------------

cdef object lengths_of(GapBuffer *buffer, object dtype):
    """The extents along axis 0, as an array of an integer type."""
    cdef Py_ssize_t n = size_of(buffer)
    dtype = integer_type(dtype, "lengths")
    cdef cnp.ndarray lengths = np.empty(n, np.int64)
    write_lengths(buffer, <int64_t *>cnp.PyArray_DATA(lengths))
    return fitted(lengths, dtype, "lengths")


cdef object offsets_of(GapBuffer *buffer, object dtype):
    """The running sum of the lengths, from 0, as an array of an integer type."""
    cdef Py_ssize_t n = size_of(buffer), i = 0
    dtype = integer_type(dtype, "offsets")
    cdef cnp.ndarray offsets = np.empty(n + 1, np.int64)
    cdef int64_t *each = <int64_t *>cnp.PyArray_DATA(offsets)
    each[0] = 0
    write_lengths(buffer, each + 1)
    with nogil:
        while i < n and each[i + 1] <= MAX_BYTES - each[i]:
            each[i + 1] += each[i]
            i += 1
    if i < n:
        raise OverflowError(f"the lengths of the first {i + 1} elements sum to more than fits int64")
    return fitted(offsets, dtype, "offsets")


cdef int write_lengths(GapBuffer *buffer, int64_t *into) except -1:
    cdef Py_ssize_t at
    if size_of(buffer) < RELEASE_FROM:
        at = write_all_lengths(buffer, into)
    else:
        with nogil:
            at = write_all_lengths(buffer, into)
    if at != NONE:
        raise ValueError(f"element {at} has rank 0 and so no length along axis 0")
    return 0


cdef Py_ssize_t write_all_lengths(GapBuffer *buffer, int64_t *into) noexcept nogil:
    cdef Py_ssize_t at = write_some_lengths(buffer.slots, buffer.lo, into)
    if at == NONE:
        at = write_some_lengths(back_of(buffer), back_size(buffer), into + buffer.lo)
        if at != NONE:
            at += buffer.lo
    return at


cdef Py_ssize_t write_some_lengths(Piece **slots, Py_ssize_t n, int64_t *into) noexcept nogil:
    """Write the lengths of n pieces; the position of one without, or NONE."""
    cdef Py_ssize_t i
    cdef Piece *piece
    for i in range(n):
        piece = slots[i]
        if piece.source.axis == 0:
            into[i] = piece.length
        elif piece.source.ndim:
            into[i] = piece.source.shape[0]
        else:
            return i
    return NONE


cdef object integer_type(object dtype, str what):
    given = numpy_type(dtype)
    if given is None or given.kind not in "iu":
        raise TypeError(f"the dtype of {what} must be an integer type, got "
                        f"{shown(dtype) if given is None else given}")
    return given


cdef object fitted(cnp.ndarray numbers, object dtype, str what):
    cdef Py_ssize_t i
    cdef const int64_t *each = <const int64_t *>cnp.PyArray_DATA(numbers)
    if dtype == np.int64 and dtype.isnative:
        return numbers
    most = min(int(np.iinfo(dtype).max), MAX_BYTES)
    cdef int64_t limit = most
    for i in range(cnp.PyArray_SIZE(numbers)):
        if each[i] > limit:
            raise OverflowError(f"{what}[{i}] is {each[i]}, which does not fit {dtype} (at most {most})")
    return numbers.astype(dtype)


# -- back --------------------------------------------------------------------------------------------

cdef cnp.ndarray values_to_cut(object values):
    # A view of our own: reading the lengths runs foreign code, which may set the given one's shape or type.
    cdef cnp.ndarray array = own_view(as_tensor(values))
    if array.ndim == 0:
        raise ValueError("values has rank 0 and so no axis to split along: pass an array of rank 1 or more")
    return array


cdef GapBuffer *cut_at_lengths(cnp.ndarray values, object lengths) except NULL:
    return cut_by_lengths(values, 0, integer_row("lengths", lengths), "lengths")


cdef GapBuffer *cut_at_offsets(cnp.ndarray values, object offsets) except NULL:
    return cut_by_offsets(values, integer_row("offsets", offsets))
