"""Container: a buffer, a type and a lock; all that TensorSequence does to its elements goes through here.

How an edit goes, always in this order:

1. Foreign code first: positions are read, tensors converted, iterables run dry. The callers do this.
2. Then, under the lock of the sequence, plain C: the state goes from whole to whole, or nothing happens.
3. Then what was taken out is let go, for that can run finalizers, and those may use the sequence.

The lock is a critical section: without the GIL it is the object's own lock; with the GIL, that is the lock,
and nothing in step 2 gives it away. What takes long, or gives the GIL away, works on a snapshot. If others
have edited meanwhile, what was done with the snapshot's pieces is found again (`places`), and not begun
again: who edits all the time would never let it end.
"""

cimport cython
from cpython.mem cimport PyMem_RawFree
from cpython.object cimport PyObject
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Unpack
cimport numpy as cnp

from libc.stdint cimport int64_t
import numpy as np

from seqcore.core.arrays cimport descr_of, is_scalar
from seqcore.core.buffer cimport (
    GapBuffer, copy_range, empty_buffer, new_buffer, put_all, put_one, release, replace_span, reverse_all,
    share, size_of, slot_at, swap_at, swap_one, swap_range, take_marked, take_one, take_range, unshare,
)
from seqcore.core.compare cimport find, find_among
from seqcore.core.join cimport tighten
from seqcore.core.owner cimport check_type, drop, make_element, take_whole
from seqcore.core.pieces cimport LENGTH_DIFFERS, NO_MEMORY, OK, OUT_OF_RANGE, Piece, Status
from seqcore.core.places cimport Places, exchanged, forget, note_places
from seqcore.core.positions cimport raise_for
from seqcore.core.selection cimport (
    check_positions, is_mask, mark, raise_for_selection, select,
)

from seqcore._tensors import as_tensor

cnp.import_array()


cdef Container new_container(object cls, cnp.dtype dtype, GapBuffer *buffer, tuple positional=(),
                             dict named=None):
    """A container that takes over one share of the buffer, even when this fails.

    A subclass's `__new__` gets the arguments given, and may be anybody's: only a container that has no type
    yet is filled.
    """
    try:
        made = cls.__new__(cls, *positional, **(named or {})) if positional or named else cls.__new__(cls)
        if not isinstance(made, Container):
            raise TypeError(f"{cls.__name__}.__new__ returned an object of type {type(made).__name__}, "
                            "expected a TensorSequence")
    except BaseException:
        release(buffer)
        raise
    if not (<Container>made).claim(dtype, buffer):
        raise TypeError(f"{cls.__name__}.__new__ returned a sequence that is in use already: return a new "
                        "one, before __init__")
    return made


# -- the container -----------------------------------------------------------------------------------

