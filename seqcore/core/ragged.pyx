"""Ragged data in one piece: what a TensorSequence is to others, and is made from. One call each."""

cimport cython
cimport numpy as cnp

from seqcore.core.arrays cimport own_view
from seqcore.core.buffer cimport share as retained, size_of
from seqcore.core.container cimport Container, new_container
from seqcore.core.interrupts cimport INTERVAL, let_others_in
from seqcore.core.join cimport tight_items, total_nbytes
from seqcore.core.like cimport store_like
from seqcore.core.owner cimport make_element, shape_of
from seqcore.core.padding cimport padded
from seqcore.core.pinned cimport pinned_nbytes
from seqcore.core.reader cimport Reader, begin, next_pieces, raise_damaged
from seqcore.core.remedies cimport Remedies
from seqcore.core.share cimport Share
from seqcore.core.split cimport split_lengths, split_offsets, split_padded
from seqcore.core.values cimport lengths_of, offsets_of, values_of

from seqcore._padding import left_side
from seqcore._tensors import as_tensor
from seqcore.dtypes import element_type, type_name

cnp.import_array()


cdef cnp.ndarray values_given(object values):
    # A view of our own: reading the lengths runs foreign code, which may set the given one's shape or type.
    cdef cnp.ndarray array = own_view(as_tensor(values))
    if array.ndim == 0:
        raise ValueError("values of rank 0 have no axis to be cut along: give a tensor of rank 1 or more")
    return array


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Ragged(Remedies):
    """The part of `TensorSequence` that deals with whole arrays."""

    # -- what it is as a whole ---------------------------------------------------------------------

    @property
    def nbytes(self):
        """Bytes of the elements together. O(n)."""
        cdef Share share = self.shared()
        return total_nbytes(share.store)

    @property
    def pinned_nbytes(self):
        """Bytes of the memory that the elements keep alive. O(n).

        That is more than `nbytes` where an element is a small piece of a large array, and less where
        elements share memory. `compact` makes the two equal. Memory that doesn't tell its size, as through
        DLPack, counts from the first to the last of the elements in it.
        """
        cdef Share share = self.shared()
        return pinned_nbytes(share.store)

    @property
    def shapes(self):
        """The elements' shapes, a list of tuples. O(n)."""
        cdef Share share = self.shared()
        cdef Reader reader
        cdef Py_ssize_t i, done = 0
        cdef list shapes = [None] * size_of(share.store)
        begin(&reader, share.store, 0, size_of(share.store))
        while next_pieces(&reader):
            for i in range(reader.n):
                shapes[done] = shape_of(&reader.pieces[i])
                done += 1
            if done % INTERVAL == 0:
                let_others_in()
        if reader.damaged:
            raise_damaged(share.store, reader.at)
        return shapes

    # -- values and numbers --------------------------------------------------------------------------

    def values(self):
        """Return the elements joined along axis 0, read-only.

        Returns
        -------
        np.ndarray
            Of shape (sum of the lengths, …), in C order where it is a copy; of an empty sequence (0,).

        Raises
        ------
        ValueError
            If an element has rank 0, or another rank or shape behind axis 0 than the first.

        Notes
        -----
        A view where the elements stand one behind the other in one memory, as after a split along axis 0;
        else one copy, which `concat_from_sequence` gives writable. O(n), and O(bytes) for a copy.

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [], [3]], dtype="int64").values()
        array([1, 2, 3])
        """
        cdef Share share = self.whole()
        return values_of(share.store, self._dtype)

    def lengths(self, dtype="int64"):
        """Return the elements' extents along axis 0.

        Parameters
        ----------
        dtype : data-type, optional
            An integer type.

        Returns
        -------
        np.ndarray
            Of shape (n,).

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If a length does not fit the type.
        TypeError
            If the type is no integer type.

        Notes
        -----
        O(n), a nanosecond or two for each; the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).lengths()
        array([2, 1])
        """
        cdef Share share = self.whole()
        return lengths_of(share.store, dtype)

    def offsets(self, dtype="int64"):
        """Return where in `values` each element begins, and where the last one ends.

        Parameters
        ----------
        dtype : data-type, optional
            An integer type.

        Returns
        -------
        np.ndarray
            Of shape (n + 1,): the running sum of the lengths, from 0.

        Raises
        ------
        ValueError, OverflowError, TypeError
            As from `lengths`.

        Notes
        -----
        O(n); the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).offsets("int32")
        array([0, 2, 3], dtype=int32)
        """
        cdef Share share = self.whole()
        return offsets_of(share.store, dtype)

    @classmethod
    def from_lengths(cls, values, lengths):
        """Make a sequence of values and the elements' lengths along axis 0.

        Parameters
        ----------
        values : array_like
            Of rank 1 or more. The elements share its memory; strings are copied.
        lengths : array_like of int
            Of shape (n,), none negative; their sum is the extent of `values`.

        Returns
        -------
        TensorSequence

        Raises
        ------
        ValueError
            If the lengths are no split of the values, or one of the two has a rank that it can't have.
        TypeError
            If the lengths are not integral, or the values' type is none of ONNX's.

        Notes
        -----
        O(n), some nanoseconds and 32 bytes for each; from some elements on the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_lengths([1, 2, 3], [2, 0, 1]).shapes
        [(2,), (0,), (1,)]
        """
        array = values_given(values)
        return new_container(cls, element_type(array.dtype), split_lengths(array, 0, lengths, "lengths"))

    @classmethod
    def from_offsets(cls, values, offsets):
        """Make a sequence of values and where in them each element begins, and the last one ends.

        Parameters
        ----------
        values : array_like
            Of rank 1 or more. The elements share its memory; strings are copied.
        offsets : array_like of int
            Of shape (n + 1,), rising or staying, within the extent of `values`. The first need not be 0, nor
            the last the end.

        Returns
        -------
        TensorSequence

        Raises
        ------
        ValueError
            If the offsets fall or leave the values, or one of the two has a rank that it can't have.
        TypeError
            If the offsets are not integral, or the values' type is none of ONNX's.

        Notes
        -----
        O(n), as `from_lengths`.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_offsets([1, 2, 3], [0, 2, 2, 3]).shapes
        [(2,), (0,), (1,)]
        """
        array = values_given(values)
        return new_container(cls, element_type(array.dtype), split_offsets(array, offsets))

    # -- Arrow -----------------------------------------------------------------------------------------

    def __arrow_c_schema__(self):
        """The type of the array that `__arrow_c_array__` gives, as a capsule."""
        self.check_initialised(NULL)
        from seqcore._arrow.protocol import give_schema

        return give_schema(self)

    def __arrow_c_array__(self, requested_schema=None):
        """Give the elements away as an array of Arrow's: `pyarrow.array(seq)` and others call this.

        Parameters
        ----------
        requested_schema : capsule, optional
            A type that is wanted: lists, large lists, views of lists, lists of one size or tensors of one
            shape. Where the elements are no such lists they are given as without it.

        Returns
        -------
        tuple of two capsules
            Of the type and of the array; https://arrow.apache.org/docs/format/CDataInterface.html says of
            what they are.

        Raises
        ------
        TypeError
            If Arrow has no such type: complex numbers and bfloat16.
        ValueError
            If the elements differ in rank.

        Notes
        -----
        Elements of rank 1 are a `large_list`, further axes are lists of a fixed size where the elements agree
        in them; else they are an `arrow.variable_shape_tensor`. Elements of rank 0 are plain numbers. O(n)
        for the offsets; no copy where `values` is a view in C order, of bools and strings always one. The
        array is a snapshot: edits of the sequence don't show in it.
        """
        self.check_initialised(NULL)
        from seqcore._arrow.protocol import give_array

        return give_array(self, requested_schema)

    def __arrow_c_stream__(self, requested_schema=None):
        """Give the elements away as a stream of Arrow's arrays: `pyarrow.chunked_array(seq)` calls this.

        As `__arrow_c_array__`, in one array or a few: elements that lie in several large memories go as one
        array for each, without a copy.
        """
        self.check_initialised(NULL)
        from seqcore._arrow.protocol import give_stream

        return give_stream(self, requested_schema)

    @classmethod
    def from_arrow(cls, array):
        """Make a sequence of an array of Arrow's: of pyarrow, Polars, DuckDB, pandas and others.

        Parameters
        ----------
        array : object with `__arrow_c_array__` or `__arrow_c_stream__`
            An array, a chunked array, a series, or a table of a single column: of lists of numbers, bools or
            strings, 32- and 64-bit, of views or of a fixed size, or of Arrow's tensors of fixed or variable
            shape. Plain numbers become elements of rank 0.

        Returns
        -------
        TensorSequence
            Of read-only elements in Arrow's own memory, which they keep alive. Bools, strings, and what is
            encoded in a dictionary or in runs are copied.

        Raises
        ------
        TypeError
            If an element is null or has nulls, the type has no tensors, or there is none of the methods.
        ValueError
            If a list of lists is ragged in itself, or the array is damaged or was taken before.

        Notes
        -----
        O(n), some nanoseconds for each element, for offsets are checked. No package is needed.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_arrow(TensorSequence([[1, 2], [3]]))  # or pyarrow.array([[1, 2], [3]])
        <TensorSequence of 2 int64 tensors: (2,) (1,)>
        """
        from seqcore._arrow.protocol import take

        cdef Container taken = take(array)
        return new_container(cls, taken._dtype, taken.snapshot())

    # -- all elements alike --------------------------------------------------------------------------

    def astype(self, dtype):
        """Return a sequence of the elements converted to another type.

        Parameters
        ----------
        dtype : data-type
            An element type of numbers, by any of its names.

        Returns
        -------
        TensorSequence
            Of the same shapes, in memory of its own; of the same type, of the same elements.

        Raises
        ------
        TypeError
            If one of the types is that of strings, or none of ONNX's.

        Notes
        -----
        Values are converted as by `np.ndarray.astype`: what doesn't fit wraps or is cut. O(n) and O(bytes).

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).astype("float32")[1]
        array([3.], dtype=float32)
        """
        cdef cnp.dtype wanted = element_type(dtype)
        cdef Share share = self.whole()
        if wanted is self._dtype:
            return new_container(type(self), wanted, retained(share.store))
        if wanted.type_num == cnp.NPY_OBJECT or self._dtype.type_num == cnp.NPY_OBJECT:
            raise TypeError(f"strings and numbers don't become each other: a sequence of "
                            f"{type_name(self._dtype)} has no astype({type_name(wanted)!r})")
        items = tight_items(share.store, self._dtype).astype(wanted)
        return new_container(type(self), wanted, store_like(items, share.store))

    def tolist(self):
        """Return the elements as nested lists of Python's numbers or strings.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[[1, 2]], [3]]).tolist()
        [[[1, 2]], [3]]
        """
        cdef Share share = self.shared()
        cdef Reader reader
        cdef Py_ssize_t i, done = 0, items = 0
        cdef list lists = [None] * size_of(share.store)
        cdef cnp.ndarray element
        begin(&reader, share.store, 0, size_of(share.store))
        while next_pieces(&reader):
            for i in range(reader.n):
                element = make_element(&reader.pieces[i], self._dtype)
                items += 1 + cnp.PyArray_SIZE(element)
                if items >= INTERVAL:
                    let_others_in()
                    items = 0
                lists[done] = (<object>element).tolist()
                done += 1
        if reader.damaged:
            raise_damaged(share.store, reader.at)
        return lists

    # -- padding -------------------------------------------------------------------------------------

    def to_padded(self, padding_value=0, *, side="right", shape=None, multiple_of=None, truncate=False,
                  return_mask=False, out=None):
        """Return the elements side by side, each padded to the longest.

        Parameters
        ----------
        padding_value : scalar, optional
            One item of the sequence's type. 0 is nothing of any type: False, or the empty string.
        side : {"right", "left"}, optional
            Where the padding goes: behind the elements, or in front of them, along every axis.
        shape : int or sequence of int or None, optional
            What to pad to: a number for axis 0, or one for each axis. None is the longest.
        multiple_of : int or sequence of int or None, optional
            What the extents are rounded up to a multiple of: one for each axis, or a number for axis 0 and
            all others in which elements differ.
        truncate : bool, optional
            Whether what is longer than `shape` is cut, at its end.
        return_mask : bool, optional
            Whether a mask is returned too.
        out : np.ndarray, optional
            Where to write to: of the result's shape and type.

        Returns
        -------
        batch : np.ndarray
            Of shape (n, …), `out` if that is given. Of an empty sequence (0, 0).
        mask : np.ndarray of bool
            If it is asked for: True where an element is along axis 0, of shape (n, L).

        Raises
        ------
        ValueError
            If ranks differ, an element is longer than `shape`, or `out` has another shape or is read-only.
        TypeError
            If the padding value or `out` has another type.
        OverflowError
            If the padding value does not fit the type.

        Notes
        -----
        O(bytes of the result), which is written once, from front to back; the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> batch, mask = TensorSequence([[1, 2, 3], [4]]).to_padded(-1, return_mask=True)
        >>> batch
        array([[ 1,  2,  3],
               [ 4, -1, -1]])
        >>> mask
        array([[ True,  True,  True],
               [ True, False, False]])
        """
        cdef Share share = self.whole()
        return padded(share.store, self._dtype, padding_value, side, shape, multiple_of, truncate, return_mask, out)

    @classmethod
    def from_padded(cls, batch, lengths, *, side="right"):
        """Make a sequence of the rows of a padded batch, without their padding.

        Parameters
        ----------
        batch : array_like
            Of rank 2 or more. The elements share its memory; strings are copied.
        lengths : array_like of int
            Of shape (n,): how much of each row along axis 1 is no padding.
        side : {"right", "left"}, optional
            Where the padding is.

        Returns
        -------
        TensorSequence
            Of n elements, of rank one lower than the batch.

        Raises
        ------
        ValueError
            If a length is outside, or their number is not that of the rows.
        TypeError
            If the lengths are not integral, or the batch's type is none of ONNX's.

        Notes
        -----
        O(n), no copy.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_padded([[1, 2, 0], [3, 0, 0]], [2, 1])[1]
        array([3])
        """
        cdef bint left = left_side(side)
        array = own_view(as_tensor(batch))      # as in values_given
        return new_container(cls, element_type(array.dtype), split_padded(array, lengths, left))
