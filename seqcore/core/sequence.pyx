"""TensorSequence: the interface of a Python list, on a gap buffer of views."""

cimport cython
from cpython.long cimport PyLong_CheckExact
from cpython.slice cimport PySlice_AdjustIndices, PySlice_Check
cimport numpy as cnp

from collections.abc import MutableSequence
from copy import deepcopy
from types import GenericAlias

import numpy as np

from seqcore.core.compare cimport count_equal, equal_stores, find
from seqcore.core.container cimport new_container
from seqcore.core.gather cimport Gathering, gather
from seqcore.core.iterator cimport ElementIterator
from seqcore.core.owner cimport release_source
from seqcore.core.pickling cimport reduced, restored
from seqcore.core.positions cimport as_position
from seqcore.core.ragged cimport Ragged
from seqcore.core.reader cimport read_one
from seqcore.core.selection cimport selection_in_rows, selection_of
from seqcore.core.share cimport Share
from seqcore.core.source cimport MAX_NDIM, Piece, Source, resolve
from seqcore.core.store cimport Store, broken_invariant, release, size_of
from seqcore.core.values cimport values_of

from seqcore._arguments.other_names import refuse_arguments
from seqcore._arguments.protocols import UnreadableTensorError
from seqcore._arguments.shown import got, shown
from seqcore.core.subclasses import new_arguments, own_reduction, rebuilt, set_state
from seqcore._arguments.tensors import not_an_array
from seqcore.dtypes import element_type, type_name

cdef extern from "Python.h":
    const Py_ssize_t PY_SSIZE_T_MAX

cnp.import_array()


cdef TensorSequence new_sequence(cnp.dtype dtype, Store *store):
    """Return a sequence that takes over one share of the store, even when this fails."""
    return <TensorSequence>new_container(TensorSequence, dtype, store)


cdef cnp.ndarray selected(object key, Py_ssize_t n):
    """As `selection_of`; a sequence of single bools is a mask too."""
    cdef Share share
    if isinstance(key, TensorSequence) and (<TensorSequence>key)._dtype is not None and (
            (<TensorSequence>key)._dtype.type_num == cnp.NPY_BOOL):
        share = (<TensorSequence>key).shared()
        if has_rank_0(share.store):
            key = values_of(share.store, (<TensorSequence>key)._dtype)
    return selection_of(key, n)


cdef bint has_rank_0(Store *store) noexcept:
    """Return whether the first element is a single number; True without elements."""
    cdef Piece first
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    return size_of(store) == 0 or (read_one(store, 0, &first, dims) and first.source.ndim == 0)


cdef str absent(tensor, str where=""):
    """Return the message for a tensor that is not in a sequence."""
    return f"no element{where} equals {got(tensor)} in shape and values"


# -- the container -----------------------------------------------------------------------------------

