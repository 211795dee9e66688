"""The container: the lock, edits under it, and iterators.

::

    seq.insert(i, a)   check a (no lock)  →  lock, edit the store, unlock  →  release the old store

Sections::

    container  the lock, edits and lookups
    iterator   iterate while others edit
"""

from cpython.mem cimport PyMem_RawFree
from cpython.object cimport PyObject
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
from cpython.unicode cimport PyUnicode_CheckExact
from libc.stdint cimport int64_t
cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport descr_of, is_scalar
from seqcore.core.lists cimport array_of, is_python_value
from seqcore.core.numpy_loops cimport find
from seqcore.core.padding cimport compact_store
from seqcore.core.split_join cimport check_positions, is_mask, mark, raise_for_selection, select
from seqcore.core.store cimport (
    DAMAGED, LENGTH_DIFFERS, MAX_NDIM, NO_MEMORY, OK, OUT_OF_RANGE, Piece, Run, Share, Slot, Source,
    Status, Store, begin_of, check_type, empty_store, find_run, has_runs, locate, make_element, put_all,
    put_one, raise_damaged, raise_for, read_one, release, release_slots, release_source, replace_each,
    replace_one, replace_span, resolve, reverse_all, runs_of, share as retained, share_of, size_of,
    slice_of_store, take_marked, take_one, take_range, take_whole, unshare,
)
from seqcore._arguments.other_names import SEQUENCE, other_names, without_other_names
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import ELEMENT_TYPES, element_type

cnp.import_array()


# == container ===========================================================================================
#
# Container: a store, a type and a lock; all that TensorSequence does to its elements goes through here.
#
# How an edit goes, always in this order:
#
# 1. Foreign code first: positions are read, tensors converted, iterables run dry. The callers do this.
# 2. Then, under the lock of the sequence, plain C: the state goes from whole to whole, or nothing happens.
# 3. Then what was taken out is released, because that can run finalizers, and those may use the sequence.
#
# The lock is a critical section: without the GIL it is the object's own lock; with the GIL, that is the lock,
# and nothing in step 2 releases it. An edit holds it for as long as it takes: to make slots of runs, to copy
# all elements (`compact`). Reads that take long, or release the GIL, use a snapshot.

cdef extern from *:
    """
    /* Classes made by Cython are closed to setattr, once they are ready. */
    static int
    seqcore_add_names(PyObject *type, PyObject *names)
    {
        if (PyDict_Merge(((PyTypeObject *)type)->tp_dict, names, 0) < 0)
            return -1;
        PyType_Modified((PyTypeObject *)type);
        return 0;
    }
    """
    int add_names "seqcore_add_names"(object type, object names) except -1


# NumPy's number of an element type → its dtype object.
cdef list _TYPES = [None] * cnp.NPY_NTYPES_LEGACY
for one in ELEMENT_TYPES.values():
    _TYPES[one.num] = one


cdef cnp.dtype own_type(object dtype):
    """As `element_type`; most dtypes are found here by a look, where Python would compute a hash."""
    cdef int number
    if isinstance(dtype, cnp.dtype):
        number = (<cnp.dtype>dtype).type_num
        if number < cnp.NPY_NTYPES_LEGACY and _TYPES[number] is dtype:
            return dtype
    return element_type(dtype)


cdef Container new_container(object cls, cnp.dtype dtype, Store *store, tuple positional=(), dict named=None):
    """A container that takes over one share of the store, even when this fails.

    A subclass's `__new__` gets the arguments given, and may be anybody's: only a container that has no type
    yet is filled.
    """
    try:
        made = cls.__new__(cls, *positional, **(named or {})) if positional or named else cls.__new__(cls)
        if not isinstance(made, Container):
            raise TypeError(f"{cls.__name__}.__new__ returned an object of type {type(made).__name__}, "
                            "expected a TensorSequence")
    except BaseException:
        release(store)
        raise
    if not (<Container>made).claim(dtype, store):
        raise TypeError(f"{cls.__name__}.__new__ returned a sequence that is in use already: return a new "
                        "one, before __init__")
    return made


