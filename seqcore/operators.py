"""ONNX's sequence operators as functions: arguments checked, then one call each.

The input is never changed. An input sequence may be a `TensorSequence` or a list or tuple of tensors.
"""

import numpy as np

from seqcore._format.text import snapshot_of
from seqcore._integers import LONGEST, as_integer, integers, not_integral
from seqcore._shown import got, shown, shown_number
from seqcore._tensors import as_tensor
from seqcore.core.operations import element_at, join_elements, split_by_lengths, split_equally
from seqcore.core.sequence import TensorSequence

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


def _is_empty(tensors):
    return not any(True for _ in tensors)  # a subclass may say anything of its length


def as_sequence(tensors, dtype="float32"):
    """Return a `TensorSequence` of what an operator takes for one; `dtype` is the type of an empty list."""
    if type(tensors) is TensorSequence:
        return tensors
    if isinstance(tensors, TensorSequence):
        return snapshot_of(tensors)  # whatever a subclass makes of lengths and positions
    if not isinstance(tensors, list | tuple):
        remedy = ": split_to_sequence(array) splits it along axis 0" if hasattr(tensors, "__array__") else ""
        raise TypeError(
            f"expected a sequence, which is a TensorSequence or a list or tuple of tensors, "
            f"got {got(tensors)}{remedy}"
        )
    if type(tensors) not in (list, tuple):
        tensors = [*tensors]  # which is as long as it says
    return TensorSequence(tensors) if tensors else TensorSequence(dtype=dtype)


def sequence_construct(*tensors):
    """Make a sequence of the given tensors. Implements ONNX SequenceConstruct-11.

    Parameters
    ----------
    *tensors : array_like
        At least one, all of one type, of any shapes. Taken by reference.

    Returns
    -------
    TensorSequence

    Raises
    ------
    ValueError
        If there is no tensor.
    TypeError
        If their types differ.

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


def sequence_empty(dtype="float32"):
    """Make an empty sequence of a type. Implements ONNX SequenceEmpty-11.

    Parameters
    ----------
    dtype : data-type, optional
        The element type, by any of the names that `element_type` knows.

    Returns
    -------
    TensorSequence

    Raises
    ------
    TypeError
        If `dtype` names no ONNX tensor type.

    Examples
    --------
    >>> sequence_empty("int8")
    <TensorSequence of 0 int8 tensors>
    """
    if dtype is None:
        raise TypeError("dtype must not be None: an empty sequence has a dtype too, for example 'float32'")
    return TensorSequence(dtype=dtype)


def sequence_length(seq):
    """Return the number of tensors in a sequence. Implements ONNX SequenceLength-11. O(1).

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like

    Returns
    -------
    int

    Examples
    --------
    >>> sequence_length([[1, 2], [3]])
    2
    """
    return len(as_sequence(seq))


def sequence_at(seq, position):
    """Return a copy of the tensor at a position. Implements ONNX SequenceAt-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
    position : int
        From -n to n - 1, where n is the length. Also an int32 or int64 array of one element.

    Returns
    -------
    np.ndarray
        Writable, in memory of its own. `seq[position]` looks at the element without a copy.

    Raises
    ------
    IndexError
        If the position is outside.
    TypeError
        If it is no integer.

    Examples
    --------
    >>> sequence_at([[1, 2], [3]], -1)
    array([3])
    """
    return element_at(as_sequence(seq), position).copy()


def sequence_insert(seq, tensor, position=None):
    """Return a sequence with a tensor inserted. Implements ONNX SequenceInsert-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
    tensor : array_like
        Of the sequence's type; taken by reference.
    position : int, optional
        Before which the tensor comes to stand, from -n to n, where n is the length. By default n, the back.

    Returns
    -------
    TensorSequence

    Raises
    ------
    IndexError
        If the position is outside.
    TypeError
        If the tensor has another type or the position is no integer.

    Notes
    -----
    O(n), since the input stays as it is; `TensorSequence.insert` edits in place.

    Examples
    --------
    >>> sequence_insert([[1], [3]], [2], 1)
    <TensorSequence of 3 int64 tensors: (1,) (1,) (1,)>
    """
    if not isinstance(seq, TensorSequence) and isinstance(seq, list | tuple) and _is_empty(seq):
        tensor = as_tensor(tensor)
        result = TensorSequence(dtype=tensor.dtype)
    else:
        result = as_sequence(seq)[:]
    result.insert(len(result) if position is None else position, tensor)
    return result


def sequence_erase(seq, position=None):
    """Return a sequence without the tensor at a position. Implements ONNX SequenceErase-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
    position : int, optional
        From -n to n - 1, where n is the length. By default the last.

    Returns
    -------
    TensorSequence

    Raises
    ------
    IndexError
        If the position is outside, or the sequence is empty.
    TypeError
        If the position is no integer.

    Notes
    -----
    O(n), since the input stays as it is; `TensorSequence.erase` edits in place.

    Examples
    --------
    >>> sequence_erase([[1], [2, 2], [3]], 1).shapes
    [(1,), (1,)]
    """
    result = as_sequence(seq)[:]
    result.erase(-1 if position is None else position)
    return result


def split_to_sequence(input, split=None, axis=0, keepdims=1):
    """Cut a tensor into a sequence along an axis. Implements ONNX SplitToSequence-24.

    Parameters
    ----------
    input : array_like
        The tensor, of rank 1 or more, in any memory layout. The pieces share its memory.
    split : int or sequence of int, optional
        A number, or integer array of rank 0: the length of each piece, above 0; the last one may be
        smaller. A list or array of rank 1: the length of each piece, none negative, which sum to the axis.
        By default each piece has length 1.
    axis : int, optional
        From -rank to rank - 1.
    keepdims : {1, 0}, optional
        With 0 the pieces lack the axis, as long as `split` is not given.

    Returns
    -------
    TensorSequence

    Raises
    ------
    ValueError
        If the lengths are no split of the axis, `split` has rank 2 or more, the axis is out of range, the
        tensor has rank 0, or `keepdims` is neither 0 nor 1.
    TypeError
        If `split` or `axis` is not integral, or the tensor's type is none of ONNX's.

    Notes
    -----
    O(pieces), some nanoseconds and 32 bytes for each; from some pieces on the GIL is released.

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
    lengths = integers("split", split)
    if lengths.ndim > 1:
        raise ValueError(f"split must be an integer or a 1-D array of lengths, got shape {lengths.shape}")
    if lengths.ndim == 0:
        if lengths < 1:
            raise ValueError(f"split must be positive, got {shown_number(lengths)}")
        return split_equally(input, axis, min(int(lengths), LONGEST), False)
    beyond = np.flatnonzero((lengths > LONGEST) | (lengths < -LONGEST - 1))
    if beyond.size:
        shapes = split_equally(input, axis, LONGEST, False).shapes  # which checks input and axis
        extent = shapes[0][axis] if shapes else 0
        length = shown_number(lengths[beyond[0]])
        raise ValueError(f"split[{beyond[0]}] is {length}, but axis {shown_number(axis)} has length {extent}")
    return split_by_lengths(input, axis, lengths)


