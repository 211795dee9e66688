"""Pickles: a store as few arrays, and back.

::

    store   →   parts (tables and files)  +  the order of the elements among them   →   store
"""

from cpython.ref cimport PyObject
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from, own_view
from seqcore.core.container cimport Container
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.limits cimport PICKLED_ALONE_FROM, RUNS_AS_INTEGERS, SIGNALS_EVERY
from seqcore.core.padding cimport compact_store
from seqcore.core.split_join cimport (
    select, split_equal, split_lengths, split_shaped, split_views, total_nbytes,
)
from seqcore.core.store cimport (
    EVEN, MAX_NDIM, OFFSETS, PADDED, SHAPED, VIEWS, WHOLE, Piece, Run, Share, Source, Span, Spans, Status,
    Store, Table, TableOwner, begin_of, begin_spans, check_type, has_runs, joined_stores, make_element,
    next_span, one_run, owner_of, piece_nbytes, raise_for, release_source, resolve, row_nbytes, runs_of,
    share_of, size_of, slice_of_store, take_whole,
)
from seqcore.core.late import late
from seqcore._arguments.shown import shown
from seqcore._arguments.tensors import as_tensor

cnp.import_array()


# == pickling ============================================================================================
#
# A store as few arrays for pickle, and back.
#
# ::
#
#     parts    ("even", array, axis, length), …                      tables, with no more than is used of them
#              ("file", path, size, time, column, length)            files, which the other side opens itself
#     order    runs [[part, first, step, n], …], or (parts, numbers) of each element
#
# A sequence of files alone goes as the numbers that its elements have there, any other with its memory. So
# data goes out once, in arrays that pickle's protocol 5 can leave where they are. Few numbers are needed for
# runs, however many elements there are, and for slots each takes as few bytes as it can.

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX


# -- out -----------------------------------------------------------------------------------------------

cdef class Parts:
    """The tables and files that elements are of, as they are found."""
    cdef bint as_data               # whether elements in files are sent with their memory
    cdef dict numbers               # of each: which part it is
    cdef list sources               # a TableOwner, an ArrayOwner or a file
    cdef list low                   # the first number of it that is used
    cdef list high                  # and the last

    def __cinit__(self):
        self.numbers, self.sources, self.low, self.high = {}, [], [], []

    cdef Py_ssize_t add(self, Source *source, Py_ssize_t *first) except -1:
        """Which part a source is, and what its element 0 is called there."""
        cdef object owner = <object>owner_of(source)
        first[0] = 0
        if source.kind == WHOLE:
            # Equal for whole arrays of the same memory and layout.
            key = (<size_t>source.data, (<char *>source.shape)[:2 * source.ndim * sizeof(Py_ssize_t)])
        else:
            key = <size_t>source
            if (<TableOwner>owner).origin is not None and not self.as_data:
                owner = (<TableOwner>owner).origin
                first[0] = (<TableOwner><object>owner_of(source)).first
                key = owner
        which = self.numbers.get(key)
        if which is None:
            which = self.numbers[key] = len(self.sources)
            self.sources.append(owner)
            self.low.append(None)
            self.high.append(None)
            if which % SIGNALS_EVERY == SIGNALS_EVERY - 1:
                let_others_in()
        return which

    cdef int use(self, Py_ssize_t which, Py_ssize_t low, Py_ssize_t high) except -1:
        self.low[which] = low if self.low[which] is None else min(self.low[which], low)
        self.high[which] = high if self.high[which] is None else max(self.high[which], high)
        return 0


