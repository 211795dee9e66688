"""The values of a sequence as one array: as they are, converted, or padded.

::

    elements   [a b] [c] [d e f]
    values     a b c d e f                   a view if the elements are one behind the other, else a copy
    padded     a b 0 / c 0 0 / d e f         one row for each element

Sections::

    values   join along axis 0, or a view
    like     convert and move elements together
    padding  pad to a batch
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
from libc.string cimport memcpy, memset
cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.limits cimport CAST_NBYTES, RELEASE_FROM
from seqcore.core.split_join cimport (
    compact_items, copy_strided, count_strings, join, joined_view, new_array, total_nbytes,
)
from seqcore.core.store cimport (
    DAMAGED, EVEN, IN_MEMORY, MAX_BYTES, MAX_NDIM, NOT_SOLID, OFFSETS, OK, RANK_DIFFERS, WITHOUT_GIL,
    Block, Piece, Run, Share, Source, Span, Status, Store, Table, TableOwner, add_run, begin_blocks,
    begin_joint_blocks, check_read, count, element_of, empty_store, ends_of, even_table, even_table_like,
    extent, extent_in, finished, first_span, fits_behind, has_runs, new_runs, number_at, offsets_table,
    offsets_table_like, owned_offsets, owner_of, raise_damaged, raise_for, read_block, read_one, runs_of,
    same_shape, sealed, shape_of, shaped_table, share_of, size_of, slice_of_store, store_of, strides_of,
)
from seqcore._arguments.integers import as_integer, boolean, integers, within_64_bits
from seqcore._arguments.padding import (
    as_extents, as_padding_value, checked_out, left_side, padded_extents, rank_of_nothing,
)
from seqcore._arguments.shown import shown, shown_number, unless_empty_list
from seqcore.dtypes import element_type, name_in_pytorch, numpy_type, type_name

cnp.import_array()

cdef cnp.dtype INT64 = np.dtype(np.int64)

ctypedef fused index:
    int32_t
    int64_t


# == values ==============================================================================================
#
# A sequence as one array and numbers: what other systems know ragged data as.
#
# ::
#
#     elements   [a b c]  []  [d e]
#     values     [a b c d e]              joined along axis 0
#     lengths    3 0 2                    extents along it
#     offsets    0 3 3 5                  where each begins, and where the last one ends
#
# Where elements are one behind the other in one memory, as after a split, values are a view of it. Otherwise
# they are joined, in one copy.

# -- values ------------------------------------------------------------------------------------------

cdef object in_place_or_copied(Store *store, cnp.dtype dtype, bint stacking):
    values = joined_view(store, dtype, stacking)
    if values is not None:
        return values
    return sealed(join(store, dtype, 0, stacking), dtype)


cdef object values_of(Store *store, cnp.dtype dtype):
    """Return the elements joined along axis 0, read-only; those of rank 0 stacked."""
    cdef Py_ssize_t none = 0
    cdef Piece first
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    if size_of(store) == 0:
        return sealed(new_array(dtype, 1, &none), dtype)
    # Numbers, which have no axis to join along, become an array of them.
    return in_place_or_copied(store, dtype, read_one(store, 0, &first, dims) and first.source.ndim == 0)


cdef object stack_of(Store *store, cnp.dtype dtype):
    """Return the elements, of one shape, along a new first axis: read-only, a view where they lie evenly."""
    return in_place_or_copied(store, dtype, True)


cdef object items_of_store(Store *store, cnp.dtype dtype):
    """Return all items, each element's in C order, read-only: a view where they are one behind the other."""
    items = items_view(store, dtype)
    return sealed(compact_items(store, dtype), dtype) if items is None else items


cdef object items_view(Store *store, cnp.dtype dtype):
    cdef Block block
    cdef Source *source = NULL
    cdef char *data = NULL
    cdef char *end = NULL
    cdef Py_ssize_t i, items
    begin_joint_blocks(&block, store, IN_MEMORY, False)
    while read_block(&block):
        if source == NULL:
            source = block.source
            data = end = block.data[0]
        if block.source != source or not block.solid or block.row == 0:
            return None
        for i in range(block.n):
            if block.data[i] != end:
                return None
            end += block.row * block.rows[i]
    if source == NULL or block.damaged:
        return None
    items = (end - data) // source.itemsize
    return array_from(<PyObject *>dtype, 1, &items, NULL, data, owner_of(source))


# -- lengths and offsets -----------------------------------------------------------------------------

cdef Status write_some(Block *block, int64_t *into) noexcept nogil:
    """Write the lengths of the elements that are left; the block is then at the one at fault, if any."""
    cdef Py_ssize_t i
    while read_block(block):
        if block.source.ndim == 0:
            return RANK_DIFFERS
        for i in range(block.n):
            into[i] = block.rows[i] if block.source.axis == 0 else block.shape[0]
        into += block.n
    return DAMAGED if block.damaged else OK


cdef bint is_even_span(const Span *span, Py_ssize_t n, Py_ssize_t *length, Py_ssize_t *last) noexcept nogil:
    """Return whether n elements are consecutive ones of one length; that, and the last one's."""
    cdef const Source *source = span.source
    cdef const Table *table = <const Table *>source
    if span.n != n or source.kind != EVEN or span.step != 1 or source.ndim == 0:
        return False
    length[0] = source.length if source.axis == 0 else source.shape[0]
    last[0] = table.last if source.axis == 0 and span.first + n == table.n else length[0]
    return True


