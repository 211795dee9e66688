"""Stored memory and pickles: mapped files, and the sources of a sequence as arrays.

::

    sequence   →   sources, as arrays or as places in files  +  the order of the elements among them

`seqcore/_files/pickles.py` makes a pickle of that, and a sequence of the pickle.

Sections::

    mapped   files in memory
    found    which sources elements are of, and where they are there
    tables   a source as arrays
"""

from cpython.buffer cimport PyBuffer_FillInfo
from cpython.object cimport PyObject
from libc.errno cimport ENOMEM, errno
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport array_from
from seqcore.core.container cimport Container, own_type
from seqcore.core.limits cimport PICKLED_ALONE_FROM, SIGNALS_EVERY
from seqcore.core.sequence cimport TensorSequence, new_sequence
from seqcore.core.split_join cimport total_nbytes
from seqcore.core.store cimport (
    EVEN, MAX_NDIM, OFFSETS, PADDED, SHAPED, VIEWS, WHOLE, ArrayOwner, Keeper, Piece, Run, Share, Source,
    Span, Spans, Store, Table, TableOwner, begin_of, begin_spans, has_runs, make_element, next_span, owner_of,
    piece_nbytes, pointers_table, resolve, row_nbytes, runs_of, size_of, store_of,
)
from seqcore.core.interrupts import let_others_in

cnp.import_array()


# == mapped ==============================================================================================
#
# Files mapped into memory without a descriptor, which Python's own mappings keep before 3.13.

cdef extern from *:
    """
    #if defined(_WIN32)
    static void *seqcore_map(int descriptor, size_t size) { return NULL; }
    static void seqcore_unmap(void *data, size_t size) { }
    #else
    #include <sys/mman.h>
    static void *seqcore_map(int descriptor, size_t size)
    {
        void *data = mmap(NULL, size, PROT_READ, MAP_SHARED, descriptor, 0);
        return data == MAP_FAILED ? NULL : data;
    }
    static void seqcore_unmap(void *data, size_t size) { munmap(data, size); }
    #endif
    """
    void *map_memory "seqcore_map"(int descriptor, size_t size) noexcept nogil
    void unmap_memory "seqcore_unmap"(void *data, size_t size) noexcept nogil

cdef extern from "Python.h":
    object PyErr_SetFromErrno(object exception)


cdef class MappedFile:
    """MappedFile(path, nbytes, time, descriptor=-1, address=0, memory=None)\n--\n
    A file in memory, read-only, with its size and its time of modification in nanoseconds.

    It maps the file itself, if a descriptor is given, which may then be closed. Otherwise it says where
    another mapping has byte 0 of the file, which `memory` keeps alive.
    """
    cdef readonly object path
    cdef readonly Py_ssize_t nbytes
    cdef readonly object time
    cdef readonly tuple stamp           # all three
    cdef readonly size_t address
    cdef object memory
    cdef bint owned
    cdef object __weakref__

    def __cinit__(self, path, Py_ssize_t nbytes, time, int descriptor=-1, size_t address=0, memory=None):
        cdef void *data
        self.path, self.nbytes, self.time, self.stamp = path, nbytes, time, (path, nbytes, time)
        self.address, self.memory = address, memory
        if descriptor < 0:
            return
        if nbytes <= 0:
            raise ValueError("an empty file can't be mapped")
        data = map_memory(descriptor, nbytes)
        if data == NULL:
            if errno == ENOMEM:
                raise MemoryError(f"no memory to map a file of {nbytes} bytes")
            PyErr_SetFromErrno(OSError)
        self.address = <size_t>data
        self.owned = True

    def __dealloc__(self):
        if self.owned:
            unmap_memory(<void *>self.address, self.nbytes)

    def __getbuffer__(self, Py_buffer *view, int flags):
        if not self.owned and self.memory is None:
            raise BufferError("the memory is another object's")
        PyBuffer_FillInfo(view, self, <void *>self.address, self.nbytes, 1, flags)

    def has(self, size_t low, size_t high):
        """Return whether memory from one address to another is in the file."""
        return self.address <= low <= high <= self.address + <size_t>self.nbytes


def mapped_pointers(cnp.ndarray values not None, cnp.ndarray starts not None, cnp.ndarray lengths not None):
    """Return parts of a 1-D array by starts in bytes and lengths, which are used as they are in a file."""
    if values.ndim != 1 or not values.flags.c_contiguous or len(starts) != len(lengths) or (
            starts.dtype, lengths.dtype) != (np.int64, np.int32) or values.itemsize not in (1, 2, 4, 8):
        raise TypeError("expected a 1-D array, and as many int64 starts as int32 lengths")
    return new_sequence(own_type(values.dtype), store_of(pointers_table(values, starts, lengths)))