def concat_from_sequence(seq, axis, new_axis=0):
    """Join the tensors of a sequence into one. Implements ONNX ConcatFromSequence-11.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        At least one tensor, all of one rank.
    axis : int
        From -rank to rank - 1, along which the tensors are joined and may differ in extent. With
        `new_axis=1` from -rank - 1 to rank: where the new axis comes to stand.
    new_axis : {0, 1}, optional
        With 1 the tensors, all of one shape, are stacked along a new axis.

    Returns
    -------
    np.ndarray
        Writable, in C order.

    Raises
    ------
    ValueError
        If the sequence is empty, shapes or ranks don't fit, the axis is out of range, or `new_axis` is
        neither 0 nor 1.
    TypeError
        If `axis` is no integer.

    Notes
    -----
    O(bytes); pieces that are neighbours in their source are copied as one, and from some bytes on the GIL
    is released.

    Examples
    --------
    >>> concat_from_sequence([[1, 2], [3]], axis=0)
    array([1, 2, 3])
    >>> concat_from_sequence([[1, 2], [3, 4]], axis=1, new_axis=1)
    array([[1, 3],
           [2, 4]])
    """
    return join_elements(as_sequence(seq), axis, flag("new_axis", new_axis))


def flag(name, value):
    number = int(value) if isinstance(value, bool) else as_integer(value)
    if number is None:
        not_integral(name, value)
    if number not in (0, 1):
        raise ValueError(f"{name} must be 0 or 1, got {shown(number)}")
    return number == 1
