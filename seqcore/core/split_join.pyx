"""Split an array into elements, select elements, join elements into an array.

::

    array  ── split ──►  table in a store  ── select ──►  slots
                              │
                              └── join, compact ──►  one array, copied without the GIL

Sections::

    copying    copy one element
    selection  indices and masks
    split      tables from arrays, lengths and offsets
    join       concatenate and stack
    compact    copy elements one behind the other
"""

from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawCalloc
from cpython.ref cimport PyObject, Py_INCREF
from libc.stdint cimport int64_t
from libc.string cimport memcpy, memset
cimport numpy as cnp
import numpy as np
from collections.abc import Sequence

from seqcore.core.arrays cimport array_from
from seqcore.core.limits cimport RELEASE_FROM
from seqcore.core.store cimport (
    DAMAGED, EVEN, IN_MEMORY, LENGTHS_TOO_LONG, LENGTHS_TOO_SHORT, LENGTH_DIFFERS, MAX_BYTES, MAX_NDIM,
    NEGATIVE_LENGTH, NO_MEMORY, OF_A_TABLE, OK, OUT_OF_RANGE, RANK_DIFFERS, SHAPED, SHAPE_DIFFERS,
    TOO_LARGE, WITHOUT_GIL, Block, Piece, PyIndex_Check, PyNumber_AsSsize_t, Run, Slot, Source, Status,
    Store, Table, begin_joint_blocks, begin_of, check_read, count, element_of, empty_store, even_table,
    extent, fill, find_run, has_runs, is_single_bool, is_worth_releasing, kept_memory, new_slots,
    offsets_table, owner_of, padded_table, raise_damaged, raise_for, read_block, read_one, retain_slots,
    runs_of, shape_of,
    shaped_table, size_of, store_of, strides_of, views_table,
)
from seqcore._arguments.integers import integers, within_64_bits
from seqcore._arguments.shown import MASKED, got, shown_number, unless_empty_list
from seqcore._arguments.tensors import as_tensor

cnp.import_array()


# == copying =============================================================================================
#
# Copies of elements between two layouts, without the GIL and without Python objects.

cdef char *copy_piece(char *out, const Piece *piece) noexcept nogil:
    """Copy an element in C order; where the next one would go."""
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Py_ssize_t stride = piece.source.itemsize
    cdef int axis
    for axis in range(piece.source.ndim - 1, -1, -1):
        shape[axis] = extent(piece, axis)
        strides[axis] = stride
        stride *= shape[axis]
    copy_strided(out, strides, piece.data, strides_of(piece), shape, piece.source.ndim, piece.source.itemsize)
    return out + stride


cdef void copy_strided(char *out, const Py_ssize_t *out_strides, const char *data,
                       const Py_ssize_t *strides, const Py_ssize_t *shape, int ndim,
                       Py_ssize_t itemsize) noexcept nogil:
    """Copy items between two layouts of one shape that share no memory."""
    # The axes again, innermost first: those of extent 1 dropped, adjacent ones that are contiguous merged.
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef Py_ssize_t[MAX_NDIM] to_strides
    cdef Py_ssize_t[MAX_NDIM] from_strides
    cdef Py_ssize_t[MAX_NDIM] index
    cdef int axis, last = -1
    for axis in range(ndim - 1, -1, -1):
        if shape[axis] == 0:
            return
        if shape[axis] == 1:
            continue
        if (last >= 0 and out_strides[axis] == to_strides[last] * extents[last]
                and strides[axis] == from_strides[last] * extents[last]):
            extents[last] *= shape[axis]
            continue
        last += 1
        extents[last] = shape[axis]
        to_strides[last] = out_strides[axis]
        from_strides[last] = strides[axis]
        index[last] = 0
    if last < 0:
        memcpy(out, data, itemsize)
        return
    while True:
        copy_row(out, to_strides[0], data, from_strides[0], extents[0], itemsize)
        axis = 1
        while axis <= last:
            index[axis] += 1
            out += to_strides[axis]
            data += from_strides[axis]
            if index[axis] < extents[axis]:
                break
            out -= to_strides[axis] * extents[axis]
            data -= from_strides[axis] * extents[axis]
            index[axis] = 0
            axis += 1
        if axis > last:
            return


