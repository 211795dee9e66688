"""TensorSequence: what a Python list can do, on a container of pieces."""

cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check
cimport numpy as cnp

import types
from collections.abc import MutableSequence
from copy import deepcopy

import numpy as np

from seqcore.core.buffer cimport GapBuffer, broken_invariant, empty_buffer, release, share, size_of
from seqcore.core.compare cimport count_equal, equal_buffers, find
from seqcore.core.container cimport new_container, raise_nested
from seqcore.core.interrupts cimport INTERVAL, let_others_in
from seqcore.core.iterator cimport ElementIterator
from seqcore.core.origins cimport origins_of
from seqcore.core.owner cimport drop
from seqcore.core.pickling cimport put_together, take_apart
from seqcore.core.pieces cimport Piece
from seqcore.core.positions cimport as_position
from seqcore.core.ragged cimport Ragged
from seqcore.core.selection cimport selection_in_rows, selection_of

from seqcore._format import as_html, as_text
from seqcore._protocols import UnreadableTensorError
from seqcore._remedies import refuse_operator
from seqcore._shown import got, shown
from seqcore._subclasses import new_arguments, own_reduction, rebuilt, set_state
from seqcore._tensors import as_tensor, as_tensors, mismatch
from seqcore.dtypes import element_type, type_name

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cnp.import_array()


cdef TensorSequence new_sequence(cnp.dtype dtype, GapBuffer *buffer):
    """A sequence that takes over one share of the buffer, even when this fails."""
    return <TensorSequence>new_container(TensorSequence, dtype, buffer)


cdef TensorSequence gather(tensors, cnp.dtype dtype, bint copied=False):
    """Return a new sequence of the tensors of an iterable; without tensors and dtype its dtype stays None."""
    cdef TensorSequence result
    cdef Py_ssize_t taken = 0
    if isinstance(tensors, TensorSequence):
        (<TensorSequence>tensors).check_initialised(NULL)
        result = new_sequence((<TensorSequence>tensors)._dtype, (<TensorSequence>tensors).snapshot())
        if dtype is not None and result._dtype is not dtype:
            raise TypeError(mismatch("the sequence", result._dtype, dtype))
        if copied:
            result.move_together()
        return result
    if type(tensors) is not list and type(tensors) is not tuple:
        tensors = as_tensors(tensors)
    result = new_sequence(dtype, empty_buffer())
    for tensor in tensors:
        taken += 1
        if taken % INTERVAL == 0:
            let_others_in()
        if result._dtype is None:
            if isinstance(tensor, TensorSequence):
                raise_nested(taken - 1)
            tensor = as_tensor(tensor, at=taken - 1)
            result._dtype = element_type(tensor.dtype)
        if copied:
            tensor = as_tensor(tensor, result._dtype, copy=True, at=taken - 1)
        result.put_behind(result.take(tensor, taken - 1))
    return result


cdef str absent(tensor, str where=""):
    """Return the message for a tensor that is not in a sequence."""
    return f"no element{where} equals {got(tensor)} in shape and values"


# -- the container -----------------------------------------------------------------------------------

