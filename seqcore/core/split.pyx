"""Sequences made of an array and numbers: one table, whatever the number of elements.

Each number that a caller gives is read once, checked, and written to a table's own: whoever changes it
meanwhile changes nothing here.
"""

from libc.stdint cimport int64_t
cimport numpy as cnp
import numpy as np

from seqcore.core.counters cimport CUT_WITHOUT_GIL, count
from seqcore.core.limits cimport RELEASE_FROM
from seqcore.core.source cimport (
    LENGTHS_TOO_LONG, LENGTHS_TOO_SHORT, MAX_BYTES, MAX_NDIM, NEGATIVE_LENGTH, OK, Status,
)
from seqcore.core.store cimport Store, empty_store
from seqcore.core.table cimport (
    even_table, offsets_table, padded_table, shaped_table, store_of, views_table,
)

from seqcore._arguments.integers import integers, within_64_bits
from seqcore._arguments.shown import got, shown_number

cnp.import_array()


cdef Store *split_equal(cnp.ndarray array, int axis, Py_ssize_t length, bint drop_axis) except NULL:
    """Views of `length` > 0 along an axis, the last one of what remains. O(1), no copy."""
    if cnp.PyArray_DIM(array, axis) == 0:
        return empty_store()
    return store_of(even_table(array, axis, drop_axis, length))


# -- lengths -------------------------------------------------------------------------------------------

cdef Status sum_up(const int64_t *lengths, Py_ssize_t n, Py_ssize_t whole, int64_t *offsets,
                   Py_ssize_t *at) noexcept nogil:
    """Write the running sum of lengths that are a split of `whole`.

    Else `at` is the first at fault, or the sum if they are too short.
    """
    cdef Py_ssize_t i, total = 0
    cdef int64_t length
    offsets[0] = 0
    for i in range(n):
        length = (<const volatile int64_t *>lengths)[i]
        if length < 0:
            at[0] = i
            return NEGATIVE_LENGTH
        if length > whole - total:          # and not total + length > whole, which can overflow
            at[0] = i
            return LENGTHS_TOO_LONG
        total += <Py_ssize_t>length
        offsets[i + 1] = total
    at[0] = total
    return OK if total == whole else LENGTHS_TOO_SHORT


cdef Store *split_lengths(cnp.ndarray array, int axis, object lengths, str name) except NULL:
    """Views of the given lengths along an axis. O(n), no copy."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, axis), n, at = 0
    cdef cnp.ndarray row, offsets
    cdef Status status
    if type(lengths) is range:
        check_range_of_lengths(lengths, whole, axis, name)
    given = row_given(name, lengths)
    row = within_64_bits(given)
    n = cnp.PyArray_SIZE(row)
    offsets = np.empty(n + 1, np.int64)
    if n < RELEASE_FROM:
        status = sum_up(<const int64_t *>cnp.PyArray_DATA(row), n, whole,
                        <int64_t *>cnp.PyArray_DATA(offsets), &at)
    else:
        with nogil:
            status = sum_up(<const int64_t *>cnp.PyArray_DATA(row), n, whole,
                            <int64_t *>cnp.PyArray_DATA(offsets), &at)
        count(CUT_WITHOUT_GIL, 1)
    if status == NEGATIVE_LENGTH:
        raise ValueError(f"{name}[{at}] is {shown_number(given[at])}, but a length can't be negative")
    if status == LENGTHS_TOO_LONG:
        raise ValueError(f"{name}[{at}] is {shown_number(given[at])}: the sum of the lengths up to there "
                         f"exceeds axis {axis}, which has length {whole}{offsets_hint(row, whole, name)}")
    if status == LENGTHS_TOO_SHORT:
        raise ValueError(f"the sum of {name} is {at}, but axis {axis} has length {whole}")
    if n == 0:
        return empty_store()
    return store_of(offsets_table(array, axis, offsets, 0, whole, True))


cdef int check_range_of_lengths(lengths, Py_ssize_t whole, int axis, str name) except -1:
    """Judge a range by its ends before it takes memory: it may be of any length."""
    if not lengths[:1]:
        return 0
    for at, end in ((0, lengths[0]), (-1, lengths[-1])):
        if end < 0:
            raise ValueError(f"{name}[{at}] is {shown_number(end)}, but a length can't be negative")
    total = (lengths[0] + lengths[-1]) * ((lengths[-1] - lengths[0]) // lengths.step + 1) // 2
    if total != whole:
        raise ValueError(f"the sum of {name} is {shown_number(total)}, but axis {axis} has length {whole}")
    return 0


cdef str lengths_hint(cnp.ndarray offsets, Py_ssize_t whole):
    """Return what to add to a message where the offsets sum to the extent, as lengths do."""
    each = offsets.tolist()
    return "; did you pass lengths? use from_lengths(values, lengths)" if (
        min(each) >= 0 and sum(each) == whole) else ""


cdef str offsets_hint(cnp.ndarray lengths, Py_ssize_t whole, str name):
    """Return what to add to a message where the lengths look like offsets."""
    if len(lengths) < 2 or lengths[0] < 0 or lengths[-1] > whole or np.any(lengths[1:] < lengths[:-1]):
        return ""
    use = f"{name}=np.diff(offsets)" if name == "split" else "from_offsets(values, offsets)"
    return f"; did you pass offsets? use {use}"


cdef object row_given(str name, given):
    """Return what a caller gives for integers along one axis, as an array of rank 1."""
    row = integers(name, given)
    if row.ndim != 1:
        raise ValueError(f"{name} must be a 1-D array of integers, got shape {row.shape}")
    return row


# -- offsets -------------------------------------------------------------------------------------------

cdef Py_ssize_t copy_rising(const int64_t *given, Py_ssize_t n, Py_ssize_t whole,
                            int64_t *offsets) noexcept nogil:
    """Copy offsets that rise within `whole`; the first that doesn't, or n."""
    cdef Py_ssize_t i
    cdef int64_t before = 0
    for i in range(n):
        offsets[i] = (<const volatile int64_t *>given)[i]
        if offsets[i] < before or offsets[i] > whole:
            return i
        before = offsets[i]
    return n