cdef void copy_row(char *out, Py_ssize_t out_stride, const char *data, Py_ssize_t stride, Py_ssize_t n,
                   Py_ssize_t itemsize) noexcept nogil:
    # A memcpy of a constant size is one move, aligned or not.
    cdef Py_ssize_t i
    if out_stride == itemsize and stride == itemsize:
        memcpy(out, data, n * itemsize)
    elif itemsize == 1:
        for i in range(n):
            out[i * out_stride] = data[i * stride]
    elif itemsize == 2:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 2)
    elif itemsize == 4:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 4)
    elif itemsize == 8:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, 8)
    else:
        for i in range(n):
            memcpy(out + i * out_stride, data + i * stride, itemsize)


# == selection ===========================================================================================
#
# Selections: several elements at once, by their positions or by a mask, as in NumPy.
#
# ::
#
#     seq[[2, 0, -1]]          positions: an int64 array, read from front to back, each number once
#     seq[lengths > 3]         a mask: a bool array of our own, as long as the sequence
#
# Slots are copied or made, data are not. Keys are read before anything is locked, because that runs foreign
# code. The result is an array of our own: nobody changes it between the check and the use.

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MIN
    const Py_ssize_t PY_SSIZE_T_MAX


# -- what a key selects ------------------------------------------------------------------------------

cdef cnp.ndarray selection_of(object key, Py_ssize_t n):
    """The positions or the mask that a key stands for among n elements, or None for a single position."""
    if isinstance(key, (list, range)):
        return selection_in_rows(key, n)
    if cnp.PyArray_Check(key):          # not isinstance, which believes a `__class__`
        return selection_in_rows(key, n) if (<cnp.ndarray>key).ndim else None
    if PyIndex_Check(key):
        # A tensor of PyTorch with one element is an index to Python, whatever its rank.
        return selection_in_rows(key, n) if getattr(key, "ndim", 0) else None
    if isinstance(key, (tuple, str, bytes)) or key is None or isinstance(key, np.generic):
        return None
    if isinstance(key, Sequence) and not hasattr(key, "typecode"):
        raise TypeError(f"the index is {got(key)}: expected an integer, a slice, or a list or 1-D array of "
                        "integers or bools; np.array(index) makes one of a sequence of scalars")
    if hasattr(key, "__array__") or hasattr(key, "__array_interface__") or (
            hasattr(key, "__array_struct__") or hasattr(key, "__dlpack__") or (
            hasattr(key, "typecode"))):     # an array.array
        return selection_in_rows(key, n)
    return None


cdef cnp.ndarray selection_in_rows(object key, Py_ssize_t n):
    """As `selection_of`, of a key other than a single position."""
    cdef cnp.ndarray array
    if type(key) is range:
        return selection_in_range(key, n)
    if isinstance(key, list):
        return selection_in_list(tuple(key), n)
    array = as_tensor(key)
    if array.ndim != 1:
        raise TypeError(f"an index array must be 1-D, got shape {(<object>array).shape}")
    kind = array.dtype.kind
    if kind == "b":
        # By their bytes, for what others take for bools may have other bytes than 0 and 1.
        return np.ascontiguousarray(array).view(np.uint8) != 0
    if kind == "i":
        return np.array(array, dtype=np.int64, order="C", copy=True)
    if kind == "u":
        beyond = array > np.uint64(2**63 - 1)
        if beyond.any():
            raise_for(OUT_OF_RANGE, array[beyond][0], n)
        return array.astype(np.int64)
    also = "" if cnp.PyArray_SIZE(array) else "; np.array([], int) selects nothing"
    raise TypeError(f"an index array must have integers or bools, got {array.dtype}{also}")


cdef cnp.ndarray selection_in_range(key, Py_ssize_t n):
    """The positions of a range, which is judged by its ends before it takes memory."""
    for end in (key[:1], key[-1:]):
        if end and not -n <= end[0] < n:
            raise_for(OUT_OF_RANGE, end[0], n)
    return np.arange(key.start, key.stop, key.step, dtype=np.int64)