cdef void fill_lengths(int64_t *into, Py_ssize_t n, Py_ssize_t length, Py_ssize_t last) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n - 1):
        into[i] = length
    into[n - 1] = last


cdef int write_lengths(Store *store, Py_ssize_t start, Py_ssize_t stop, int64_t *into,
                       bint keep_gil=False) except -1:
    """Write the extents of elements along axis 0."""
    cdef const int64_t *offsets = owned_offsets(store, start, stop) if start < stop else NULL
    cdef Block block
    cdef Span span
    cdef Status status
    cdef Py_ssize_t i, length, last
    if start < stop:
        first_span(store, start, stop, &span)
        if is_even_span(&span, stop - start, &length, &last):
            if keep_gil or stop - start < RELEASE_FROM:
                fill_lengths(into, stop - start, length, last)
            else:
                with nogil:
                    fill_lengths(into, stop - start, length, last)
            return 0
    if offsets != NULL:
        for i in range(stop - start):
            into[i] = offsets[i + 1] - offsets[i]
        return 0
    begin_blocks(&block, store, start, stop)
    if keep_gil or stop - start < RELEASE_FROM:
        status = write_some(&block, into)
    else:
        with nogil:
            status = write_some(&block, into)
    check_read(&block)
    if status != OK:
        raise ValueError(f"element {block.first} has rank 0 and so no length along axis 0")
    return 0


cdef object lengths_of(Store *store, object dtype):
    """Return the extents along axis 0, as an array of an integer type."""
    dtype = integer_type(dtype, "lengths")
    cdef cnp.ndarray lengths = np.empty(size_of(store), np.int64)
    write_lengths(store, 0, size_of(store), <int64_t *>cnp.PyArray_DATA(lengths))
    return fitted(lengths, dtype, "lengths")


cdef object offsets_of(Store *store, object dtype):
    """Return the running sum of the lengths, from 0, as an array of an integer type."""
    cdef Py_ssize_t n = size_of(store), i = 0
    cdef cnp.ndarray offsets
    cdef int64_t *each
    dtype = integer_type(dtype, "offsets")
    found = offsets_in_place(store, dtype, True)
    if found is not None:
        return found
    found = offsets_in_place(store, np.dtype(np.int64), True)
    if found is not None:
        return fitted(found, dtype, "offsets", found[n])
    offsets = np.empty(n + 1, np.int64)
    each = <int64_t *>cnp.PyArray_DATA(offsets)
    each[0] = 0
    write_lengths(store, 0, n, each + 1)
    with nogil:
        while i < n and each[i + 1] <= MAX_BYTES - each[i]:
            each[i + 1] += each[i]
            i += 1
    if i < n:
        raise OverflowError(f"the lengths of the first {i + 1} elements sum to more than fits int64")
    return fitted(offsets, dtype, "offsets", each[n])


cdef object offsets_in_place(Store *store, object dtype, bint from_zero):
    """Return offsets as a table has them, read-only and checked, where it has them of a type; else None."""
    cdef const Run *run
    cdef Table *table
    cdef Py_ssize_t noffsets
    if not has_runs(store) or store.nruns != 1:
        return None
    run = &runs_of(store)[0]
    table = <Table *>run.source
    if run.source.kind != OFFSETS or run.source.axis != 0 or run.step != 1:
        return None
    if dtype.kind != "i" or dtype.itemsize != table.width or not dtype.isnative or (
            from_zero and number_at(table.starts, run.first, table.width)):
        return None
    check_offsets(store, run)
    noffsets = run.end + 1
    cdef cnp.dtype own = np.dtype(dtype)
    return array_from(<PyObject *>own, 1, &noffsets, NULL,
                      <char *>table.starts + run.first * table.width, owner_of(run.source))


cdef int check_offsets(const Store *store, const Run *run) except -1:
    """Check the offsets of a store's only run before others get them, once for each table.

    Other systems trust offsets. Those of files and Arrow were checked only where elements were used.
    """
    cdef TableOwner owner = <TableOwner><object>owner_of(run.source)
    cdef const Table *table = <const Table *>run.source
    cdef Py_ssize_t low, high, start = run.first, stop = run.first + run.end, at
    with cython.critical_section(owner):
        low, high = owner.checked_from, owner.checked_to
    if low <= start and stop <= high:
        return 0
    if low <= start <= high:
        start = high
    if stop - start < RELEASE_FROM:
        at = first_falling(table, start, stop)
    else:
        with nogil:
            at = first_falling(table, start, stop)
    if at < stop:
        raise_damaged(store, at - run.first)
    with cython.critical_section(owner):
        low, high = owner.checked_from, owner.checked_to
        if start <= high and low <= stop:           # the known range and the new one are one
            owner.checked_from, owner.checked_to = min(low, start), max(high, stop)
        elif stop - start > high - low:
            owner.checked_from, owner.checked_to = start, stop
    return 0


cdef Py_ssize_t first_falling(const Table *table, Py_ssize_t start, Py_ssize_t stop) noexcept nogil:
    """Return the first of elements start to stop whose offsets leave the values or fall, or stop."""
    cdef Py_ssize_t i, before = table.low, offset
    for i in range(start, stop + 1):
        offset = number_at(table.starts, i, table.width)
        if offset < before or offset > table.high:
            return max(i - 1, start)
        before = offset
    return stop


cdef object integer_type(object dtype, str what):
    given = numpy_type(dtype)
    if given is None or given.kind not in "iu":
        name = name_in_pytorch(dtype)
        raise TypeError(f"the dtype of {what} must be an integer type, got "
                        f"{shown(dtype) if given is None else given}"
                        f"{f': pass {name!r}' if name else ''}")
    return given