cdef object copied_strings(cnp.ndarray array):
    """Return a copy of an object array, or None if an item is not exactly a `str`."""
    cdef cnp.ndarray own = cnp.PyArray_NewCopy(array, cnp.NPY_CORDER)
    cdef PyObject **items = <PyObject **>cnp.PyArray_DATA(own)
    cdef Py_ssize_t i
    for i in range(cnp.PyArray_SIZE(own)):      # of the copy, which nobody else can change
        if items[i] == NULL or not PyUnicode_CheckExact(<object>items[i]):
            return None
    return own


cdef Source *take_tensor(object tensor, cnp.dtype dtype, Py_ssize_t at) except NULL:
    """Return a tensor as a source of a type, with one user.

    `at` is its position among several tensors, for messages; -1 if it is the only one.
    """
    cdef object array
    if cnp.PyArray_CheckExact(tensor):
        if descr_of(tensor) == <PyObject *>dtype:
            if dtype.type_num != cnp.NPY_OBJECT:
                return take_whole(tensor)
            array = copied_strings(tensor)
            if array is not None:
                return take_whole(array)
        elif cnp.PyArray_TYPE(tensor) != dtype.type_num:
            # The same type under another number: onnxruntime's int64 is C's long long, NumPy's is C's long.
            if cnp.PyArray_EquivTypes(<cnp.dtype>descr_of(tensor), dtype):
                return take_whole(tensor)
    elif is_python_value(tensor):
        array = array_of(tensor, dtype)
        if array is not None:
            return take_whole(array)
    elif is_scalar(tensor):
        array = cnp.PyArray_FROM_O(tensor)
        if descr_of(array) == <PyObject *>dtype:
            return take_whole(array)
    elif isinstance(tensor, Container):
        # Raised here, and by no Python function: in a lookup Cython 3.3 ends the process if there is no
        # memory for the frame of one.
        if at < 0:
            raise TypeError("the tensor is a TensorSequence, which can't be one tensor or element: "
                            "extend(...) adds its elements to a sequence, concat_from_sequence(...) "
                            "joins them into one tensor")
        raise TypeError(f"tensors[{at}] is a TensorSequence, which can't be one tensor or element: "
                        "extend(...) adds its elements to a sequence, concat_from_sequence(...) joins "
                        "them into one tensor")
    array = as_tensor(tensor, dtype, at=None if at < 0 else at)
    check_type(array, dtype)
    return take_whole(array)


# -- the container -----------------------------------------------------------------------------------