def mark_origin(TensorSequence sequence not None, origin, MappedFile file):
    """Let the tables of a sequence, which nobody else has, say in which column or file their elements are.

    Tables whose elements are not all there in order are left as they are: they don't tell. With a file, the
    memory of those that view it says so. Return True if all do.
    """
    cdef Share share = sequence.shared()
    cdef Spans spans
    cdef Span span
    cdef TableOwner owner
    cdef bint are_mapped = True
    begin_spans(&spans, share.store, 0, size_of(share.store))
    while next_span(&spans, &span):
        if span.source.kind == WHOLE:
            are_mapped = False
            continue
        owner = <TableOwner><object>owner_of(span.source)
        if file is not None and type(owner.memory) is Keeper and file.has(
                <size_t>span.source.data, <size_t>span.source.data):
            (<Keeper>owner.memory).file = file
        else:
            are_mapped = False
        if owner.origin is None and span.first == 0 and span.step == 1 and span.n == (<Table *>span.source).n:
            owner.origin = origin
            owner.first = -1 if origin is file else spans.at - span.n
    return are_mapped


# == found ===============================================================================================
#
# The sources of a sequence's elements, and where each element is among them.

cdef inline Source *source_in(object owner) noexcept:
    return <Source *>(<char *><PyObject *>owner + sizeof(PyObject))


cdef class Found:
    """Found(sequence)\n--\n
    The sources that elements are of, and the order of the elements: as runs, or as numbers of each.

    Attributes
    ----------
    low, high : list of int
        The first and the last element of each source that is used.
    runs : array of int64 or None
        Source, first, step and number of elements of each run.
    which, numbers : array of int64 or None
        If there are no runs, the source of each element, and its number there.
    """
    cdef cnp.dtype dtype
    cdef Share share
    cdef dict known                 # of each source: which one it is
    cdef list owners                # an ArrayOwner or a TableOwner
    cdef readonly list low
    cdef readonly list high
    cdef readonly object runs
    cdef readonly object which
    cdef readonly object numbers

    def __cinit__(self, Container sequence not None):
        self.known, self.owners, self.low, self.high = {}, [], [], []
        self.share, self.dtype = sequence.whole(), sequence._dtype
        if has_runs(self.share.store) or size_of(self.share.store) == 0:
            self.find_runs(self.share.store)
        else:
            self.find_numbers(self.share.store)

    def __len__(self):
        return len(self.owners)

    cdef Py_ssize_t add(self, Source *source) except -1:
        """Return which source it is."""
        key = <size_t>source
        if source.kind == WHOLE:
            # Equal for whole arrays of the same memory and layout.
            key = (<size_t>source.data, (<char *>source.shape)[:2 * source.ndim * sizeof(Py_ssize_t)])
        which = self.known.get(key)
        if which is None:
            which = self.known[key] = len(self.owners)
            self.owners.append(<object>owner_of(source))
            self.low.append(None)
            self.high.append(None)
            if which % SIGNALS_EVERY == SIGNALS_EVERY - 1:
                let_others_in()
        return which

    cdef int use(self, Py_ssize_t which, Py_ssize_t low, Py_ssize_t high) except -1:
        self.low[which] = low if self.low[which] is None else min(self.low[which], low)
        self.high[which] = high if self.high[which] is None else max(self.high[which], high)
        return 0

    cdef int find_runs(self, Store *store) except -1:
        cdef cnp.ndarray runs = np.empty((max(store.nruns, 0), 4), np.int64)
        cdef int64_t *row = <int64_t *>cnp.PyArray_DATA(runs)
        cdef const Run *run
        cdef Py_ssize_t i, n, last
        self.runs = runs
        if not has_runs(store):                 # without elements
            return 0
        for i in range(store.nruns):
            run = &runs_of(store)[i]
            n = run.end - begin_of(store, i)
            row[0] = self.add(run.source)
            last = run.first + (n - 1) * run.step
            self.use(row[0], min(run.first, last), max(run.first, last))
            row[1] = run.first
            row[2] = run.step
            row[3] = n
            row += 4
        return 0

    cdef int find_numbers(self, Store *store) except -1:
        cdef Py_ssize_t n = size_of(store), done = 0, seen = 0, i, part = 0
        cdef int64_t *of
        cdef int64_t *number
        cdef Spans spans
        cdef Span span
        cdef Source *known = NULL
        self.which, self.numbers = np.empty(n, np.int64), np.empty(n, np.int64)
        of = <int64_t *>cnp.PyArray_DATA(<cnp.ndarray>self.which)
        number = <int64_t *>cnp.PyArray_DATA(<cnp.ndarray>self.numbers)
        begin_spans(&spans, store, 0, n)
        while next_span(&spans, &span):
            seen += 1
            if seen % SIGNALS_EVERY == 0:
                let_others_in()
            if span.source != known:
                known = span.source
                part = self.add(known)
            for i in range(span.n):
                of[done] = part
                number[done] = span.first + i * span.step
                done += 1
            self.use(part, min(number[done - span.n], number[done - 1]),
                     max(number[done - span.n], number[done - 1]))
        return 0

    def is_better_tight(self):
        """Return whether elements in memory take less when they are copied together."""
        cdef Py_ssize_t i, n = len(self.owners)
        cdef Source *source
        spanned = 0
        for i in range(n):
            source = source_in(self.owners[i])
            if source.kind == PADDED or (source.kind == SHAPED and not is_in_order(source)):
                return True
            spanned += spanned_nbytes(source, self.low[i], self.high[i])
        nbytes = total_nbytes(self.share.store)
        return nbytes <= 2 * spanned and (2 * nbytes < spanned or spanned < PICKLED_ALONE_FROM * (n - 1))

    def origin(self, Py_ssize_t which):
        """Return the column of a file that a source is, or None, and which of its elements is the first."""
        owner = self.owners[which]
        if type(owner) is ArrayOwner:
            return None, 0
        return (<TableOwner>owner).origin, (<TableOwner>owner).first

    def file(self, Py_ssize_t which):
        """Return the MappedFile that has the memory of a source, or None."""
        owner = self.owners[which]
        memory = (<ArrayOwner>owner).memory if type(owner) is ArrayOwner else (<TableOwner>owner).memory
        if type(memory) is not Keeper:
            return None
        kept = (<Keeper>memory).memory
        return kept if type(kept) is MappedFile else (<Keeper>memory).file

    def whole(self, Py_ssize_t which):
        """Return a source as (kind, array, numbers…) with its numbers as they are, and all its elements.

        None for one whose numbers are never a file's.
        """
        cdef Source *source = source_in(self.owners[which])
        cdef Table *table = <Table *>source
        if source.kind == WHOLE or source.kind == EVEN:
            return part_of(source, 0, 0 if source.kind == WHOLE else table.n - 1, self.dtype)
        owner = self.owners[which]
        numbers = (<TableOwner>owner).numbers
        while type(numbers) is TableOwner:              # of a twin
            numbers = (<TableOwner>numbers).numbers
        array = spanned_array(source, table.low, table.high, self.dtype)
        if source.kind == OFFSETS and source.axis == 0:
            return "lists", array, numbers, table.low
        if source.kind == SHAPED:
            order = []
            for axis in range(source.ndim):
                order.append(source.shape[axis])
            return "tensors", array, *numbers, table.low, tuple(order)
        if source.kind == VIEWS and table.pointers:
            return "pointers", array, *numbers
        return None

    def part(self, Py_ssize_t which):
        """Return the used part of a source, as (kind, array, axis, numbers…), or None if it can't be one."""
        return part_of(source_in(self.owners[which]), self.low[which], self.high[which], self.dtype)