cdef cnp.ndarray selection_in_list(tuple items, Py_ssize_t length):
    """As `selection_of`, of a list among `length` elements."""
    cdef Py_ssize_t n = len(items), i, masks = 0
    cdef cnp.ndarray selection = np.empty(n, np.int64)
    cdef int64_t *positions = <int64_t *>cnp.PyArray_DATA(selection)
    for i in range(n):
        item = items[i]
        if not PyLong_CheckExact(item):
            if is_single_bool(item):
                masks += 1
                positions[i] = bool(item)
                continue
            if isinstance(item, np.ma.MaskedArray):
                raise TypeError(f"item {i} of the index list is {MASKED}")
            if (not PyIndex_Check(item) or getattr(item, "ndim", 0)
                    or (cnp.PyArray_Check(item) and np.ndarray.dtype.__get__(item).kind not in "iu")):
                also = "; DataLoader takes a BatchSampler as batch_sampler=" if isinstance(item, list) else ""
                raise TypeError(f"an index list must have integers or bools, but item {i} is {got(item)}"
                                f"{also}")
        positions[i] = PyNumber_AsSsize_t(item, NULL)
        if positions[i] in (PY_SSIZE_T_MIN, PY_SSIZE_T_MAX):       # maybe of a number beyond them
            raise_for(OUT_OF_RANGE, item, length)
    if masks == 0:
        return selection
    if masks < n:
        raise TypeError(f"an index list must have integers or bools, got {masks} "
                        f"bool{'s' if masks != 1 else ''} among {n} items: a mask has a bool for each "
                        "element, positions are integers")
    return selection.astype(np.bool_)


cdef bint is_mask(cnp.ndarray selection) noexcept:
    return cnp.PyArray_TYPE(selection) == cnp.NPY_BOOL


# -- loops -------------------------------------------------------------------------------------------

cdef Status select(Store *store, cnp.ndarray selection, Store **selected, Py_ssize_t *at) noexcept:
    """New slots of the elements that are selected; on failure `at` says where in the selection."""
    cdef Py_ssize_t n = size_of(store), k = cnp.PyArray_SIZE(selection), nselected = k
    cdef Store *into
    at[0] = 0
    if is_mask(selection):
        if k != n:
            return LENGTH_DIFFERS
        nselected = count_marks(<const char *>cnp.PyArray_DATA(selection), n)
    into = new_slots(nselected)
    if into == NULL:
        return NO_MEMORY
    # Nothing in it counts as a user yet: until it is filled it is all gap.
    if is_mask(selection):
        write_marked(store, <const char *>cnp.PyArray_DATA(selection), into.slots)
    else:
        at[0] = write_selected(store, n, <const int64_t *>cnp.PyArray_DATA(selection), k, into.slots)
        if at[0] < k:
            selected[0] = into
            return OUT_OF_RANGE
    retain_slots(into.slots, nselected)
    fill(into)
    selected[0] = into
    return OK


cdef inline Slot slot_in_run(const Store *store, Py_ssize_t which, Py_ssize_t position) noexcept nogil:
    cdef const Run *run = &runs_of(store)[which]
    return Slot(run.source, run.first + (position - begin_of(store, which)) * run.step)


cdef Py_ssize_t write_selected(const Store *store, Py_ssize_t n, const int64_t *positions, Py_ssize_t k,
                               Slot *into) noexcept nogil:
    """Write the slots of the elements at some positions; how many, less than k where one is out of range."""
    cdef Py_ssize_t i, which = 0, lo = store.lo, gap = store.hi - store.lo
    cdef int64_t position
    cdef Slot first
    if store.nruns == 1:
        first = slot_in_run(store, 0, 0)
        for i in range(k):
            position = positions[i] + (n if positions[i] < 0 else 0)
            if <size_t>position >= <size_t>n:
                return i
            into[i] = Slot(first.source, first.number + position * runs_of(store)[0].step)
        return k
    for i in range(k):
        position = positions[i]
        if position < 0:
            position += n
        if <size_t>position >= <size_t>n:
            return i
        if has_runs(store):
            which = find_run(store, position, which)
            into[i] = slot_in_run(store, which, position)
        else:
            into[i] = store.slots[position + (gap if position >= lo else 0)]
    return k


cdef Py_ssize_t count_marks(const char *marks, Py_ssize_t n) noexcept nogil:
    cdef Py_ssize_t i, marked = 0
    for i in range(n):
        marked += marks[i]
    return marked