@cython.auto_pickle(False)
@cython.no_gc           # as an ndarray is not; a subclass has its own
cdef class Container:

    def __cinit__(self):
        self._store = empty_store()

    def __dir__(self):
        return without_other_names(self, object.__dir__(self))

    def __dealloc__(self):
        release(self._store)

    cdef bint claim(self, cnp.dtype dtype, Store *store) noexcept:
        """Give a container that has no type yet its type and elements, in one step; whether it had none.

        The caller's share of the store is taken over in any case.
        """
        cdef bint fresh
        with cython.critical_section(self):
            fresh = self._dtype is None
            if fresh:
                self._dtype = dtype
                self._store, store = store, self._store
        release(store)
        return fresh

    cdef Store *snapshot(self) noexcept:
        """A share of the store as it stands, for the caller to release."""
        cdef Store *store
        with cython.critical_section(self):
            store = retained(self._store)
        return store

    cdef Share shared(self):
        return share_of(self.snapshot())

    cdef Share whole(self):
        """A share of the store, of a container that has a type."""
        self.check_initialized(NULL)
        return share_of(self.snapshot())

    cdef Py_ssize_t size(self) noexcept:
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._store)
        return n

    cdef Source *take(self, object tensor) except NULL:
        """Return the tensor as a source of this container's type, with one user."""
        self.check_initialized(NULL)
        return take_tensor(tensor, self._dtype, -1)

    cdef int check_initialized(self, Store *news) except -1:
        """Nothing goes into a container without a type; the store that was to go in is released."""
        if self._dtype is None:
            release(news)
            raise TypeError("this TensorSequence is not initialized: call super().__init__(...) in __init__ "
                            "of the subclass first")
        return 0

    # -- reading -------------------------------------------------------------------------------------

    cdef object element(self, Py_ssize_t at, object given):
        """The element at a position, for which `given` was given."""
        cdef Py_ssize_t n, asked = at
        cdef Piece piece
        cdef Py_ssize_t[2 * MAX_NDIM] dims
        cdef object element = None
        cdef Status status = OUT_OF_RANGE
        with cython.critical_section(self):
            n = size_of(self._store)
            if at < 0:
                at += n
            if 0 <= at < n:
                status = DAMAGED
                if read_one(self._store, at, &piece, dims):
                    # Only memory is allocated here, no container: no foreign code can come in.
                    element = make_element(&piece, self._dtype)
                    status = OK
        if status == DAMAGED:
            self.raise_damaged_at(asked)
        if status != OK:
            raise_for(status, given, n)
        return element

    cdef int raise_damaged_at(self, Py_ssize_t at) except -1:
        cdef Share share = self.shared()
        cdef Py_ssize_t n = size_of(share.store)
        if not -n <= at < n:
            raise ValueError("an element can't be read, since its file is damaged")
        return raise_damaged(share.store, at + n if at < 0 else at)

    cdef Store *slice_of(self, object key) except NULL:
        """A store of the elements in a slice."""
        cdef Py_ssize_t start, stop, step, n
        cdef Store *store = NULL
        cdef Status status
        PySlice_Unpack(key, &start, &stop, &step)
        with cython.critical_section(self):
            n = PySlice_AdjustIndices(size_of(self._store), &start, &stop, step)
            status = slice_of_store(self._store, start, step, n, &store)
        raise_for(status, None, n)
        return store

    cdef Store *selected_by(self, cnp.ndarray selection) except NULL:
        """A store of the elements at some positions, or where a mask is true."""
        cdef Py_ssize_t n, at
        cdef Store *selected = NULL
        cdef Status status
        with cython.critical_section(self):
            n = size_of(self._store)
            status = select(self._store, selection, &selected, &at)
        if status != OK:
            release(selected)
            raise_for_selection(status, selection, at, n)
        return selected

    # -- putting in ----------------------------------------------------------------------------------

    cdef int put(self, Py_ssize_t at, object given, Source *whole) except -1:
        """Insert a source; the caller's use of it is taken over, even when this fails."""
        cdef Py_ssize_t n, place
        cdef Store *stale = NULL
        cdef Status status = OUT_OF_RANGE
        with cython.critical_section(self):
            n = size_of(self._store)
            place = at + n if at < 0 else at
            if 0 <= place <= n:
                status = put_one(&self._store, &stale, place, whole)
        if stale != NULL:
            release(stale)
        if status != OK:
            release_source(whole, 1)
            raise_for(status, given, n, inserting=True)
        return 0

    cdef int append_source(self, Source *whole) except -1:
        """As `put`, at the end."""
        cdef Py_ssize_t n
        cdef Store *stale = NULL
        cdef Status status
        with cython.critical_section(self):
            n = size_of(self._store)
            status = put_one(&self._store, &stale, n, whole)
        if stale != NULL:
            release(stale)
        if status != OK:
            release_source(whole, 1)
            raise_for(status, None, n)
        return 0

    cdef int append_store(self, Store *news) except -1:
        """Append all elements of a store; the caller's share is taken over."""
        cdef Py_ssize_t n
        cdef Store *stale = NULL
        cdef Status status
        self.check_initialized(news)
        with cython.critical_section(self):
            n = size_of(self._store)
            status = put_all(&self._store, &stale, n, news)
        release(stale)
        release(news)
        return raise_for(status, None, n)

    cdef int replace(self, Py_ssize_t at, object given, Source *whole) except -1:
        """Put a source in the place of an element; the caller's use is taken over."""
        cdef Py_ssize_t n, place
        cdef Slot slot = Slot(whole, 0)
        cdef Store *stale = NULL
        cdef Status status = OUT_OF_RANGE
        with cython.critical_section(self):
            n = size_of(self._store)
            place = at + n if at < 0 else at
            if 0 <= place < n:
                status = replace_one(&self._store, &stale, place, &slot)
        release(stale)
        if slot.source != NULL:
            release_slots(&slot, 1)         # the old one, or on failure the new one
        return raise_for(status, given, n)

    cdef int replace_slice(self, object key, Store *news) except -1:
        """Put the elements of a store in the place of a slice; the caller's share is taken over."""
        cdef Py_ssize_t start, stop, step, n = 0, count = 0, new_count = size_of(news)
        cdef Store *removed = NULL
        cdef Store *stale = NULL
        cdef Status status = NO_MEMORY
        self.check_initialized(news)
        try:
            PySlice_Unpack(key, &start, &stop, &step)
            # Elements are exchanged with these slots, so they must be nobody else's.
            if step != 1 and unshare(&news) != OK:
                raise_for(NO_MEMORY, None, new_count)
            with cython.critical_section(self):
                n = size_of(self._store)
                count = PySlice_AdjustIndices(n, &start, &stop, step)
                if step == 1:
                    status = replace_span(&self._store, &stale, start, count, &removed, news)
                elif count == new_count:
                    status = replace_each(&self._store, &stale, NULL, start, step, news)
                else:
                    status = LENGTH_DIFFERS
        finally:
            release(stale)
            release(news)
            release(removed)
        if status == LENGTH_DIFFERS:
            raise ValueError(f"expected {count} tensor{'s' if count != 1 else ''} for a slice with a step, "
                             f"got {new_count}: only slices without a step can change the length")
        return raise_for(status, None, n)

    cdef int replace_selected(self, cnp.ndarray selection, Store *news) except -1:
        """Put the elements of a store in the places of those selected; its share is taken over."""
        cdef Py_ssize_t n = 0, at = 0, count = 0, new_count = size_of(news)
        cdef const int64_t *positions
        cdef Store *stale = NULL
        cdef Status status = OK
        self.check_initialized(news)
        try:
            # Elements are exchanged with these slots, so they must be nobody else's.
            if unshare(&news) != OK:
                raise_for(NO_MEMORY, None, new_count)
            found = np.flatnonzero(selection) if is_mask(selection) else selection
            count = cnp.PyArray_SIZE(found)
            positions = <const int64_t *>cnp.PyArray_DATA(found)
            with cython.critical_section(self):
                n = size_of(self._store)
                if is_mask(selection):
                    status = OK if cnp.PyArray_SIZE(selection) == n else LENGTH_DIFFERS
                else:
                    status = check_positions(n, positions, count, &at)
                if status == OK and count == new_count:
                    status = replace_each(&self._store, &stale, positions, 0, 0, news)
        finally:
            release(stale)
            release(news)
        raise_for_selection(status, selection, at, n)
        if count != new_count:
            raise ValueError(f"expected {count} tensor{'s' if count != 1 else ''} for the selection, got "
                             f"{new_count}: an assignment to a selection keeps the length")
        return 0

    # -- taking out ----------------------------------------------------------------------------------

    cdef object take_out(self, Py_ssize_t at, object given, bint wanted):
        """Remove an element, and return it if it is wanted."""
        cdef Py_ssize_t n, place
        cdef Slot taken = Slot(NULL, 0)
        cdef Store *stale = NULL
        cdef Status status = OUT_OF_RANGE
        cdef object element = None
        cdef Piece piece
        cdef Py_ssize_t[2 * MAX_NDIM] dims
        with cython.critical_section(self):
            n = size_of(self._store)
            place = at + n if at < 0 else at
            if 0 <= place < n:
                status = OK
                if wanted:      # first what can fail; see `element` for why it is safe here
                    if read_one(self._store, place, &piece, dims):
                        element = make_element(&piece, self._dtype)
                    else:
                        status = DAMAGED
                if status == OK:
                    status = take_one(&self._store, &stale, place, &taken)
        if stale != NULL:
            release(stale)
        if status == DAMAGED:
            self.raise_damaged_at(at)
        if status != OK:
            raise_for(status, given, n)
        if taken.source != NULL:
            release_slots(&taken, 1)
        return element

    cdef bint take_out_equal(self, const Piece *wanted) except -1:
        """Remove the first element that equals a piece; whether there was one."""
        cdef Share share = self.shared()
        cdef Py_ssize_t n, at = find(share.store, 0, size_of(share.store), wanted, self._dtype, False)
        cdef Slot taken = Slot(NULL, 0)
        cdef Store *stale = NULL
        cdef Status status = OK
        with cython.critical_section(self):
            n = size_of(self._store)
            if self._store != share.store:
                # Others have edited meanwhile. No foreign code runs in a comparison.
                at = find(self._store, 0, n, wanted, self._dtype, True)
            else:
                # A share beside the container's own would have all slots copied. It is not the last one, so
                # that nothing is released here.
                release(share.store)
                share.store = empty_store()
            if at >= 0:
                status = take_one(&self._store, &stale, at, &taken)
        release(stale)
        raise_for(status, None, n)
        if taken.source != NULL:
            release_slots(&taken, 1)
        return at >= 0

    cdef int take_out_slice(self, object key) except -1:
        cdef Py_ssize_t start, stop, step, first, last, n = 0, size
        cdef Store *taken = NULL
        cdef Store *stale = NULL
        cdef Status status = OK
        PySlice_Unpack(key, &start, &stop, &step)
        with cython.critical_section(self):
            size = size_of(self._store)
            first, last = start, stop
            n = PySlice_AdjustIndices(size, &first, &last, step)
            if n == size:
                stale = self._store
                self._store = empty_store()
            elif n:
                # The same elements from the front.
                status = take_range(&self._store, &stale, first if step > 0 else first + (n - 1) * step,
                                    abs(step), n, &taken)
        release(stale)
        release(taken)
        return raise_for(status, None, size)

    cdef int take_out_selected(self, cnp.ndarray selection) except -1:
        """Remove the elements selected, each once. O(n)."""
        cdef Py_ssize_t n, at = 0, count = 0
        cdef char *marks = NULL
        cdef Store *taken = NULL
        cdef Store *stale = NULL
        cdef Status status
        with cython.critical_section(self):
            n = size_of(self._store)
            status = mark(n, selection, &marks, &count, &at)
            if status == OK:
                status = take_marked(&self._store, &stale, marks, count, &taken)
        PyMem_RawFree(marks)
        release(stale)
        release(taken)
        return raise_for_selection(status, selection, at, n)

    cdef Store *take_out_all(self) noexcept:
        """Empty the container; the caller gets its share of the old store."""
        cdef Store *store
        with cython.critical_section(self):
            store = self._store
            self._store = empty_store()
        return store

    # -- all of it -----------------------------------------------------------------------------------

    cdef int reverse_elements(self) except -1:
        cdef Store *stale = NULL
        cdef Status status
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._store)
            status = reverse_all(&self._store, &stale)
        release(stale)
        return raise_for(status, None, n)

    cdef int compact_elements(self) except -1:
        """Give the elements tight memory of their own."""
        cdef Share before
        cdef Store *after = NULL
        cdef bint done = False
        while not done:
            with cython.critical_section(self):
                before = share_of(retained(self._store))
                if size_of(before.store) == 0:
                    return 0
                after = compact_store(before.store, self._dtype, True)
                # Objects were made, so a finalizer of garbage may have come in.
                done = self._store == before.store
                if done:
                    after, self._store = self._store, after
            release(after)
            before = None           # not under the lock of the next turn
        return 0