cdef object fitted(cnp.ndarray numbers, object dtype, str what, object largest=None):
    """Return numbers in an integer type; raise OverflowError if the largest one does not fit."""
    if dtype == np.int64 and dtype.isnative:
        return numbers
    if largest is None:
        largest = (<object>numbers).max(initial=0)
    most = min(int(np.iinfo(dtype).max), MAX_BYTES)
    if largest > most:
        at = np.argmax(numbers > most)
        raise OverflowError(f"{what}[{at}] is {numbers[at]}, which does not fit {dtype} (at most {most})")
    return numbers.astype(dtype)


# -- shapes of two stores ------------------------------------------------------------------------------

cdef Py_ssize_t first_other_shape_of(Store *ours, Store *theirs) except -1:
    """Return the first position at which elements of two stores differ in shape, or the smaller size."""
    cdef Block left, right
    cdef Piece one, other
    cdef Py_ssize_t n = min(size_of(ours), size_of(theirs)), i = 0, k = 0, at = 0
    if n == 0 or spans_agree(ours, theirs, n):
        return n
    begin_blocks(&left, ours, 0, n)
    begin_blocks(&right, theirs, 0, n)
    with nogil:
        while at < n:
            if i == left.n:
                i = 0
                if not read_block(&left):
                    break
            if k == right.n:
                k = 0
                if not read_block(&right):
                    break
            element_of(&left, i, &one)
            element_of(&right, k, &other)
            if not same_shape(&one, &other):
                break
            i += 1
            k += 1
            at += 1
    check_read(&left)
    check_read(&right)
    return at


cdef bint spans_agree(Store *ours, Store *theirs, Py_ssize_t n) noexcept nogil:
    """Return whether n elements of two tables have equal shapes; if False, each must be compared.

    Nothing that is read here becomes an address: offsets of files and of Arrow may change at any time.
    """
    cdef Span a, b
    cdef Piece first, last, other_first, other_last
    cdef const Table *table
    cdef const Table *other
    first_span(ours, 0, n, &a)
    first_span(theirs, 0, n, &b)
    if a.n != n or b.n != n:
        return False
    if a.source.kind != b.source.kind or a.source.kind not in (EVEN, OFFSETS) or (
            a.source.axis != b.source.axis):
        return False
    if not ends_of(&a, &first, &last, NULL) or not ends_of(&b, &other_first, &other_last, NULL) or (
            not same_shape(&first, &other_first) or not same_shape(&last, &other_last)):
        return False
    table, other = <const Table *>a.source, <const Table *>b.source
    if a.source.kind == EVEN:               # all but a table's last one, which is at one of the ends
        return a.source.length == b.source.length
    if a.step != 1 or b.step != 1 or table.width != other.width:
        return False
    if table.width == 8:
        return lengths_agree(<int64_t *>table.starts + a.first, <int64_t *>other.starts + b.first, n)
    return lengths_agree(<int32_t *>table.starts + a.first, <int32_t *>other.starts + b.first, n)


cdef bint lengths_agree(const index *offsets, const index *others, Py_ssize_t n) noexcept nogil:
    """Return whether n + 1 offsets differ from others by the same number, so that all lengths are equal."""
    cdef size_t shift = <size_t>others[0] - <size_t>offsets[0], differ = 0      # which wrap around
    cdef Py_ssize_t i
    if offsets != others:
        for i in range(1, n + 1):
            differ |= (<size_t>others[i] - <size_t>offsets[i]) ^ shift
    return differ == 0


# -- numbers for each row of the values ----------------------------------------------------------------

cdef object segment_ids_of(Store *store, object dtype):
    """Return which element each row of the values is of, as an array of an integer type."""
    given = integer_type(dtype, "segment_ids")
    return ids_of(store, given, 0, np.arange(size_of(store), dtype=np.int64))


cdef object position_ids_of(Store *store, object dtype, object start=0):
    """Return the position of each row of the values in its element, as an array of an integer type."""
    given = integer_type(dtype, "position_ids")
    return ids_of(store, given, 1, starts_given(start, size_of(store)))


cdef object starts_given(object start, Py_ssize_t n):
    """Return the positions that n elements begin with, as an int64 array of our own."""
    number = as_integer(start)
    if number is not None:
        if not -MAX_BYTES - 1 <= number <= MAX_BYTES:
            raise OverflowError(f"start is {shown_number(number)}, which does not fit int64")
        return np.full(n, number, np.int64)
    given = integers("start", start)
    if given.ndim != 1 or len(given) != n:
        raise ValueError(f"start must be an integer, or one for each of {n} elements, got shape "
                         f"{given.shape}")
    own = within_64_bits(given)
    wrong = np.flatnonzero(own != given)
    if wrong.size:
        raise OverflowError(f"start[{wrong[0]}] is {shown_number(given[wrong[0]])}, which does not fit int64")
    return own.copy()


