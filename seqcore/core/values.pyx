"""A sequence as one array and numbers: what other systems know ragged data as.

::

    elements   [a b c]  []  [d e]
    values     [a b c d e]              joined along axis 0
    lengths    3 0 2                    extents along it
    offsets    0 3 3 5                  where each begins, and where the last one ends

Where elements are one behind the other in one memory, as after a split, values are a view of it. Otherwise
they are joined, in one copy.
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int32_t, int64_t
cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.counters cimport JOINED, LEFT_IN_PLACE, count
from seqcore.core.compact cimport compact_items
from seqcore.core.join cimport join, joined_view, new_array
from seqcore.core.limits cimport RELEASE_FROM
from seqcore.core.owner cimport TableOwner, sealed
from seqcore.core.reader cimport (
    Reader, Span, begin, ends_of, next_block, raise_damaged, read_one, take_singly,
)
from seqcore.core.source cimport (
    DAMAGED, EVEN, MAX_BYTES, MAX_NDIM, NOT_SOLID, OFFSETS, OK, RANK_DIFFERS, Piece, Source, Status, Table,
    number_at, owner_of, solid_row,
)
from seqcore.core.store cimport Run, Store, has_runs, runs_of, size_of

from seqcore._arguments.shown import shown
from seqcore.dtypes import numpy_type

cnp.import_array()


# -- values ------------------------------------------------------------------------------------------

cdef object in_place_or_copied(Store *store, cnp.dtype dtype, bint stacking):
    values = joined_view(store, dtype, stacking)
    if values is not None:
        count(LEFT_IN_PLACE, 1)
        return values
    values = join(store, dtype, 0, stacking)
    count(JOINED, 1)
    return sealed(values, dtype)


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
    count(JOINED if items is None else LEFT_IN_PLACE, 1)
    return sealed(compact_items(store, dtype), dtype) if items is None else items


cdef object items_view(Store *store, cnp.dtype dtype):
    cdef Reader reader
    cdef Span span
    cdef Piece last
    cdef Piece *piece
    cdef Source *source = NULL
    cdef char *data = NULL
    cdef char *end = NULL
    cdef Py_ssize_t i, row = 0, items
    begin(&reader, store, 0, size_of(store))
    while next_block(&reader, &span):
        if span.n:
            # One piece stands for all of them, if they are one behind the other.
            piece = &reader.pieces[0]
            if span.step == 1 and span.source.kind in (EVEN, OFFSETS) and ends_of(
                    &span, piece, &last, reader.dims) and last.start >= piece.start and (
                    span.source.axis == 0 or (<Table *>span.source).pitch == solid_row(piece)):
                piece.length = last.start - piece.start + last.length
                reader.n = 1
            else:
                take_singly(&reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if source == NULL:
                source = piece.source
                row = solid_row(piece)
                if row == NOT_SOLID or row == 0:
                    return None
                data = end = piece.data
            elif piece.source != source:
                return None
            elif piece.shape != source.shape:           # of a shape of its own, and then in C order
                row = solid_row(piece)
                if row == NOT_SOLID:
                    return None
            if piece.data != end:
                return None
            end += row * piece.length
    if source == NULL or reader.damaged:
        return None
    items = (end - data) // source.itemsize
    return array_from(<PyObject *>dtype, 1, &items, NULL, data, owner_of(source))


# -- lengths and offsets -----------------------------------------------------------------------------

cdef Status write_some(Reader *reader, int64_t *into) noexcept nogil:
    """Write the lengths of the elements that are left; the reader is then at the one at fault, if any."""
    cdef Span span
    cdef Source *source
    cdef Table *table
    cdef Piece *piece
    cdef Py_ssize_t i, start, stop
    while next_block(reader, &span):
        if span.n:
            source = span.source
            table = <Table *>source
            if source.axis == 0 and source.kind == EVEN and span.step:
                for i in range(span.n):
                    into[i] = source.length
                # The last element of a table is at one of the ends, if it is among them.
                if span.first == (<Table *>source).n - 1:
                    into[0] = table.last
                elif span.first + (span.n - 1) * span.step == (<Table *>source).n - 1:
                    into[span.n - 1] = table.last
                into += span.n
                continue
            elif source.axis == 0 and source.kind == OFFSETS and span.step == 1:
                stop = number_at(table.starts, span.first, table.width)
                for i in range(span.n):
                    start = stop
                    stop = number_at(table.starts, span.first + i + 1, table.width)
                    if not table.low <= start <= stop <= table.high:
                        reader.at += i - span.n
                        return DAMAGED
                    into[i] = stop - start
                into += span.n
                continue
            elif source.axis != 0 and source.ndim:
                for i in range(span.n):
                    into[i] = source.shape[0]
                into += span.n
                continue
            else:
                take_singly(reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if piece.source.ndim == 0:
                reader.at += i - reader.n
                return RANK_DIFFERS
            into[i] = piece.length if piece.source.axis == 0 else piece.shape[0]
        into += reader.n
    return DAMAGED if reader.damaged else OK


cdef int write_lengths(Store *store, Py_ssize_t start, Py_ssize_t stop, int64_t *into,
                       bint keep_gil=False) except -1:
    """Write the extents of elements along axis 0."""
    cdef Reader reader
    cdef Status status
    begin(&reader, store, start, stop)
    if keep_gil or stop - start < RELEASE_FROM:
        status = write_some(&reader, into)
    else:
        with nogil:
            status = write_some(&reader, into)
    if status == DAMAGED:
        raise_damaged(store, reader.at)
    if status != OK:
        raise ValueError(f"element {reader.at} has rank 0 and so no length along axis 0")
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
    return fitted(offsets, dtype, "offsets")


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


# -- numbers for each row of the values ----------------------------------------------------------------

cdef object segment_ids_of(Store *store, object dtype):
    """Return which element each row of the values is of, as an array of an integer type."""
    return ids_of(store, integer_type(dtype, "segment_ids"), True)


cdef object position_ids_of(Store *store, object dtype):
    """Return the position of each row of the values in its element, as an array of an integer type."""
    return ids_of(store, integer_type(dtype, "position_ids"), False)


cdef object ids_of(Store *store, object dtype, bint segments):
    cdef cnp.ndarray lengths = lengths_of(store, np.int64)      # our own: they change no more
    cdef const int64_t *each = <const int64_t *>cnp.PyArray_DATA(lengths)
    cdef Py_ssize_t n = size_of(store), i, total = 0, largest = -1
    for i in range(n):
        if each[i] > MAX_BYTES - total:
            raise OverflowError(f"the lengths of the first {i + 1} elements sum to more than fits int64")
        total += each[i]
        if each[i]:
            largest = i if segments else max(largest, each[i] - 1)
    if total > MAX_BYTES // 8:
        raise MemoryError(f"no memory for {total} ids of {n} elements")
    most = np.iinfo(dtype).max
    if largest > most:
        raise OverflowError(f"{'segment_ids' if segments else 'position_ids'} go up to {largest}, which does "
                            f"not fit {dtype} (at most {most})")
    cdef cnp.ndarray ids = np.empty(total, np.int32 if dtype == np.int32 else np.int64)
    if dtype == np.int32:
        with nogil:
            fill_ids(<int32_t *>cnp.PyArray_DATA(ids), each, n, segments)
    else:
        with nogil:
            fill_ids(<int64_t *>cnp.PyArray_DATA(ids), each, n, segments)
    return (<object>ids).astype(dtype, copy=False)


ctypedef fused index:
    int32_t
    int64_t


cdef void fill_ids(index *ids, const int64_t *lengths, Py_ssize_t n, bint segments) noexcept nogil:
    cdef Py_ssize_t i, k
    for i in range(n):
        if segments:
            for k in range(lengths[i]):
                ids[k] = <index>i
        else:
            for k in range(lengths[i]):
                ids[k] = <index>k
        ids += lengths[i]
