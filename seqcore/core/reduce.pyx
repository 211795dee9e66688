"""Reductions: each element becomes one number, or one row of numbers.

::

    elements               [1 2 3]  []  [4 5]
    reduce(np.add)         6  0  9

    an element of shape (2, 3, 4) along axis 1:     2 times, 3 rows of 4 numbers become one row
    `outer`, `length` and `inner`:                  2, 3 and 4; of a whole element 1, 24 and 1

The elements are gone through once, without the GIL. Those that are not in C order are copied first. For a
dtype that NumPy would cast to, some elements are cast at a time. `kernels` has the arithmetic.
"""

from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.limits cimport REDUCED_BETWEEN_SIGNALS, REDUCED_TOGETHER, SIGNALS_EVERY
from seqcore.core.store cimport Store, size_of
from seqcore.core.copying cimport copy_piece
from seqcore.core.counters cimport REDUCED, count
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.kernels cimport (
    ALL, ANY, ARGMAX, ARGMIN, MAX, MIN, PROD, SUM, VAR, Numbers, Operation, reduce_items,
)
from seqcore.core.like cimport cast_some, count_to_cast
from seqcore.core.owner cimport make_element, shape_of
from seqcore.core.reader cimport (
    Reader, Span, begin, fetch_data, next_block, next_pieces, raise_damaged, read_one, take_singly,
)
from seqcore.core.share cimport Share
from seqcore.core.source cimport (
    DAMAGED, MAX_BYTES, MAX_NDIM, NO_MEMORY, NOT_SOLID, OFFSETS, OK, RANK_DIFFERS, SHAPE_DIFFERS, Piece,
    Source, Table, extent, number_at, piece_nbytes, resolve, row_nbytes, same_layout, solid_row,
)

from seqcore._arguments.reductions import plan_of
from seqcore._arguments.shown import shown

cnp.import_array()

cdef extern from "Python.h":
    int check_signals "PyErr_CheckSignals"() noexcept

cdef enum:
    EMPTY = 100                 # as a Status: an element without items, and nothing to make of it
    INTERRUPTED                 # a signal's handler has raised
    EACH = 32                   # numbers that take as long as a small element does beside its own

OPERATIONS = {"sum": SUM, "prod": PROD, "min": MIN, "max": MAX, "any": ANY, "all": ALL, "argmin": ARGMIN,
              "argmax": ARGMAX, "var": VAR}

cdef struct Reduction:
    Operation operation
    Numbers numbers             # of the elements
    Py_ssize_t result_itemsize
    int axis                    # or -1 for whole elements
    bint may_be_empty
    char[16] initial            # sums and products begin with it; the result of an element without items
    Piece first                 # element 0
    Py_ssize_t[2 * MAX_NDIM] dims
    Py_ssize_t outer
    Py_ssize_t inner
    Py_ssize_t at               # of the element at fault
    char *copied                # an element in C order
    Py_ssize_t room
    Py_ssize_t work             # numbers until the next check for signals


# -- the elements --------------------------------------------------------------------------------------

cdef int fit(const Reduction *reduction, const Piece *piece) noexcept nogil:
    """Return whether an element's result has the shape of the first one's."""
    cdef int axis
    if reduction.axis < 0:
        return OK
    if piece.source.ndim != reduction.first.source.ndim:
        return RANK_DIFFERS
    for axis in range(piece.source.ndim):
        if axis != reduction.axis and extent(piece, axis) != extent(&reduction.first, axis):
            return SHAPE_DIFFERS
    return OK


cdef const char *in_order(Reduction *reduction, const Piece *piece, Py_ssize_t row) noexcept nogil:
    """An element's items in C order, aligned: where they are, or copied; NULL if there is no memory."""
    cdef Py_ssize_t nbytes
    if row != NOT_SOLID and <size_t>piece.data % min(piece.source.itemsize, 8) == 0:
        return piece.data
    nbytes = piece_nbytes(piece)
    if nbytes > reduction.room:
        free(reduction.copied)
        reduction.copied = <char *>malloc(nbytes)
        reduction.room = nbytes if reduction.copied != NULL else 0
        if reduction.copied == NULL:
            return NULL
    copy_piece(reduction.copied, piece)
    return reduction.copied


