"""TensorSequence: a gap buffer of pieces, and what a Python list can do.

How an edit goes, always in this order:

1. Foreign code first: positions are read, tensors converted, iterables run dry.
2. Then, under the lock of the sequence, plain C: the state goes from whole to whole, or nothing happens.
3. Then what was taken out is let go, for that can run finalizers, and those may use the sequence.

The lock is a critical section: without the GIL it is the object's own lock; with the GIL, that is the lock,
and nothing in step 2 gives it away. What takes long, or gives the GIL away, works on a snapshot.
"""

cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.object cimport PyObject
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check, PySlice_Unpack
cimport numpy as cnp

import types
from collections.abc import MutableSequence
from copy import deepcopy

import numpy as np

from seqcore._buffer cimport (
    GapBuffer, broken_invariant, copy_range, empty_buffer, new_buffer, put_all, put_one, release,
    replace_span, reverse_all, share, size_of, slot_at, swap_one, swap_range, take_one, take_range,
)
from seqcore._compare cimport equal_buffers, find
from seqcore._join cimport join, shape_of, tighten, total_nbytes
from seqcore._numpy cimport descr_of
from seqcore._owner cimport drop, make_element, take_whole
from seqcore._parts cimport pinned_nbytes, put_together, take_apart
from seqcore._pieces cimport LENGTH_DIFFERS, NO_MEMORY, OK, OUT_OF_RANGE, Piece, Status
from seqcore._split cimport cut_by_lengths, cut_equally

from seqcore._format import as_html, as_text
from seqcore._tensors import as_tensor
from seqcore.dtypes import element_type, type_name

cdef extern from "Python.h":
    # With no exception given, a number that is too large becomes the largest.
    Py_ssize_t PyNumber_AsSsize_t(object number, PyObject *overflow) except? -1
    bint PyIndex_Check(object number)
    const Py_ssize_t PY_SSIZE_T_MAX

cnp.import_array()


# -- arguments and errors ----------------------------------------------------------------------------

cdef Py_ssize_t as_position(position) except? -1:
    """A position from a Python or NumPy integer or an int32 or int64 array of one element."""
    if PyLong_CheckExact(position):
        return PyNumber_AsSsize_t(position, NULL)
    if isinstance(position, np.ndarray):
        if position.size != 1 or position.dtype.kind != "i" or position.dtype.itemsize not in (4, 8):
            raise TypeError(f"a position is one int32 or int64, not an array of {position.dtype} "
                            f"and shape {position.shape}")
        return PyNumber_AsSsize_t(position.item(), NULL)
    if PyIndex_Check(position):
        return PyNumber_AsSsize_t(position, NULL)
    raise TypeError(f"a position is an integer, not {position!r:.60} of type {type(position).__name__}")


cdef int raise_for(Status status, object position, Py_ssize_t n, bint inserting=False) except -1:
    """Turn a status into an exception; `n` is the length that the operation found."""
    if status == NO_MEMORY:
        raise MemoryError(f"no memory for the slots of a sequence of {n} tensors")
    if status == OUT_OF_RANGE:
        position = np.asarray(position).item()
        if n == 0 and not inserting:
            raise IndexError(f"position {position} is out of range: the sequence is empty")
        raise IndexError(f"position {position} is out of range for a sequence of {n} "
                         f"tensor{'s' if n != 1 else ''} ({-n} to {n if inserting else n - 1})")
    return 0


cdef TensorSequence new_sequence(cnp.dtype dtype, GapBuffer *buffer, object cls=TensorSequence):
    """A sequence that takes over one share of the buffer, even when this fails."""
    cdef TensorSequence sequence
    try:
        sequence = cls.__new__(cls)
    except BaseException:
        release(buffer)
        raise
    cdef GapBuffer *stale = sequence._buffer
    sequence._dtype = dtype
    sequence._buffer = buffer
    release(stale)
    return sequence