cdef void write_marked(const Store *store, const char *marks, Slot *into) noexcept nogil:
    """Write the slots of the elements whose mark is 1."""
    # No branch inside, which a random mask would make the processor guess. A store has a slot behind its last
    # one, so that the write for an element that is not marked stays within.
    cdef Py_ssize_t i, found = 0, run_begin = 0, which, lo = store.lo
    cdef const Run *run
    cdef const Slot *back = &store.slots[store.hi]
    cdef Slot slot
    for which in range(store.nruns):            # none of slots
        run = &runs_of(store)[which]
        slot = Slot(run.source, run.first)
        for i in range(run_begin, run.end):
            into[found] = slot
            found += marks[i]
            slot.number += run.step
        run_begin = run.end
    if has_runs(store):
        return
    for i in range(lo):
        into[found] = store.slots[i]
        found += marks[i]
    for i in range(size_of(store) - lo):
        into[found] = back[i]
        found += marks[lo + i]


cdef Status check_positions(Py_ssize_t n, const int64_t *positions, Py_ssize_t k,
                            Py_ssize_t *at) noexcept nogil:
    """Return whether all of k positions are within n elements; `at` is the first that is not."""
    cdef Py_ssize_t i
    for i in range(k):
        if not -n <= positions[i] < n:
            at[0] = i
            return OUT_OF_RANGE
    return OK


cdef Status mark(Py_ssize_t n, cnp.ndarray selection, char **marks, Py_ssize_t *marked,
                 Py_ssize_t *at) noexcept:
    """A byte for each of n elements, 1 where it is selected, for the caller to free; and how many are."""
    cdef Py_ssize_t k = cnp.PyArray_SIZE(selection), i
    cdef const int64_t *positions = <const int64_t *>cnp.PyArray_DATA(selection)
    cdef char *bytes_
    at[0] = 0
    if is_mask(selection) and k != n:
        return LENGTH_DIFFERS
    bytes_ = <char *>PyMem_RawCalloc(n + 1, 1)
    if bytes_ == NULL:
        return NO_MEMORY
    marks[0] = bytes_
    if is_mask(selection):
        memcpy(bytes_, cnp.PyArray_DATA(selection), n)
    else:
        if check_positions(n, positions, k, at) != OK:
            return OUT_OF_RANGE
        for i in range(k):
            bytes_[positions[i] + (n if positions[i] < 0 else 0)] = 1
    marked[0] = count_marks(bytes_, n)
    return OK


cdef int raise_for_selection(Status status, cnp.ndarray selection, Py_ssize_t at, Py_ssize_t n) except -1:
    if status == OK:
        return 0
    if status == LENGTH_DIFFERS:
        raise IndexError(f"the mask has length {cnp.PyArray_SIZE(selection)}, but the sequence has length "
                         f"{n}")
    return raise_for(status, (<const int64_t *>cnp.PyArray_DATA(selection))[at]
                     if status == OUT_OF_RANGE else None, n)


# == split ===============================================================================================
#
# Sequences made of an array and numbers: one table, whatever the number of elements.
#
# Each number that a caller gives is read once, checked, and written to a table's own: whoever changes it
# meanwhile changes nothing here.

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
    row = numbers_of(given)
    n = cnp.PyArray_SIZE(row)
    offsets = np.empty(n + 1, np.int64)
    if n < RELEASE_FROM:
        status = sum_up(<const int64_t *>cnp.PyArray_DATA(row), n, whole,
                        <int64_t *>cnp.PyArray_DATA(offsets), &at)
    else:
        with nogil:
            status = sum_up(<const int64_t *>cnp.PyArray_DATA(row), n, whole,
                            <int64_t *>cnp.PyArray_DATA(offsets), &at)
        count(WITHOUT_GIL, 1)
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


cdef bint is_row(object given) noexcept:
    """Whether it is an array as `numbers_of` returns."""
    return cnp.PyArray_CheckExact(given) and (
        (<cnp.ndarray>given).ndim == 1 and cnp.PyArray_ISSIGNED(given)
        and cnp.PyArray_ITEMSIZE(given) == sizeof(int64_t) and cnp.PyArray_ISCARRAY_RO(given))