cdef bint can_take(const Reduction *reduction, const Span *span) noexcept nogil:
    """Return whether a span's elements are rows of one table in order; only their offsets tell them apart."""
    cdef Source *source = span.source
    cdef Py_ssize_t align = min(source.itemsize, 8)
    return (source.kind == OFFSETS and span.step == 1 and source.axis == 0 and source.solid
            and reduction.axis <= 0 and reduction.inner and <size_t>source.data % align == 0
            and (<Table *>source).step % align == 0)


cdef int reduce_span(Reduction *reduction, const Span *span, char *out, int64_t *counts,
                     Py_ssize_t row) noexcept nogil:
    """Write the results of such elements, each of them `row` numbers long at each position."""
    cdef Table *table = <Table *>span.source
    cdef Py_ssize_t[REDUCED_TOGETHER] lengths
    cdef Py_ssize_t i = 0, k, first, start, stop = number_at(table.starts, span.first, table.width)
    cdef Py_ssize_t step = reduction.inner * reduction.result_itemsize
    while i < span.n:
        first = stop
        k = 0
        while i < span.n and k < REDUCED_TOGETHER and (
                (stop - first) * row * reduction.inner < REDUCED_BETWEEN_SIGNALS):
            start = stop
            stop = number_at(table.starts, span.first + i + 1, table.width)
            reduction.at = i - span.n
            if not table.low <= start <= stop <= table.high:
                return DAMAGED
            lengths[k] = (stop - start) * row
            if counts != NULL:
                counts[i] = lengths[k]
            if lengths[k] == 0 and not fill_result(reduction, out + k * step, reduction.inner):
                return EMPTY
            i += 1
            k += 1
        reduction.work -= (stop - first) * row * reduction.inner + k * EACH
        if reduction.work < 0 and not may_go_on(reduction):
            return INTERRUPTED
        reduce_items(reduction.operation, reduction.numbers, out,
                     table.source.data + (first - table.low) * table.step, lengths, 1, k, reduction.inner,
                     step, reduction.initial)
        out += k * step
    return OK


cdef bint fill_result(const Reduction *reduction, char *out, Py_ssize_t n) noexcept nogil:
    """Write n results of an element without items, if there is such a result; whether there is."""
    cdef Py_ssize_t k
    if not reduction.may_be_empty:
        return False
    for k in range(n):
        memcpy(out + k * reduction.result_itemsize, reduction.initial, reduction.result_itemsize)
    return True


cdef int reduce_all(Reduction *reduction, const Store *store, char *out, int64_t *counts) noexcept nogil:
    """Write the result of each element, and, unless it is NULL, how many numbers each of it is of."""
    cdef Reader reader
    cdef Span span
    cdef Piece *piece
    cdef Source *known = NULL
    cdef const char *data
    cdef Py_ssize_t i, n, row = 0, solid = 0
    cdef Py_ssize_t results = reduction.outer * reduction.inner
    cdef Py_ssize_t step = reduction.inner * reduction.result_itemsize
    cdef int status
    begin(&reader, store, 0, size_of(store))
    while next_block(&reader, &span):
        if span.n:
            if can_take(reduction, &span) and resolve(span.source, span.first, &reader.pieces[0],
                                                      reader.dims):
                piece = &reader.pieces[0]
                status = fit(reduction, piece)
                if status == OK:
                    row = 1 if reduction.axis >= 0 else row_nbytes(piece) // span.source.itemsize
                    status = reduce_span(reduction, &span, out, counts, row)
                else:
                    reduction.at = -span.n
                if status != OK:
                    reduction.at += reader.at
                    return status
                out += span.n * step
                if counts != NULL:
                    counts += span.n
                continue
            take_singly(&reader, &span)
        for i in range(reader.n):
            piece = &reader.pieces[i]
            if not same_layout(known, piece) or (known.axis != reduction.axis and reduction.axis >= 0):
                known = piece.source
                row = row_nbytes(piece) // known.itemsize
                solid = solid_row(piece)
                status = fit(reduction, piece)
                if status != OK:
                    reduction.at = reader.at - reader.n + i
                    return status
            fetch_data(&reader, i)
            if reduction.axis >= 0:
                n = extent(piece, reduction.axis)
            else:
                n = row * piece.length if known.axis >= 0 else row
            if counts != NULL:
                counts[0] = n
                counts += 1
            if results == 0:
                continue
            if n == 0:
                if not fill_result(reduction, out, results):
                    reduction.at = reader.at - reader.n + i
                    return EMPTY
                out += reduction.outer * step
                continue
            # A few arrays may be elements over and over, so that their number says nothing of the time.
            reduction.work -= n * results + EACH
            if reduction.work < 0 and not may_go_on(reduction):
                return INTERRUPTED
            data = in_order(reduction, piece, solid)
            if data == NULL:
                return NO_MEMORY
            reduce_items(reduction.operation, reduction.numbers, out, data, &n, 0, reduction.outer,
                         reduction.inner, step, reduction.initial)
            out += reduction.outer * step
    reduction.at = reader.at
    return DAMAGED if reader.damaged else OK