cdef TensorSequence gather(tensors, cnp.dtype dtype, bint copied=False):
    """A new sequence of what an iterable gives; its type stays None where there is nothing to tell it."""
    cdef TensorSequence result
    if isinstance(tensors, TensorSequence):
        result = new_sequence((<TensorSequence>tensors)._dtype, (<TensorSequence>tensors).snapshot())
        if dtype is not None and result._dtype is not dtype:
            raise TypeError(f"a sequence of {type_name(result._dtype)} can't go into one of "
                            f"{type_name(dtype)}: convert its tensors first")
        if copied:
            result.compact()
        return result
    if isinstance(tensors, (str, bytes)) or hasattr(tensors, "__array__") or hasattr(tensors, "__dlpack__"):
        raise TypeError(f"a sequence is made from tensors, not from a bare {type(tensors).__name__}: put it "
                        "into a list, or cut it with split_to_sequence")
    result = new_sequence(dtype, empty_buffer())
    for tensor in tensors:
        if result._dtype is None:
            tensor = as_tensor(tensor)
            result._dtype = element_type(tensor.dtype)
        result.append(as_tensor(tensor, result._dtype, copy=True) if copied else tensor)
    return result


# -- the container -----------------------------------------------------------------------------------

@cython.collection_type("sequence")
@cython.no_gc           # as an ndarray is not; a subclass has its own
cdef class TensorSequence:
    """A typed, mutable sequence of tensors.

    Elements are values: looking at one gives a new read-only array that shares memory. The container is
    a gap buffer: an insert or erase where the last one was costs O(1), elsewhere 8 bytes are moved for
    each element in between. Every method is atomic, and several threads may use one sequence.

    Parameters
    ----------
    tensors : iterable of array_like, optional
        The elements, of any shapes and ranks, all of one type. Arrays are taken by reference, strings
        are copied.
    dtype : data-type, optional
        The element type: one of `seqcore.ELEMENT_TYPES` by any of its names, or `"bfloat16"`. By default
        the first tensor's. It never casts arrays.
    copy : bool, optional
        Whether the elements get memory of their own.

    Raises
    ------
    ValueError
        If there are neither tensors nor a dtype.
    TypeError
        If the dtype is no ONNX tensor type or a tensor has another type.

    See Also
    --------
    split_to_sequence : Cut an array into a sequence.
    concat_from_sequence : Join a sequence into an array.

    Notes
    -----
    Look: `seq[i]`, `seq[a:b:c]`, `len`, `iter`, `reversed`, `in`, `index`, `count`, `==`.
    Edit: `append`, `extend`, `insert`, `erase`, `pop`, `remove`, `clear`, `reverse`, `seq[i] = t`,
    `seq[a:b] = ts`, `del`, `+`, `+=`.
    Memory: `nbytes`, `pinned_nbytes`, `compact`, `copy`, pickle.

    Examples
    --------
    >>> import numpy as np
    >>> seq = TensorSequence([np.zeros((2, 3)), np.ones(4)])
    >>> seq.insert(1, [0.5, 0.25])
    >>> seq
    <TensorSequence of 3 float64 tensors: (2, 3) (2,) (4,)>
    >>> seq[1]
    array([0.5 , 0.25])
    """

    # NumPy then leaves operators between arrays and sequences alone.
    __array_ufunc__ = None

    def __cinit__(self, *args, **kwargs):
        self._buffer = empty_buffer()

    def __dealloc__(self):
        release(self._buffer)

    def __init__(self, tensors=(), dtype=None, *, copy=False):
        cdef TensorSequence news
        news = gather(tensors, None if dtype is None else element_type(dtype), copy)
        if news._dtype is None:
            raise ValueError("an empty sequence needs a dtype: TensorSequence(dtype='float32')")
        with cython.critical_section(self):
            fresh = self._dtype is None
            if fresh:
                self._dtype = news._dtype
        if not fresh:
            raise TypeError("a TensorSequence can't be initialised a second time: make a new one")
        self.extend(news)

    @classmethod
    def __class_getitem__(cls, item):
        """`TensorSequence[np.float32]`, for annotations."""
        return types.GenericAlias(cls, item)

    cdef Piece *take(self, object tensor) except NULL:
        """The tensor as a piece of this sequence's type, with one hold on it."""
        if cnp.PyArray_CheckExact(tensor) and descr_of(tensor) == <PyObject *>self._dtype:
            if self._dtype.type_num != cnp.NPY_OBJECT:
                return take_whole(tensor)
        if self._dtype is None:
            raise TypeError("this TensorSequence was not initialised: call __init__ first")
        if isinstance(tensor, TensorSequence):
            raise TypeError("a TensorSequence can't be an element: put its elements in with extend, or join "
                            "them with concat_from_sequence")
        return take_whole(as_tensor(tensor, self._dtype))

    cdef GapBuffer *snapshot(self) noexcept:
        """A share of the buffer as it stands, for the caller to release."""
        cdef GapBuffer *buffer
        with cython.critical_section(self):
            buffer = share(self._buffer)
        return buffer

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def dtype(self):
        """The element type, an `np.dtype`; `object` for strings."""
        return self._dtype

    @property
    def nbytes(self):
        """Bytes of the elements together. O(n)."""
        cdef GapBuffer *buffer = self.snapshot()
        try:
            return total_nbytes(buffer)
        finally:
            release(buffer)

    @property
    def pinned_nbytes(self):
        """Bytes of the memory that the elements keep alive. O(n).

        That is more than `nbytes` where an element is a small piece of a large array, and less where
        elements share memory. `compact` makes the two equal.
        """
        cdef GapBuffer *buffer = self.snapshot()
        try:
            return pinned_nbytes(buffer)
        finally:
            release(buffer)

    @property
    def shapes(self):
        """The elements' shapes, a list of tuples. O(n)."""
        cdef GapBuffer *buffer = self.snapshot()
        cdef Py_ssize_t i
        try:
            return [shape_of(slot_at(buffer, i)[0]) for i in range(size_of(buffer))]
        finally:
            release(buffer)

    def __len__(self):
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._buffer)
        return n

    def __repr__(self):
        return as_text(self)

    def _repr_html_(self):
        return as_html(self)

    # -- looking -------------------------------------------------------------------------------------

    def __getitem__(self, key):
        cdef Py_ssize_t position, n
        cdef object element = None
        if PySlice_Check(key):
            return self.sliced(key)
        position = as_position(key)
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if position < 0:
                position += n
            if 0 <= position < n:
                # Only memory is allocated here, no container: no foreign code can come in.
                element = make_element(slot_at(self._buffer, position)[0], self._dtype)
        if element is None:
            raise_for(OUT_OF_RANGE, key, n)
        return element

    cdef TensorSequence sliced(self, object key):
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
        return new_sequence(self._dtype, buffer)

    def __iter__(self):
        return SequenceIterator.__new__(SequenceIterator, self, False)

    def __reversed__(self):
        return SequenceIterator.__new__(SequenceIterator, self, True)

    def __contains__(self, tensor):
        return self.first_equal(tensor, 0, PY_SSIZE_T_MAX) >= 0

    def index(self, tensor, start=0, stop=None):
        """Return the first position of a tensor of equal type, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
        start, stop : int, optional
            Where to look, as in `list.index`.

        Raises
        ------
        ValueError
            If there is none.

        Examples
        --------
        >>> TensorSequence([[1, 2], [3], [4]]).index([3])
        1
        """
        cdef Py_ssize_t last = PY_SSIZE_T_MAX if stop is None else as_position(stop)
        cdef Py_ssize_t position = self.first_equal(tensor, as_position(start), last)
        if position < 0:
            raise ValueError("no tensor of the sequence equals the one looked for")
        return position

    def count(self, tensor):
        """Return how many elements equal a tensor in type, shape and values. O(n)."""
        cdef GapBuffer *buffer
        cdef Py_ssize_t position = -1, n = 0
        cdef Piece *piece = self.take_or_null(tensor)
        if piece == NULL:
            return 0
        buffer = self.snapshot()
        try:
            while True:
                position = find(buffer, position + 1, size_of(buffer), piece, self._dtype)
                if position < 0:
                    return n
                n += 1
        finally:
            release(buffer)
            drop(piece)

    cdef Piece *take_or_null(self, object tensor) except? NULL:
        """The tensor as a piece, or NULL if no element could equal it."""
        try:
            return self.take(tensor)
        except (TypeError, ValueError, OverflowError):
            return NULL

    cdef Py_ssize_t first_equal(self, object tensor, Py_ssize_t start, Py_ssize_t stop) except -2:
        cdef GapBuffer *buffer
        cdef Piece *piece = self.take_or_null(tensor)
        if piece == NULL:
            return -1
        buffer = self.snapshot()
        try:
            PySlice_AdjustIndices(size_of(buffer), &start, &stop, 1)
            return find(buffer, start, stop, piece, self._dtype)
        finally:
            release(buffer)
            drop(piece)

    def __eq__(self, other):
        cdef GapBuffer *ours
        cdef GapBuffer *theirs
        if not isinstance(other, TensorSequence):
            return NotImplemented
        if self._dtype is not (<TensorSequence>other)._dtype:
            return False
        ours = self.snapshot()
        theirs = (<TensorSequence>other).snapshot()
        try:
            return equal_buffers(ours, theirs, self._dtype)
        finally:
            release(ours)
            release(theirs)

    # -- putting in ----------------------------------------------------------------------------------

    def insert(self, position, tensor):
        """Insert a tensor before a position. Implements ONNX SequenceInsert-11, in place.

        Parameters
        ----------
        position : int
            From -n to n, where n is the length; `-1` is before the last element, n behind it.
        tensor : array_like
            Of the sequence's type; taken by reference.

        Raises
        ------
        IndexError
            If the position is outside; unlike `list.insert`, which clamps.
        TypeError
            If the tensor has another type or the position is no integer.

        Notes
        -----
        O(1) where the last edit was, else 8 bytes are moved for each element between.

        Examples
        --------
        >>> seq = TensorSequence([[1], [3]])
        >>> seq.insert(-1, [2])
        >>> [int(t[0]) for t in seq]
        [1, 2, 3]
        """
        cdef Py_ssize_t at = as_position(position), n
        cdef Piece *piece = self.take(tensor)
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
            raise_for(status, position, n, inserting=True)

    def append(self, tensor):
        """Put a tensor behind the last element. Amortised O(1).

        Parameters
        ----------
        tensor : array_like
            Of the sequence's type; taken by reference.

        Examples
        --------
        >>> seq = TensorSequence(dtype="int64")
        >>> seq.append([1, 2])
        >>> seq.shapes
        [(2,)]
        """
        cdef Piece *piece = self.take(tensor)
        cdef GapBuffer *stale = NULL
        cdef Status status
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = put_one(&self._buffer, &stale, n, piece)
        if stale != NULL:
            release(stale)
        if status != OK:
            drop(piece)
            raise_for(status, None, n)

    def extend(self, tensors):
        """Put the tensors of an iterable behind the last element, or none if one of them does not fit.

        Parameters
        ----------
        tensors : TensorSequence or iterable of array_like
            Of the sequence's type; the sequence itself is allowed. A bare array is a `TypeError`.

        Notes
        -----
        O(len(tensors)) when the last edit was at the end.
        """
        cdef TensorSequence news = gather(tensors, self._dtype)
        cdef GapBuffer *buffer = news.snapshot()
        cdef GapBuffer *stale = NULL
        cdef Status status
        cdef Py_ssize_t n
        if self._dtype is None:
            release(buffer)
            raise TypeError("this TensorSequence was not initialised: call __init__ first")
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = put_all(&self._buffer, &stale, n, buffer)
        release(stale)
        release(buffer)
        raise_for(status, None, n)

    def __iadd__(self, tensors):
        self.extend(tensors)
        return self

    def __add__(self, other):
        if not isinstance(other, (TensorSequence, list, tuple)):
            return NotImplemented
        cdef TensorSequence result = new_sequence(self._dtype, self.snapshot())
        result.extend(other)
        return result

    def __radd__(self, other):
        if not isinstance(other, (list, tuple)):
            return NotImplemented
        cdef TensorSequence result = gather(other, self._dtype)
        result.extend(self)
        return result

    def __setitem__(self, key, value):
        cdef Py_ssize_t position, n
        cdef Piece *piece
        cdef GapBuffer *stale = NULL
        cdef Status status = OUT_OF_RANGE
        if PySlice_Check(key):
            self.assign_slice(key, value)
            return
        position = as_position(key)
        piece = self.take(value)
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if position < 0:
                position += n
            if 0 <= position < n:
                status = swap_one(&self._buffer, &stale, position, &piece)
        release(stale)
        drop(piece)             # the old one, or on failure the new one
        raise_for(status, key, n)

    cdef int assign_slice(self, object key, object tensors) except -1:
        cdef TensorSequence values = gather(tensors, self._dtype)
        cdef Py_ssize_t start, stop, step, n, count, new_count
        cdef GapBuffer *news
        cdef GapBuffer *removed = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status
        PySlice_Unpack(key, &start, &stop, &step)
        # Elements are exchanged with `news`, so it can't be a buffer that a sequence uses.
        values = values[:0] + values
        news = values.snapshot()
        with cython.critical_section(values):
            values._buffer, stale = empty_buffer(), values._buffer
        release(stale)
        stale = NULL
        new_count = size_of(news)
        with cython.critical_section(self):
            n = size_of(self._buffer)
            count = PySlice_AdjustIndices(n, &start, &stop, step)
            if step != 1:
                status = LENGTH_DIFFERS
                if count == new_count:
                    status = swap_range(&self._buffer, &stale, start, step, news)
            else:
                status = NO_MEMORY
                removed = new_buffer(count)
                if removed != NULL:
                    status = replace_span(&self._buffer, &stale, start, removed, news)
        release(stale)
        release(news)
        release(removed)
        if status == LENGTH_DIFFERS:
            raise ValueError(f"{new_count} tensors can't take the places of {count}: a slice with a step "
                             "keeps the length")
        return raise_for(status, None, n)

    # -- taking out ----------------------------------------------------------------------------------

    def erase(self, position=-1):
        """Remove the element at a position. Implements ONNX SequenceErase-11, in place.

        Parameters
        ----------
        position : int, optional
            From -n to n - 1, where n is the length. By default the last.

        Raises
        ------
        IndexError
            If the position is outside, or the sequence is empty.

        Notes
        -----
        O(1) where the last edit was, else 8 bytes are moved for each element between.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2], [3]])
        >>> seq.erase(0)
        >>> len(seq)
        2
        """
        cdef Py_ssize_t at = as_position(position), n
        cdef Piece *piece = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status = OUT_OF_RANGE
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if at < 0:
                at += n
            if 0 <= at < n:
                status = take_one(&self._buffer, &stale, at, &piece)
        if stale != NULL:
            release(stale)
        if status != OK:
            raise_for(status, position, n)
        drop(piece)

    def pop(self, position=-1):
        """Remove the element at a position and return it, read-only. As `erase` otherwise.

        Examples
        --------
        >>> TensorSequence([[1], [2, 3]]).pop()
        array([2, 3])
        """
        cdef Py_ssize_t at = as_position(position), n
        cdef Piece *piece = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status = OUT_OF_RANGE
        cdef object element = None
        with cython.critical_section(self):
            n = size_of(self._buffer)
            if at < 0:
                at += n
            if 0 <= at < n:
                # First what can fail; see __getitem__ for why it is safe here.
                element = make_element(slot_at(self._buffer, at)[0], self._dtype)
                status = take_one(&self._buffer, &stale, at, &piece)
        release(stale)
        if status != OK:
            raise_for(status, position, n)
        drop(piece)
        return element

    def remove(self, tensor):
        """Remove the first element that equals a tensor in type, shape and values. O(n).

        Raises
        ------
        ValueError
            If there is none.
        """
        cdef GapBuffer *buffer
        cdef GapBuffer *stale = NULL
        cdef Piece *taken = NULL
        cdef Py_ssize_t position
        cdef Status status = OK
        cdef bint found_in_time
        cdef Piece *piece = self.take_or_null(tensor)
        try:
            # NumPy compares, and may let other threads in: begin again if they have edited meanwhile.
            while piece != NULL:
                buffer = self.snapshot()
                try:
                    position = find(buffer, 0, size_of(buffer), piece, self._dtype)
                    if position < 0:
                        break
                    with cython.critical_section(self):
                        found_in_time = self._buffer == buffer
                        if found_in_time:
                            status = take_one(&self._buffer, &stale, position, &taken)
                finally:
                    release(buffer)
                if found_in_time:
                    release(stale)
                    raise_for(status, None, position)
                    drop(taken)
                    return
        finally:
            if piece != NULL:
                drop(piece)
        raise ValueError("no tensor of the sequence equals the one to remove")

    def __delitem__(self, key):
        cdef Py_ssize_t start, stop, step, n, size
        cdef GapBuffer *taken = NULL
        cdef GapBuffer *stale = NULL
        cdef Status status = OK
        if not PySlice_Check(key):
            self.erase(key)
            return
        PySlice_Unpack(key, &start, &stop, &step)
        with cython.critical_section(self):
            size = size_of(self._buffer)
            n = PySlice_AdjustIndices(size, &start, &stop, step)
            if step < 0:            # the same elements from the front
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
        raise_for(status, None, size)

    def clear(self):
        """Remove all elements. O(n)."""
        cdef GapBuffer *stale
        with cython.critical_section(self):
            stale = self._buffer
            self._buffer = empty_buffer()
        release(stale)

    # -- all of it -----------------------------------------------------------------------------------

    def reverse(self):
        """Turn the order of the elements round. O(n)."""
        cdef GapBuffer *stale = NULL
        cdef Status status
        cdef Py_ssize_t n
        with cython.critical_section(self):
            n = size_of(self._buffer)
            status = reverse_all(&self._buffer, &stale)
        release(stale)
        raise_for(status, None, n)

    def compact(self):
        """Copy the elements into one tight buffer and let go of the memory they were taken from.

        Afterwards `pinned_nbytes` equals `nbytes`. O(nbytes); the GIL is released.

        Examples
        --------
        >>> import numpy as np
        >>> seq = TensorSequence([np.zeros((1000, 8))[:2]])
        >>> seq.nbytes, seq.pinned_nbytes
        (128, 64000)
        >>> seq.compact()
        >>> seq.pinned_nbytes
        128
        """
        cdef GapBuffer *before = NULL
        cdef GapBuffer *after = NULL
        cdef bint done = False
        while not done:         # again if another thread has edited meanwhile
            before = self.snapshot()
            try:
                after = tighten(before, self._dtype) if size_of(before) else empty_buffer()
                with cython.critical_section(self):
                    done = self._buffer == before
                    if done:
                        self._buffer = after
            finally:
                release(before)
            release(before if done else after)

    def copy(self):
        """Return a sequence of the same elements, that shares their memory.

        O(1): the first edit of either copies the slots.
        """
        cdef TensorSequence result = new_sequence(self._dtype, self.snapshot(), type(self))
        if hasattr(self, "__dict__"):
            result.__dict__.update(self.__dict__)
        return result

    def __copy__(self):
        return self.copy()

    def __deepcopy__(self, memo):
        cdef TensorSequence result = new_sequence(self._dtype, self.snapshot(), type(self))
        memo[id(self)] = result
        if size_of(result._buffer):
            result.compact()
        if hasattr(self, "__dict__"):
            result.__dict__.update(deepcopy(self.__dict__, memo))
        return result

    def __reduce_ex__(self, protocol):
        cdef GapBuffer *buffer = self.snapshot()
        try:
            parts, table = take_apart(buffer, self._dtype)
        finally:
            release(buffer)
        return restore, (type(self), type_name(self._dtype), parts, table), getattr(self, "__dict__", None)

    def _check(self):
        """Assert the invariants of the buffer; for tests."""
        cdef GapBuffer *buffer = self.snapshot()
        try:
            broken = broken_invariant(buffer)
        finally:
            release(buffer)
        assert broken is None, broken