cdef cnp.ndarray numbers_of(object row):
    """Return a row that was given as int64: aligned, in C order, without a copy where it is that."""
    return <cnp.ndarray>row if is_row(row) else within_64_bits(row)


cdef object row_given(str name, given):
    """Return what a caller gives for integers along one axis, as an array of rank 1."""
    if is_row(given):
        return given
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
    row = numbers_of(given)
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
        count(WITHOUT_GIL, 1)
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

cdef Store *split_padded(cnp.ndarray batch, object lengths, bint left) except NULL:
    """The elements of a padded batch, views of it: row i without its padding along axis 1."""
    cdef Py_ssize_t n, width, i
    cdef cnp.ndarray row, own
    cdef int64_t length
    if batch.ndim < 2:
        raise ValueError(f"batch must have rank 2 or more, got shape {(<object>batch).shape}")
    if lengths is None:
        raise TypeError("from_padded needs lengths, one for each row of the batch, or a mask; "
                        "split_to_sequence(batch, keepdims=0) makes elements of whole rows")
    n = cnp.PyArray_DIM(batch, 0)
    width = cnp.PyArray_DIM(batch, 1)
    if type(lengths) is range and len(lengths) != n:
        raise ValueError(f"lengths has {len(lengths)} items, but the batch has {n} rows")
    given = row_given("lengths", lengths)
    if len(given) != n:
        raise ValueError(f"lengths has {len(given)} items, but the batch has {n} rows")
    row = numbers_of(given)
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


# == join ================================================================================================
#
# Elements joined into one array, along an axis or stacked.
#
# The elements are gone through twice, first to check that they fit and to add up their lengths, then to copy.
# The numbers of a file may have changed in between, so that each block is checked again against the room that
# is left, and all of the result must have been written at the end.
#
# The caller has a share of the store, so nobody edits it while the GIL is released.

cdef struct Join:
    bint stacking               # along a new axis, instead of one that the elements have
    int axis
    int ndim                    # of the result, as is `shape`
    int itemsize
    Py_ssize_t shape[MAX_NDIM]
    Py_ssize_t strides[MAX_NDIM]
    Piece first                 # element 0
    Py_ssize_t first_dims[2 * MAX_NDIM]
    Py_ssize_t at               # after a failure, the position of the element at fault


cdef object new_array(cnp.dtype dtype, int ndim, Py_ssize_t *shape):
    return array_from(<PyObject *>dtype, ndim, shape, NULL, NULL, NULL)


cdef void count_strings(cnp.ndarray array) noexcept:
    """Take the references that a copy of bare pointers has not taken."""
    cdef PyObject **items = <PyObject **>cnp.PyArray_DATA(array)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(array)):
        Py_INCREF(<object>items[i])


cdef Status fit(Join *join, const Block *block) noexcept nogil:
    """Check that the elements of a block fit the first element, except along the axis."""
    cdef Source *source = block.source
    cdef Py_ssize_t i, length
    cdef int axis, inner
    join.at = block.first
    if source.ndim != join.ndim - join.stacking:
        return RANK_DIFFERS
    for axis in range(source.ndim):
        inner = axis + (join.stacking and axis >= join.axis)
        if axis == source.axis or (axis == join.axis and not join.stacking):
            continue
        if block.shape[axis] != join.shape[inner]:
            return SHAPE_DIFFERS
    if source.axis >= 0 and (join.stacking or source.axis != join.axis):
        length = join.shape[source.axis + (join.stacking and source.axis >= join.axis)]
        for i in range(block.n):
            if block.rows[i] != length:
                join.at = block.first + i
                return SHAPE_DIFFERS
    return OK


cdef Py_ssize_t length_of(const Join *join, const Block *block, Py_ssize_t i) noexcept nogil:
    """The extent of an element along the axis."""
    if join.stacking:
        return 1
    return block.rows[i] if block.source.axis == join.axis else block.shape[join.axis]