cdef bint may_go_on(Reduction *reduction) noexcept with gil:
    """Run handlers of signals that have come; False if one has raised, and then that exception is set."""
    reduction.work = REDUCED_BETWEEN_SIGNALS
    return check_signals() == 0


cdef int raise_for_reduction(int status, const Reduction *reduction, const Store *store, Py_ssize_t first,
                             object name) except -1:
    """Turn a status into an exception; the element at fault is behind `first` others."""
    cdef Piece piece
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t at = first + reduction.at
    if status == OK:
        return 0
    if status == INTERRUPTED:
        return -1
    if status == NO_MEMORY:
        raise MemoryError("no memory for a copy of an element")
    if status == DAMAGED or not read_one(store, at, &piece, dims):
        raise_damaged(store, at)
    if status == EMPTY:
        raise_empty(name, at)
    raise ValueError(f"element {at} has shape {shape_of(&piece)}, but element 0 has shape "
                     f"{shape_of(&reduction.first)}: their results along axis {reduction.axis} differ in "
                     "shape, axis=None reduces whole elements to one number each")


cdef int raise_empty(object name, Py_ssize_t at) except -1:
    raise ValueError(f"element {at} is empty, and {name} has no result for that: pass the result for empty "
                     "elements as empty=, or drop them first, for example by seq[seq.lengths() > 0]")


# -- the call ------------------------------------------------------------------------------------------

cdef int numbers_of(object dtype) except -1:
    """The number in `Numbers` of a type that kernels have; bools are bytes."""
    return {"b": 4, "i": 0, "u": 4, "f": 8, "c": 12}[dtype.kind] + dtype.itemsize.bit_length() - 1


cdef tuple lay_out(Reduction *reduction, Store *store, object axis):
    """Find out what the first element makes of the axis; return the shape of its result."""
    cdef tuple shape
    reduction.axis = -1
    reduction.outer = reduction.inner = 1
    if size_of(store) == 0:
        return ()
    if not read_one(store, 0, &reduction.first, reduction.dims):
        raise_damaged(store, 0)
    if axis is None:
        return ()
    shape = shape_of(&reduction.first)
    if not -len(shape) <= axis < len(shape):
        raise_without_axis(0, len(shape), axis)
    reduction.axis = axis % len(shape)
    inner = outer = 1
    for extent_ in shape[:reduction.axis]:
        outer *= extent_
    for extent_ in shape[reduction.axis + 1:]:
        inner *= extent_
    # An element without items may have extents whose product no address can count.
    if outer * inner > MAX_BYTES // 16 // size_of(store):
        raise ValueError(f"the results of {size_of(store)} elements would be larger than any array can be")
    reduction.outer, reduction.inner = outer, inner
    return shape[:reduction.axis] + shape[reduction.axis + 1:]


cdef Py_ssize_t itemsize_of_results(Operation operation, cnp.dtype work) noexcept:
    """The bytes that a kernel writes for each result."""
    if operation == ANY or operation == ALL:
        return 1
    if operation == ARGMIN or operation == ARGMAX:
        return 8
    return 8 if operation in (SUM, PROD) and work.kind in b"biu" else work.itemsize


