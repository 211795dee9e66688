"""The compiled part of maps: calls of the body, results in few blocks, elements for batches.

::

    elements  ──► calls of the body ──► results, small ones moved together into blocks ──► a new sequence

Sections::

    results     results in blocks
    calls       call the body
    batches     elements of a batch
    operations  elements for operators
    models      feeds and results of models
"""

from cpython.dict cimport PyDict_CheckExact
from cpython.list cimport PyList_CheckExact
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.ref cimport PyObject
from cpython.slice cimport PySlice_Check, PySlice_Unpack
from libc.stdint cimport int64_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy
cimport cython
cimport numpy as cnp
import mmap
import numpy as np
from contextlib import suppress
from time import perf_counter

from seqcore.core.arrays cimport descr_of, is_scalar, own_view, set_equal_dtype
from seqcore.core.container cimport Container, own_type
from seqcore.core.limits cimport (
    RESULTS_IN_A_BLOCK, RESULT_BLOCK_NBYTES, RESULT_MAPPED_NBYTES, RESULT_NBYTES, TIMED_EVERY,
)
from seqcore.core.lists cimport array_of, is_python_value
from seqcore.core.numpy_loops cimport (
    FE_DIVBYZERO, FE_INVALID, FE_OVERFLOW, FE_UNDERFLOW, reduced_elements,
)
from seqcore.core.padding cimport items_of_store, stack_of, store_along, store_like
from seqcore.core.sequence cimport TensorSequence, gather, new_sequence, selected
from seqcore.core.split_join cimport join, selection_in_rows, split_equal, split_lengths
from seqcore.core.store cimport (
    ARGUMENTS_MADE, MAX_NDIM, OUT_OF_RANGE, WHOLE, Piece, PyNumber_AsSsize_t, Run, Share, Status, Store,
    TableOwner, add_to, as_position, count, empty_store, even_table, joined_stores, make_element,
    move_element, offsets_table, owner_of, raise_damaged, raise_for, read_counter, read_one,
    resolve, runs_of, shape_of, size_of, store_of, twin_of,
)
from seqcore._arguments.integers import integer
from seqcore._arguments.shown import shown_number
from seqcore._arguments.tensors import as_tensor

cnp.import_array()


# == results =============================================================================================
#
# Small results of a map, moved into blocks as they arrive.
#
# ::
#
#     results   [1 2] [3] [4 5 6]      block   1 2 3 4 5 6 · ·      offsets   0 2 3 6
#
# A small array takes more memory for itself than for its items, and after many have been freed malloc keeps
# most of it, because other objects lie in between. Blocks are few and large, and return to the system: those
# that malloc might keep are mapped.
#
# Only a result that nobody else has is moved: an array that owns its memory and that the body has returned
# without keeping it, or a number. Nobody can tell that from a result taken by reference.

cdef enum:
    TRIES = 4

# So that a forked child has its own.
PRIVATE = {"flags": mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS} if hasattr(mmap, "MAP_PRIVATE") else {}


cdef cnp.ndarray new_block(Py_ssize_t nbytes, cnp.dtype dtype):
    """Return memory for so many bytes. If it can be mapped, it goes back to the system when it is freed."""
    cdef Py_ssize_t n = nbytes // dtype.itemsize
    if nbytes >= RESULT_MAPPED_NBYTES:
        with suppress(OSError):     # a process may have only so many mappings, though there is memory left
            return np.frombuffer(mmap.mmap(-1, nbytes, **PRIVATE), dtype, n)
    return np.empty(n, dtype)