cdef tuple reduced(Store *store, cnp.dtype dtype):
    """The parts of a store, and the order of its elements among them."""
    cdef Parts parts = Parts.__new__(Parts)
    cdef Share tight
    runs, which, numbers = find_elements(store, parts)
    in_memory = [not isinstance(source, tuple) for source in parts.sources]
    if any(in_memory):
        if not all(in_memory):
            parts = Parts.__new__(Parts)
            parts.as_data = True
            runs, which, numbers = find_elements(store, parts)
        # Copied together where the tables are mostly unused, or many and small.
        if is_better_tight(store, parts):
            parts = Parts.__new__(Parts)
            tight = share_of(compact_store(store, dtype))
            runs, which, numbers = find_elements(tight.store, parts)
    cdef list sent = []
    for i, source in enumerate(parts.sources):
        if i % SIGNALS_EVERY == SIGNALS_EVERY - 1:
            let_others_in()
        if isinstance(source, tuple):
            sent.append(("file", *source))
        else:
            sent.append(part_of(source_in(source), parts.low[i], parts.high[i], dtype))
    if runs is None:
        runs = runs_of_numbers(which, numbers)
    if runs is None:
        return sent, numbers_to_send(which, numbers, parts)
    return sent, runs_to_send(runs, parts)


cdef inline Source *source_in(object owner) noexcept:
    return <Source *>(<char *><PyObject *>owner + sizeof(PyObject))


cdef tuple find_elements(Store *store, Parts parts):
    """Where each element is: (runs, None, None), or (None, part of each, number of each) of slots."""
    if has_runs(store) or size_of(store) == 0:
        return find_runs(store, parts), None, None
    return None, *find_numbers(store, parts)


cdef cnp.ndarray find_runs(Store *store, Parts parts):
    """The runs of a store that has no slots: part, first, step and number of elements."""
    cdef cnp.ndarray runs = np.empty((max(store.nruns, 0), 4), np.int64)
    cdef int64_t *row = <int64_t *>cnp.PyArray_DATA(runs)
    cdef const Run *run
    cdef Py_ssize_t i, n, zero, first, last
    if not has_runs(store):                 # without elements
        return runs
    for i in range(store.nruns):
        run = &runs_of(store)[i]
        n = run.end - begin_of(store, i)
        row[0] = parts.add(run.source, &zero)
        first = run.first + zero
        last = first + (n - 1) * run.step
        parts.use(row[0], min(first, last), max(first, last))
        row[1] = first
        row[2] = run.step
        row[3] = n
        row += 4
    return runs


cdef tuple find_numbers(Store *store, Parts parts):
    """Of each element: which part it is of, and its number there."""
    cdef Py_ssize_t n = size_of(store), done = 0, seen = 0, i, zero = 0, part = 0
    cdef cnp.ndarray which = np.empty(n, np.int64)
    cdef cnp.ndarray numbers = np.empty(n, np.int64)
    cdef int64_t *of = <int64_t *>cnp.PyArray_DATA(which)
    cdef int64_t *number = <int64_t *>cnp.PyArray_DATA(numbers)
    cdef Spans spans
    cdef Span span
    cdef Source *known = NULL
    begin_spans(&spans, store, 0, n)
    while next_span(&spans, &span):
        seen += 1
        if seen % SIGNALS_EVERY == 0:
            let_others_in()
        if span.source != known:
            known = span.source
            part = parts.add(known, &zero)
        for i in range(span.n):
            of[done] = part
            number[done] = zero + span.first + i * span.step
            done += 1
        parts.use(part, min(number[done - span.n], number[done - 1]),
                  max(number[done - span.n], number[done - 1]))
    return which, numbers


cdef bint is_better_tight(Store *store, Parts parts) except -1:
    """Return whether elements in memory take less when they are copied together."""
    cdef Py_ssize_t i, n = len(parts.sources)
    cdef Source *source
    spanned = 0
    for i in range(n):
        source = source_in(parts.sources[i])
        if source.kind == PADDED or (source.kind == SHAPED and not is_in_order(source)):
            return True
        spanned += spanned_nbytes(source, parts.low[i], parts.high[i])
    nbytes = total_nbytes(store)
    return nbytes <= 2 * spanned and (2 * nbytes < spanned or spanned < PICKLED_ALONE_FROM * (n - 1))