MutableSequence.register(TensorSequence)


cdef class SequenceIterator:
    """Elements one by one, from the front or the back, as the sequence stands at each step."""

    cdef TensorSequence sequence        # None when it has come to its end
    cdef Py_ssize_t position            # of the next element
    cdef bint backwards

    def __cinit__(self, TensorSequence sequence not None, bint backwards):
        self.sequence = sequence
        self.backwards = backwards
        self.position = len(sequence) - 1 if backwards else 0

    def __iter__(self):
        return self

    def __next__(self):
        cdef TensorSequence sequence = self.sequence
        cdef object element = None
        cdef Py_ssize_t position
        if sequence is None:
            raise StopIteration
        with cython.critical_section(self, sequence):
            position = self.position
            if 0 <= position < size_of(sequence._buffer):
                element = make_element(slot_at(sequence._buffer, position)[0], sequence._dtype)
                self.position = position - 1 if self.backwards else position + 1
            else:
                self.sequence = None
        if element is None:
            raise StopIteration
        return element

    def __length_hint__(self):
        cdef TensorSequence sequence = self.sequence
        if sequence is None:
            return 0
        return self.position + 1 if self.backwards else max(len(sequence) - self.position, 0)


# -- what operators and pickle call ------------------------------------------------------------------

cdef int as_axis(axis, Py_ssize_t rank, str what) except -1:
    cdef Py_ssize_t given
    if not PyIndex_Check(axis) or isinstance(axis, np.ndarray):
        raise TypeError(f"axis is an integer, not {axis!r:.60} of type {type(axis).__name__}")
    given = PyNumber_AsSsize_t(axis, NULL)
    if not -rank <= given < rank:
        raise ValueError(f"axis {axis} is out of range for {what} ({-rank} to {rank - 1})")
    return <int>(given + rank if given < 0 else given)