cdef Status plan(Join *join, const Store *store) noexcept nogil:
    """Check that the elements fit the first, add up their lengths, and lay the result out in C order."""
    cdef Block block
    cdef Status status
    cdef Py_ssize_t i, length, total = 0, stride = join.itemsize
    cdef int axis
    begin_joint_blocks(&block, store, -1 if join.stacking else join.axis, True)
    while read_block(&block):
        status = fit(join, &block)
        if status != OK:
            return status
        for i in range(block.n):
            length = length_of(join, &block, i)
            # Views of a broadcast array can be longer together than there is memory.
            if length > MAX_BYTES - total:
                return TOO_LARGE
            total += length
    join.at = block.at
    if block.damaged:
        return DAMAGED
    join.shape[join.axis] = total
    # Zero extents count as one, as in NumPy's own limit.
    for axis in range(join.ndim - 1, -1, -1):
        join.strides[axis] = stride
        if join.shape[axis] > 0:
            if stride > MAX_BYTES // join.shape[axis]:
                return TOO_LARGE
            stride *= join.shape[axis]
    return OK


cdef Status copy(Join *join, char *out, const Store *store) noexcept nogil:
    """Copy the elements to where they were planned."""
    cdef Block block
    cdef Py_ssize_t room = join.shape[join.axis], row = join.strides[join.axis], i, length
    cdef Py_ssize_t nbytes = 0          # that are one behind the other from `data` on, to be copied together
    cdef const char *data = NULL
    cdef bint is_plain
    cdef int axis
    for axis in range(join.ndim):
        if join.shape[axis] == 0:
            return OK           # there is nothing to write, and strides are not those of items
    begin_joint_blocks(&block, store, -1 if join.stacking else join.axis, True)
    block.fetches = True
    while read_block(&block):
        if fit(join, &block) != OK:
            return DAMAGED
        is_plain = join.axis == 0 and block.solid
        for i in range(block.n):
            length = length_of(join, &block, i)
            if length > room:
                return DAMAGED
            room -= length
            if is_plain and block.data[i] == data + nbytes:
                nbytes += length * row
                continue
            if nbytes:
                memcpy(out, data, nbytes)
                out += nbytes
                nbytes = 0
            if is_plain:
                data = block.data[i]
                nbytes = length * row
            else:
                copy_element(join, out, &block, i, length)
                out += length * row
    if nbytes:
        memcpy(out, data, nbytes)
    return DAMAGED if block.damaged or room else OK


cdef void copy_element(const Join *join, char *out, const Block *block, Py_ssize_t i,
                       Py_ssize_t length) noexcept nogil:
    """Copy an element into the result, whose strides are others."""
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef int axis, ndim = block.source.ndim
    for axis in range(join.ndim):
        shape[axis] = length if axis == join.axis else join.shape[axis]
        if join.stacking:
            strides[axis] = 0 if axis == join.axis else block.shape[ndim + axis - (axis > join.axis)]
        else:
            strides[axis] = block.shape[ndim + axis]
    copy_strided(out, join.strides, block.data[i], strides, shape, join.ndim, join.itemsize)


cdef int raise_for_join(Status status, Join *plan, Store *store) except -1:
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    if status == OK:
        return 0
    joined = f"{'stacked along a new' if plan.stacking else 'concatenated along'} axis {plan.axis}"
    if status == TOO_LARGE:
        raise ValueError(f"{size_of(store)} tensors {joined} would be larger than any array can be")
    if status == DAMAGED or not read_one(store, plan.at, &piece, dims):
        raise_damaged(store, min(plan.at, size_of(store) - 1))
    what = "rank" if status == RANK_DIFFERS else "shape"
    also = unless_empty_list(shape_of(&piece), shape_of(&plan.first))
    if plan.stacking and status != RANK_DIFFERS:
        also = "; seq.to_padded() stacks them padded, list(seq) is a list of them"
    raise ValueError(
        f"element {plan.at} has shape {shape_of(&piece)}, which can't be {joined} with "
        f"element 0 of shape {shape_of(&plan.first)}: their {what}s differ{also}"
    )


cdef int set_up(Join *join, Store *store, int axis, bint stacking) except -1:
    """Begin a join of at least one element along an axis checked against the first one's rank."""
    cdef int i, ndim
    if not read_one(store, 0, &join.first, join.first_dims):
        raise_damaged(store, 0)
    ndim = join.first.source.ndim
    if ndim + stacking > MAX_NDIM:
        raise ValueError(f"NumPy's arrays have at most {MAX_NDIM} axes: elements of rank {ndim} can't be "
                         "stacked along a new one")
    join.stacking = stacking
    join.axis = axis
    join.ndim = ndim + stacking
    join.itemsize = join.first.source.itemsize
    for i in range(ndim):
        join.shape[i + (stacking and i >= axis)] = extent(&join.first, i)
    join.shape[axis] = 0
    join.at = 0
    return 0