cdef bint is_in_order(const Source *source) noexcept:
    cdef int axis
    for axis in range(source.ndim):
        if source.shape[axis] != axis:
            return False
    return True


# -- tables --------------------------------------------------------------------------------------------

cdef tuple positions_used(Source *source, Py_ssize_t low, Py_ssize_t high):
    """From where to where elements low to high of a table reach along its axis."""
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t i, start, stop
    if not resolve(source, low, &piece, dims):
        raise_damaged_number(source, low)
    start, stop = piece.start, piece.start + piece_positions(&piece)
    if source.kind == EVEN or source.kind == OFFSETS or source.kind == SHAPED:
        if not resolve(source, high, &piece, dims) or piece.start < start:
            raise_damaged_number(source, high)
        return start, piece.start + piece_positions(&piece)
    for i in range(low + 1, high + 1):          # views, in any order
        if not resolve(source, i, &piece, dims):
            raise_damaged_number(source, i)
        start = min(start, piece.start)
        stop = max(stop, piece.start + piece.length)
    return start, stop


cdef Py_ssize_t piece_positions(const Piece *piece) noexcept nogil:
    """Return an element's length along its table's positions: items, if each has a shape of its own."""
    cdef Py_ssize_t items = piece.length
    cdef int axis
    if piece.source.kind == SHAPED:
        for axis in range(1, piece.source.ndim):
            items *= piece.shape[axis]
    return items


cdef int raise_damaged_number(Source *source, Py_ssize_t number) except -1:
    cdef TableOwner owner = <TableOwner>owner_of(source)
    where = "an Arrow array" if owner.origin is None else owner.origin.path
    what = "the array" if owner.origin is None else "the file"
    raise ValueError(f"element {owner.first + number} of {where} can't be read: its offsets leave its "
                     f"values, so {what} is damaged")


cdef object spanned_nbytes(Source *source, Py_ssize_t low, Py_ssize_t high):
    """Bytes from the first to the last of elements low to high."""
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    if not resolve(source, low, &piece, dims):
        raise_damaged_number(source, low)
    if source.kind == WHOLE:
        return piece_nbytes(&piece)
    start, stop = positions_used(source, low, high)
    if source.kind == SHAPED:
        return (stop - start) * source.itemsize
    return (stop - start) * row_nbytes(&piece)


cdef object spanned_array(Source *source, Py_ssize_t start, Py_ssize_t stop, cnp.dtype dtype):
    """A table's array from one position to another, with the axis that it is split along.

    An axis that the split dropped comes first.
    """
    cdef Py_ssize_t[MAX_NDIM + 1] shape
    cdef Py_ssize_t[MAX_NDIM + 1] strides
    cdef Table *table = <Table *>source
    cdef int dropped = source.axis < 0, ndim = source.ndim + dropped
    if source.kind == SHAPED:
        ndim = 1
        shape[0], strides[0] = stop - start, source.itemsize
    else:
        memcpy(&shape[dropped], source.shape, source.ndim * sizeof(Py_ssize_t))
        memcpy(&strides[dropped], source.shape + source.ndim, source.ndim * sizeof(Py_ssize_t))
        shape[0 if dropped else source.axis] = stop - start
        if dropped:
            strides[0] = table.step
    array = array_from(<PyObject *>dtype, ndim, shape, strides,
                       source.data + (start - table.low) * table.step, owner_of(source))
    # Only such arrays leave their data out of band.
    return array if array.flags.forc else np.ascontiguousarray(array)


