"""Conversions of a TensorSequence: other dtypes, lists, NumPy arrays, padded batches, and Arrow."""

cimport cython
cimport numpy as cnp
import numpy as np

from seqcore.core.arrays cimport own_view
from seqcore.core.container cimport Container, new_container
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.compact cimport compact_items
from seqcore.core.join cimport join, new_array
from seqcore.core.like cimport convertible, store_like
from seqcore.core.limits cimport SIGNALS_EVERY
from seqcore.core.owner cimport make_element
from seqcore.core.padding cimport padded
from seqcore.core.reader cimport Reader, begin, next_pieces, raise_damaged, read_one
from seqcore.core.share cimport Share
from seqcore.core.source cimport MAX_NDIM, Piece, same_shape
from seqcore.core.split cimport split_padded
from seqcore.core.store cimport share as retained, size_of

from seqcore._arguments.other_names import refuse_arguments
from seqcore._arguments.padding import left_side
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import element_type

cnp.import_array()


cdef bint of_one_shape(Share share) noexcept:
    cdef Reader reader
    cdef Piece first
    cdef Py_ssize_t[2 * MAX_NDIM] dims
    cdef Py_ssize_t i
    if not read_one(share.store, 0, &first, dims):
        return False
    begin(&reader, share.store, 0, size_of(share.store))
    while next_pieces(&reader):
        for i in range(reader.n):
            if not same_shape(&reader.pieces[i], &first):
                return False
    return not reader.damaged


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Convertible(Container):
    """The methods of `TensorSequence` that convert all elements at once."""

    # -- Arrow -----------------------------------------------------------------------------------------

    def __arrow_c_schema__(self):
        """Return the type of the array that `__arrow_c_array__` exports, as a capsule."""
        self.check_initialised(NULL)
        from seqcore._arrow.protocol import give_schema

        return give_schema(self)

    def __arrow_c_array__(self, requested_schema=None):
        """Export the elements as an Arrow array. `pyarrow.array(seq)` and other libraries call this method.

        Parameters
        ----------
        requested_schema : capsule, optional
            The wanted type: list, large list, list view, fixed-size list or fixed-shape tensor. If the
            elements don't fit this type, it is ignored.

        Returns
        -------
        tuple of two capsules
            The type and the array, as in https://arrow.apache.org/docs/format/CDataInterface.html

        Raises
        ------
        TypeError
            If Arrow doesn't support the dtype: complex numbers and bfloat16.
        ValueError
            If the elements differ in rank.

        Notes
        -----
        Elements of rank 1 become a `large_list`. Further axes become fixed-size lists if all elements agree
        in them, otherwise the array is an `arrow.variable_shape_tensor`. Elements of rank 0 become plain
        numbers. O(1) if `values` and `offsets` are views, otherwise O(n) for the offsets. The values are
        copied if `values` is not a view in C order; bools and strings always are. The array is a snapshot:
        later edits of the sequence don't show in it.
        """
        self.check_initialised(NULL)
        from seqcore._arrow.protocol import give_array

        return give_array(self, requested_schema)

    def __arrow_c_stream__(self, requested_schema=None):
        """Export the elements as a stream of Arrow arrays. `pyarrow.chunked_array(seq)` calls this method.

        It works as `__arrow_c_array__`, with one array or a few: elements in several large memories become
        one array for each memory, without a copy.
        """
        self.check_initialised(NULL)
        from seqcore._arrow.protocol import give_stream

        return give_stream(self, requested_schema)

    @classmethod
    def from_arrow(cls, array):
        """Make a sequence from an Arrow array of pyarrow, Polars, DuckDB, pandas or another library.

        Parameters
        ----------
        array : object with `__arrow_c_array__` or `__arrow_c_stream__`
            The array, chunked array, series, or table with a single column. Its items are lists of numbers,
            bools or strings (32- and 64-bit lists, list views, fixed-size lists), or Arrow's tensors of fixed
            or variable shape. Plain numbers become elements of rank 0.

        Returns
        -------
        TensorSequence
            The elements, read-only views of Arrow's memory, which they keep alive. Bools, strings,
            dictionary-encoded and run-end-encoded arrays are copied.

        Raises
        ------
        TypeError
            If an element is null or has nulls, the type is not supported, or the object has neither method.
        ValueError
            If one element is a ragged list of lists, or the array is damaged or was consumed before.

        Notes
        -----
        O(1) for each chunk, unless data is copied. An element's offsets are checked when it is used: damaged
        ones are then a ValueError that names the element. No package is needed.

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
        """Return a sequence of the elements converted to another dtype.

        Parameters
        ----------
        dtype : data-type
            The new element type, a number or bool type.

        Returns
        -------
        TensorSequence
            The elements in the same shapes, in new memory. If the dtype doesn't change, the elements are
            shared.

        Raises
        ------
        TypeError
            If one of the dtypes is that of strings, or the new one is not supported.

        Notes
        -----
        Values are converted as by `np.ndarray.astype`: integers that don't fit wrap around, fractions are cut
        off. O(n) and O(bytes).

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).astype("float32")[1]
        array([3.], dtype=float32)
        """
        cdef Share share = self.whole()
        cdef cnp.dtype wanted = convertible(self._dtype, dtype)
        if wanted is self._dtype:
            return new_container(type(self), wanted, retained(share.store))
        items = compact_items(share.store, self._dtype).astype(wanted)
        return new_container(type(self), wanted, store_like(items, share.store))

    def tolist(self):
        """Return the elements as nested lists of Python numbers or strings.

        Returns
        -------
        list
            The elements, each as from `np.ndarray.tolist`.

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
                if items >= SIGNALS_EVERY:
                    let_others_in()
                    items = 0
                lists[done] = (<object>element).tolist()
                done += 1
        if reader.damaged:
            raise_damaged(share.store, reader.at)
        return lists

    def __array__(self, dtype=None, copy=None):
        """Return the elements stacked along a new first axis, for `np.array(seq)`.

        Parameters
        ----------
        dtype : data-type, optional
            The dtype of the result, by default the sequence's. With `object` elements of different shapes
            become the items of a 1-D array.
        copy : bool, optional
            If False, raise, because the elements are always copied.

        Returns
        -------
        np.ndarray
            The elements, of shape (n, …). The shape is (0,) for an empty sequence.

        Raises
        ------
        ValueError
            If the elements differ in shape (`to_padded` pads them), or copy is False.

        Notes
        -----
        O(bytes). The GIL is released.

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> np.array(TensorSequence([[1, 2], [3, 4]]))
        array([[1, 2],
               [3, 4]])
        """
        cdef Share share
        cdef Reader reader
        cdef Py_ssize_t i, none = 0
        if copy is not None and not copy:
            raise ValueError("a TensorSequence can't become an array without a copy: leave out copy=False, "
                             "or use seq.values(), which is a view where the elements are contiguous")
        share = self.whole()
        if size_of(share.store) == 0:
            array = new_array(self._dtype, 1, &none)
        elif dtype is not None and np.dtype(dtype) == object and not of_one_shape(share):
            array = np.empty(size_of(share.store), object)
            begin(&reader, share.store, 0, size_of(share.store))
            while next_pieces(&reader):
                for i in range(reader.n):
                    array[reader.at - reader.n + i] = make_element(&reader.pieces[i], self._dtype)
            if reader.damaged:
                raise_damaged(share.store, reader.at)
        else:
            array = join(share.store, self._dtype, 0, True)
        return array if dtype is None else array.astype(dtype, copy=False)

    # -- padding -------------------------------------------------------------------------------------

    @cython.embedsignature(False)
    def to_padded(self, padding_value=0, *given, side="right", shape=None, multiple_of=None, truncate=False,
                  dtype=None, return_mask=False, out=None, **named):        # more, to name what is meant
        """to_padded($self, /, padding_value=0, *, side='right', shape=None, multiple_of=None, \
truncate=False, dtype=None, return_mask=False, out=None)\n--\n
        Return one array of all elements, each padded to the longest.

        Parameters
        ----------
        padding_value : scalar, optional
            The value of the padding, of the batch's dtype. The default is the zero value of the dtype: 0,
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
        dtype : data-type, optional
            The dtype of the batch, to which the elements are converted as by `astype`. The default is the
            sequence's.
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
            If the padding value or `out` has another dtype, or `dtype` is not supported, or would convert
            between strings and numbers.
        OverflowError
            If the padding value does not fit the dtype.

        Notes
        -----
        O(bytes of the result). The GIL is released. Another dtype needs no copy of the whole sequence: the
        elements are converted some at a time.

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
        if given or named:
            refuse_arguments("to_padded", 1, given, named)
        cdef Share share = self.whole()
        return padded(share.store, self._dtype, padding_value, side, shape, multiple_of, truncate,
                      dtype, return_mask, out)

    @classmethod
    @cython.embedsignature(False)
    def from_padded(cls, batch, lengths=None, *given, side="right", **named):   # to name what is meant
        """from_padded($type, batch, lengths, *, side='right')\n--\n
        Make a sequence of the rows of a padded batch, without their padding.

        Parameters
        ----------
        batch : array_like
            The batch, of shape (n, L, …). The sequence shares its memory; strings are copied.
        lengths : array_like of int
            The lengths of the elements along axis 1 of the batch, of shape (n,). A mask gives them by
            `mask.sum(axis=1)`.
        side : {"right", "left"}, optional
            The side of the padding.

        Returns
        -------
        TensorSequence
            The n elements, whose rank is one less than that of the batch.

        Raises
        ------
        ValueError
            If a length is not from 0 to L, there are not n of them, or the batch has rank 0 or 1.
        TypeError
            If the lengths are missing or not integers, or the dtype of the batch is not supported.

        Notes
        -----
        O(n), without a copy of the values; 8 bytes for each element.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_padded([[1, 2, 0], [3, 0, 0]], [2, 1])[1]
        array([3])
        """
        if given or named:
            refuse_arguments("from_padded", 2, given, named)
        cdef bint left = left_side(side)
        array = own_view(as_tensor(batch))      # as in values_given
        return new_container(cls, element_type(array.dtype), split_padded(array, lengths, left))
