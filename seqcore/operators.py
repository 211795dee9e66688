"""ONNX's sequence operators as functions.

They never modify their input. An input sequence may be a `TensorSequence` or a list or tuple of tensors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

from seqcore._arguments.integers import LONGEST, flag, integers
from seqcore._arguments.protocols import is_of
from seqcore._arguments.shown import got, shown_number
from seqcore._arguments.tensors import as_tensor
from seqcore._format.text import snapshot_of
from seqcore.core.maps import element_at, join_elements, split_by_lengths, split_equally
from seqcore.core.sequence import TensorSequence

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from seqcore._typing import (
        DTypeName,
        DTypeOf,
        Position,
        Split,
        SupportsArray,
        T,
        TensorOf,
        Tensors,
        Typed,
    )

__all__ = [
    "concat_from_sequence",
    "sequence_at",
    "sequence_construct",
    "sequence_empty",
    "sequence_erase",
    "sequence_insert",
    "sequence_length",
    "split_to_sequence",
]


def _is_empty(tensors: Tensors) -> bool:
    return not any(True for _ in tensors)  # a subclass may return any length


@overload
def as_sequence(tensors: Typed[T], dtype: DTypeName = "float32") -> TensorSequence[T]: ...
@overload
def as_sequence(tensors: Tensors, dtype: DTypeName = "float32") -> TensorSequence[Any]: ...
def as_sequence(tensors: Tensors, dtype: DTypeName = "float32") -> TensorSequence[Any]:
    """Return an input sequence as a `TensorSequence`; `dtype` is the element type of an empty list."""
    if type(tensors) is TensorSequence:
        return tensors
    if is_of(tensors, TensorSequence):
        return snapshot_of(tensors)  # a subclass may override lengths and positions
    if not isinstance(tensors, list | tuple):
        remedy = ": split_to_sequence(array) splits it along axis 0" if hasattr(tensors, "__array__") else ""
        raise TypeError(
            f"expected a sequence, which is a TensorSequence or a list or tuple of tensors, "
            f"got {got(tensors)}{remedy}"
        )
    if type(tensors) not in (list, tuple):
        tensors = [*tensors]  # a list, whose length can be trusted
    return TensorSequence(tensors) if tensors else TensorSequence(dtype=dtype)


@overload
def sequence_construct(*tensors: SupportsArray[T]) -> TensorSequence[T]: ...
@overload
def sequence_construct(*tensors: ArrayLike) -> TensorSequence[Any]: ...
def sequence_construct(*tensors: ArrayLike) -> TensorSequence[Any]:
    """Make a sequence of the given tensors. Implements ONNX SequenceConstruct-11.

    Parameters
    ----------
    *tensors : array_like
        The elements, at least one, all of one dtype, of any shapes. Taken by reference.

    Returns
    -------
    TensorSequence

    Raises
    ------
    ValueError
        If there is no tensor.
    TypeError
        If their dtypes differ.

    Examples
    --------
    >>> sequence_construct([1, 2], [3])
    <TensorSequence of 2 int64 tensors: (2,) (1,)>
    """
    if not tensors:
        raise ValueError(
            "sequence_construct needs at least one tensor: sequence_empty makes an empty sequence"
        )
    return TensorSequence(tensors)


@overload
def sequence_empty(dtype: Literal["float32"] = "float32") -> TensorSequence[np.float32]: ...
@overload
def sequence_empty(dtype: DTypeOf[T]) -> TensorSequence[T]: ...
@overload
def sequence_empty(dtype: DTypeName) -> TensorSequence[Any]: ...
def sequence_empty(dtype: DTypeName = "float32") -> TensorSequence[Any]:
    """Make an empty sequence of a dtype. Implements ONNX SequenceEmpty-11.

    Parameters
    ----------
    dtype : data-type, optional
        The element type, as in `element_type`.

    Returns
    -------
    TensorSequence

    Raises
    ------
    TypeError
        If the dtype is not supported.

    Examples
    --------
    >>> sequence_empty("int8")
    <TensorSequence of 0 int8 tensors>
    """
    if dtype is None:
        raise TypeError("dtype must not be None: an empty sequence has a dtype too, for example 'float32'")
    return TensorSequence(dtype=dtype)


def sequence_length(seq: Tensors) -> int:
    """Return the number of tensors in a sequence. Implements ONNX SequenceLength-11. O(1).

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        The sequence.

    Returns
    -------
    int

    Examples
    --------
    >>> sequence_length([[1, 2], [3]])
    2
    """
    return len(as_sequence(seq))


@overload
def sequence_at(seq: Typed[T], position: Position) -> NDArray[T]: ...
@overload
def sequence_at(seq: Tensors, position: Position) -> NDArray[Any]: ...
def sequence_at(seq: Tensors, position: Position) -> NDArray[Any]:
    """Return a copy of the element at a position. Implements ONNX SequenceAt-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        The sequence.
    position : int
        The position from -n to n - 1, where n is the length; also an int32 or int64 array with one item.

    Returns
    -------
    np.ndarray
        A writable copy of the element. `seq[position]` gives a read-only view without a copy.

    Raises
    ------
    IndexError
        If the position is out of range.
    TypeError
        If the position is not an integer.

    Examples
    --------
    >>> sequence_at([[1, 2], [3]], -1)
    array([3])
    """
    return element_at(as_sequence(seq), position).copy()


@overload
def sequence_insert(
    seq: TensorSequence[T], tensor: TensorOf[T], position: Position | None = None
) -> TensorSequence[T]: ...
@overload
def sequence_insert(
    seq: list[Any] | tuple[Any, ...], tensor: SupportsArray[T], position: Position | None = None
) -> TensorSequence[T]: ...
@overload
def sequence_insert(
    seq: list[Any] | tuple[Any, ...], tensor: ArrayLike, position: Position | None = None
) -> TensorSequence[Any]: ...
def sequence_insert(seq: Tensors, tensor: Any, position: Position | None = None) -> TensorSequence[Any]:
    """Return a new sequence with a tensor inserted. Implements ONNX SequenceInsert-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        The sequence.
    tensor : array_like
        The tensor, of the sequence's dtype and any shape; taken by reference.
    position : int, optional
        The position to insert before, from -n to n, where n is the length. The default is n, the end.

    Returns
    -------
    TensorSequence

    Raises
    ------
    IndexError
        If the position is out of range.
    TypeError
        If the tensor has another dtype or the position is not an integer.

    See Also
    --------
    TensorSequence.insert : Insert in place.

    Notes
    -----
    O(n), 16 bytes for each element, because the input is not modified; O(1) if it was split or loaded and
    hardly edited.

    Examples
    --------
    >>> sequence_insert([[1], [3]], [2], 1)
    <TensorSequence of 3 int64 tensors: (1,) (1,) (1,)>
    """
    if isinstance(seq, list | tuple) and _is_empty(seq):
        tensor = as_tensor(tensor)
        result = TensorSequence(dtype=tensor.dtype)
    else:
        result = as_sequence(seq)[:]
    result.insert(len(result) if position is None else position, tensor)
    return result


@overload
def sequence_erase(seq: Typed[T], position: Position | None = None) -> TensorSequence[T]: ...
@overload
def sequence_erase(seq: Tensors, position: Position | None = None) -> TensorSequence[Any]: ...
def sequence_erase(seq: Tensors, position: Position | None = None) -> TensorSequence[Any]:
    """Return a new sequence without the element at a position. Implements ONNX SequenceErase-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        The sequence.
    position : int, optional
        The position from -n to n - 1, where n is the length. The default is the last one.

    Returns
    -------
    TensorSequence

    Raises
    ------
    IndexError
        If the position is out of range, or the sequence is empty.
    TypeError
        If the position is not an integer.

    See Also
    --------
    TensorSequence.erase : Remove in place.

    Notes
    -----
    O(n), 16 bytes for each element, because the input is not modified; O(1) if it was split or loaded and
    hardly edited.

    Examples
    --------
    >>> sequence_erase([[1], [2, 2], [3]], 1).shapes
    [(1,), (1,)]
    """
    result = as_sequence(seq)[:]
    result.erase(-1 if position is None else position)
    return result


@overload
def split_to_sequence(
    input: SupportsArray[T],
    split: Split | None = None,
    axis: SupportsIndex = 0,
    keepdims: SupportsIndex = 1,
) -> TensorSequence[T]: ...
@overload
def split_to_sequence(
    input: ArrayLike,
    split: Split | None = None,
    axis: SupportsIndex = 0,
    keepdims: SupportsIndex = 1,
) -> TensorSequence[Any]: ...
def split_to_sequence(
    input: ArrayLike,
    split: Split | None = None,
    axis: SupportsIndex = 0,
    keepdims: SupportsIndex = 1,
) -> TensorSequence[Any]:
    """Split a tensor into a sequence of views along an axis. Implements ONNX SplitToSequence-24.

    Parameters
    ----------
    input : array_like
        The tensor, of rank 1 or more, in any memory layout. The elements share its memory.
    split : int or sequence of int, optional
        The length of each element along the axis. An int gives all elements this length, the last one may be
        shorter. A list or 1-D array gives the lengths one by one (not offsets); they sum to the length of the
        axis. The default is 1.
    axis : int, optional
        The axis to split, from -rank to rank - 1.
    keepdims : {1, 0}, optional
        If 0, drop the axis from the elements. It has an effect only if `split` is not given.

    Returns
    -------
    TensorSequence
        The elements, read-only views of the input.

    Raises
    ------
    ValueError
        If `split` is an int below 1, the lengths are negative or don't sum to the length of the axis, `split`
        has rank 2 or more, the axis is out of range, the tensor has rank 0, or `keepdims` is neither 0 nor 1.
    TypeError
        If `split` or `axis` is not an integer, or the dtype of the tensor is not supported.

    See Also
    --------
    TensorSequence.from_lengths : Split along axis 0 by lengths.
    TensorSequence.from_offsets : Split along axis 0 by offsets.
    concat_from_sequence : Join the elements again.

    Notes
    -----
    Without a copy of the data. Equal parts are O(1), without memory for each element. Lengths are O(n), 8
    bytes for each element; for many elements the GIL is released.

    Examples
    --------
    >>> split_to_sequence([[1, 2], [3, 4], [5, 6]], split=2).shapes
    [(2, 2), (1, 2)]
    >>> split_to_sequence([[1, 2], [3, 4], [5, 6]], split=[0, 2], axis=1).shapes
    [(3, 0), (3, 2)]
    >>> split_to_sequence([[1, 2], [3, 4], [5, 6]], keepdims=0)[1]
    array([3, 4])
    """
    keep = flag("keepdims", keepdims)
    if split is None:
        return split_equally(input, axis, 1, not keep)
    if type(split) is range:  # which may be of any length
        return split_by_lengths(input, axis, split)
    lengths = integers("split", split)
    if lengths.ndim > 1:
        raise ValueError(f"split must be an integer or a 1-D array of lengths, got shape {lengths.shape}")
    if lengths.ndim == 0:
        if lengths < 1:
            raise ValueError(f"split must be positive, got {shown_number(lengths)}")
        return split_equally(input, axis, min(int(lengths), LONGEST), False)
    return split_by_lengths(input, axis, lengths)


@overload
def concat_from_sequence(seq: Typed[T], axis: SupportsIndex, new_axis: SupportsIndex = 0) -> NDArray[T]: ...
@overload
def concat_from_sequence(seq: Tensors, axis: SupportsIndex, new_axis: SupportsIndex = 0) -> NDArray[Any]: ...
def concat_from_sequence(seq: Tensors, axis: SupportsIndex, new_axis: SupportsIndex = 0) -> NDArray[Any]:
    """Concatenate or stack the elements of a sequence. Implements ONNX ConcatFromSequence-11.

    With `new_axis=0` it is `np.concatenate`, with `new_axis=1` it is `np.stack`.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        The sequence, of at least one element; all elements have one rank.
    axis : int
        The axis to concatenate along, from -rank to rank - 1; the elements may differ in length along it. If
        `new_axis` is 1, the position of the new axis, from -rank - 1 to rank.
    new_axis : {0, 1}, optional
        If 1, stack the elements, which all have one shape, along a new axis.

    Returns
    -------
    np.ndarray
        A new, writable array in C order.

    Raises
    ------
    ValueError
        If the sequence is empty, shapes or ranks differ, the axis is out of range, or `new_axis` is neither 0
        nor 1.
    TypeError
        If `axis` is not an integer.

    See Also
    --------
    TensorSequence.values : Concatenate along axis 0, without a copy where possible.
    TensorSequence.to_padded : Stack elements of different shapes, padded.

    Notes
    -----
    O(bytes). Contiguous elements are copied as one block. For larger data the GIL is released.

    Examples
    --------
    >>> concat_from_sequence([[1, 2], [3]], axis=0)
    array([1, 2, 3])
    >>> concat_from_sequence([[1, 2], [3, 4]], axis=1, new_axis=1)
    array([[1, 3],
           [2, 4]])
    """
    return join_elements(as_sequence(seq), axis, flag("new_axis", new_axis))