# They are names of the base class, so that a method of a subclass is found first.
add_names(Container, other_names(SEQUENCE))


# == iterator ============================================================================================
#
# Iterators of a container.

cdef class ElementIterator:
    """Elements one by one, from the front or the back, as the sequence stands at each step."""

    def __cinit__(self, Container sequence not None, bint backwards):
        self.sequence = sequence
        self.backwards = backwards
        self.position = sequence.size() - 1 if backwards else 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef Container sequence = self.sequence
        cdef object element = None
        cdef Py_ssize_t position, number
        cdef Source *source
        cdef const Run *run
        cdef Piece piece
        cdef Py_ssize_t[2 * MAX_NDIM] dims
        cdef bint damaged = False
        with cython.critical_section(self, sequence):
            position = self.position
            if 0 <= position < size_of(sequence._store):
                if has_runs(sequence._store):
                    self.run = find_run(sequence._store, position, self.run)
                    run = &runs_of(sequence._store)[self.run]
                    source = run.source
                    number = run.first + (position - begin_of(sequence._store, self.run)) * run.step
                else:
                    source = locate(sequence._store, position, &number)
                # First past it, so that a loop that goes on after a damaged element comes to its end.
                self.position = position - 1 if self.backwards else position + 1
                damaged = not resolve(source, number, &piece, dims)
                if not damaged:
                    element = make_element(&piece, sequence._dtype)
            else:
                self.position = -1
        if damaged:
            sequence.raise_damaged_at(position)
        if element is None:
            raise StopIteration
        return element

    def __length_hint__(self):
        cdef Container sequence = self.sequence
        cdef Py_ssize_t n
        with cython.critical_section(self, sequence):
            n = self.position + 1
            if n > size_of(sequence._store):       # it has come to its end, as the next step will find
                n = 0
            elif n and not self.backwards:
                n = size_of(sequence._store) - self.position
        return n
