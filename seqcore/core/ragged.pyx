"""The elements together: values and lengths, numbers for each element, and sequences made of them."""

cimport cython
cimport numpy as cnp

from seqcore.core.arrays cimport own_view
from seqcore.core.container cimport new_container
from seqcore.core.conversion cimport Convertible
from seqcore.core.interrupts cimport let_others_in
from seqcore.core.compact cimport total_nbytes
from seqcore.core.limits cimport SIGNALS_EVERY
from seqcore.core.owner cimport shape_of
from seqcore.core.pinned cimport pinned_nbytes
from seqcore.core.reader cimport Reader, begin, next_pieces, raise_damaged
from seqcore.core.reduce cimport reduced_elements
from seqcore.core.share cimport Share
from seqcore.core.split cimport split_lengths, split_offsets
from seqcore.core.store cimport size_of
from seqcore.core.values cimport lengths_of, offsets_of, position_ids_of, segment_ids_of, values_of

from seqcore._arguments.other_names import refuse_arguments
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import element_type

cnp.import_array()


cdef cnp.ndarray values_given(object values):
    # A view of our own: reading the lengths runs foreign code, which may set the given one's shape or type.
    cdef cnp.ndarray array = own_view(as_tensor(values))
    if array.ndim == 0:
        raise ValueError("values has rank 0 and so no axis to split along: pass an array of rank 1 or more")
    return array