cdef object reduced_elements(Store *store, cnp.dtype dtype, object how, object axis, object initial,
                             object empty, object asked):
    """See `TensorSequence.reduce`."""
    plan = plan_of(how, dtype, axis, initial, empty, asked)
    cdef Reduction reduction
    cdef Py_ssize_t n = size_of(store)
    cdef tuple shape = lay_out(&reduction, store, plan.axis)
    if plan.operation is None:
        return one_by_one(store, plan, (n, *shape), dtype)
    cdef cnp.ndarray result = np.empty((n, *shape), plan.accumulator)
    cdef cnp.ndarray counts = np.empty(n, np.int64) if plan.needs_counts else None
    reduction.operation = <Operation><int>OPERATIONS[plan.operation]
    reduction.numbers = <Numbers>numbers_of(plan.work)
    reduction.result_itemsize = cnp.PyArray_ITEMSIZE(result)
    if reduction.result_itemsize != itemsize_of_results(reduction.operation, plan.work):
        raise SystemError(f"{plan.operation} of {plan.work} doesn't give {plan.accumulator}")
    reduction.may_be_empty = plan.fill is not None or plan.empty is not None
    item = np.array(0 if plan.fill is None else plan.fill).astype(plan.accumulator)
    memcpy(reduction.initial, cnp.PyArray_DATA(item), reduction.result_itemsize)
    reduction.copied = NULL
    reduction.room = 0
    reduction.work = REDUCED_BETWEEN_SIGNALS
    try:
        run(&reduction, store, dtype, plan, result, counts)
    finally:
        free(reduction.copied)
    count(REDUCED, n)
    return plan.finish(result, counts)


cdef int run(Reduction *reduction, Store *store, cnp.dtype dtype, object plan, cnp.ndarray result,
             cnp.ndarray counts) except -1:
    cdef Py_ssize_t n = size_of(store), first = 0, some = n
    cdef Py_ssize_t nbytes = reduction.outer * reduction.inner * reduction.result_itemsize
    cdef char *out = cnp.PyArray_BYTES(result)
    cdef int64_t *lengths = NULL if counts is None else <int64_t *>cnp.PyArray_DATA(counts)
    cdef bint casts = plan.work != dtype
    cdef Share cast
    cdef Store *part = store
    cdef int status
    if casts:
        some = count_to_cast(store)
    while first < n:
        if casts:
            let_others_in()
            some = min(some, n - first)
            cast = cast_some(store, first, some, dtype, plan.work)
            part = cast.store
        with nogil:
            status = reduce_all(reduction, part, out, lengths)
        raise_for_reduction(status, reduction, store, first, plan.name)
        first += some
        out += some * nbytes
        if lengths != NULL:
            lengths += some
    return 0


cdef int raise_without_axis(Py_ssize_t at, object rank, object axis) except -1:
    raise ValueError(f"element {at} has rank {rank} and so no axis {shown(axis)}: axis=None reduces whole "
                     "elements")


cdef bint is_empty(object element, object axis) except -1:
    return (element.size if axis is None else element.shape[axis]) == 0


cdef tuple shape_without(tuple shape, object axis):
    cdef Py_ssize_t place = axis % len(shape)
    return shape[:place] + shape[place + 1:]


cdef object one_by_one(Store *store, object plan, tuple shape, cnp.dtype dtype):
    """Return what no kernel does: NumPy's own call for each element."""
    cdef Reader reader
    cdef Py_ssize_t i, done = 0
    cdef object result = np.empty(shape, plan.dtype)
    begin(&reader, store, 0, size_of(store))
    while next_pieces(&reader):
        for i in range(reader.n):
            element = make_element(&reader.pieces[i], dtype)
            if plan.axis is not None and not -element.ndim <= plan.axis < element.ndim:
                raise_without_axis(done, element.ndim, plan.axis)
            expected = () if plan.axis is None else shape_without(element.shape, plan.axis)
            if expected != shape[1:]:
                raise ValueError(f"element {done} has shape {element.shape}, and its result along axis "
                                 f"{plan.axis} has shape {expected}, expected {shape[1:]} as that of "
                                 "element 0: axis=None reduces whole elements to one number each")
            if 0 not in expected:
                empty = is_empty(element, plan.axis)
                if empty and plan.empty is not None:
                    result[done] = plan.empty
                elif empty and plan.fill is None:
                    raise_empty(plan.name, done)
                else:
                    result[done] = plan.of_element(element)
            done += 1
            if done % SIGNALS_EVERY == 0:
                let_others_in()
    if reader.damaged:
        raise_damaged(store, reader.at)
    return result
