"""Conversions of a TensorSequence: to and from values and offsets, padded batches, and Arrow."""

cimport cython
cimport numpy as cnp

from seqcore.core.arrays cimport own_view
from seqcore.core.buffer cimport GapBuffer, empty_buffer, release, share, size_of, slot_at
from seqcore.core.container cimport Container, new_container
from seqcore.core.interrupts cimport INTERVAL, let_others_in
from seqcore.core.join cimport cut_like, shape_of, tight_items, total_nbytes
from seqcore.core.owner cimport make_element
from seqcore.core.padding cimport cut_padded, padded
from seqcore.core.pinned cimport pinned_nbytes
from seqcore.core.remedies cimport Remedies
from seqcore.core.values cimport (
    cut_at_lengths, cut_at_offsets, lengths_of, offsets_of, values_of, values_to_cut,
)

from seqcore._tensors import as_tensor
from seqcore.dtypes import element_type, type_name

cnp.import_array()


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Ragged(Remedies):
    """The part of `TensorSequence` that deals with whole arrays."""

    cdef GapBuffer *whole(self) except NULL:
        """A share of the buffer, of a container that has a type."""
        self.check_initialised(NULL)
        return self.snapshot()

    # -- what it is as a whole ---------------------------------------------------------------------

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
        elements share memory. `compact` makes the two equal. Memory that doesn't tell its size, as through
        DLPack, counts from the first to the last of the elements in it.
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
        cdef list shapes
        try:
            shapes = [None] * size_of(buffer)
            for i in range(size_of(buffer)):
                if i % INTERVAL == INTERVAL - 1:
                    let_others_in()
                shapes[i] = shape_of(slot_at(buffer, i)[0])
            return shapes
        finally:
            release(buffer)

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
        cdef GapBuffer *buffer = self.whole()
        try:
            return values_of(buffer, self._dtype)
        finally:
            release(buffer)

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
        cdef GapBuffer *buffer = self.whole()
        try:
            return lengths_of(buffer, dtype)
        finally:
            release(buffer)

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
        cdef GapBuffer *buffer = self.whole()
        try:
            return offsets_of(buffer, dtype)
        finally:
            release(buffer)

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
        array = values_to_cut(values)
        return new_container(cls, element_type(array.dtype), cut_at_lengths(array, lengths))

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
        array = values_to_cut(values)
        return new_container(cls, element_type(array.dtype), cut_at_offsets(array, offsets))

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
        cdef GapBuffer *buffer = self.whole()
        cdef cnp.ndarray items
        try:
            if wanted is self._dtype:
                return new_container(type(self), wanted, share(buffer))
            if wanted.type_num == cnp.NPY_OBJECT or self._dtype.type_num == cnp.NPY_OBJECT:
                raise TypeError(f"astype can't convert dtype {type_name(self._dtype)} to "
                                f"{type_name(wanted)}: use sequence_map with a body that converts between "
                                "strings and numbers")
            items = tight_items(buffer, self._dtype).astype(wanted)
            return new_container(type(self), wanted,
                                 cut_like(items, buffer) if size_of(buffer) else empty_buffer())
        finally:
            release(buffer)

    def tolist(self):
        """Return the elements as nested lists of Python's numbers or strings.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[[1, 2]], [3]]).tolist()
        [[[1, 2]], [3]]
        """
        cdef GapBuffer *buffer = self.snapshot()
        cdef Py_ssize_t i, items = 0
        cdef list lists
        cdef cnp.ndarray element
        try:
            lists = [None] * size_of(buffer)
            for i in range(size_of(buffer)):
                element = make_element(slot_at(buffer, i)[0], self._dtype)
                items += 1 + cnp.PyArray_SIZE(element)
                if items >= INTERVAL:
                    let_others_in()
                    items = 0
                lists[i] = (<object>element).tolist()
            return lists
        finally:
            release(buffer)

    # -- padding -------------------------------------------------------------------------------------

    def to_padded(self, padding_value=0, *, side="right", shape=None, multiple_of=None, truncate=False,
                  return_mask=False, out=None):
        """Return one array of all elements, each padded to the longest.

        Parameters
        ----------
        padding_value : scalar, optional
            The value of the padding, of the sequence's dtype. The default is the zero value of the dtype: 0,
            False, or the empty string. Lengths go in `shape`: `to_padded(512)` pads with the value 512.
        side : {"right", "left"}, optional
            The side of the padding along every axis: "right" pads at the end, "left" in front.
        shape : int or sequence of int or None, optional
            The size to pad to: an int for axis 0, or one for each axis. None pads to the longest element.
        multiple_of : int or sequence of int or None, optional
            The padded size is rounded up to a multiple of this number: one for each axis, or an int for
            axis 0 and all other axes in which elements differ.
        truncate : bool, optional
            If True, cut elements that are longer than `shape` at their end. By default they are an error.
        return_mask : bool, optional
            If True, also return a mask.
        out : np.ndarray, optional
            The array to write to, of the result's shape and dtype.

        Returns
        -------
        batch : np.ndarray
            The padded elements, of shape (n, …); `out` if it was given. For an empty sequence the shape is
            (0, 0), or (0, …) as `shape` says.
        mask : np.ndarray of bool
            True at the positions of elements along axis 0, False at padding, of shape (n, L). Only if
            `return_mask` is True.

        Raises
        ------
        ValueError
            If the elements differ in rank, an element is longer than `shape`, or `out` has another shape or
            is read-only.
        TypeError
            If the padding value or `out` has another dtype.
        OverflowError
            If the padding value does not fit the dtype.

        Notes
        -----
        O(bytes of the result). The GIL is released.

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
        cdef GapBuffer *buffer = self.whole()
        try:
            return padded(buffer, self._dtype, padding_value, side, shape, multiple_of, truncate,
                          return_mask, out)
        finally:
            release(buffer)

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
        array = own_view(as_tensor(batch))      # as in values_to_cut
        return new_container(cls, element_type(array.dtype), cut_padded(array, lengths, side))
