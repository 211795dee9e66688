"""The inner loop of a map: a body called for one element after the other, its outputs put away."""

cimport cython

from seqcore.core.container cimport Container
from seqcore.core.source cimport add_to, read_counter

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX
    int PyErr_CheckSignals() except -1      # Ctrl-C, for a compiled body returns to no bytecode


cdef class Bound:
    """No element at or behind this position is started any more.

    All threads of a map share one. Sent to another process it becomes one that bounds nothing.
    """

    cdef Py_ssize_t position
    cdef Bound root             # whose position counts
    cdef Py_ssize_t offset      # of this one's element 0 from the root's

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
        """Whether the element at a position may start."""
        return position < read_counter(&self.root.position) - self.offset

    def shifted(self, Py_ssize_t offset):
        """The same bound for a part of the elements that counts its own from 0."""
        cdef Bound shifted = Bound.__new__(Bound)
        shifted.root = self.root
        shifted.offset = self.offset + offset
        return shifted

    def __reduce__(self):
        return Bound, ()


class OutputError(Exception):
    """What a body returned is no element: OutputError(which output or None, the exception that says why)."""


cdef int put_result(tuple outputs, bint single, result) except -1:
    """Put what a body has returned behind the elements of its output sequences."""
    cdef Container output
    cdef Py_ssize_t k, n = len(outputs)
    if isinstance(result, tuple) == single or (not single and len(<tuple>result) != n):
        given = f"a tuple of {len(<tuple>result)}" if isinstance(result, tuple) else "one tensor"
        before = "one tensor" if single else f"a tuple of {n}"
        raise OutputError(None, TypeError(f"the body returned {given}, expected {before} as for the elements "
                                          "before"))
    if result is None:
        raise OutputError(None, TypeError("the body returned None, expected a tensor: does it lack a "
                                          "return?"))
    for k in range(n):
        output = <Container>outputs[k]
        try:
            output.put_behind(output.take(result if single else (<tuple>result)[k]))
        except (TypeError, ValueError, OverflowError) as error:
            raise OutputError(k, error)
    return 0


cdef object call(body, tuple inputs, Py_ssize_t i):
    """Call the body with element i of each sequence, and each whole tensor."""
    cdef Py_ssize_t n = len(inputs)
    if n == 1:
        return body(argument(inputs[0], i))
    if n == 2:
        return body(argument(inputs[0], i), argument(inputs[1], i))
    return body(*arguments(inputs, i))


cdef inline object argument(one, Py_ssize_t i):
    return (<Container>one).element(i, None) if isinstance(one, Container) else one


cdef tuple arguments(tuple inputs, Py_ssize_t i):
    cdef list values = [None] * len(inputs)
    cdef Py_ssize_t k
    for k in range(len(inputs)):
        values[k] = argument(inputs[k], i)
    return tuple(values)


def rows(tuple inputs, Py_ssize_t start, Py_ssize_t stop):
    """Return the arguments of each call from start to stop."""
    cdef Py_ssize_t i
    cdef list found = [None] * max(stop - start, 0)
    for i in range(start, stop):
        found[i - start] = arguments(inputs, i)
    return found


# What these raise, their callers catch: in Cython 3.3 an `except` that returns ends the process where there
# was no memory for the traceback.

def apply_raw(body, tuple inputs, Py_ssize_t start, Py_ssize_t stop, Bound bound not None,
              list results not None):
    """Call the body for elements start to stop, as far as the bound allows, and append what it returns."""
    cdef Py_ssize_t i
    for i in range(start, stop):
        if not bound.allows(i):
            break
        PyErr_CheckSignals()
        results.append(call(body, inputs, i))


def apply(body, tuple inputs, Py_ssize_t start, Py_ssize_t stop, Bound bound not None, tuple outputs,
          bint single):
    """As `apply_raw`, with the results put into sequences. After an error the last one tells how many."""
    cdef Py_ssize_t i
    for i in range(start, stop):
        if not bound.allows(i):
            break
        PyErr_CheckSignals()
        put_result(outputs, single, call(body, inputs, i))


def put_results(tuple outputs, bint single, list results not None):
    """Put several results into sequences. After an error the last one tells how many."""
    cdef Py_ssize_t i
    for i in range(len(results)):
        put_result(outputs, single, results[i])


def absorb(Container into not None, Container sequence not None):
    """Move all elements of one sequence behind those of another of its type."""
    if into._dtype is not sequence._dtype:
        raise TypeError(f"sequences of dtype {into._dtype} and {sequence._dtype} can't be concatenated")
    into.put_all_behind(sequence.take_out_all())