cdef object ids_of(Store *store, cnp.dtype dtype, int step, cnp.ndarray firsts):
    """Return ids that begin with a number for each element, and rise by `step` with each of its rows."""
    cdef cnp.ndarray lengths = lengths_of(store, np.int64)      # our own: they change no more
    cdef const int64_t *each = <const int64_t *>cnp.PyArray_DATA(lengths)
    cdef const int64_t *first = <const int64_t *>cnp.PyArray_DATA(firsts)
    cdef Py_ssize_t n = size_of(store), i, total = 0
    cdef bint signed = dtype.kind == c"i"
    cdef int bits = 8 * <int>dtype.itemsize - signed
    cdef int64_t most = MAX_BYTES if bits > 62 else ((<int64_t>1) << bits) - 1
    cdef int64_t least = -most - 1 if signed else 0, rise
    for i in range(n):
        if each[i] > MAX_BYTES - total:
            raise OverflowError(f"the lengths of the first {i + 1} elements sum to more than fits int64")
        total += each[i]
    for i in range(n if step or n > most else 0):
        rise = step * (each[i] - 1)
        if each[i] and not (least <= first[i] <= most and (
                first[i] + rise <= most if first[i] < 0 else rise <= most - first[i])):
            largest = first[i] if first[i] < least else int(first[i]) + rise
            raise OverflowError(f"{'position_ids' if step else 'segment_ids'} of element {i} go up to "
                                f"{largest}, beyond what ids of dtype {dtype} may be ({least} to {most})")
    if total > MAX_BYTES // 8:
        raise MemoryError(f"no memory for {total} ids of {n} elements")
    cdef bint is_short = bits == 31
    cdef cnp.ndarray ids = np.empty(total, np.int32 if is_short else np.int64)
    if is_short:
        with nogil:
            fill_ids(<int32_t *>cnp.PyArray_DATA(ids), each, first, n, step)
    else:
        with nogil:
            fill_ids(<int64_t *>cnp.PyArray_DATA(ids), each, first, n, step)
    return (<object>ids).astype(dtype, copy=False)


cdef void fill_ids(index *ids, const int64_t *lengths, const int64_t *firsts, Py_ssize_t n,
                   int step) noexcept nogil:
    cdef Py_ssize_t i, k
    cdef index first
    for i in range(n):
        first = <index>firsts[i]
        if step:
            for k in range(lengths[i]):
                ids[k] = first + <index>k
        else:
            for k in range(lengths[i]):
                ids[k] = first
        ids += lengths[i]


# == like ================================================================================================
#
# Sequences of new memory whose elements are as long as another's: results of maps, `astype` and `compact`.
#
# ::
#
#     elements      [[1 2] [3 4]]  [5 6]          shapes (2, 2), (2,)
#     items         [a b c d e f]                 of a map's body, say
#     store_like    [[a b] [c d]]  [e f]          of the same shapes
#     store_along   an array as long as all elements, in parts as long as each
#
# Elements of one rank become one table: of one length, with offsets, or, where they differ behind axis 0,
# with shapes. A table's own numbers are copied: those in a file would keep it open, and may change.

cdef cnp.dtype convertible(cnp.dtype own, object dtype):
    """Return the element type that a dtype names; raise if elements of a type can't be cast to it."""
    cdef cnp.dtype wanted = element_type(dtype)
    if wanted is not own and cnp.NPY_OBJECT in (wanted.type_num, own.type_num):
        raise TypeError(f"dtype {type_name(own)} can't be converted to {type_name(wanted)}: use sequence_map "
                        "with a body that converts between strings and numbers")
    return wanted