# == tables ==============================================================================================

cdef bint is_in_order(const Source *source) noexcept:
    cdef int axis
    for axis in range(source.ndim):
        if source.shape[axis] != axis:
            return False
    return True


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
    raise ValueError(f"element {max(owner.first, 0) + number} of {where} can't be read: its offsets leave "
                     f"its values, so {what} is damaged")


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
    return array_from(<PyObject *>dtype, ndim, shape, strides,
                      source.data + (start - table.low) * table.step, owner_of(source))


cdef tuple padded_part(Source *source, Py_ssize_t low, Py_ssize_t high, cnp.dtype dtype):
    """Rows of a batch as views of all rows of the batch, if these are at equal distances."""
    cdef Table *table = <Table *>source
    cdef Py_ssize_t[MAX_NDIM] shape
    cdef Py_ssize_t i, apart
    cdef Piece piece
    if table.step <= 0 or table.pitch % table.step or table.pitch < 0:
        return None
    apart = table.pitch // table.step
    starts, lengths = np.empty(high - low + 1, np.int64), np.empty(high - low + 1, np.int64)
    for i in range(low, high + 1):
        if not resolve(source, i, &piece, NULL):
            raise_damaged_number(source, i)
        starts[i - low] = i * apart + piece.start
        lengths[i - low] = piece.length
    memcpy(shape, source.shape, source.ndim * sizeof(Py_ssize_t))
    shape[0] = (table.n - 1) * apart + table.high
    array = array_from(<PyObject *>dtype, source.ndim, shape, source.shape + source.ndim, source.data,
                       owner_of(source))
    return "views", array, 0, starts, lengths


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
        return "whole", make_element(&piece, dtype)
    if source.kind == PADDED:
        return padded_part(source, low, high, dtype)
    if source.kind == SHAPED and not is_in_order(source):
        return None
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