cdef tuple part_of(Source *source, Py_ssize_t low, Py_ssize_t high, cnp.dtype dtype):
    """Elements low to high of a table in memory, as (kind, array, axis, numbers…)."""
    cdef Py_ssize_t i, n = high - low + 1, start, stop
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef cnp.ndarray numbers, others
    cdef int64_t *number
    cdef int64_t *other
    cdef int axis
    if source.kind == WHOLE:
        resolve(source, 0, &piece, NULL)
        array = make_element(&piece, dtype)
        return "whole", array if array.flags.forc else np.ascontiguousarray(array)
    start, stop = positions_used(source, low, high)
    array = spanned_array(source, start, stop, dtype)
    if source.kind == EVEN:
        return "even", array, source.axis, source.length
    numbers = np.empty(n if source.kind == VIEWS else n + 1, np.int64)
    number = <int64_t *>cnp.PyArray_DATA(numbers)
    others = np.empty((n, source.ndim if source.kind == SHAPED else 1), np.int64)
    other = <int64_t *>cnp.PyArray_DATA(others)
    for i in range(n):
        if not resolve(source, low + i, &piece, dims):
            raise_damaged_number(source, low + i)
        number[i] = piece.start - start
        if source.kind == VIEWS:
            other[i] = piece.length
        elif source.kind == SHAPED:
            for axis in range(source.ndim):
                other[i * source.ndim + axis] = piece.shape[axis]
        # Where the next one begins, which the other side checks.
    if source.kind == VIEWS:
        return "views", array, source.axis, numbers, others.reshape(-1)
    number[n] = piece.start + piece_positions(&piece) - start
    if source.kind == SHAPED:
        return "shaped", array, numbers, others
    return "offsets", array, source.axis, numbers


# -- the order -----------------------------------------------------------------------------------------

cdef object lows_of(Parts parts):
    """Return what numbers of the parts count from: of files from their first element."""
    lows = np.empty(len(parts.sources), np.int64)
    for i, source in enumerate(parts.sources):
        lows[i] = 0 if isinstance(source, tuple) else parts.low[i]
    return lows


cdef object runs_to_send(cnp.ndarray runs, Parts parts):
    if len(runs):
        runs[:, 1] -= lows_of(parts)[runs[:, 0]]
    # Neighbours in one file, of its batches, are one run.
    if len(runs) > 1:
        runs = merged(runs)
    return tuple(map(tuple, runs.tolist())) if len(runs) <= RUNS_AS_INTEGERS else runs


cdef cnp.ndarray merged(cnp.ndarray runs):
    follows = np.zeros(len(runs), bool)
    follows[1:] = (runs[1:, 0] == runs[:-1, 0]) & (runs[1:, 2] == runs[:-1, 2]) & (
        runs[1:, 1] == runs[:-1, 1] + runs[:-1, 2] * runs[:-1, 3])
    begins = np.flatnonzero(~follows)
    counts = np.add.reduceat(runs[:, 3], begins)
    runs = runs[begins]
    runs[:, 3] = counts
    return runs


cdef cnp.ndarray runs_of_numbers(cnp.ndarray which, cnp.ndarray numbers):
    """The runs that elements are, or None where the numbers of each take less."""
    breaks = np.flatnonzero((which[1:] != which[:-1]) | (numbers[1:] - numbers[:-1] != 1)) + 1
    if 16 * len(breaks) > len(numbers):
        return None
    begins = np.concatenate([[0], breaks])
    return np.column_stack([which[begins], numbers[begins], np.ones_like(begins),
                            np.diff(begins, append=len(numbers))])


cdef object numbers_to_send(cnp.ndarray which, cnp.ndarray numbers, Parts parts):
    numbers -= lows_of(parts)[which]
    return shortest(which) if len(parts.sources) > 1 else None, shortest(numbers)


cdef object shortest(cnp.ndarray numbers):
    """Numbers that are not negative, in as few bytes as they take."""
    return numbers.astype(np.min_scalar_type(numbers.max() if len(numbers) else 0))


# -- back ----------------------------------------------------------------------------------------------

