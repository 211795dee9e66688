"""The inner loop of a map: a body called for one element after the other, its outputs put away."""

from time import perf_counter

cimport cython
from cpython.ref cimport PyObject
cimport numpy as cnp

from seqcore.core.container cimport Container
from seqcore.core.counters cimport ARGUMENTS_MADE, count
from seqcore.core.limits cimport TIMED_EVERY
from seqcore.core.owner cimport TableOwner, make_element, move_element
from seqcore.core.positions cimport raise_for
from seqcore.core.reader cimport raise_damaged, read_one
from seqcore.core.results cimport Results
from seqcore.core.share cimport Share
from seqcore.core.source cimport (
    MAX_NDIM, OUT_OF_RANGE, WHOLE, Piece, add_to, owner_of, read_counter, resolve,
)
from seqcore.core.store cimport Run, Store, runs_of, size_of
from seqcore.core.table cimport twin_of

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
                                          "before"))
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

    def __cinit__(self, one):
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
            raise_damaged(store, i)
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

    def __cinit__(self, tuple inputs not None):
        self.inputs = []
        self.n = len(inputs)
        for one in inputs:
            self.inputs.append(Argument(one))
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
        if self.n == 1:
            return body(self.first.at(i))
        if self.n == 2:
            return body(self.argument(0, i), self.argument(1, i))
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
    into.put_all_behind(sequence.take_out_all())