cdef Py_ssize_t count_to_cast(Store *store) except -1:
    """Return how many elements to cast at a time, so that they stay in the cache."""
    cdef Py_ssize_t n = size_of(store)
    return max(1, min(n, n * CAST_NBYTES // max(total_nbytes(store), 1)))


cdef Share cast_some(Store *store, Py_ssize_t first, Py_ssize_t n, cnp.dtype own, object wanted):
    """Elements first to first + n cast to another type, in memory of their own."""
    cdef Store *slice_ = NULL
    cdef Share part
    cdef Block block
    raise_for(slice_of_store(store, first, 1, n, &slice_), None, n)
    part = share_of(slice_)
    try:
        items = compact_items(part.store, own)
    except ValueError:
        # One of them is damaged: the message is to name it by its place among all.
        begin_blocks(&block, store, first, first + n)
        while read_block(&block):
            pass
        check_read(&block)
        raise
    return share_of(store_like((<object>items).astype(wanted), part.store))


cdef Store *compact_store(Store *store, cnp.dtype dtype, bint keep_gil=False) except NULL:
    """The same elements in fresh memory, without space between them."""
    return store_like(compact_items(store, dtype, keep_gil), store)


cdef Store *store_like(cnp.ndarray items, Store *store) except NULL:
    """Elements of the shapes that a store's have, in a row of as many items, each in C order."""
    cdef Py_ssize_t n = size_of(store), done = 0, ntogether, first = 0
    cdef bint alike
    cdef Store *into
    cdef TableOwner owner
    cdef list owners = []
    while done < n:
        ntogether = count_group(store, done, &alike)
        if alike:
            owner, taken = alike_group(items, first, store, done, ntogether)
        else:
            owner, taken = shaped_group(items, first, store, done, ntogether)
        owners.append(owner)
        first += taken
        done += ntogether
    if first > cnp.PyArray_SIZE(items):
        raise ValueError(f"{n} elements have {first} items together, and there are {cnp.PyArray_SIZE(items)}")
    into = new_runs(len(owners))
    if into != NULL:
        for owner in owners:
            add_run(into, &owner.table.source, 0, 1, owner.table.n)
        into = finished(into)
    if into == NULL:
        raise MemoryError(f"no memory for a sequence of {n} tensors")
    return into


cdef Py_ssize_t count_group(Store *store, Py_ssize_t start, bint *alike) except -1:
    """Return how many elements from `start` on have one rank, and whether they differ along axis 0 only."""
    cdef Block block
    cdef Piece first, piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t room, length, i
    cdef int axis
    if not read_one(store, start, &first, dims):
        raise_damaged(store, start)
    alike[0] = True
    # Elements without items may be longer together than can be counted.
    room = MAX_BYTES // first.source.itemsize
    for axis in range(1, first.source.ndim):
        room //= max(extent(&first, axis), 1)
    begin_joint_blocks(&block, store, 0, True)
    block.at = start
    while read_block(&block):
        if block.source.ndim != first.source.ndim:
            return block.first - start
        for i in range(block.n):
            if i == 0 or block.source.axis > 0:
                element_of(&block, i, &piece)
                alike[0] &= fits_behind(&first, &piece)
            length = extent_in(&block, i, 0) if first.source.ndim else 0
            if room < length:
                return max(block.first - start, 1)
            room -= length
    check_read(&block)
    return size_of(store) - start


cdef tuple alike_group(cnp.ndarray items, Py_ssize_t first, Store *store, Py_ssize_t start, Py_ssize_t n):
    """A table of n elements that are alike except for axis 0, and how many items they take."""
    cdef Span span
    cdef Piece like
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t row = 1, length, last, i
    cdef Py_ssize_t noffsets
    cdef int64_t *each
    cdef const int64_t *shared
    cdef int axis
    if not read_one(store, start, &like, dims):
        raise_damaged(store, start)
    for axis in range(1, like.source.ndim):
        row *= extent(&like, axis)
    if like.source.ndim == 0:
        return even_table_like(items, first, &like, n, 1, 1), n
    first_span(store, start, start + n, &span)
    if is_even_span(&span, n, &length, &last):
        if n == 1:
            length = last
        if length:
            return even_table_like(items, first, &like, n, length, last), ((n - 1) * length + last) * row
    shared = owned_offsets(store, start, start + n)
    numbers = (<TableOwner><object>owner_of(span.source)).numbers if shared != NULL else None
    if type(numbers) is np.ndarray:             # and not what keeps values of another table
        noffsets = n + 1
        offsets = array_from(<PyObject *>INT64, 1, &noffsets, NULL, <char *>shared, <PyObject *>numbers)
        return offsets_table_like(items, first, &like, offsets), (shared[n] - shared[0]) * row
    offsets = np.empty(n + 1, np.int64)
    each = <int64_t *>cnp.PyArray_DATA(offsets)
    each[0] = 0
    # With the GIL, as the sums: `compact_elements` relies on it where others edit all the time.
    write_lengths(store, start, start + n, each + 1, True)
    length, last = each[1], each[n]
    for i in range(n):
        each[i + 1] += each[i]
    if each[n - 1] == (n - 1) * length and is_even(each, n, length):
        return even_table_like(items, first, &like, n, length, last), each[n] * row
    return offsets_table_like(items, first, &like, offsets), each[n] * row


cdef bint is_even(const int64_t *offsets, Py_ssize_t n, Py_ssize_t length) noexcept nogil:
    cdef Py_ssize_t i
    for i in range(n):
        if offsets[i] != i * length:
            return False
    return 0 < offsets[n] - offsets[n - 1] <= length


cdef tuple shaped_group(cnp.ndarray items, Py_ssize_t first, Store *store, Py_ssize_t start, Py_ssize_t n):
    """A table of n elements of one rank, each of a shape of its own, and how many items they take."""
    cdef Block block
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t taken, largest, i
    cdef int rank, axis
    cdef int64_t *shape
    cdef int64_t *offset
    if not read_one(store, start, &piece, dims):
        raise_damaged(store, start)
    rank = piece.source.ndim
    shapes, offsets = np.empty((n, rank), np.int64), np.empty(n + 1, np.int64)
    shape, offset = <int64_t *>cnp.PyArray_DATA(shapes), <int64_t *>cnp.PyArray_DATA(offsets)
    offset[0] = 0
    begin_blocks(&block, store, start, start + n)
    while read_block(&block):
        for i in range(block.n):
            taken = 1
            largest = cnp.PyArray_ITEMSIZE(items)
            for axis in range(rank):
                shape[axis] = extent_in(&block, i, axis)
                if largest > MAX_BYTES // max(shape[axis], 1):
                    raise ValueError("an element without items has a shape that is too large for an array of "
                                     "another dtype")
                largest *= max(shape[axis], 1)
                taken *= shape[axis]
            shape += rank
            offset[1] = offset[0] + taken
            offset += 1
    check_read(&block)
    taken = offset[0]
    owner = shaped_table(items, offsets, 0, taken, shapes, None)
    (<TableOwner>owner).table.source.data += first * cnp.PyArray_ITEMSIZE(items)
    return owner, taken


cdef Store *store_along(cnp.ndarray array, Store *store) except NULL:
    """Elements as long as a store's, of an array whose axis 0 is as long as they are together.

    The sum of the lengths fits int64, because the store's elements have been joined.
    """
    cdef Py_ssize_t n = size_of(store), whole = cnp.PyArray_DIM(array, 0) if array.ndim else -1, i
    cdef Span span
    cdef int64_t *each
    if n == 0:
        return empty_store()
    if whole < 0:
        raise ValueError("an array of rank 0 can't be split")
    first_span(store, 0, n, &span)
    if span.n == n and span.source.kind == EVEN and span.source.axis == 0 and span.step == 1 and (
            whole == (n - 1) * span.source.length + (
                (<Table *>span.source).last if span.first + n == (<Table *>span.source).n
                else span.source.length)):
        return store_of(even_table(array, 0, False, span.source.length))
    offsets = np.empty(n + 1, np.int64)
    each = <int64_t *>cnp.PyArray_DATA(offsets)
    each[0] = 0
    write_lengths(store, 0, n, each + 1)
    for i in range(n):
        each[i + 1] += each[i]
    if each[n] != whole:
        raise ValueError(f"the array has length {whole} along axis 0, which is not the sum of the lengths of "
                         f"{n} elements")
    return store_of(offsets_table(array, 0, offsets, 0, whole, True))


# == padding =============================================================================================
#
# Padding: elements of different extents side by side in one array, and back.
#
# ::
#
#     elements      padded, side="right"    side="left"       mask
#     [1 2 3]          1 2 3                  1 2 3           T T T
#     [4]              4 · ·                  · · 4           T · ·
#
# The output is gone through once, from its front to its back: for each element, the outermost axis that falls
# short is filled behind (or in front of) what is copied, and so on inwards. From the innermost such axis on
# an element is one block, whose copy is one `memcpy` where it lies together. For another dtype the elements
# are cast some at a time, and then padded from there.

cdef struct Layout:
    # Where elements go: a place for each along the output's first axis, of this shape.
    int ndim
    Py_ssize_t itemsize
    Py_ssize_t *shape
    Py_ssize_t *strides
    bint left
    const char *value           # one item
    bint uniform                # whether all bytes of the item are alike


cdef struct Measures:
    # Measures of the elements: a number for each axis.
    int ndim
    Py_ssize_t at               # of the element at fault
    Py_ssize_t longest[MAX_NDIM]
    Py_ssize_t shortest[MAX_NDIM]


# -- the longest -------------------------------------------------------------------------------------

cdef Status measure(Store *store, Measures *measures) noexcept nogil:
    """Find the extremes of each axis."""
    cdef Block block
    cdef Py_ssize_t i, least, most
    cdef int axis
    for axis in range(measures.ndim):
        measures.longest[axis] = 0
        measures.shortest[axis] = MAX_BYTES
    begin_blocks(&block, store, 0, size_of(store))
    while read_block(&block):
        if block.source.ndim != measures.ndim:
            measures.at = block.first
            return RANK_DIFFERS
        least = MAX_BYTES
        most = 0
        for i in range(block.n):
            least = min(least, block.rows[i])
            most = max(most, block.rows[i])
        for axis in range(measures.ndim):
            note(measures, axis, most if axis == block.source.axis else block.shape[axis])
        if block.source.axis >= 0:
            note(measures, block.source.axis, least)
    measures.at = block.at
    return DAMAGED if block.damaged else OK


cdef inline void note(Measures *measures, int axis, Py_ssize_t length) noexcept nogil:
    measures.longest[axis] = max(measures.longest[axis], length)
    measures.shortest[axis] = min(measures.shortest[axis], length)


cdef Py_ssize_t first_beyond(Store *store, int axis, Py_ssize_t most) noexcept nogil:
    """The first element that is longer along an axis; where that has changed meanwhile, the last one."""
    cdef Block block
    cdef Py_ssize_t i
    begin_blocks(&block, store, 0, size_of(store))
    while read_block(&block):
        for i in range(block.n):
            if extent_in(&block, i, axis) > most:
                return block.first + i
    return size_of(store) - 1


# -- filling and copying -----------------------------------------------------------------------------

cdef void fill_row(char *out, Py_ssize_t n, const Layout *to) noexcept nogil:
    """Write the padding value to n items that lie together."""
    cdef Py_ssize_t i, done, nbytes = n * to.itemsize
    if n <= 0:
        return
    if to.uniform:
        memset(out, to.value[0], nbytes)
        return
    # Each copy doubles the filled part, up to a size that stays in the nearest cache: few and plain copies.
    memcpy(out, to.value, to.itemsize)
    done = to.itemsize
    while done < nbytes:
        i = min(min(done, 4096 // to.itemsize * to.itemsize), nbytes - done)
        memcpy(out + done, out, i)
        done += i


cdef void fill_block(char *out, Py_ssize_t n, int axis, const Layout *to) noexcept nogil:
    """Write the padding value to n places along an axis, with all that they have along those behind it."""
    cdef Py_ssize_t i, together = to.itemsize, items = 1
    cdef int inner
    for inner in range(to.ndim - 1, axis, -1):
        if to.strides[inner] != together:
            break
        together *= to.shape[inner]
        items *= to.shape[inner]
    else:
        if axis >= to.ndim:
            fill_row(out, 1, to)
            return
        if to.strides[axis] == together:
            fill_row(out, n * items, to)
            return
    for i in range(n):
        fill_block(out + i * to.strides[axis], to.shape[axis + 1] if axis + 1 < to.ndim else 1, axis + 1, to)


cdef void pad_piece(char *out, const Piece *piece, const Layout *to) noexcept nogil:
    """Copy a piece to its place, and fill the rest of it."""
    cdef int last = to.ndim - 1
    # Behind the last axis on which it falls short or is cut, a piece is as its place.
    while last >= 0 and extent(piece, last) == to.shape[last]:
        last -= 1
    pad_axis(out, piece.data, piece, 0, last, to)


cdef void pad_axis(char *out, const char *data, const Piece *piece, int axis, int last,
                   const Layout *to) noexcept nogil:
    cdef Py_ssize_t i, copied, room
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef const Py_ssize_t *strides = strides_of(piece)
    cdef int inner
    if last < 0:
        copy_strided(out, to.strides, data, strides, to.shape, to.ndim, to.itemsize)
        return
    copied = min(extent(piece, axis), to.shape[axis])
    room = to.shape[axis] - copied
    if to.left:
        fill_block(out, room, axis, to)
        out += room * to.strides[axis]
    if axis < last:
        for i in range(copied):
            pad_axis(out + i * to.strides[axis], data + i * strides[axis], piece, axis + 1, last, to)
    else:
        shape[axis] = copied
        for inner in range(axis + 1, to.ndim):
            shape[inner] = to.shape[inner]
        copy_strided(out, to.strides + axis, data, strides + axis, &shape[axis], to.ndim - axis, to.itemsize)
    if not to.left:
        fill_block(out + copied * to.strides[axis], room, axis, to)


cdef Py_ssize_t plain_row(const Block *block, const Layout *to) noexcept nogil:
    """Items of each position along axis 0, if they lie together here and in the output; else NOT_SOLID."""
    cdef Py_ssize_t items = 1
    cdef int axis
    if to.ndim == 0 or block.source.axis > 0 or not block.solid:
        return NOT_SOLID
    for axis in range(to.ndim - 1, 0, -1):
        if block.shape[axis] != to.shape[axis] or to.strides[axis] != items * to.itemsize:
            return NOT_SOLID
        items *= to.shape[axis]
    return items if to.strides[0] == items * to.itemsize else NOT_SOLID


cdef void pad_rows(char *out, const char *data, Py_ssize_t rows, Py_ssize_t items,
                   const Layout *to) noexcept nogil:
    """As `pad_piece`, for an element of plain rows: one copy, and one fill."""
    cdef Py_ssize_t copied = min(rows, to.shape[0]) * items
    cdef Py_ssize_t room = to.shape[0] * items - copied
    if to.left:
        fill_row(out, room, to)
        memcpy(out + room * to.itemsize, data, copied * to.itemsize)
    else:
        memcpy(out, data, copied * to.itemsize)
        fill_row(out + copied * to.itemsize, room, to)


cdef void mark_rows(char *mask, Py_ssize_t there, Py_ssize_t width, bint left) noexcept nogil:
    """Write a row of the mask: True where the element is."""
    if left:
        memset(mask, 0, width - there)
        memset(mask + width - there, 1, there)
    else:
        memset(mask, 1, there)
        memset(mask + there, 0, width - there)


cdef Status pad_all(char *out, Py_ssize_t step, char *mask, Store *store, const Layout *to) noexcept nogil:
    """Write all elements, and, unless it is NULL, the mask. Elements that have become longer are cut."""
    cdef Block block
    cdef Piece piece
    cdef Py_ssize_t i, items, width = to.shape[0] if to.ndim else 0
    begin_blocks(&block, store, 0, size_of(store))
    block.fetches = True
    while read_block(&block):
        items = plain_row(&block, to)
        for i in range(block.n):
            if items != NOT_SOLID:
                pad_rows(out, block.data[i], extent_in(&block, i, 0), items, to)
            else:
                element_of(&block, i, &piece)
                pad_piece(out, &piece, to)
            out += step
            if mask != NULL:
                mark_rows(mask, min(extent_in(&block, i, 0), width), width, to.left)
                mask += width
    return DAMAGED if block.damaged else OK


cdef bint all_alike(const char *item, Py_ssize_t nbytes) noexcept:
    cdef Py_ssize_t i
    for i in range(1, nbytes):
        if item[i] != item[0]:
            return False
    return True


# -- the call ----------------------------------------------------------------------------------------

cdef object padded(Store *store, cnp.dtype own, object padding_value, object side, object shape,
                   object multiple_of, object truncate, object asked, object return_mask, object out):
    """See `TensorSequence.to_padded`; `asked` is the dtype asked for, or None."""
    cdef cnp.dtype dtype = own if asked is None else convertible(own, asked)
    cdef Py_ssize_t n = size_of(store)
    # Asked once: an object may answer otherwise the next time.
    cdef bint cuts = boolean("truncate", truncate), wants_mask = boolean("return_mask", return_mask)
    if shape is not None:
        shape = as_extents("shape", shape, 0)
    if multiple_of is not None:
        multiple_of = as_extents("multiple_of", multiple_of, 1)
    cdef cnp.ndarray value = as_padding_value(padding_value, dtype)
    cdef bint left = left_side(side)
    extents = extents_of(store, shape, multiple_of, cuts)
    nbytes = dtype.itemsize
    for extent_ in (n, *extents):
        nbytes *= max(extent_, 1)
    if nbytes > MAX_BYTES:
        raise ValueError(f"{n} elements padded to ({', '.join(map(shown, extents))}) would be larger than "
                         "any array can be")
    if wants_mask and not extents:
        raise ValueError("return_mask=True needs elements of rank 1 or more, but they have rank 0 and so no "
                         "length")
    result = checked_out(out, (n, *extents), dtype) if out is not None else None
    mask = np.empty((n, extents[0]), np.bool_) if wants_mask else None
    direct = result is not None and dtype.type_num != cnp.NPY_OBJECT and not overlaps(store, result)
    batch = result if direct else empty_batch(dtype, (n, *extents))
    if not cnp.PyArray_SIZE(batch) and mask is None:
        pass                # there may be any number of rows without items
    elif dtype is own:
        write(store, batch, mask, value, left)
    else:
        write_cast(store, own, batch, mask, value, left)
    if result is not None and not direct:
        result[...] = batch
    batch = batch if out is None else out
    return (batch, mask) if wants_mask else batch


cdef object empty_batch(cnp.dtype dtype, tuple shape):
    cdef Py_ssize_t[MAX_NDIM] extents
    cdef int axis, ndim = len(shape)
    for axis in range(ndim):
        extents[axis] = shape[axis]
    return new_array(dtype, ndim, extents)


cdef list extents_of(Store *store, object shape, object multiple_of, bint cuts):
    """Return what the elements are padded to, along each axis."""
    cdef Measures measures
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t n = size_of(store), at
    cdef Status status
    cdef int axis
    measures.ndim = min(rank_of_nothing(shape, multiple_of), MAX_NDIM)
    if n:
        if not read_one(store, 0, &piece, dims):
            raise_damaged(store, 0)
        measures.ndim = piece.source.ndim
    if measures.ndim == MAX_NDIM:
        raise ValueError(f"NumPy's arrays have at most {MAX_NDIM} axes: elements of rank {measures.ndim} "
                         "can't be padded into one batch")
    with nogil:
        status = measure(store, &measures)
    if status == DAMAGED:
        raise_damaged(store, measures.at)
    if status != OK:
        read_one(store, measures.at, &piece, dims)
        other = shape_of(&piece)
        read_one(store, 0, &piece, dims)
        raise ValueError(f"element {measures.at} has shape {other}, but element 0 has shape "
                         f"{shape_of(&piece)}: elements of different ranks can't be padded into one batch"
                         f"{unless_empty_list(shape_of(&piece), other)}")
    cdef list most = []
    cdef list least = []
    for axis in range(measures.ndim):
        most.append(measures.longest[axis])
        least.append(measures.shortest[axis] if n else 0)
    wanted = padded_extents(most, least, shape, multiple_of)
    for axis in range(measures.ndim):
        if most[axis] > wanted[axis] and not cuts:
            at = first_beyond(store, axis, wanted[axis])
            read_one(store, at, &piece, dims)
            raise ValueError(f"element {at} has shape {shape_of(&piece)}, which is longer than "
                             f"{shown(wanted[axis])} along axis {axis}: pass truncate=True to cut it, or a "
                             "larger shape")
    return wanted


cdef int write(Store *store, cnp.ndarray batch, mask, cnp.ndarray value, bint left) except -1:
    """Write the elements, and the mask unless it is None, to where nobody else reads."""
    cdef Layout to
    cdef int ndim = cnp.PyArray_NDIM(batch) - 1
    cdef bint strings = cnp.PyArray_TYPE(batch) == cnp.NPY_OBJECT
    cdef char *data = cnp.PyArray_BYTES(batch)
    cdef char *marks = NULL if mask is None else cnp.PyArray_BYTES(mask)
    cdef Status status
    to.ndim = ndim
    to.left = left
    to.itemsize = cnp.PyArray_ITEMSIZE(batch)
    to.shape = <Py_ssize_t *>cnp.PyArray_DIMS(batch) + 1
    to.strides = <Py_ssize_t *>cnp.PyArray_STRIDES(batch) + 1
    to.value = cnp.PyArray_BYTES(value)
    to.uniform = all_alike(to.value, to.itemsize)
    if strings or cnp.PyArray_NBYTES(batch) < 8 * RELEASE_FROM:
        status = pad_all(data, cnp.PyArray_STRIDE(batch, 0), marks, store, &to)
    else:
        with nogil:
            status = pad_all(data, cnp.PyArray_STRIDE(batch, 0), marks, store, &to)
        count(WITHOUT_GIL, 1)
    if strings and status != OK:
        memset(data, 0, cnp.PyArray_NBYTES(batch))      # pointers that nobody has counted
    if status != OK:
        raise ValueError("the elements have changed in their file while they were padded: it is damaged")
    if strings:
        count_strings(batch)
    return 0


cdef int write_cast(Store *store, cnp.dtype own, cnp.ndarray batch, mask, cnp.ndarray value,
                    bint left) except -1:
    """As `write`, to another dtype: some elements at a time, so that what is cast stays in the cache."""
    cdef Py_ssize_t n = size_of(store), first = 0, some = count_to_cast(store)
    cdef Share cast
    while first < n:
        some = min(some, n - first)
        cast = cast_some(store, first, some, own, batch.dtype)
        write(cast.store, batch[first:first + some], None if mask is None else mask[first:first + some],
              value, left)
        first += some
    return 0


cdef bint overlaps(Store *store, cnp.ndarray out) noexcept:
    """Return whether an element has memory within the bounds of an array that is to be written to."""
    cdef size_t low, high, first, last
    cdef Block block
    cdef Py_ssize_t i
    cdef int axis
    low = high = <size_t>cnp.PyArray_BYTES(out)
    for axis in range(cnp.PyArray_NDIM(out)):
        widen(&low, &high, cnp.PyArray_STRIDE(out, axis), cnp.PyArray_DIM(out, axis))
    begin_blocks(&block, store, 0, size_of(store))
    while read_block(&block):
        for i in range(block.n):
            first = last = <size_t>block.data[i]
            for axis in range(block.source.ndim):
                widen(&first, &last, block.shape[block.source.ndim + axis], extent_in(&block, i, axis))
            if first < high + cnp.PyArray_ITEMSIZE(out) and low < last + block.source.itemsize:
                return True
    return block.damaged


cdef void widen(size_t *first, size_t *last, Py_ssize_t stride, Py_ssize_t length) noexcept nogil:
    if length > 0:
        if stride < 0:
            first[0] += (length - 1) * stride
        else:
            last[0] += (length - 1) * stride