cdef Store *restored(cnp.dtype dtype, given_parts, order) except NULL:
    """The opposite of `reduced`; what doesn't fit is refused, because pickles may be damaged."""
    cdef list parts = []                # Shares of stores
    if type(given_parts) is not list or type(order) is not tuple and not isinstance(order, np.ndarray):
        raise TypeError("the pickle is damaged: expected a list of parts and the order of the elements "
                        f"among them, got {shown(given_parts)} and {shown(order)}")
    for part in given_parts:
        parts.append(share_of(restored_part(dtype, part, len(parts))))
    if type(order) is tuple and len(order) == 2 and isinstance(order[1], np.ndarray):
        return ordered(parts, checked_numbers(order[0], "parts"), checked_numbers(order[1], "numbers"))
    return ordered_runs(parts, order)


cdef Store *restored_part(cnp.dtype dtype, part, Py_ssize_t at) except NULL:
    if type(part) is not tuple or not part:
        raise TypeError(f"the pickle is damaged: part {at} must be a table or a file, got {shown(part)}")
    kind, *rest = part
    if type(kind) is not str:
        raise TypeError(f"the pickle is damaged: part {at} must be a table or a file, got {shown(kind)}")
    if kind == "file":
        column = late("opened")(rest)
        if not isinstance(column, Container) or (<Container>column)._dtype is not dtype:
            raise ValueError(f"{rest[0]} has elements of dtype {column.dtype}, but the pickled sequence "
                             f"has dtype {dtype}")
        return (<Container>column).snapshot()
    fields = {"whole": 1, "even": 3, "offsets": 3, "views": 4, "shaped": 3}
    if len(rest) != fields.get(kind, -1) or not isinstance(rest[0], np.ndarray):
        raise TypeError(f"the pickle is damaged: part {at} must be a table, got {shown(kind)} with "
                        f"{len(rest)} values")
    cdef cnp.ndarray array = own_view(as_tensor(rest[0], dtype))
    check_type(array, dtype)
    if kind == "whole":
        return one_whole(array)
    if kind == "shaped":
        if array.ndim != 1 or not array.flags.c_contiguous:
            raise ValueError(f"the pickle is damaged: the items of part {at} have shape "
                             f"{(<object>array).shape}, expected one axis")
        return split_shaped(array, checked_numbers(rest[1], "offsets"), checked_numbers(rest[2], "shapes", 2))
    axis = rest[1]
    if type(axis) is not int or not -1 <= axis < array.ndim or (axis < 0 and kind != "even"):
        raise ValueError(f"the pickle is damaged: part {at} has axis {shown(axis)}, but rank {array.ndim}")
    if kind == "even":
        length = rest[2]
        if type(length) is not int or length < 1 or array.ndim == 0 or (axis < 0 and length > 1):
            raise ValueError(f"the pickle is damaged: part {at} has elements of length {shown(length)}")
        return split_equal(array, max(axis, 0), min(length, PY_SSIZE_T_MAX), axis < 0)
    if kind == "offsets":
        offsets = checked_numbers(rest[2], "offsets")
        if len(offsets) == 0 or offsets[0] != 0:
            raise ValueError(f"the pickle is damaged: the offsets of part {at} don't begin at 0")
        return split_lengths(array, axis, np.diff(offsets), "the pickled lengths")
    return split_views(array, axis, checked_numbers(rest[2], "starts"), checked_numbers(rest[3], "lengths"))


cdef Store *one_whole(cnp.ndarray array) except NULL:
    cdef Source *source = take_whole(array)
    cdef Store *store = one_run(source, 1)
    release_source(source, 1)
    if store == NULL:
        raise MemoryError("no memory for a sequence")
    return store