cdef Store *split_offsets(cnp.ndarray array, object offsets) except NULL:
    """Views from each offset to the next along axis 0. O(n), no copy."""
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, 0), n, at
    cdef cnp.ndarray row, own
    if type(offsets) is range:
        check_range_of_offsets(offsets, whole)
    given = row_given("offsets", offsets)
    row = within_64_bits(given)
    n = cnp.PyArray_SIZE(row)
    if n == 0:
        raise ValueError("offsets must have one more item than there are elements, got none: [0] makes an "
                         "empty sequence")
    own = np.empty(n, np.int64)
    if n <= RELEASE_FROM:
        at = copy_rising(<const int64_t *>cnp.PyArray_DATA(row), n, whole, <int64_t *>cnp.PyArray_DATA(own))
    else:
        with nogil:
            at = copy_rising(<const int64_t *>cnp.PyArray_DATA(row), n, whole,
                             <int64_t *>cnp.PyArray_DATA(own))
        count(CUT_WITHOUT_GIL, 1)
    if at < n:
        if at == 0 or own[at] >= own[at - 1]:
            raise ValueError(f"offsets[{at}] is {shown_number(given[at])}, but values has length {whole} "
                             "along axis 0")
        raise ValueError(f"offsets[{at}] is {shown_number(given[at])}, less than offsets[{at - 1}], which is "
                         f"{own[at - 1]}: offsets can't decrease{lengths_hint(row, whole)}")
    if n == 1:
        return empty_store()
    return store_of(offsets_table(array, 0, own, 0, whole, True))


cdef int check_range_of_offsets(offsets, Py_ssize_t whole) except -1:
    """Judge a range by its ends before it takes memory: it may be of any length."""
    if offsets and 0 <= offsets[0] <= whole and offsets.step > 0 and offsets[-1] > whole:
        at = (whole - offsets[0]) // offsets.step + 1
        raise ValueError(f"offsets[{at}] is {shown_number(offsets[at])}, but values has length {whole} along "
                         "axis 0")
    if offsets and not 0 <= offsets[0] <= whole:
        raise ValueError(f"offsets[0] is {shown_number(offsets[0])}, but values has length {whole} along "
                         "axis 0")
    if offsets[1:2] and offsets.step < 0:
        raise ValueError(f"offsets[1] is {shown_number(offsets[1])}, less than offsets[0], which is "
                         f"{shown_number(offsets[0])}: offsets can't decrease")
    return 0


# -- other layouts -------------------------------------------------------------------------------------

cdef bint is_mask_of_batch(cnp.ndarray lengths) noexcept:
    return lengths.ndim == 2 and cnp.PyArray_TYPE(lengths) == cnp.NPY_BOOL