@cython.collection_type("sequence")
@cython.no_gc           # as an ndarray is not; a subclass has its own
cdef class TensorSequence(Ragged):
    """TensorSequence(tensors=(), dtype=None, *, copy=False)\n--\n
    A typed, mutable sequence of tensors.

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
    - Look: `seq[i]`, `seq[a:b:c]`, `seq[indices]`, `seq[mask]`, `len`, `iter`, `reversed`, `in`, `index`,
      `count`, `==`.
    - Edit: `append`, `extend`, `insert`, `erase`, `pop`, `remove`, `clear`, `reverse`, `seq[i] = t`,
      `seq[a:b] = ts`, `seq[indices] = ts`, `seq[mask] = ts`, `del`, `+`, `+=`.
    - In one piece: `values`, `lengths`, `offsets`, `to_padded`, `astype`, `tolist`, `from_lengths`,
      `from_offsets`, `from_padded`.
    - Memory: `nbytes`, `pinned_nbytes`, `compact`, `copy`, pickle.

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

    def __init__(self, tensors=(), dtype=None, *, copy=False):
        cdef TensorSequence news
        news = gather(tensors, None if dtype is None else element_type(dtype), copy)
        if news._dtype is None:
            raise ValueError("an empty sequence needs a dtype: TensorSequence(dtype='float32')")
        # Not by `extend`: a subclass's own would find itself half made.
        if not self.claim(news._dtype, news.take_out_all()):
            raise TypeError("__init__ was called twice on this TensorSequence: make a new one, or edit it "
                            "with clear and extend")

    @classmethod
    def __class_getitem__(cls, item):
        """`TensorSequence[np.float32]`, for annotations."""
        return types.GenericAlias(cls, item)

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def dtype(self):
        """The element type, an `np.dtype`; `object` for strings."""
        return self._dtype

    def __len__(self):
        return self.size()

    def __repr__(self):
        return as_text(self)

    def _repr_html_(self):
        return as_html(self)

    # -- looking -------------------------------------------------------------------------------------

    def __getitem__(self, key):
        if PyLong_CheckExact(key):
            return self.element(as_position(key), key)
        if PySlice_Check(key):
            return new_sequence(self._dtype, self.slice_of(key))
        selection = selection_of(key)
        if selection is None:
            return self.element(as_position(key), key)
        return new_sequence(self._dtype, self.selected_by(selection))

    def __getitems__(self, positions):
        """`seq[positions]`: what PyTorch's DataLoader asks a data set for, a batch in one call."""
        return new_sequence(self._dtype, self.selected_by(selection_in_rows(positions)))

    def __iter__(self):
        return ElementIterator.__new__(ElementIterator, self, False)

    def __reversed__(self):
        return ElementIterator.__new__(ElementIterator, self, True)

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
        TypeError
            If the tensor is an array that can't be read: it lies on a GPU, is sparse or requires grad. So it
            is in `in`, `count` and `remove` too; what is no array at all is not in a sequence.

        Examples
        --------
        >>> TensorSequence([[1, 2], [3], [4]]).index([3])
        1
        """
        cdef Py_ssize_t last = PY_SSIZE_T_MAX if stop is None else as_position(stop)
        cdef Py_ssize_t position = self.first_equal(tensor, as_position(start), last)
        if position < 0:
            where = "" if start == 0 and stop is None else f" from position {shown(start)} to {shown(stop)}"
            raise ValueError(absent(tensor, where))
        return position

    def count(self, tensor):
        """Return how many elements equal a tensor in type, shape and values. O(n).

        Examples
        --------
        >>> TensorSequence([[1, 2], [3], [1, 2]]).count([1, 2])
        2
        """
        cdef GapBuffer *buffer
        cdef Piece *piece = self.take_or_null(tensor)
        if piece == NULL:
            return 0
        buffer = self.snapshot()
        try:
            return count_equal(buffer, piece, self._dtype)
        finally:
            release(buffer)
            drop(piece)

    cdef Piece *take_or_null(self, object tensor) except? NULL:
        """The tensor as a piece, or NULL if no element could equal it.

        Of an array that can't be read nobody knows whether one does: that is an error, as where it is put in.
        """
        try:
            return self.take(tensor)
        except UnreadableTensorError:
            raise
        except (TypeError, ValueError, OverflowError):
            pass        # not a return, which in Cython 3.3 fails where there was no memory for the traceback
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

    # Beside `==`, for with it comparisons are not inherited.

    def __lt__(self, other):
        return refuse_operator(self, "<", other)

    def __le__(self, other):
        return refuse_operator(self, "<=", other)

    def __gt__(self, other):
        return refuse_operator(self, ">", other)

    def __ge__(self, other):
        return refuse_operator(self, ">=", other)

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
        cdef Py_ssize_t at = as_position(position)
        self.put(at, position, self.take(tensor))

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
        self.put_behind(self.take(tensor))

    def extend(self, tensors):
        """Put the tensors of an iterable behind the last element, or none if one of them does not fit.

        Parameters
        ----------
        tensors : TensorSequence or iterable of array_like
            Of the sequence's type; the sequence itself is allowed. A bare array is a `TypeError`.

        Notes
        -----
        O(len(tensors)) when the last edit was at the end.

        Examples
        --------
        >>> seq = TensorSequence([[1]])
        >>> seq.extend(seq)
        >>> len(seq)
        2
        """
        cdef TensorSequence news = gather(tensors, self._dtype)
        # Made just now, the elements need no further holds: their buffer is handed over.
        self.put_all_behind(news.take_out_all())

    def __iadd__(self, tensors):
        TensorSequence.extend(self, tensors)        # as in a list, not a subclass's own
        return self

    def __add__(self, other):
        if not isinstance(other, (TensorSequence, list, tuple)):
            return refuse_operator(self, "+", other)
        cdef TensorSequence result = new_sequence(self._dtype, self.snapshot())
        result.extend(other)
        return result

    def __radd__(self, other):
        if isinstance(other, TensorSequence):
            return NotImplemented           # of a class that this one derives from: it adds by itself
        if not isinstance(other, (list, tuple)):
            return refuse_operator(self, "+", other)
        cdef TensorSequence result = gather(other, self._dtype)
        result.extend(self)
        return result

    def __setitem__(self, key, value):
        cdef Py_ssize_t at
        if PySlice_Check(key):
            self.replace_slice(key, gather(value, self._dtype).take_out_all())
            return
        selection = selection_of(key)
        if selection is None:
            at = as_position(key)
            self.replace(at, key, self.take(value))
        else:
            self.replace_selected(selection, gather(value, self._dtype).take_out_all())

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
        self.take_out(as_position(position), position, False)

    def pop(self, position=-1):
        """Remove the element at a position and return it, read-only. As `erase` otherwise.

        Examples
        --------
        >>> TensorSequence([[1], [2, 3]]).pop()
        array([2, 3])
        """
        return self.take_out(as_position(position), position, True)

    def remove(self, tensor):
        """Remove the first element that equals a tensor in type, shape and values. O(n).

        Raises
        ------
        ValueError
            If there is none.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2], [1]])
        >>> seq.remove([1])
        >>> seq.index([1])
        1
        """
        cdef Piece *piece = self.take_or_null(tensor)
        cdef bint removed = False
        if piece != NULL:
            try:
                removed = self.take_out_equal(piece)
            finally:
                drop(piece)
        if not removed:
            raise ValueError(absent(tensor))

    def __delitem__(self, key):
        if PySlice_Check(key):
            self.take_out_slice(key)
            return
        selection = selection_of(key)
        if selection is None:
            self.take_out(as_position(key), key, False)
        else:
            self.take_out_selected(selection)

    def clear(self):
        """Remove all elements. O(n).

        Examples
        --------
        >>> seq = TensorSequence([[1], [2]])
        >>> seq.clear()
        >>> seq
        <TensorSequence of 0 int64 tensors>
        """
        release(self.take_out_all())

    # -- all of it -----------------------------------------------------------------------------------

    def reverse(self):
        """Turn the order of the elements round. O(n).

        Examples
        --------
        >>> seq = TensorSequence([[1], [2, 3]])
        >>> seq.reverse()
        >>> seq.shapes
        [(2,), (1,)]
        """
        self.turn_round()

    def compact(self):
        """Copy the elements into one tight buffer and let go of the memory they were taken from.

        Afterwards `pinned_nbytes` equals `nbytes`; only what other threads put in meanwhile stays as it is.
        O(nbytes); the GIL is released.

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
        self.move_together()

    def copy(self):
        """Return a sequence of the same elements, that shares their memory.

        O(1): the first edit of either copies the slots. Of a subclass it is what `copy.copy` makes.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2]])
        >>> other = seq.copy()
        >>> other.append([3])
        >>> len(seq), len(other)
        (2, 3)
        """
        if type(self) is TensorSequence:
            return new_sequence(self._dtype, self.snapshot())
        reduction = own_reduction(self, TensorSequence)
        if reduction is not None:
            return rebuilt(self, reduction)
        positional, named = new_arguments(self)
        result = new_container(type(self), self._dtype, self.snapshot(), positional, named)
        set_state(result, self.__getstate__())
        return result

    def __copy__(self):
        return TensorSequence.copy(self)

    def __deepcopy__(self, memo):
        reduction = None if type(self) is TensorSequence else own_reduction(self, TensorSequence)
        if reduction is not None:
            return rebuilt(self, reduction, memo)
        cdef TensorSequence result
        positional, named = new_arguments(self)
        if positional or named:
            positional, named = deepcopy((positional, named), memo)
        result = new_container(type(self), self._dtype, self.snapshot(), positional, named)
        memo[id(self)] = result
        if result.size():
            result.move_together()
        state = self.__getstate__()
        if state is not None:
            set_state(result, deepcopy(state, memo))
        return result

    def __reduce__(self):
        cdef GapBuffer *buffer = self.whole()
        try:
            stored = origins_of(buffer)
            if stored is None:
                make, contents = restore, take_apart(buffer, self._dtype)
            else:
                elements = new_sequence(self._dtype, share(buffer))
        finally:
            release(buffer)
        if stored is not None:
            from seqcore._files.paths import reduced

            make, contents = reopen, reduced(elements, *stored)
        arguments = new_arguments(self)
        if not any(arguments):
            arguments = ()
        return make, (type(self), type_name(self._dtype), *contents, *arguments), self.__getstate__()

    def _check(self):
        """Assert the invariants of the buffer; for tests."""
        cdef GapBuffer *buffer = self.snapshot()
        try:
            broken = broken_invariant(buffer)
        finally:
            release(buffer)
        assert broken is None, broken