@cython.collection_type("sequence")
@cython.no_gc           # as an ndarray is not; a subclass has its own
cdef class TensorSequence(Ragged):
    """TensorSequence(tensors=(), dtype=None, *, copy=False)\n--\n
    A typed, mutable sequence of tensors.

    The elements are NumPy arrays of one dtype, whose shapes and ranks may differ. `seq[i]` returns a new
    read-only array that shares memory with the sequence, without a copy. The container itself is mutable: an
    insert or erase at the position of the last one is O(1), elsewhere at most 8 bytes are moved for each
    element in between. A sequence that was split, loaded or sliced stores at most 8 bytes for each element.
    Every method is atomic, and several threads may use one sequence.

    Parameters
    ----------
    tensors : iterable of array_like, optional
        The elements, all of one dtype, of any shapes and ranks. Arrays are taken by reference, strings and
        Python lists are copied. A pandas Series and a 1-D object array of arrays count as lists of their
        items. A single array is a `TypeError`: `split_to_sequence` splits it.
    dtype : data-type, optional
        The element type: a name from `seqcore.ELEMENT_TYPES`, any of NumPy's names for it, or `"bfloat16"`.
        The default is the dtype of the first tensor that isn't an empty list. Arrays are never cast to it.
    copy : bool, optional
        If True, copy the data, into one buffer. Pass it if the original arrays will be modified.

    Raises
    ------
    ValueError
        If there are neither tensors nor a dtype, or a nested list is ragged.
    TypeError
        If a tensor has another dtype than the first one, or the dtype is not supported. The message names
        the position, as in `tensors[777]`.

    See Also
    --------
    split_to_sequence : Split an array into a sequence of views.
    concat_from_sequence : Join or stack a sequence into one array.
    sequence_map : Apply a function to each element.

    Notes
    -----
    - Read: `seq[i]`, `seq[a:b:c]`, `seq[indices]`, `seq[mask]`, `len`, `iter`, `reversed`, `in`, `index`,
      `count`, `==`.
    - Edit: `append`, `extend`, `insert`, `erase`, `pop`, `remove`, `clear`, `reverse`, `seq[i] = t`,
      `seq[a:b] = ts`, `seq[indices] = ts`, `seq[mask] = ts`, `del`, `+`, `+=`.
    - Convert: `values()`, `lengths()`, `offsets()`, `segment_ids()`, `position_ids()`, `to_padded()`,
      `reduce()`, `astype()`, `tolist()`, and back:
      `from_lengths`, `from_offsets`, `from_padded`, `from_arrow`.
    - Memory: `nbytes`, `pinned_nbytes`, `compact()`, `copy()`, pickle.

    `dtype`, `shapes`, `nbytes` and `pinned_nbytes` are properties, all others are methods.

    A sequence is not an array: NumPy's functions and operators refuse it. `sequence_map(np.sqrt, seq)` calls
    a function for each element, `np.sqrt(seq.values())` for all values at once, and
    `sequence_map(np.multiply, seq, np.float32(2))` stands for `seq * 2`. `==` compares two sequences and
    returns one bool; with anything else, a list of arrays too, it is False. `sorted` compares arrays and
    fails: `seq[np.argsort(seq.lengths())]` sorts by length. Ranks may differ, so `seq[0] = 5` stores a tensor
    of rank 0; `seq[0] = np.full_like(seq[0], 5)` keeps the shape.

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

    # Makes NumPy refuse ufuncs and operators between arrays and sequences.
    __array_ufunc__ = None

    def __init__(self, tensors=(), dtype=None, *given, copy=False, **named):    # to name what is meant
        cdef Gathering news
        cdef Store *store
        if given or named:
            refuse_arguments("TensorSequence", 2, given, named)
        news = gather(tensors, None if dtype is None else element_type(dtype), copy)
        store = news.take_store()
        if news.dtype is None:
            release(store)
            raise ValueError("an empty sequence needs a dtype: TensorSequence(dtype='float32')")
        # Not by `extend`, because a subclass's own would see a half-initialised object.
        if not self.claim(news.dtype, store):
            raise TypeError("__init__ was called twice on this TensorSequence: make a new one, or edit it "
                            "with clear and extend")

    @classmethod
    def __class_getitem__(cls, item):
        """Return the generic alias `TensorSequence[np.float32]`, for annotations."""
        return GenericAlias(cls, item)

    def __array_function__(self, function, types, args, kwargs):
        """Refuse NumPy's functions, which would silently stack the elements. `np.save` writes the stack."""
        if function is np.save:
            return function.__wrapped__(*args, **kwargs)
        raise TypeError(not_an_array(function))

    # -- what it is ----------------------------------------------------------------------------------

    @property
    def dtype(self):
        """The dtype of the elements, an `np.dtype`; `object` for strings."""
        return self._dtype

    def __len__(self):
        return self.size()

    def __repr__(self):
        from seqcore._format.text import as_text

        return as_text(self)

    def _repr_html_(self):
        from seqcore._format.notebook import as_html

        return as_html(self)

    # -- looking -------------------------------------------------------------------------------------

    def __getitem__(self, key):
        if PyLong_CheckExact(key):
            return self.element(as_position(key), key)
        if PySlice_Check(key):
            return new_sequence(self._dtype, self.slice_of(key))
        selection = selected(key, self.size())
        if selection is None:
            return self.element(as_position(key), key)
        return new_sequence(self._dtype, self.selected_by(selection))

    def __getitems__(self, positions):
        """Return `seq[positions]`, a batch in one call. PyTorch's DataLoader calls this method."""
        return new_sequence(self._dtype, self.selected_by(selection_in_rows(positions, self.size())))

    def __iter__(self):
        return ElementIterator.__new__(ElementIterator, self, False)

    def __reversed__(self):
        return ElementIterator.__new__(ElementIterator, self, True)

    def __contains__(self, tensor):
        return self.first_equal(tensor, 0, PY_SSIZE_T_MAX) >= 0

    def index(self, tensor, start=0, stop=None):
        """Return the first position of a tensor that equals an element in dtype, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
            The tensor to search for. A value that can't be an element is not in the sequence.
        start, stop : int, optional
            The range of positions to search, as in `list.index`.

        Returns
        -------
        int
            The position, from 0.

        Raises
        ------
        ValueError
            If no element equals the tensor.
        TypeError
            If NumPy can't read the tensor: on a GPU, sparse, or with requires_grad. The same holds for `in`,
            `count` and `remove`.

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
        """Return the number of elements that equal a tensor in dtype, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
            The tensor to search for.

        Returns
        -------
        int

        Examples
        --------
        >>> TensorSequence([[1, 2], [3], [1, 2]]).count([1, 2])
        2
        """
        cdef Share share
        cdef Piece piece
        cdef Source *wanted = self.take_or_null(tensor)
        if wanted == NULL:
            return 0
        try:
            share = self.shared()
            resolve(wanted, 0, &piece, NULL)
            return count_equal(share.store, &piece, self._dtype)
        finally:
            release_source(wanted, 1)

    cdef Source *take_or_null(self, object tensor) except? NULL:
        """The tensor as a source, or NULL if no element could equal it.

        For an array that can't be read nobody can tell, so that is an error, as in an insert.
        """
        try:
            return self.take(tensor)
        except UnreadableTensorError:
            raise
        except (TypeError, ValueError, OverflowError):
            pass        # not a return, which in Cython 3.3 fails where there was no memory for the traceback
        return NULL

    cdef Py_ssize_t first_equal(self, object tensor, Py_ssize_t start, Py_ssize_t stop) except -2:
        cdef Share share
        cdef Piece piece
        cdef Source *wanted = self.take_or_null(tensor)
        if wanted == NULL:
            return -1
        try:
            share = self.shared()
            PySlice_AdjustIndices(size_of(share.store), &start, &stop, 1)
            resolve(wanted, 0, &piece, NULL)
            return find(share.store, start, stop, &piece, self._dtype, False)
        finally:
            release_source(wanted, 1)

    def __eq__(self, other):
        cdef Share ours, theirs
        if not isinstance(other, TensorSequence):
            return NotImplemented
        if self._dtype is not (<TensorSequence>other)._dtype:
            return False
        ours = self.shared()
        theirs = (<TensorSequence>other).shared()
        return equal_stores(ours.store, theirs.store, self._dtype)

    # -- putting in ----------------------------------------------------------------------------------

    def insert(self, position, tensor):
        """Insert a tensor before a position, in place. Implements ONNX SequenceInsert-11.

        Parameters
        ----------
        position : int
            The position from -n to n, where n is the length; `-1` is before the last element, n at the end.
        tensor : array_like
            The tensor, of the sequence's dtype and any shape; taken by reference.

        Raises
        ------
        IndexError
            If the position is out of range. (`list.insert` clamps it.)
        TypeError
            If the tensor has another dtype or the position is not an integer.

        Notes
        -----
        O(1) at the position of the last edit; elsewhere at most 8 bytes are moved for each element in
        between. After several edits of a split or loaded sequence, one edit is O(n).

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
        """Append a tensor to the end. Amortized O(1).

        Parameters
        ----------
        tensor : array_like
            The tensor, of the sequence's dtype and any shape; taken by reference.

        Raises
        ------
        TypeError
            If the tensor has another dtype.

        Examples
        --------
        >>> seq = TensorSequence(dtype="int64")
        >>> seq.append([1, 2])
        >>> seq.shapes
        [(2,)]
        """
        self.put_behind(self.take(tensor))

    def extend(self, tensors):
        """Append the tensors of an iterable, or none of them if one doesn't fit.

        Parameters
        ----------
        tensors : TensorSequence or iterable of array_like
            The tensors, of the sequence's dtype; the sequence itself is allowed. A single array is a
            `TypeError`.

        Raises
        ------
        TypeError
            If a tensor has another dtype; the message names its position among the tensors given.

        Notes
        -----
        O(len(tensors)) if the last edit was at the end, and less if the tensors are a split or loaded
        sequence.

        Examples
        --------
        >>> seq = TensorSequence([[1]])
        >>> seq.extend(seq)
        >>> len(seq)
        2
        """
        self.put_all_behind(gather(tensors, self._dtype).take_store())

    def __iadd__(self, tensors):
        TensorSequence.extend(self, tensors)        # as in a list, not a subclass's own
        return self

    def __add__(self, other):
        if cnp.PyArray_Check(other):
            raise TypeError(f"expected a TensorSequence or list to add, got {got(other)}: seq.append(tensor) "
                            "adds it as an element, sequence_map(np.add, seq, tensor) adds to each element")
        if not isinstance(other, (TensorSequence, list, tuple)):
            return NotImplemented
        cdef TensorSequence result = new_sequence(self._dtype, self.snapshot())
        result.extend(other)
        return result

    def __radd__(self, other):
        # A sequence is of a class that this one derives from: it adds by itself.
        if isinstance(other, TensorSequence) or not isinstance(other, (list, tuple)):
            return NotImplemented
        self.check_initialised(NULL)
        cdef TensorSequence result = new_sequence(self._dtype, gather(other, self._dtype).take_store())
        result.extend(self)
        return result

    def __setitem__(self, key, value):
        cdef Py_ssize_t at
        if PySlice_Check(key):
            self.replace_slice(key, gather(value, self._dtype).take_store())
            return
        selection = selected(key, self.size())
        if selection is None:
            at = as_position(key)
            self.replace(at, key, self.take(value))
        else:
            self.replace_selected(selection, gather(value, self._dtype).take_store())

    # -- taking out ----------------------------------------------------------------------------------

    def erase(self, position=-1):
        """Remove the element at a position, in place. Implements ONNX SequenceErase-11.

        Parameters
        ----------
        position : int, optional
            The position from -n to n - 1, where n is the length. The default is the last one.

        Raises
        ------
        IndexError
            If the position is out of range, or the sequence is empty.

        Notes
        -----
        O(1) at the position of the last edit; elsewhere at most 8 bytes are moved for each element in
        between. After several edits of a split or loaded sequence, one edit is O(n).

        Examples
        --------
        >>> seq = TensorSequence([[1], [2], [3]])
        >>> seq.erase(0)
        >>> len(seq)
        2
        """
        self.take_out(as_position(position), position, False)

    def pop(self, position=-1):
        """Remove the element at a position and return it as a read-only array.

        Parameters
        ----------
        position : int, optional
            The position from -n to n - 1, where n is the length. The default is the last one.

        Returns
        -------
        np.ndarray

        Raises
        ------
        IndexError
            If the position is out of range, or the sequence is empty.

        Examples
        --------
        >>> TensorSequence([[1], [2, 3]]).pop()
        array([2, 3])
        """
        return self.take_out(as_position(position), position, True)

    def remove(self, tensor):
        """Remove the first element that equals a tensor in dtype, shape and values. O(n).

        Parameters
        ----------
        tensor : array_like
            The tensor to search for.

        Raises
        ------
        ValueError
            If no element equals the tensor.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2], [1]])
        >>> seq.remove([1])
        >>> seq.index([1])
        1
        """
        cdef Source *wanted = self.take_or_null(tensor)
        cdef Piece piece
        cdef bint removed = False
        if wanted != NULL:
            try:
                resolve(wanted, 0, &piece, NULL)
                removed = self.take_out_equal(&piece)
            finally:
                release_source(wanted, 1)
        if not removed:
            raise ValueError(absent(tensor))

    def __delitem__(self, key):
        if PySlice_Check(key):
            self.take_out_slice(key)
            return
        selection = selected(key, self.size())
        if selection is None:
            self.take_out(as_position(key), key, False)
        else:
            self.take_out_selected(selection)

    def clear(self):
        """Remove all elements. O(n), or O(1) after a split or load.

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
        """Reverse the order of the elements in place. O(n), or O(1) after a split or load.

        Examples
        --------
        >>> seq = TensorSequence([[1], [2, 3]])
        >>> seq.reverse()
        >>> seq.shapes
        [(2,), (1,)]
        """
        self.turn_round()

    def compact(self):
        """Copy the elements into one contiguous buffer and release the memory that they were views of.

        Afterwards `pinned_nbytes` equals `nbytes`, except for elements that other threads insert meanwhile.

        Notes
        -----
        O(nbytes). The GIL is released during the copy, but not if others have edited during three of them.

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
        """Return a copy of the sequence that shares the elements' memory.

        Edits of one don't show in the other. For a subclass the result is that of `copy.copy`.

        Returns
        -------
        TensorSequence

        Notes
        -----
        O(1). The first edit of either sequence copies at most 8 bytes for each element.

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
        cdef Share share = self.whole()
        parts, order = reduced(share.store, self._dtype)
        arguments = new_arguments(self)
        if not any(arguments):
            arguments = ()
        return restore, (type(self), type_name(self._dtype), parts, order, *arguments), self.__getstate__()

    def _check(self):
        """Assert the invariants of the store, for tests."""
        cdef Share share = self.shared()
        broken = broken_invariant(share.store)
        assert broken is None, broken


MutableSequence.register(TensorSequence)


# -- what pickle calls -------------------------------------------------------------------------------

def restore(cls, dtype, parts, order, positional=(), named=None):
    """Make a sequence of what `TensorSequence.__reduce__` has taken apart."""
    cdef cnp.dtype own = check_pickled(cls, dtype, positional, named)
    return new_container(cls, own, restored(own, parts, order), positional, named)


cdef cnp.dtype check_pickled(cls, dtype, positional, named):
    """Return the element type that a pickle names; raise if its class or dtype isn't a sequence's."""
    if not isinstance(cls, type) or not issubclass(cls, TensorSequence):
        raise TypeError(f"the pickle is damaged: expected a subclass of TensorSequence, got {shown(cls)}")
    if type(dtype) is not str:
        raise TypeError(f"the pickle is damaged: expected the name of a dtype, got {shown(dtype)}")
    if type(positional) is not tuple or not (named is None or type(named) is dict):
        raise TypeError("the pickle is damaged: expected a tuple and a dict of arguments for __new__, got "
                        f"{shown(positional)} and {shown(named)}")
    return element_type(dtype)