cdef Store *split_padded(cnp.ndarray batch, object lengths, bint left) except NULL:
    """The elements of a padded batch, views of it: row i without its padding along axis 1."""
    cdef Py_ssize_t n, width, i
    cdef cnp.ndarray row, own
    cdef int64_t length
    if batch.ndim < 2:
        raise ValueError(f"batch must have rank 2 or more, got shape {(<object>batch).shape}")
    if lengths is None:
        raise TypeError("from_padded needs lengths, one for each row of the batch; split_to_sequence(batch, "
                        "keepdims=0) makes elements of whole rows")
    if cnp.PyArray_Check(lengths) and is_mask_of_batch(lengths):
        raise TypeError(f"lengths must be integers, got {got(lengths)}, which may be a mask: "
                        "mask.sum(axis=1) gives the lengths")
    n = cnp.PyArray_DIM(batch, 0)
    width = cnp.PyArray_DIM(batch, 1)
    if type(lengths) is range and len(lengths) != n:
        raise ValueError(f"lengths has {len(lengths)} items, but the batch has {n} rows")
    given = row_given("lengths", lengths)
    if len(given) != n:
        raise ValueError(f"lengths has {len(given)} items, but the batch has {n} rows")
    row = within_64_bits(given)
    own = np.empty(n, np.int64)
    for i in range(n):
        length = (<const volatile int64_t *>cnp.PyArray_DATA(row))[i]
        if not 0 <= length <= width:
            raise ValueError(f"lengths[{i}] is {shown_number(given[i])}, expected 0 to {width}, the length "
                             "of the batch along axis 1")
        (<int64_t *>cnp.PyArray_DATA(own))[i] = length
    if n == 0:
        return empty_store()
    return store_of(padded_table(batch, own, left))


cdef Store *split_views(cnp.ndarray array, int axis, object starts, object lengths) except NULL:
    """Views along an axis wherever they are, in any order, shared or with gaps. O(n), no copy."""
    cdef cnp.ndarray own_starts = np.array(starts, np.int64, order="C", copy=True, ndmin=1)
    cdef cnp.ndarray own_lengths = np.array(lengths, np.int64, order="C", copy=True, ndmin=1)
    cdef const int64_t *start = <const int64_t *>cnp.PyArray_DATA(own_starts)
    cdef const int64_t *length = <const int64_t *>cnp.PyArray_DATA(own_lengths)
    cdef Py_ssize_t n = min(cnp.PyArray_SIZE(own_starts), cnp.PyArray_SIZE(own_lengths)), i
    cdef Py_ssize_t whole = cnp.PyArray_DIM(array, axis)
    for i in range(n):
        if start[i] < 0 or length[i] < 0 or start[i] > whole or length[i] > whole - start[i]:
            raise ValueError(f"element {i} has length {length[i]} from {start[i]} on, but there are {whole} "
                             "values")
    if n == 0:
        return empty_store()
    return store_of(views_table(array, axis, own_starts[:n], own_lengths[:n]))


cdef Store *split_shaped(cnp.ndarray items, object offsets, object shapes) except NULL:
    """Tensors of shapes of their own in a contiguous row of items, each in C order. O(n), no copy."""
    cdef cnp.ndarray own_offsets = np.array(offsets, np.int64, order="C", copy=True, ndmin=1)
    cdef cnp.ndarray own_shapes = np.array(shapes, np.int64, order="C", copy=True, ndmin=2)
    cdef const int64_t *offset = <const int64_t *>cnp.PyArray_DATA(own_offsets)
    cdef const int64_t *shape = <const int64_t *>cnp.PyArray_DATA(own_shapes)
    cdef Py_ssize_t n = cnp.PyArray_DIM(own_shapes, 0), rank = cnp.PyArray_DIM(own_shapes, 1), i
    if not 0 < rank <= MAX_NDIM:
        raise ValueError(f"a tensor of rank {rank} can't be split off: NumPy's arrays have at most "
                         f"{MAX_NDIM} axes")
    if cnp.PyArray_SIZE(own_offsets) != n + 1:
        raise ValueError(f"{n} tensors have {n + 1} offsets, not {cnp.PyArray_SIZE(own_offsets)}")
    for i in range(n):
        if offset[i] < 0 or offset[i + 1] < offset[i] or offset[i + 1] > cnp.PyArray_SIZE(items):
            raise ValueError(f"element {i} is from {offset[i]} to {offset[i + 1]}, but there are "
                             f"{cnp.PyArray_SIZE(items)} values")
        check_shape(shape + i * rank, rank, offset[i + 1] - offset[i], cnp.PyArray_ITEMSIZE(items), i)
    if n == 0:
        return empty_store()
    return store_of(shaped_table(items, own_offsets, 0, cnp.PyArray_SIZE(items), own_shapes, None))


cdef int check_shape(const int64_t *shape, Py_ssize_t rank, int64_t items, Py_ssize_t itemsize,
                     Py_ssize_t at) except -1:
    """Refuse a shape of another number of items, or one that no array can have."""
    cdef int64_t product = 1, limit = itemsize
    cdef Py_ssize_t axis
    for axis in range(rank):
        # NumPy counts an extent of 0 as 1 where it limits the size of an array.
        if shape[axis] < 0 or limit > MAX_BYTES // max(shape[axis], 1):
            raise ValueError(f"element {at} has an extent of {shape[axis]}, which no tensor has")
        limit *= max(shape[axis], 1)
        product *= shape[axis]
    if product != items:
        raise ValueError(f"element {at} has {items} items, but a shape of {product}")
    return 0
