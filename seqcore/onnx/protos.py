"""Convert sequences to and from ONNX's SequenceProto, the format of its test data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, overload

from google.protobuf.message import DecodeError
from onnx import SequenceProto

from seqcore._arguments.shown import add_note, got, shown
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, element_type
from seqcore.onnx._model.load import path_of
from seqcore.onnx._protos.tensors import check_size, read_elements, write_numbers, write_strings
from seqcore.operators import as_sequence

if TYPE_CHECKING:
    from seqcore._typing import DTypeName, DTypeOf, Source, T, Tensors

__all__ = ["from_proto", "to_proto"]

# The fields of a SequenceProto that is not a sequence of tensors.
_OTHER_VALUES = ("sparse_tensor_values", "sequence_values", "map_values", "optional_values")


def to_proto(seq: Tensors, name: str = "") -> SequenceProto:
    """Convert a sequence to a `SequenceProto`. O(n), with one copy of the data.

    Parameters
    ----------
    seq : TensorSequence or list or tuple of array_like
        The sequence. An empty list counts as a sequence of float32.
    name : str, optional
        The name to store in the message.

    Returns
    -------
    onnx.SequenceProto
        The message, with values in `raw_data` and strings in `string_data`. For an empty sequence the dtype
        is lost, because ONNX has no field for it.

    Raises
    ------
    ValueError
        If the message would be larger than 2 GB, protobuf's limit, or a string can't be encoded as UTF-8.
    TypeError
        If `seq` is not a sequence of tensors of one dtype, or the name is not a str.

    Examples
    --------
    >>> proto = to_proto([[1, 2], [3]], name="tokens")
    >>> proto.name, [list(tensor.dims) for tensor in proto.tensor_values]
    ('tokens', [[2], [1]])
    >>> from_proto(proto)
    <TensorSequence of 2 int64 tensors: (2,) (1,)>
    """
    if not isinstance(name, str):
        raise TypeError(f"name must be a str, got {got(name)}")
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
    """Convert a `SequenceProto` to a sequence. O(n).

    Parameters
    ----------
    proto : onnx.SequenceProto, bytes, str or os.PathLike
        The message, its bytes, or the path to a file with them, such as `input_0.pb` of ONNX's tests.
    dtype : data-type, optional
        The expected element type. It is required if the sequence may be empty, because an empty
        `SequenceProto` has no dtype. Elements are never cast to it.

    Returns
    -------
    TensorSequence
        The elements.

    Raises
    ------
    ValueError
        If the message is damaged, inconsistent or keeps data in other files, the bytes are not a
        SequenceProto, or the message is empty and `dtype` is not given.
    TypeError
        If the message is not a sequence of tensors, its dtype is not supported, or its elements have several
        dtypes or another one than `dtype`.

    Notes
    -----
    The memory used is proportional to the size of the message, also if it is damaged.

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
        raise TypeError(f"proto must be a SequenceProto, its bytes, or a path, got {got(proto)}")
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
        raise ValueError(
            f"the {len(data)} bytes are not a SequenceProto, or are truncated: {error}"
        ) from None


def _read(proto, dtype):
    _check_message(proto)
    if len(proto.tensor_values):
        return read_elements(proto, dtype)
    if dtype is None:
        raise ValueError(
            "the SequenceProto is empty and so has no dtype: pass one, for example "
            "from_proto(proto, dtype='float32')"
        )
    return TensorSequence(dtype=dtype)


def _check_message(proto):
    kind = proto.elem_type
    if _has_unknown_fields(proto):
        raise ValueError("the message has unknown fields: it is not a SequenceProto, or it is damaged")
    if kind not in SequenceProto.DataType.values():
        raise ValueError(f"the SequenceProto has elem_type {kind}, which ONNX doesn't define")
    if isinstance(proto.name, bytes):  # protobuf could not decode it
        raise ValueError(f"the SequenceProto is damaged: its name {shown(proto.name)} is not UTF-8")
    if kind == SequenceProto.UNDEFINED:
        raise ValueError("the elem_type of the SequenceProto is undefined, expected TENSOR")
    if kind != SequenceProto.TENSOR:
        word = SequenceProto.DataType.Name(kind).lower().replace("_", " ")
        raise TypeError(f"the SequenceProto has elem_type {word}, expected tensor")
    present = [field for field in _OTHER_VALUES if len(getattr(proto, field))]
    if present:
        raise ValueError(f"the SequenceProto has elem_type tensor, but also {' and '.join(present)}")


def _has_unknown_fields(proto):
    try:
        from google.protobuf.unknown_fields import UnknownFieldSet
    except ImportError:  # protobuf before 4.22
        return len(proto.UnknownFields()) > 0
    return len(UnknownFieldSet(proto)) > 0