cdef object join(Store *store, cnp.dtype dtype, int axis, bint stacking):
    """Return a new array of all elements, at least one, along an axis checked against the first's rank."""
    cdef Join join
    cdef Status status
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    cdef char *data
    cdef bint releases = is_worth_releasing(store)
    if stacking and axis == 0:
        view = even_view(store, dtype)
        if view is not None:
            return cnp.PyArray_NewCopy(view, cnp.NPY_CORDER)
    set_up(&join, store, axis, stacking)
    if not releases:
        status = plan(&join, store)
    else:
        with nogil:
            status = plan(&join, store)
    raise_for_join(status, &join, store)
    result = new_array(dtype, join.ndim, join.shape)
    data = cnp.PyArray_BYTES(result)
    if strings or not releases:
        status = copy(&join, data, store)
    else:
        with nogil:
            status = copy(&join, data, store)
        count(WITHOUT_GIL, 1)
    if strings and status != OK:
        memset(data, 0, cnp.PyArray_NBYTES(result))     # pointers that nobody has counted
    raise_for_join(status, &join, store)
    if strings:
        count_strings(result)
    return result


cdef object even_view(Store *store, cnp.dtype dtype):
    """Return the elements of one run, which have one shape and items, stacked: a view, in constant time.

    None for others, and for those whose strides PyTorch would refuse.
    """
    cdef const Run *run = runs_of(store)
    cdef const Table *table
    cdef Source *source
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef Py_ssize_t n, end
    cdef int axis, ndim
    if not has_runs(store) or store.nruns != 1 or run.source.kind != EVEN or run.source.ndim == MAX_NDIM:
        return None
    source, table, n = run.source, <const Table *>run.source, run.end
    ndim = source.ndim
    end = max(run.first, run.first + (n - 1) * run.step)
    if end == table.n - 1 and table.last != source.length:
        return None
    shape[0], strides[0] = n, table.pitch * run.step
    for axis in range(ndim):
        shape[axis + 1] = source.length if axis == source.axis else source.shape[axis]
        strides[axis + 1] = source.shape[ndim + axis]
        if shape[axis + 1] == 0:
            return None
    for axis in range(ndim + 1):
        if strides[axis] < 0 or strides[axis] % source.itemsize:
            return None
    return array_from(<PyObject *>dtype, ndim + 1, shape, strides, source.data + run.first * table.pitch,
                      owner_of(source))


cdef object joined_view(Store *store, cnp.dtype dtype, bint stacking):
    """Return the elements joined along axis 0, or stacked, as a view; None where there must be a copy.

    They must be at equal distances in one memory. PyTorch refuses arrays with strides below zero, or that are
    not a multiple of the item size: then there is no view.
    """
    cdef Join join
    cdef Block block
    cdef Source *source = NULL
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t[MAX_NDIM] strides
    cdef char *data = NULL
    cdef char *end = NULL               # where the next element must begin; NULL while the step is not known
    cdef Py_ssize_t i, length, rows = 0, step = 0
    cdef int axis, ndim
    if stacking:
        view = even_view(store, dtype)
        if view is not None:
            return view
    set_up(&join, store, 0, stacking)
    begin_joint_blocks(&block, store, -1 if stacking else 0, False)
    while read_block(&block):
        if fit(&join, &block) != OK:
            return None
        ndim = block.source.ndim
        for i in range(block.n):
            length = length_of(&join, &block, i)
            if length == 0:
                continue                # elements without rows take no place, but must fit
            if rows == 0:
                source = block.source
                memcpy(dims, block.shape, 2 * ndim * sizeof(Py_ssize_t))
                data = block.data[i]
            elif block.source != source or source.kind == SHAPED:
                if kept_memory(block.source) is not kept_memory(source):
                    return None
                for axis in range(not stacking, ndim):
                    if block.shape[ndim + axis] != dims[ndim + axis]:
                        return None
            if end != NULL and (block.data[i] != end or length > MAX_BYTES - rows
                                or (length > 1 and block.shape[ndim] != step)):
                return None
            if rows and end == NULL:                # the second row tells the step
                step = block.data[i] - data
                if length > 1 and block.shape[ndim] != step:
                    return None
            elif end == NULL and length > 1:
                step = block.shape[ndim]
            rows += length
            if rows > 1:
                end = data + rows * step
    if block.damaged or rows == 0:
        return None
    join.shape[0] = rows
    for axis in range(join.ndim):
        if join.shape[axis] == 0:
            return None
        strides[axis] = dims[source.ndim + axis - stacking] if axis or not stacking else 0
    if rows > 1:
        strides[0] = step
    for axis in range(join.ndim):
        if strides[axis] < 0 or strides[axis] % join.itemsize:
            return None
    return array_from(<PyObject *>dtype, join.ndim, join.shape, strides, data, owner_of(source))