cdef object checked_numbers(given, str what, int ndim=1):
    """A row or table of integers of at most 64 bits, as int64."""
    if given is None and what == "parts":
        return None
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "iu":
        raise TypeError(f"the pickle is damaged: its {what} must be an array of integers, got {shown(given)}")
    numbers = np.ndarray.view(given, np.ndarray)
    if numbers.ndim != ndim or (
            numbers.dtype.kind == "u" and numbers.size and numbers.max() > PY_SSIZE_T_MAX):
        raise ValueError(f"the pickle is damaged: its {what} have shape {numbers.shape}, or are too large")
    return np.array(numbers, dtype=np.int64, order="C", copy=True)


cdef Store *joined_parts(list parts, bases) except NULL:
    """The elements of all parts in a row; `bases` is written where each begins."""
    cdef Py_ssize_t i, n = len(parts), total = 0
    cdef Store *into = NULL
    cdef Status status
    cdef Store **stores = <Store **>malloc(max(n, 1) * sizeof(Store *))
    if stores == NULL:
        raise MemoryError(f"no memory for {n} parts of a pickled sequence")
    for i in range(n):
        stores[i] = (<Share>parts[i]).store
        bases[i] = total
        total += size_of(stores[i])
    bases[n] = total
    status = joined_stores(stores, n, &into)
    free(stores)
    raise_for(status, None, total)
    return into


cdef Store *ordered(list parts, which, cnp.ndarray numbers) except NULL:
    """Each element by its part and its number there."""
    cdef Store *into = NULL
    cdef Py_ssize_t at = 0
    bases = np.empty(len(parts) + 1, np.int64)
    cdef Share joined = share_of(joined_parts(parts, bases))
    if which is None and len(parts) == 1:
        which = 0
    elif which is None or len(which) != len(numbers):
        raise ValueError(f"the pickle is damaged: it has {len(parts)} parts, but doesn't say which one "
                         "each element is in")
    elif len(which) and not (0 <= which.min() and which.max() < len(parts)):
        raise ValueError(f"the pickle is damaged: an element names a part beyond its {len(parts)} parts")
    if len(numbers) and (numbers.min() < 0 or np.any(numbers >= (bases[1:] - bases[:-1])[which])):
        raise IndexError("the pickle is damaged: an element has a number that its part doesn't have")
    positions = numbers + bases[which]
    raise_for(select(joined.store, positions, &into, &at), None, len(positions))
    return into


cdef Store *ordered_runs(list parts, order) except NULL:
    """Runs of elements: part, first, step and number of elements."""
    cdef list slices = []
    if isinstance(order, np.ndarray):
        order = checked_numbers(order, "runs", 2)
        if order.shape[1] != 4:
            raise ValueError(f"the pickle is damaged: its runs have shape {order.shape}, expected (n, 4)")
        order = order.tolist()
    for run in order:
        if type(run) is not tuple and type(run) is not list:
            raise TypeError(f"the pickle is damaged: a run must be four integers, got {shown(run)}")
        if len(slices) % SIGNALS_EVERY == SIGNALS_EVERY - 1:
            let_others_in()
        if len(run) != 4 or not all(type(number) is int for number in run):
            raise TypeError(f"the pickle is damaged: a run must be four integers, got {shown(run)}")
        which, first, step, n = run
        if not 0 <= which < len(parts):
            raise ValueError(f"the pickle is damaged: a run names part {which}, but there are "
                             f"{len(parts)} parts")
        size = size_of((<Share>parts[which]).store)
        if n == 1:
            step = 1
        if n < 1 or not 0 <= first < size or not 0 <= first + (n - 1) * step < size or step == 0:
            raise IndexError(f"the pickle is damaged: a run has {n} elements from {first} on with step "
                             f"{step}, but its part has {size}")
        slices.append(share_of(run_of((<Share>parts[which]).store, first, step, n)))
    return joined_parts(slices, np.empty(len(slices) + 1, np.int64))


cdef Store *run_of(Store *store, Py_ssize_t first, Py_ssize_t step, Py_ssize_t n) except NULL:
    cdef Store *into = NULL
    raise_for(slice_of_store(store, first, step, n, &into), None, n)
    return into