MutableSequence.register(TensorSequence)


# -- what pickle calls -------------------------------------------------------------------------------

def reopen(cls, dtype, files, order, others, positional=(), named=None):
    """Make a sequence of elements that stand in files, as `TensorSequence.__reduce__` has found them."""
    from seqcore._files.paths import restored

    cdef cnp.dtype own = check_pickled(cls, dtype, positional, named)
    cdef TensorSequence elements = restored(own, files, order, others)
    if elements._dtype is not own:          # whatever a subclass says of it
        raise ValueError(f"the pickle says dtype {type_name(own)}, but its files have "
                         f"{type_name(elements._dtype)}")
    return new_container(cls, own, elements.snapshot(), positional, named)


def restore(cls, dtype, parts, table, positional=(), named=None):
    """Make a sequence of what `TensorSequence.__reduce__` has taken apart."""
    cdef cnp.dtype own = check_pickled(cls, dtype, positional, named)
    return new_container(cls, own, put_together(own, parts, table), positional, named)


cdef cnp.dtype check_pickled(cls, dtype, positional, named):
    """The element type that a pickle names; an error where it names no class or type of ours."""
    if not isinstance(cls, type) or not issubclass(cls, TensorSequence):
        raise TypeError(f"the pickle is damaged: expected a subclass of TensorSequence, got {shown(cls)}")
    if type(dtype) is not str:
        raise TypeError(f"the pickle is damaged: expected the name of a dtype, got {shown(dtype)}")
    if type(positional) is not tuple or not (named is None or type(named) is dict):
        raise TypeError("the pickle is damaged: expected a tuple and a dict of arguments for __new__, got "
                        f"{shown(positional)} and {shown(named)}")
    return element_type(dtype)