# == compact =============================================================================================
#
# Elements copied one behind the other into new memory, whatever their shapes; and how large they are.
#
# ::
#
#     elements    [a b; c d] [e f g]
#     items       a b c d e f g           each element's in C order
#
# The caller has a share of the store. Numbers of files may change between adding up and copying, so that each
# copy is checked against the room that is left, and all of it must have been written at the end.

cdef object total_nbytes(Store *store):
    """Bytes of all elements. Views of broadcast arrays can have more together than 63 bits count."""
    cdef Block block
    cdef Py_ssize_t i, nbytes, total = 0
    carried = 0
    begin_joint_blocks(&block, store, OF_A_TABLE, True)
    while read_block(&block):
        for i in range(block.n):
            # NumPy has checked that the product fits, for the array that this is a part of.
            nbytes = block.row * block.rows[i]
            if nbytes > MAX_BYTES - total:
                carried += total
                total = 0
            total += nbytes
    check_read(&block)
    return carried + total


cdef Status copy_compact(const Store *store, char *out, Py_ssize_t room) noexcept nogil:
    """Copy all elements one behind the other, each in C order, into memory of their size."""
    cdef Block block
    cdef Piece piece
    cdef Py_ssize_t i, nbytes, together = 0     # bytes that are one behind the other from `data` on
    cdef const char *data = NULL
    begin_joint_blocks(&block, store, IN_MEMORY, True)
    block.fetches = True
    while read_block(&block):
        for i in range(block.n):
            nbytes = block.row * block.rows[i]
            if nbytes > room:
                return DAMAGED
            room -= nbytes
            if block.solid and block.data[i] == data + together:
                together += nbytes
                continue
            if together:
                memcpy(out, data, together)
                out += together
            if block.solid:
                data = block.data[i]
                together = nbytes
            else:
                element_of(&block, i, &piece)
                copy_piece(out, &piece)
                out += nbytes
                together = 0
    if together:
        memcpy(out, data, together)
    return DAMAGED if block.damaged or room else OK


cdef cnp.ndarray compact_items(Store *store, cnp.dtype dtype, bint keep_gil=False):
    """Return a new array of rank 1 of all items of the elements, each element's in C order."""
    cdef object nbytes = total_nbytes(store)
    cdef Status status
    if nbytes > MAX_BYTES:
        raise MemoryError(f"no memory for {nbytes} bytes of {size_of(store)} tensors")
    cdef Py_ssize_t items = nbytes // dtype.itemsize, room = nbytes
    cdef cnp.ndarray memory = new_array(dtype, 1, &items)
    cdef char *data = cnp.PyArray_BYTES(memory)
    cdef bint strings = dtype.type_num == cnp.NPY_OBJECT
    if strings or keep_gil or room < 8 * RELEASE_FROM:
        status = copy_compact(store, data, room)
    else:
        with nogil:
            status = copy_compact(store, data, room)
        count(WITHOUT_GIL, 1)
    if strings and status != OK:
        memset(data, 0, room)           # pointers that nobody has counted
    if status != OK:
        raise ValueError(f"the elements of {size_of(store)} tensors have changed in their file while they "
                         "were copied")
    if strings:
        count_strings(memory)
    return memory