@cython.final
cdef class Results:

    def __cinit__(self, Container output not None, Py_ssize_t expected):
        output.check_initialized(NULL)
        self.output = output
        self.dtype = output._dtype
        self.expected = max(expected, 1)
        self.tries = 0 if self.dtype.type_num == cnp.NPY_OBJECT or expected < RESULTS_IN_A_BLOCK else TRIES

    cdef int put(self, object result) except -1:
        """Put a result behind the others: Python values into the block, others as elements of their own."""
        if is_python_value(result):
            array = array_of(result, self.dtype)
            if array is not None:
                if self.move(array, True):
                    return 0
                result = array
        self.flush()
        return self.output.append_source(self.output.take(result))

    cdef bint move(self, object result, bint alone) except -1:
        """Put a small result behind the others; return False if it isn't one, or somebody else may have it.

        `alone` tells that nobody else has the object.
        """
        cdef cnp.ndarray array
        cdef int axis, ndim
        cdef Py_ssize_t length, nbytes
        cdef bint fits
        if self.tries <= 0:
            return False
        if cnp.PyArray_CheckExact(result):
            if not alone:
                return False
            array = result
        elif is_scalar(result):
            array = cnp.PyArray_FROM_O(result)
        else:
            return False
        if (descr_of(array) != <PyObject *>self.dtype
                or not cnp.PyArray_CHKFLAGS(array, cnp.NPY_ARRAY_C_CONTIGUOUS | cnp.NPY_ARRAY_OWNDATA)):
            return False
        ndim = cnp.PyArray_NDIM(array)
        length = cnp.PyArray_DIM(array, 0) if ndim else 1
        fits = self.n > 0 and ndim == self.ndim
        for axis in range(1, ndim):
            fits = fits and cnp.PyArray_DIM(array, axis) == self.shape[axis]
        nbytes = length * self.row if fits else cnp.PyArray_NBYTES(array)
        if not 0 < nbytes <= RESULT_NBYTES:
            return False
        if not fits:
            self.flush()
            self.begin(array, nbytes)
        if self.used + nbytes > self.capacity or self.n == self.most:
            self.make_room(nbytes)
            if self.n == 0:
                self.begin(array, nbytes)
        memcpy(self.items + self.used, cnp.PyArray_DATA(array), nbytes)
        self.used += nbytes
        self.ends[self.n + 1] = self.ends[self.n] + length
        self.n += 1
        self.even = self.even and (ndim == 0 or length == self.shape[0])
        return True

    cdef int begin(self, cnp.ndarray array, Py_ssize_t nbytes) except -1:
        """Begin a block with a result."""
        cdef int axis
        cdef Py_ssize_t most = min(self.expected, max(RESULT_BLOCK_NBYTES // nbytes, 1))
        cdef Py_ssize_t capacity = most * nbytes
        self.ndim = cnp.PyArray_NDIM(array)
        for axis in range(self.ndim):
            self.shape[axis] = cnp.PyArray_DIM(array, axis)
        self.row = nbytes // self.shape[0] if self.ndim else nbytes
        self.even = True
        self.capacity, self.most = capacity, most
        return self.fill_into(new_block(capacity, self.dtype), np.zeros(most + 1, np.int64))

    cdef int fill_into(self, cnp.ndarray block, cnp.ndarray offsets) except -1:
        self.block, self.offsets = block, offsets
        self.items, self.ends = cnp.PyArray_BYTES(block), <int64_t *>cnp.PyArray_DATA(offsets)
        return 0

    cdef int make_room(self, Py_ssize_t nbytes) except -1:
        """Enlarge the block for a result; or end it, if it is large, or would not be filled."""
        cdef cnp.ndarray block, offsets
        if self.capacity >= RESULT_BLOCK_NBYTES // 2 or self.used + nbytes > 2 * self.capacity:
            return self.flush()
        block = new_block(2 * self.capacity, self.dtype)
        memcpy(cnp.PyArray_DATA(block), cnp.PyArray_DATA(self.block), self.used)
        offsets = np.zeros(2 * self.most + 1, np.int64)
        memcpy(cnp.PyArray_DATA(offsets), cnp.PyArray_DATA(self.offsets), (self.n + 1) * sizeof(int64_t))
        self.capacity *= 2
        self.most *= 2
        return self.fill_into(block, offsets)

    cdef int flush(self) except -1:
        """Put the block into the output."""
        cdef Py_ssize_t n = self.n, length = self.shape[0] if self.ndim else 1
        cdef int axis
        if n == 0:
            return 0
        if n < RESULTS_IN_A_BLOCK:
            self.tries -= 1
        items = self.block[: self.used // cnp.PyArray_ITEMSIZE(self.block)]
        if 4 * self.used < 3 * self.capacity:
            whole, items = items, new_block(self.used, self.dtype)
            items[:] = whole
        shape = [-1]
        for axis in range(1, self.ndim):
            shape.append(self.shape[axis])
        items = items.reshape(shape)
        self.expected = max(self.expected - n, 1)
        offsets, self.block, self.offsets, self.n, self.used = self.offsets, None, None, 0, 0
        if self.even:
            owner = even_table(items, 0, self.ndim == 0, length)
        else:
            owner = offsets_table(items, 0, offsets[: n + 1].copy(), 0, len(items), True)
        return self.output.append_store(store_of(owner))


# == calls ===============================================================================================
#
# The inner loop of a map: a body called for one element after the other, its outputs put away.

cdef extern from *:
    """
    #ifdef Py_GIL_DISABLED
    #define SEQCORE_FREE_THREADED 1
    #else
    #define SEQCORE_FREE_THREADED 0
    #endif
    """
    const bint FREE_THREADED "SEQCORE_FREE_THREADED"

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    object PyObject_CallOneArg(object function, object argument)
    object PyObject_CallFunctionObjArgs(object function, ...)
    int PyErr_CheckSignals() except -1      # Ctrl-C, for a compiled body returns to no bytecode
    Py_ssize_t Py_REFCNT(PyObject *object) noexcept
    PyObject *PyTuple_GET_ITEM(object pair, Py_ssize_t k) noexcept      # borrowed


@cython.final
cdef class Bound:
    """No element at or behind this position is started any more.

    All threads of a map share one. Sent to another process it becomes one that bounds nothing.
    """

    cdef Py_ssize_t position
    cdef Bound root             # whose position counts
    cdef Py_ssize_t offset      # of this one's element 0 from the root's
    cdef readonly double until  # when a loop by this bound alone ends, by `perf_counter`; 0 for never

    def __cinit__(self):
        self.position = PY_SSIZE_T_MAX
        self.root = self

    def lower(self, Py_ssize_t position):
        """Move the bound forward, never back."""
        cdef Bound root = self.root
        position += self.offset
        with cython.critical_section(root):
            if position < root.position:
                # Others read it without the lock.
                add_to(&root.position, position - root.position)

    cpdef bint allows(self, Py_ssize_t position) noexcept:
        """Return whether the element at a position may start."""
        return position < read_counter(&self.root.position) - self.offset

    def end_at(self, double until):
        """Have a loop by this very bound end at a time, if its elements take longer than expected."""
        self.until = until

    cpdef bint is_late(self) except -1:
        """Return whether a loop by this very bound should end, if it has done at least one element."""
        return self.until and <double>perf_counter() > self.until

    cdef bint ends(self, Py_ssize_t i, Py_ssize_t done) except -1:
        """Return whether a loop ends before element i, after so many. It rarely looks at the clock."""
        if not self.allows(i):
            return True
        return done and (done & (TIMED_EVERY - 1) == 0 or done & (done - 1) == 0) and self.is_late()

    def shifted(self, Py_ssize_t offset):
        """The same bound for a part of the elements that counts its own from 0."""
        cdef Bound shifted = Bound.__new__(Bound)
        shifted.root = self.root
        shifted.offset = self.offset + offset
        return shifted

    def __reduce__(self):
        return Bound, ()


class OutputError(Exception):
    """A body's result can't be an element: OutputError(which output or None, the exception that says why)."""


cdef int put_result(list outputs, Results only, result) except -1:
    """Put what a body has returned behind the other results of its outputs: of `only` one, or of several."""
    cdef Py_ssize_t k, n
    cdef bint alone_in, single = only is not None, alone = Py_REFCNT(<PyObject *>result) == 1
    if single and not isinstance(result, tuple) and result is not None:
        return put_in(only, None, result, alone)
    n = len(outputs)
    if isinstance(result, tuple) == single or (not single and len(<tuple>result) != n):
        given = f"a tuple of {len(<tuple>result)}" if isinstance(result, tuple) else "one tensor"
        before = "one tensor" if single else f"a tuple of {n}"
        raise OutputError(None, TypeError(f"the body returned {given}, expected {before} as for the elements "
                                          "before, or as output_dtypes says"))
    if result is None:
        raise OutputError(None, TypeError("the body returned None, expected a tensor: does it lack a "
                                          "return?"))
    for k in range(n):
        alone_in = alone and Py_REFCNT(PyTuple_GET_ITEM(result, k)) == 1
        put_in(<Results>outputs[k], k, (<tuple>result)[k], alone_in)
    return 0


cdef inline int put_in(Results output, k, value, bint alone) except -1:
    if output.move(value, alone):
        return 0
    try:
        return output.put(value)
    except (TypeError, ValueError, OverflowError) as error:
        raise OutputError(k, error)


cdef TableOwner twin_in(Share share):
    """A twin of the table that all elements of a store are of, or None."""
    cdef const Run *run = runs_of(share.store)
    if share.store.nruns != 1 or run.source.kind == WHOLE:
        return None
    return twin_of(<TableOwner><object>owner_of(run.source))


@cython.final
cdef class Argument:
    """One input of a map, for its calls: the element of each, or a broadcast input as it is.

    A sequence is read as it is now. So threads that work on one map lock no sequence, and share no line of
    memory that one of them writes to.
    """

    cdef object whole           # a broadcast input, or None
    cdef Share share            # of a sequence's store
    cdef TableOwner twin        # a table of the caller's own in place of the store's only run, or None
    cdef cnp.dtype dtype
    cdef cnp.ndarray element    # the array of the element before
    cdef int flags              # … and its flags when it was new
    cdef Py_ssize_t made        # arrays that were needed so far
    cdef Py_ssize_t before      # elements of the map before the share's

    def __cinit__(self, one, Py_ssize_t before=0):
        self.before = before
        if isinstance(one, Container):
            self.share, self.dtype = (<Container>one).whole(), (<Container>one)._dtype
            self.twin = twin_in(self.share) if FREE_THREADED else None
        else:
            self.whole = one

    cdef object at(self, Py_ssize_t i):
        cdef Piece piece
        cdef Py_ssize_t[2 * MAX_NDIM] dims
        cdef Store *store
        cdef const Run *run
        cdef bint found
        if self.share is None:
            return self.whole
        store = self.share.store
        if not 0 <= i < size_of(store):
            raise_for(OUT_OF_RANGE, i, size_of(store))
        if self.twin is not None:
            run = &runs_of(store)[0]
            found = resolve(&self.twin.table.source, run.first + i * run.step, &piece, dims)
        else:
            found = read_one(store, i, &piece, dims)
        if not found:
            raise_damaged(store, i, self.before)
        if self.element is None or not move_element(<PyObject *>self.element, self.flags, &piece,
                                                    self.dtype):
            self.element = make_element(&piece, self.dtype)
            self.flags = cnp.PyArray_FLAGS(self.element)
            self.made += 1
        return self.element

    def __dealloc__(self):
        count(ARGUMENTS_MADE, self.made)


@cython.final
cdef class Arguments:
    """All inputs of a map, for its calls: element i of each sequence, and each broadcast input."""

    cdef list inputs            # an Argument for each
    cdef Argument first
    cdef Py_ssize_t n

    def __cinit__(self, tuple inputs not None, Py_ssize_t before=0):
        """The inputs may be parts, with so many elements of the whole before them, for messages."""
        self.inputs = []
        self.n = len(inputs)
        for one in inputs:
            self.inputs.append(Argument(one, before))
        self.first = self.inputs[0]

    cdef object argument(self, Py_ssize_t k, Py_ssize_t i):
        return (<Argument>self.inputs[k]).at(i)

    cdef tuple all(self, Py_ssize_t i):
        cdef list values = [None] * self.n
        cdef Py_ssize_t k
        for k in range(self.n):
            values[k] = self.argument(k, i)
        return tuple(values)

    cdef object call(self, body, Py_ssize_t i):
        # Not Cython's own call: without memory for a frame CPython 3.11 returns NULL and no exception. These
        # two functions set one then; Cython doesn't, and a `finally` around its call ends the process.
        if self.n == 1:
            return PyObject_CallOneArg(body, self.first.at(i))
        if self.n == 2:
            one, other = self.argument(0, i), self.argument(1, i)
            return PyObject_CallFunctionObjArgs(body, <PyObject *>one, <PyObject *>other, NULL)
        return body(*self.all(i))


def rows(Arguments arguments not None, Py_ssize_t start, Py_ssize_t stop):
    """Return the arguments of each call from start to stop."""
    cdef Py_ssize_t i
    cdef list found = [None] * max(stop - start, 0)
    for i in range(start, stop):
        found[i - start] = arguments.all(i)
    return found


# Callers catch the exceptions of these: in Cython 3.3 an `except` that returns ends the process where there
# was no memory for the traceback.

def apply_raw(body, Arguments arguments not None, Py_ssize_t start, Py_ssize_t stop, Bound bound not None,
              list results not None):
    """Call the body for elements start to stop, as far as the bound allows, and append what it returns."""
    cdef Py_ssize_t i
    for i in range(start, stop):
        if bound.ends(i, i - start):
            break
        PyErr_CheckSignals()
        results.append(arguments.call(body, i))


def apply(body, Arguments arguments not None, Py_ssize_t start, Py_ssize_t stop, Bound bound not None,
          tuple outputs, bint single, list begun not None):
    """As `apply_raw`, with the results put into sequences, behind some that have begun them.

    After an error the last sequence tells how many.
    """
    cdef Py_ssize_t i
    cdef list results = results_of(outputs, len(begun) + stop - start)
    cdef Results only = results[0] if single else None
    try:
        while begun:
            put_result(results, only, begun.pop(0))
        for i in range(start, stop):
            if bound.ends(i, i - start):
                break
            PyErr_CheckSignals()
            put_result(results, only, arguments.call(body, i))
    finally:
        flush(results)


def put_results(tuple outputs, bint single, list results not None):
    """Put several results into sequences. After an error the last one tells how many."""
    cdef Py_ssize_t i
    cdef list into = results_of(outputs, len(results))
    cdef Results only = into[0] if single else None
    try:
        for i in range(len(results)):
            put_result(into, only, results[i])
    finally:
        flush(into)


cdef list results_of(tuple outputs, Py_ssize_t expected):
    cdef list results = []
    for output in outputs:
        results.append(Results(output, expected))
    return results


cdef int flush(list results) except -1:
    for result in results:
        (<Results>result).flush()
    return 0


def absorb(Container into not None, Container sequence not None):
    """Move all elements of one sequence behind those of another of its type."""
    if into._dtype is not sequence._dtype:
        raise TypeError(f"sequences of dtype {into._dtype} and {sequence._dtype} can't be concatenated")
    into.append_store(sequence.take_out_all())


# == batches =============================================================================================
#
# Sequences taken apart for bodies that run over many elements at once, and put together from results.

def empty_sequences(dtypes):
    """Return a tuple of empty sequences, one for each dtype."""
    cdef list made = []
    for dtype in dtypes:
        made.append(new_sequence(own_type(dtype), empty_store()))
    return tuple(made)


def items_of(TensorSequence sequence not None):
    """Return all items of the elements, each element's in C order, as a read-only array of rank 1.

    A view where the elements are views of one array and one behind the other, else a copy.
    """
    cdef Share share = sequence.whole()
    return items_of_store(share.store, sequence._dtype)


def stack(TensorSequence sequence not None):
    """Return the elements, at least one, along a new first axis: read-only, a view where they lie evenly."""
    cdef Share share = sequence.whole()
    if size_of(share.store) == 0:
        raise ValueError("an empty sequence can't be stacked: the shape of the result is unknown")
    return stack_of(share.store, sequence._dtype)


def cut_as(cnp.ndarray items not None, TensorSequence like not None):
    """Return a sequence whose elements have the shapes of another's, of a C-ordered array of their items."""
    cdef Share share = like.whole()
    cdef cnp.ndarray row = (<object>items).reshape(-1)
    return new_sequence(own_type(row.dtype), store_like(row, share.store))


def cut_batch(cnp.ndarray array not None, TensorSequence like not None):
    """Return a sequence of an array's parts that are as long along axis 0 as another's elements."""
    cdef Share share = like.whole()
    array = own_view(array)             # as in values_given
    return new_sequence(own_type(array.dtype), store_along(array, share.store))


def chained(list sequences not None):
    """Return one sequence of the elements of several of one type, at least one."""
    cdef TensorSequence one = sequences[0]
    cdef Share share
    cdef Py_ssize_t i, n = len(sequences)
    cdef list shares = []
    cdef Store **stores
    cdef Store *into = NULL
    cdef Status status
    dtype = one.dtype
    for one in sequences:
        if one._dtype is not dtype:
            raise TypeError("sequences of two dtypes can't be concatenated")
        shares.append(one.whole())
    stores = <Store **>malloc(n * sizeof(Store *))
    if stores == NULL:
        raise MemoryError(f"no memory to concatenate {n} sequences")
    for i in range(n):
        share = shares[i]
        stores[i] = share.store
    status = joined_stores(stores, n, &into)
    free(stores)
    raise_for(status, None, n)
    return new_sequence(dtype, into)


# == operations ==========================================================================================
#
# The core of the operators: inputs are checked, then there is one call.

cdef Py_ssize_t as_integer(axis) except? -1:
    """Return an axis as an int. Foreign code runs here, so call it before anything that it could change."""
    return PyNumber_AsSsize_t(axis if PyLong_CheckExact(axis) else integer("axis", axis), NULL)


cdef int as_axis(Py_ssize_t given, axis, Py_ssize_t rank, str what) except -1:
    if not -rank <= given < rank:
        raise ValueError(f"axis {shown_number(axis)} is out of range for {what} ({-rank} to {rank - 1})")
    return <int>(given + rank if given < 0 else given)


cdef int axis_of(cnp.ndarray array, Py_ssize_t given, axis) except -1:
    """The axis to split an array along."""
    if array.ndim == 0:
        raise ValueError("the tensor has rank 0 and so no axis to split along: pass a tensor of rank 1 or "
                         "more")
    if -array.ndim <= given < array.ndim:
        return <int>(given + array.ndim if given < 0 else given)
    return as_axis(given, axis, array.ndim, f"a tensor of shape {(<object>array).shape}")


def key_of(TensorSequence sequence not None, key, bint several):
    """Return a key of a sequence in numbers of our own: a position, a slice, or positions or bools.

    For keys of several sequences, which must not be read for each: hooks, or other threads, could then give
    each another one. If `several`, the key is one of `__getitems__`.
    """
    cdef Py_ssize_t start, stop, step
    if several:
        return selection_in_rows(key, sequence.size())
    if PyLong_CheckExact(key):
        return key
    if PySlice_Check(key):
        PySlice_Unpack(key, &start, &stop, &step)
        return slice(start, stop, step)
    selection = selected(key, sequence.size())
    return as_position(key) if selection is None else selection


def split_equally(input, axis, Py_ssize_t length, bint drop_axis):
    """Split a tensor into views of one length; `drop_axis` needs length 1."""
    cdef Py_ssize_t given = as_integer(axis)
    cdef cnp.ndarray array = own_view(as_tensor(input))     # as in values_given
    cdef int at = axis_of(array, given, axis)
    if length < 1:
        raise ValueError(f"split must be positive, got {length}")
    if drop_axis and length > 1:
        raise ValueError(f"the axis can be dropped only where split is 1, got {length}")
    return new_sequence(own_type(array.dtype), split_equal(array, at, length, drop_axis))


def split_by_lengths(input, axis, lengths):
    """Split a tensor into views of the given lengths."""
    cdef Py_ssize_t given = as_integer(axis)
    cdef cnp.ndarray array = own_view(as_tensor(input))     # as in values_given
    return new_sequence(own_type(array.dtype),
                        split_lengths(array, axis_of(array, given, axis), lengths, "split"))


def reduced_unless_warned(TensorSequence sequence not None, how):
    """Each element reduced to one number; None where NumPy would have warned of one, or raised an error."""
    cdef Share share = sequence.whole()
    cdef int flags = 0
    result = reduced_elements(share.store, sequence._dtype, how, None, None, None, None, &flags)
    if flags == 0:
        return result
    said = np.geterr()
    for name, of_name in (("divide", FE_DIVBYZERO), ("over", FE_OVERFLOW), ("under", FE_UNDERFLOW),
                          ("invalid", FE_INVALID)):
        if flags & <int>of_name and said[name] != "ignore":
            return None
    return result


def element_at(TensorSequence sequence not None, position):
    """The element at a position, for which an array of one element will do too, whatever its rank."""
    return sequence.element(as_position(position), position)


def join_elements(TensorSequence sequence not None, axis, bint stacking):
    """Join elements along an axis, a new one if `stacking`."""
    cdef Py_ssize_t rank, given = as_integer(axis)
    cdef Share share = sequence.shared()
    cdef Piece first
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    if size_of(share.store) == 0:
        raise ValueError("an empty sequence can't be concatenated, because the shape of the result is "
                         "unknown")
    if not read_one(share.store, 0, &first, dims):
        raise_damaged(share.store, 0)
    rank = first.source.ndim + stacking
    if rank == 0:
        raise ValueError("elements of rank 0 have no axis to concatenate along: pass new_axis=1 to stack "
                         "them")
    if not -rank <= given < rank:
        what = f"elements of shape {shape_of(&first)}" + (" and a new axis" if stacking else "")
        as_axis(given, axis, rank, what)
    return join(share.store, sequence._dtype, <int>(given + rank if given < 0 else given), stacking)


# == models ==============================================================================================
#
# Values that go into a model, and results of onnxruntime: each run looks at them here.

cdef class TensorType:
    """A dtype object and a shape that an array has to have, to be taken as it is.

    None stands for any dtype or shape, -1 for any length. No subclass of arrays is taken.
    """
    cdef cnp.dtype dtype
    cdef int ndim                       # -1 for any
    cdef Py_ssize_t[MAX_NDIM] lengths

    def __init__(self, cnp.dtype dtype, tuple shape):
        cdef int axis
        self.dtype = dtype
        self.ndim = -1 if shape is None else <int>min(len(shape), MAX_NDIM + 1)
        for axis in range(min(self.ndim, MAX_NDIM)):
            self.lengths[axis] = shape[axis]

    cdef bint takes_tensor(self, tensor) noexcept:
        cdef int axis
        if not cnp.PyArray_CheckExact(tensor) or (
                self.dtype is not None and descr_of(tensor) != <PyObject *>self.dtype):
            return False
        if self.ndim >= 0 and cnp.PyArray_NDIM(tensor) != self.ndim:
            return False
        for axis in range(self.ndim):
            if self.lengths[axis] >= 0 and cnp.PyArray_DIM(tensor, axis) != self.lengths[axis]:
                return False
        return True

    def takes(self, tensor):
        """Return whether a value is such an array."""
        return self.takes_tensor(tensor)

    def takes_all(self, list tensors not None):
        """Return whether all items of a list are."""
        for tensor in tensors:
            if not self.takes_tensor(tensor):
                return False
        return True


def taken_feed(feed, dict types not None, take):
    """Return a copy of a feed, a mapping; None if a name is not in `types`.

    Arrays stay that the `TensorType` of their name takes. Where the type is `list`, a `TensorSequence` stays,
    and a list is copied: another thread may edit it. All other values are replaced by `take(name, value)`.
    """
    cdef dict taken = (<dict>feed).copy() if PyDict_CheckExact(feed) else dict(feed)
    for name, value in taken.items():
        if name not in types:
            return None
        kind = types[name]
        if kind is list and PyList_CheckExact(value):
            taken[name] = (<list>value)[:]
        elif kind is list and type(value) is TensorSequence:
            pass
        elif not isinstance(kind, TensorType) or not (<TensorType>kind).takes_tensor(value):
            taken[name] = take(name, value)
    return taken


def outputs_of(list values not None, list hows not None):
    """Return the outputs of a model, made of values of onnxruntime that nobody else has.

    Each `how` takes the next value::

        None                 as it is
        (None, dtype)        an array with this dtype object in place of an equal one
        ("list", dtype)      a list of arrays: a sequence of this type
        ("stacked", dtype)   an array: a sequence of its rows
        ("joined", dtype)    an array and the lengths of its parts, one behind the other: a sequence of these,
                             or of the rows, where a number stands for the lengths
        int                  no value, but a copy of the output at this position
    """
    cdef list outputs = []
    cdef cnp.ndarray array
    cdef Py_ssize_t at = 0
    cdef object lengths
    for how in hows:
        if PyLong_CheckExact(how):
            outputs.append(outputs[how].copy())
            continue
        value = values[at]
        at += 1
        if how is not None:
            kind, dtype = <tuple?>how
            if kind is None:
                set_equal_dtype(<cnp.ndarray?>value, <cnp.dtype?>dtype)
            elif kind == "list":
                value = new_sequence(dtype, gather(<list?>value, dtype).take_store())
            else:
                lengths = None
                if kind == "joined":
                    lengths = values[at]
                    at += 1
                array = value
                axis_of(array, 0, 0)
                if lengths is None or not cnp.PyArray_NDIM(<cnp.ndarray?>lengths):
                    value = new_sequence(dtype, split_equal(array, 0, 1, True))
                else:
                    value = new_sequence(dtype, split_lengths(array, 0, lengths, "split"))
        outputs.append(value)
    return outputs