@cython.auto_pickle(False)
@cython.no_gc           # as an ndarray is not; a subclass has its own
cdef class Container:

    def __cinit__(self):
        self._buffer = empty_buffer()

    def __dealloc__(self):
        release(self._buffer)

    cdef bint claim(self, cnp.dtype dtype, GapBuffer *buffer) noexcept:
        """Give a container that has no type yet its type and elements, in one step; whether it had none.

        The caller's share of the buffer is taken over in any case.
        """
        cdef bint fresh
        with cython.critical_section(self):
            fresh = self._dtype is None
            if fresh:
                self._dtype = dtype
                self._buffer, buffer = buffer, self._buffer
        release(buffer)
        return fresh

    cdef GapBuffer *snapshot(self) noexcept:
        """A share of the buffer as it stands, for the caller to release."""
        cdef GapBuffer *buffer
        with cython.critical_section(self):
            buffer = share(self._buffer)
        return buffer

    cdef Py_ssize_t size(self) noexcept:
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._buffer)
        return n

    cdef Piece *take(self, object tensor, Py_ssize_t at=-1) except NULL:
        """The tensor as a piece of this container's type, with one hold on it.

        `at` is its position among several tensors, for messages; -1 if it is the only one.
        """
        if cnp.PyArray_CheckExact(tensor) and descr_of(tensor) == <PyObject *>self._dtype:
            if self._dtype.type_num != cnp.NPY_OBJECT:
                return take_whole(tensor)
        self.check_initialised(NULL)
        if is_scalar(tensor):
            array = cnp.PyArray_FROM_O(tensor)
            if descr_of(array) == <PyObject *>self._dtype:
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
        array = as_tensor(tensor, self._dtype, at=None if at < 0 else at)
        check_type(array, self._dtype)
        return take_whole(array)

    cdef int check_initialised(self, GapBuffer *news) except -1:
        """Nothing goes into a container without a type; the buffer that was to go in is released."""
        if self._dtype is None:
            release(news)
            raise TypeError("this TensorSequence is not initialised: call super().__init__(...) in __init__ "
                            "of the subclass first")
        return 0

    # -- looking -------------------------------------------------------------------------------------

    cdef object element(self, Py_ssize_t at, object given):
        """The element at a position, for which `given` was given."""
        cdef Py_ssize_t n
        cdef object element = None
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if at < 0:
                at += n
            if 0 <= at < n:
                # Only memory is allocated here, no container: no foreign code can come in.
                element = make_element(slot_at(self._buffer, at)[0], self._dtype)
        if element is None:
            raise_for(OUT_OF_RANGE, given, n)
        return element

    cdef GapBuffer *slice_of(self, object key) except NULL:
        """A buffer of the elements in a slice."""
        cdef Py_ssize_t start, stop, step, n
        cdef GapBuffer *buffer
        PySlice_Unpack(key, &start, &stop, &step)
        with cython.critical_section(self):
            n = PySlice_AdjustIndices(size_of(self._buffer), &start, &stop, step)
            if n == size_of(self._buffer) and step == 1:
                buffer = share(self._buffer)
            else:
                buffer = new_buffer(n)
                if buffer != NULL:
                    copy_range(self._buffer, start, step, buffer)
        if buffer == NULL:
            raise_for(NO_MEMORY, None, n)
        return buffer

    cdef GapBuffer *selected_by(self, cnp.ndarray selection) except NULL:
        """A buffer of the elements at some positions, or where a mask is true."""
        cdef Py_ssize_t n, at
        cdef GapBuffer *selected = NULL
        cdef Status status
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = select(self._buffer, selection, &selected, &at)
        if status != OK:
            release(selected)
            raise_for_selection(status, selection, at, n)
        return selected

    # -- putting in ----------------------------------------------------------------------------------

    cdef int put(self, Py_ssize_t at, object given, Piece *piece) except -1:
        """Insert a piece; the caller's hold on it is taken over, even when this fails."""
        cdef Py_ssize_t n
        cdef GapBuffer *stale = NULL
        cdef Status status = OUT_OF_RANGE
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if at < 0:
                at += n
            if 0 <= at <= n:
                status = put_one(&self._buffer, &stale, at, piece)
        if stale != NULL:
            release(stale)
        if status != OK:
            drop(piece)
            raise_for(status, given, n, inserting=True)
        return 0

    cdef int put_behind(self, Piece *piece) except -1:
        """As `put`, behind the last element."""
        cdef Py_ssize_t n
        cdef GapBuffer *stale = NULL
        cdef Status status
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = put_one(&self._buffer, &stale, n, piece)
        if stale != NULL:
            release(stale)
        if status != OK:
            drop(piece)
            raise_for(status, None, n)
        return 0

    cdef int put_all_behind(self, GapBuffer *news) except -1:
        """Put all elements of a buffer behind the last one; the caller's share is taken over."""
        cdef Py_ssize_t n
        cdef GapBuffer *stale = NULL
        cdef Status status
        self.check_initialised(news)
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = put_all(&self._buffer, &stale, n, news)
        release(stale)
        release(news)
        return raise_for(status, None, n)

    cdef int replace(self, Py_ssize_t at, object given, Piece *piece) except -1:
        """Put a piece in the place of an element; the caller's hold is taken over."""
        cdef Py_ssize_t n
        cdef GapBuffer *stale = NULL
        cdef Status status = OUT_OF_RANGE
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if at < 0:
                at += n
            if 0 <= at < n:
                status = swap_one(&self._buffer, &stale, at, &piece)
        release(stale)
        drop(piece)             # the old one, or on failure the new one
        return raise_for(status, given, n)

    cdef int replace_slice(self, object key, GapBuffer *news) except -1:
        """Put the elements of a buffer in the place of a slice; the caller's share is taken over."""
        cdef Py_ssize_t start, stop, step, n = 0, count = 0, new_count = size_of(news)
        cdef GapBuffer *removed = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status = NO_MEMORY
        self.check_initialised(news)
        try:
            # Elements are exchanged with this buffer's, so it must be nobody else's.
            if unshare(&news) != OK:
                raise_for(NO_MEMORY, None, new_count)
            PySlice_Unpack(key, &start, &stop, &step)
            with cython.critical_section(self):
                n = size_of(self._buffer)
                count = PySlice_AdjustIndices(n, &start, &stop, step)
                if step != 1:
                    status = LENGTH_DIFFERS
                    if count == new_count:
                        status = swap_range(&self._buffer, &stale, start, step, news)
                else:
                    removed = new_buffer(count)
                    if removed != NULL:
                        status = replace_span(&self._buffer, &stale, start, removed, news)
        finally:
            release(stale)
            release(news)
            release(removed)
        if status == LENGTH_DIFFERS:
            raise ValueError(f"expected {count} tensor{'s' if count != 1 else ''} for a slice with a step, "
                             f"got {new_count}: only slices without a step can change the length")
        return raise_for(status, None, n)

    cdef int replace_selected(self, cnp.ndarray selection, GapBuffer *news) except -1:
        """Put the elements of a buffer in the places of those selected; its share is taken over."""
        cdef Py_ssize_t n = 0, at = 0, count = 0, new_count = size_of(news)
        cdef const int64_t *positions
        cdef GapBuffer *stale = NULL
        cdef Status status = OK
        self.check_initialised(news)
        try:
            # Elements are exchanged with this buffer's, so it must be nobody else's.
            if unshare(&news) != OK:
                raise_for(NO_MEMORY, None, new_count)
            found = np.flatnonzero(selection) if is_mask(selection) else selection
            count = cnp.PyArray_SIZE(found)
            positions = <const int64_t *>cnp.PyArray_DATA(found)
            with cython.critical_section(self):
                n = size_of(self._buffer)
                if is_mask(selection):
                    status = OK if cnp.PyArray_SIZE(selection) == n else LENGTH_DIFFERS
                else:
                    status = check_positions(n, positions, count, &at)
                if status == OK and count == new_count:
                    status = swap_at(&self._buffer, &stale, positions, news)
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
        cdef Py_ssize_t n
        cdef Piece *piece = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status = OUT_OF_RANGE
        cdef object element = None
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if at < 0:
                at += n
            if 0 <= at < n:
                if wanted:      # first what can fail; see `element` for why it is safe here
                    element = make_element(slot_at(self._buffer, at)[0], self._dtype)
                status = take_one(&self._buffer, &stale, at, &piece)
        if stale != NULL:
            release(stale)
        if status != OK:
            raise_for(status, given, n)
        drop(piece)
        return element

    cdef bint take_out_equal(self, Piece *wanted) except -1:
        """Remove the first element that equals a piece; whether there was one."""
        cdef Places places
        cdef GapBuffer *buffer = self.snapshot()
        cdef GapBuffer *stale = NULL
        cdef Piece *taken = NULL
        cdef Py_ssize_t at
        cdef Status status = OK
        cdef bint in_time
        places.table = NULL
        try:
            at = find(buffer, 0, size_of(buffer), wanted, self._dtype)
            if at < 0:
                return False
            with cython.critical_section(self):
                in_time = self._buffer == buffer
                if in_time:
                    # A share beside the container's own would have all slots copied. It is not the last one,
                    # so that nothing is let go here.
                    release(buffer)
                    buffer = NULL
                    status = take_one(&self._buffer, &stale, at, &taken)
            if not in_time:
                # Others have edited meanwhile. What was compared is not compared again, so that they wait for
                # what is new alone.
                with nogil:
                    status = note_places(&places, buffer, at + 1)
                raise_for(status, None, at)
                with cython.critical_section(self):
                    at = find_among(self._buffer, &places, wanted, self._dtype)
                    if at >= 0:
                        status = take_one(&self._buffer, &stale, at, &taken)
        finally:
            forget(&places)
            release(stale)
            release(buffer)
        raise_for(status, None, at)
        if taken == NULL:
            return False
        drop(taken)
        return True

    cdef int take_out_slice(self, object key) except -1:
        cdef Py_ssize_t start, stop, step, n, size
        cdef GapBuffer *taken = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status = OK
        PySlice_Unpack(key, &start, &stop, &step)
        with cython.critical_section(self):
            size = size_of(self._buffer)
            n = PySlice_AdjustIndices(size, &start, &stop, step)
            if step < 0 < n:        # the same elements from the front
                start += (n - 1) * step
                step = -step
            if n == size:
                stale = self._buffer
                self._buffer = empty_buffer()
            elif n:
                taken = new_buffer(n)
                status = NO_MEMORY
                if taken != NULL:
                    status = take_range(&self._buffer, &stale, start, step, taken)
        release(stale)
        release(taken)
        return raise_for(status, None, size)

    cdef int take_out_selected(self, cnp.ndarray selection) except -1:
        """Remove the elements selected, each once. O(n)."""
        cdef Py_ssize_t n, at = 0, count = 0
        cdef char *marks = NULL
        cdef GapBuffer *taken = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = mark(n, selection, &marks, &count, &at)
            if status == OK:
                taken = new_buffer(count)
                status = NO_MEMORY
                if taken != NULL:
                    status = take_marked(&self._buffer, &stale, marks, taken)
        PyMem_RawFree(marks)
        release(stale)
        release(taken)
        return raise_for_selection(status, selection, at, n)

    cdef GapBuffer *take_out_all(self) noexcept:
        """Empty the container; the caller gets its share of what was there."""
        cdef GapBuffer *buffer
        with cython.critical_section(self):
            buffer = self._buffer
            self._buffer = empty_buffer()
        return buffer

    # -- all of it -----------------------------------------------------------------------------------

    cdef int turn_round(self) except -1:
        cdef GapBuffer *stale = NULL
        cdef Status status
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = reverse_all(&self._buffer, &stale)
        release(stale)
        return raise_for(status, None, n)

    cdef int move_together(self) except -1:
        """Give the elements tight memory of their own, but for those that others put in meanwhile."""
        cdef Places places
        cdef GapBuffer *before = self.snapshot()
        cdef GapBuffer *after = NULL
        cdef GapBuffer *stale = NULL
        cdef Py_ssize_t n = size_of(before)
        cdef Status status = OK
        cdef bint in_time
        places.table = NULL
        try:
            after = tighten(before, self._dtype) if n else empty_buffer()
            with cython.critical_section(self):
                in_time = self._buffer == before
                if in_time:
                    stale, self._buffer = self._buffer, share(after)
            if not in_time:
                # Others have edited meanwhile: what is still there is exchanged where it stands now.
                with nogil:
                    status = note_places(&places, before, n)
                raise_for(status, None, n)
                with cython.critical_section(self):
                    stale = self._buffer
                    status = exchanged(stale, &places, after, &self._buffer)
                    if status != OK:
                        stale = NULL
        finally:
            forget(&places)
            release(stale)
            release(after)
            release(before)
        return raise_for(status, None, n)
