"""Sequences as ONNX's SequenceProto, the form of its test data, and back."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, overload

from google.protobuf.message import DecodeError
from onnx import SequenceProto

from seqcore._shown import add_note, shown
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, element_type
from seqcore.onnx._model.load import path_of
from seqcore.onnx._protos.reading import read_elements
from seqcore.onnx._protos.tensors import check_size, write_numbers, write_strings
from seqcore.operators import as_sequence

if TYPE_CHECKING:
    from seqcore._typing import DTypeName, DTypeOf, Source, T, Tensors

__all__ = ["from_proto", "to_proto"]

# What a SequenceProto has instead of tensors, if it is a sequence of something else.
_OTHER_VALUES = ("sparse_tensor_values", "sequence_values", "map_values", "optional_values")


def to_proto(seq: Tensors, name: str = "") -> SequenceProto:
    """Return a sequence as a `SequenceProto`. O(n), and one copy of the data.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        An empty list is taken for a sequence of float32.
    name : str, optional
        The message's `name`.

    Returns
    -------
    onnx.SequenceProto
        Its tensors have their values in `raw_data`, strings in `string_data`. An empty one does not tell
        its tensor type: ONNX has no field for that.

    Raises
    ------
    ValueError
        If it would be larger than the 2 GB that protobuf allows, or a string has no UTF-8.
    TypeError
        If `seq` is no sequence of tensors of one type, or the name is no string.

    Examples
    --------
    >>> proto = to_proto([[1, 2], [3]], name="tokens")
    >>> proto.name, [list(tensor.dims) for tensor in proto.tensor_values]
    ('tokens', [[2], [1]])
    >>> from_proto(proto)
    <TensorSequence of 2 int64 tensors: (2,) (1,)>
    """
    if not isinstance(name, str):
        raise TypeError(f"the name of a SequenceProto is a str, not {type(name).__name__}")
    seq = as_sequence(seq)[:]  # other threads may edit it
    proto = SequenceProto(elem_type=SequenceProto.TENSOR)
    if name:
        proto.name = name
    if seq.dtype == STRING:
        write_strings(proto, seq)
    else:
        write_numbers(proto, seq)
    return proto


@overload
def from_proto(proto: SequenceProto | Source, dtype: DTypeOf[T]) -> TensorSequence[T]: ...
@overload
def from_proto(proto: SequenceProto | Source, dtype: DTypeName | None = None) -> TensorSequence[Any]: ...
def from_proto(proto: Any, dtype: Any = None) -> Any:
    """Return the sequence that a `SequenceProto` holds. O(n).

    Parameters
    ----------
    proto : onnx.SequenceProto, bytes, str or os.PathLike
        A message, its bytes, or the path to a file of them, such as the `input_0.pb` of ONNX's tests.
    dtype : data-type, optional
        The element type. It has to be given where the sequence may be empty, since an empty
        `SequenceProto` does not tell it. It never casts.

    Returns
    -------
    TensorSequence
        Small elements may share one buffer; `compact` of a few of them lets it go.

    Raises
    ------
    ValueError
        If the bytes are none of a SequenceProto, or it is damaged, contradicts itself or keeps data in other
        files; or if it is empty and there is no `dtype`.
    TypeError
        If it is a sequence of something else than tensors, or of a type that sequences don't have, or its
        elements are of several types or not of `dtype`.

    Notes
    -----
    Whatever the bytes are, no more memory is taken than in proportion to their number.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx import numpy_helper
    >>> proto = numpy_helper.from_list([np.zeros((2, 3)), np.ones(4)])
    >>> from_proto(proto)
    <TensorSequence of 2 float64 tensors: (2, 3) (4,)>
    >>> from_proto(to_proto([]), dtype="int8")
    <TensorSequence of 0 int8 tensors>
    """
    dtype = None if dtype is None else element_type(dtype)
    if isinstance(proto, SequenceProto):
        return _read(proto, dtype)
    if isinstance(proto, bytes | bytearray | memoryview):
        return _read(_parsed(bytes(proto)), dtype)
    if not isinstance(proto, str | os.PathLike):
        what = type(proto).__name__
        raise TypeError(f"a sequence is read from a SequenceProto, its bytes or a path, not from a {what}")
    path = path_of(proto)
    try:
        with open(path, "rb") as file:
            check_size(os.fstat(file.fileno()).st_size)
            return _read(_parsed(file.read()), dtype)
    except (ValueError, TypeError) as error:
        add_note(error, f"in the file {shown(path, 300)}")
        raise


def _parsed(data):
    check_size(len(data))
    try:
        return SequenceProto.FromString(data)
    except (DecodeError, UnicodeDecodeError, RecursionError) as error:  # the latter two where it is in Python
        raise ValueError(f"these {len(data)} bytes are no SequenceProto, or are cut short: {error}") from None


def _read(proto, dtype):
    _check_message(proto)
    if len(proto.tensor_values):
        return read_elements(proto, dtype)
    if dtype is None:
        raise ValueError(
            "an empty SequenceProto does not tell its tensor type: name one, "
            "as in from_proto(proto, dtype='float32')"
        )
    return TensorSequence(dtype=dtype)


def _check_message(proto):
    kind = proto.elem_type
    if _has_unknown_fields(proto):
        raise ValueError("this is another message, or damaged: it has fields that no SequenceProto has")
    if kind not in SequenceProto.DataType.values():
        raise ValueError(f"elem_type {kind} of the SequenceProto is none of ONNX's")
    if isinstance(proto.name, bytes):  # protobuf could not decode it
        raise ValueError(f"the SequenceProto is damaged: its name {shown(proto.name)} is no UTF-8")
    if kind == SequenceProto.UNDEFINED:
        raise ValueError(
            "the SequenceProto does not tell of what it is a sequence: its elem_type is undefined"
        )
    if kind != SequenceProto.TENSOR:
        word = SequenceProto.DataType.Name(kind).lower().replace("_", " ")
        raise TypeError(f"a SequenceProto of elem_type {word}: a TensorSequence has tensors only")
    present = [field for field in _OTHER_VALUES if len(getattr(proto, field))]
    if present:
        raise ValueError(f"the SequenceProto is of tensors, but it has {' and '.join(present)}")


def _has_unknown_fields(proto):
    try:
        from google.protobuf.unknown_fields import UnknownFieldSet
    except ImportError:  # protobuf before 4.22
        return len(proto.UnknownFields()) > 0
    return len(UnknownFieldSet(proto)) > 0