cdef object as_input(input):
    array = as_tensor(input)
    if array.ndim == 0:
        raise ValueError("a scalar has no axis to be split along: give a tensor of rank 1 or more")
    return array


def split_equally(input, axis, Py_ssize_t length, bint drop_axis):
    """Cut a tensor into pieces of one length; `drop_axis` needs length 1."""
    cdef cnp.ndarray array = as_input(input)
    cdef int at = as_axis(axis, array.ndim, f"a tensor of shape {(<object>array).shape}")
    if length < 1 or (drop_axis and length > 1):
        raise ValueError(f"a length of {length} can't be cut")
    return new_sequence(element_type(array.dtype), cut_equally(array, at, length, drop_axis))


def split_by_lengths(input, axis, lengths):
    """Cut a tensor into pieces whose lengths an int64 array gives."""
    cdef cnp.ndarray array = as_input(input)
    cdef int at = as_axis(axis, array.ndim, f"a tensor of shape {(<object>array).shape}")
    # A copy, so that nobody else can write to what is checked first and then relied upon.
    cdef cnp.ndarray own = np.array(lengths, dtype=np.int64, order="C", copy=True, ndmin=1)
    return new_sequence(element_type(array.dtype), cut_by_lengths(array, at, own))


def join_elements(TensorSequence sequence not None, axis, bint stacking):
    """Join elements along an axis, a new one if `stacking`."""
    cdef GapBuffer *buffer = sequence.snapshot()
    cdef Py_ssize_t rank
    try:
        if size_of(buffer) == 0:
            raise ValueError("an empty sequence can't be joined: the shape of the result is unknown")
        shape = shape_of(slot_at(buffer, 0)[0])
        rank = len(shape) + stacking
        if rank == 0:
            raise ValueError("scalars have no axis to be joined along: use new_axis=1")
        what = f"tensors of shape {shape}" + (" and a new axis" if stacking else "")
        return join(buffer, sequence._dtype, as_axis(axis, rank, what), stacking)
    finally:
        release(buffer)


def restore(cls, dtype, parts, table):
    """Make a sequence of what `TensorSequence.__reduce_ex__` has taken apart."""
    cdef cnp.dtype own = element_type(dtype)
    if not issubclass(cls, TensorSequence):
        raise TypeError(f"{cls.__name__} is no TensorSequence")
    parts = [(as_tensor(array, own), int(axis)) for array, axis in parts]
    cdef cnp.ndarray rows = np.array(table, dtype=np.int64, order="C", copy=True)
    if (<object>rows).ndim != 2 or (<object>rows).shape[1] != 3:
        raise ValueError(f"a table of elements has shape (n, 3), not {(<object>rows).shape}")
    return new_sequence(own, put_together(own, parts, rows), cls)
