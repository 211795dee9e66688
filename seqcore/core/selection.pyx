"""Selections: several elements at once, by their positions or by a mask, as in NumPy.

::

    seq[[2, 0, -1]]          positions: an int64 array, read from front to back, each number once
    seq[lengths > 3]         a mask: a bool array of our own, as long as the sequence

Slots are copied or made, data are not. Keys are read before anything is locked, because that runs foreign
code. The result is an array of our own: nobody changes it between the check and the use.
"""

from cpython.long cimport PyLong_CheckExact
from cpython.mem cimport PyMem_RawCalloc
from libc.stdint cimport int64_t
from libc.string cimport memcpy
cimport numpy as cnp
from collections.abc import Sequence

import numpy as np

from seqcore.core.directory cimport Slot, slot_for
from seqcore.core.owner cimport retain_slots
from seqcore.core.positions cimport PyIndex_Check, PyNumber_AsSsize_t, raise_for
from seqcore.core.slots cimport give_ids
from seqcore.core.source cimport LENGTH_DIFFERS, NO_MEMORY, OK, OUT_OF_RANGE, Status
from seqcore.core.store cimport Run, Store, begin_of, fill, find_run, has_runs, new_slots, runs_of, size_of

from seqcore._arguments.integers import MASKED
from seqcore._arguments.shown import got
from seqcore._arguments.tensors import as_tensor

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MIN
    const Py_ssize_t PY_SSIZE_T_MAX

cnp.import_array()


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
            if isinstance(item, (bool, np.bool_)):
                masks += 1
                positions[i] = bool(item)
                continue
            if isinstance(item, np.ma.MaskedArray):
                raise TypeError(f"item {i} of the index list is {MASKED}")
            if not PyIndex_Check(item) or getattr(item, "ndim", 0):
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
    cdef Py_ssize_t n = size_of(store), k = cnp.PyArray_SIZE(selection), count = k
    cdef Store *into
    at[0] = 0
    if is_mask(selection):
        if k != n:
            return LENGTH_DIFFERS
        count = count_marks(<const char *>cnp.PyArray_DATA(selection), n)
    if give_ids(store) != OK:
        return NO_MEMORY
    into = new_slots(count)
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
    retain_slots(into.slots, count)
    fill(into)
    selected[0] = into
    return OK


cdef inline Slot slot_in_run(const Store *store, Py_ssize_t which, Py_ssize_t position) noexcept nogil:
    cdef const Run *run = &runs_of(store)[which]
    return slot_for(run.source, run.first + (position - begin_of(store, which)) * run.step)


cdef Py_ssize_t write_selected(const Store *store, Py_ssize_t n, const int64_t *positions, Py_ssize_t k,
                               Slot *into) noexcept nogil:
    """Write the slots of the elements at some positions; how many, less than k where one is out of range."""
    cdef Py_ssize_t i, which = 0, lo = store.lo, gap = store.hi - store.lo
    cdef int64_t position
    cdef Slot first, distance
    if store.nruns == 1:
        first = slot_in_run(store, 0, 0)
        distance = <Slot>(2 * runs_of(store)[0].step) if n > 1 else 0
        for i in range(k):
            position = positions[i] + (n if positions[i] < 0 else 0)
            if <size_t>position >= <size_t>n:
                return i
            into[i] = first + <Slot>position * distance
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
    cdef Py_ssize_t i, count = 0
    for i in range(n):
        count += marks[i]
    return count


cdef void write_marked(const Store *store, const char *marks, Slot *into) noexcept nogil:
    """Write the slots of the elements whose mark is 1."""
    # No branch inside, which a random mask would make the processor guess. A store has a slot behind its last
    # one, so that the write for an element that is not marked stays within.
    cdef Py_ssize_t i, found = 0, begin = 0, which, lo = store.lo
    cdef const Run *run
    cdef const Slot *back = &store.slots[store.hi]
    cdef Slot slot, distance
    for which in range(store.nruns):            # none of slots
        run = &runs_of(store)[which]
        slot = slot_for(run.source, run.first)
        # Of numbers, and of a single element nothing.
        distance = <Slot>(2 * run.step) if run.end - begin > 1 else 0
        for i in range(begin, run.end):
            into[found] = slot
            found += marks[i]
            slot += distance
        begin = run.end
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