@cython.auto_pickle(False)
@cython.no_gc           # as its base
cdef class Ragged(Convertible):
    """The methods of `TensorSequence` about the elements together, and what makes a sequence of values."""

    # -- what it is as a whole ---------------------------------------------------------------------

    @property
    def nbytes(self):
        """The size of all elements in bytes. O(n), or O(1) after a split or load."""
        cdef Share share = self.shared()
        return total_nbytes(share.store)

    @property
    def pinned_nbytes(self):
        """The size in bytes of the memory that the elements keep alive. O(n), or O(1) after a split or load.

        It is more than `nbytes` if elements are small views of large arrays, and less if elements share
        memory. `compact` makes the two equal. Memory of unknown size, as from DLPack, counts from the first
        to the last element in it.
        """
        cdef Share share = self.shared()
        return pinned_nbytes(share.store)

    @property
    def shapes(self):
        """The shapes of the elements, a list of tuples of int. O(n)."""
        cdef Share share = self.shared()
        cdef Reader reader
        cdef Py_ssize_t i, done = 0
        cdef list shapes = [None] * size_of(share.store)
        begin(&reader, share.store, 0, size_of(share.store))
        while next_pieces(&reader):
            for i in range(reader.n):
                shapes[done] = shape_of(&reader.pieces[i])
                done += 1
            if done % SIGNALS_EVERY == 0:
                let_others_in()
        if reader.damaged:
            raise_damaged(share.store, reader.at)
        return shapes

    # -- values and numbers --------------------------------------------------------------------------

    def values(self):
        """Return the elements concatenated along axis 0, as a read-only array.

        With `offsets` this is the ragged layout of PyTorch, Arrow and Awkward Array.

        Returns
        -------
        np.ndarray
            The values, of shape (sum of the lengths, …), in C order if they are a copy. Elements of rank 0
            become an array of shape (n,), one number for each element. The shape is (0,) for an empty
            sequence.

        Raises
        ------
        ValueError
            If an element differs from the first one in rank or in an axis other than axis 0.

        See Also
        --------
        concat_from_sequence : Join along any axis, into a writable array.

        Notes
        -----
        A view, without a copy, if the elements are contiguous in one memory, as after a split along axis 0;
        otherwise one copy. A view after a split or load is O(1), any other O(n), and a copy O(bytes).

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
        """Return the lengths of the elements along axis 0.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The lengths, of shape (n,).

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If a length does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        Notes
        -----
        O(n), about 1 ns for each element. For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).lengths()
        array([2, 1])
        """
        cdef Share share = self.whole()
        return lengths_of(share.store, dtype)

    def offsets(self, dtype="int64"):
        """Return the offsets of the elements in `values`: element i is `values[offsets[i]:offsets[i + 1]]`.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The running sum of the lengths, from 0, of shape (n + 1,). Read-only if the sequence already
            stores these offsets in this dtype, as int64 after a split by lengths.

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If an offset does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        Notes
        -----
        O(1) for stored offsets, without a copy; otherwise O(n). For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[1, 2], [3]]).offsets("int32")
        array([0, 2, 3], dtype=int32)
        """
        cdef Share share = self.whole()
        return offsets_of(share.store, dtype)

    def segment_ids(self, dtype="int64"):
        """Return, for each row of `values`, which element it is of.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The positions of the elements, of shape (sum of the lengths,).

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If a position does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        See Also
        --------
        position_ids : The position of each row in its element.

        Notes
        -----
        O(sum of the lengths). The GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[7, 8, 9], [], [7]], dtype="int64").segment_ids()
        array([0, 0, 0, 2])
        """
        cdef Share share = self.whole()
        return segment_ids_of(share.store, dtype)

    def position_ids(self, dtype="int64"):
        """Return, for each row of `values`, its position in its element.

        Parameters
        ----------
        dtype : data-type, optional
            The integer dtype of the result.

        Returns
        -------
        np.ndarray
            The positions from 0, of shape (sum of the lengths,).

        Raises
        ------
        ValueError
            If an element has rank 0.
        OverflowError
            If a position does not fit the dtype.
        TypeError
            If the dtype is not an integer type.

        See Also
        --------
        segment_ids : Which element each row is of.

        Notes
        -----
        O(sum of the lengths). The GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence([[7, 8, 9], [], [7]], dtype="int64").position_ids("int32")
        array([0, 1, 2, 0], dtype=int32)
        """
        cdef Share share = self.whole()
        return position_ids_of(share.store, dtype)

    @cython.embedsignature(False)
    def reduce(self, how=None, *given, axis=0, initial=None, empty=None, dtype=None,
               **named):               # more, to name what is meant
        """reduce($self, /, how, *, axis=0, initial=None, empty=None, dtype=None)\n--\n
        Reduce each element along an axis, to one array with a result for each element.

        Parameters
        ----------
        how : ufunc or function
            A NumPy ufunc of two arguments such as `np.add` or `np.maximum`, or one of `np.sum`, `np.prod`,
            `np.mean`, `np.std`, `np.var`, `np.min`, `np.max`, `np.any`, `np.all`, `np.argmin` and
            `np.argmax`.
        axis : int or None, optional
            The axis of the elements to reduce. None reduces each element to one number.
        initial : scalar, optional
            The number that the reduction of every element begins with, as in NumPy: `initial=0` makes 0 of a
            maximum of negative numbers. The default is the ufunc's identity, such as 0 for `np.add`.
            `np.mean`, `np.std`, `np.var`, `np.argmin` and `np.argmax` don't take it.
        empty : scalar, optional
            The result for elements whose extent along the axis is 0; other elements don't see it. It must
            fit the dtype of the results. By default they give `initial` or the identity.
        dtype : data-type, optional
            The dtype to compute in. The default is NumPy's, such as int64 for sums of smaller integers.

        Returns
        -------
        np.ndarray
            The results, of shape (n, …): the shape of an element without the axis. For an empty sequence the
            shape is (0,).

        Raises
        ------
        ValueError
            If an element is empty and there is neither an identity nor `initial` nor `empty`, lacks the
            axis, or its result has another shape than that of element 0.
        TypeError
            If `how` is not a reduction, the elements are strings, or a dtype, `initial` or `empty` doesn't
            fit.
        OverflowError
            If `initial` or `empty` is too large for the dtype of the results.

        See Also
        --------
        sequence_map : Apply any function to each element.

        Notes
        -----
        O(bytes), in one pass without the GIL, and without joining the elements. Sums are pairwise like
        NumPy's, float16 is computed in float32. Ufuncs other than `np.add`, `np.multiply`, `np.minimum`,
        `np.maximum`, `np.logical_or` and `np.logical_and`, and minima and deviations of complex numbers, are
        called once for each element.

        Examples
        --------
        >>> import numpy as np
        >>> from seqcore import TensorSequence
        >>> seq = TensorSequence([[1, 2, 3], [], [4, 5]], dtype="int64")
        >>> seq.reduce(np.sum)
        array([6, 0, 9])
        >>> seq.reduce(np.max, empty=-1)
        array([ 3, -1,  5])
        """
        if given or named:
            refuse_arguments("reduce", 1, given, named)
        cdef Share share = self.whole()
        return reduced_elements(share.store, self._dtype, how, axis, initial, empty, dtype)

    @classmethod
    def from_lengths(cls, values, lengths):
        """Make a sequence from values and the lengths of the elements along axis 0.

        Parameters
        ----------
        values : array_like
            The concatenated elements, of rank 1 or more. The sequence shares its memory; strings are copied.
        lengths : array_like of int
            The lengths, of shape (n,), 0 or more. Their sum is the length of `values`. For offsets use
            `from_offsets`.

        Returns
        -------
        TensorSequence

        Raises
        ------
        ValueError
            If a length is negative, the lengths don't sum to the length of `values`, `values` has rank 0, or
            `lengths` is not 1-D.
        TypeError
            If the lengths are not integers, or the dtype of `values` is not supported.

        Notes
        -----
        O(n), without a copy of the values; 8 bytes for each element. For many elements the GIL is released.

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
        """Make a sequence from values and offsets: element i is `values[offsets[i]:offsets[i + 1]]`.

        Parameters
        ----------
        values : array_like
            The concatenated elements, of rank 1 or more. The sequence shares its memory; strings are copied.
        offsets : array_like of int
            The offsets, of shape (n + 1,), not decreasing, within the length of `values`. The first one need
            not be 0, nor the last one the end, so lengths passed by mistake can go unnoticed: for lengths use
            `from_lengths`.

        Returns
        -------
        TensorSequence

        Raises
        ------
        ValueError
            If an offset is less than the one before it or outside `values`, `values` has rank 0, or
            `offsets` is not 1-D.
        TypeError
            If the offsets are not integers, or the dtype of `values` is not supported.

        Notes
        -----
        O(n), without a copy of the values; 8 bytes for each element. For many elements the GIL is released.

        Examples
        --------
        >>> from seqcore import TensorSequence
        >>> TensorSequence.from_offsets([1, 2, 3], [0, 2, 2, 3]).shapes
        [(2,), (0,), (1,)]
        """
        array = values_given(values)
        return new_container(cls, element_type(array.dtype), split_offsets(array, offsets))
