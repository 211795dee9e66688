"""Convert sequences to and from ONNX's SequenceProto, the format of its test data."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any, overload

from google.protobuf.message import DecodeError
from google.protobuf.unknown_fields import UnknownFieldSet
from onnx import SequenceProto

from seqcore._arguments.shown import add_note, got, shown
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, element_type
from seqcore.onnx._model.load import path_of
from seqcore.operators import as_sequence

if TYPE_CHECKING:
    from seqcore._typing import DTypeName, DTypeOf, Source, T, Tensors


import functools
import math
import sys

import numpy as np
from onnx import TensorProto

from seqcore.dtypes import type_name
from seqcore.onnx._model.tensors import dtype_of, tensor_type

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
    if len(UnknownFieldSet(proto)):
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


# Tensors out of ONNX's messages, with nothing taken on trust, and into them.

# Each typed field, the NumPy type of its numbers, and the types that use it.
_FIELDS = {
    "float_data": ("float32", ("float32", "complex64")),
    "int32_data": ("int32", ("bool", "int8", "int16", "int32", "uint8", "uint16", "float16", "bfloat16")),
    "string_data": (None, ("string",)),
    "int64_data": ("int64", ("int64",)),
    "double_data": ("float64", ("float64", "complex128")),
    "uint64_data": ("uint64", ("uint32", "uint64")),
}
_DATA_FIELDS = {*_FIELDS, "raw_data"}
_MOST_DIMENSIONS = 64

LIMIT = 2**31 - 1  # of protobuf, for the bytes of a message

# An element takes at least this beside its data.
_LEAST_NBYTES = 6


def read_tensor(tensor: TensorProto) -> np.ndarray:
    """Return the array that a TensorProto holds. It may be a read-only view of immutable bytes.

    Raises
    ------
    ValueError
        If the message is damaged, contradicts itself, or keeps its data elsewhere.
    TypeError
        If it is of a type that sequences don't have.
    """
    # One call for all fields: a lookup of each field makes an object each time.
    fields = {field.name: value for field, value in tensor.ListFields()}
    if fields.get("data_location") == TensorProto.EXTERNAL or "external_data" in fields:
        raise ValueError("the data is in another file, and a sequence has no place to look for that")
    if "segment" in fields:
        raise ValueError("it is one segment of a tensor, not a whole one")
    shape = tuple(fields.get("dims", ()))
    dtype, own_field, count = _layout_of(fields.get("data_type", 0), shape)
    present = _DATA_FIELDS & fields.keys()
    field = present.pop() if len(present) == 1 else own_field
    if present or (field != own_field and (field != "raw_data" or own_field == "string_data")):
        raise ValueError(_wrong_fields(fields, dtype, own_field))
    values = fields.get(field, ())
    if field == "raw_data":
        if len(values) != count * dtype.itemsize:
            expected = f"{_kind(dtype, shape)} has {count * dtype.itemsize}"
            raise ValueError(f"{len(values)} bytes of raw_data, but {expected}")
        return array_of(values, dtype, shape)
    count *= 2 if dtype.kind == "c" else 1
    if len(values) != count:
        raise ValueError(f"{len(values)} values in {field}, but {_kind(dtype, shape)} has {count}")
    array = _strings(values) if field == "string_data" else _numbers(values, field, dtype)
    return array.reshape(shape)


def array_of(raw: bytes, dtype: np.dtype, shape: tuple[int, ...]) -> np.ndarray:
    """Return a tensor of raw data of the right length, without a copy where the machine is little-endian."""
    if dtype.kind == "b" and raw.translate(None, b"\0\1"):
        raise ValueError("raw_data of bool tensors has bytes 0 and 1 only, this one has others")
    array = np.ndarray(shape, dtype, raw)
    return array if sys.byteorder == "little" else array.byteswap()


def raw_bytes(array: np.ndarray) -> bytes:
    """Return the little-endian bytes of a tensor of numbers."""
    # In one axis, since before NumPy 2.1 tobytes stops at rank 32.
    row = array.reshape(-1)
    return row.tobytes() if sys.byteorder == "little" else row.byteswap().tobytes()


def check_size(nbytes: int) -> None:
    """Raise ValueError if a message would be larger than protobuf allows."""
    if nbytes > LIMIT:
        raise ValueError(
            f"{nbytes:,} bytes are too many for a SequenceProto: "
            f"a message of protobuf has at most {LIMIT:,}; make several of shorter sequences"
        )


def _layout(number, shape):
    """Return the type, the typed field that has its values, and the number of items."""
    dtype, field = _type_of(number)
    return dtype, field, _checked_size(shape, dtype.itemsize)


_layout_of = functools.lru_cache(256)(_layout)


def _type_of(number):
    """Return the element type for one of ONNX's numbers, and the typed field that has its values."""
    if number == TensorProto.UNDEFINED:
        raise ValueError("it has no data_type")
    if number not in TensorProto.DataType.values():
        raise ValueError(f"data_type {number} is none of ONNX's")
    dtype = dtype_of(number)
    if dtype is None:
        word = TensorProto.DataType.Name(number).lower()
        raise TypeError(f"it is a tensor of {word}, a type that sequences don't have")
    name = type_name(dtype)
    return dtype, next(field for field, (_, names) in _FIELDS.items() if name in names)


def _checked_size(shape, itemsize):
    """Return the number of items, after a check that NumPy can have such a shape."""
    if len(shape) > _MOST_DIMENSIONS:
        raise ValueError(f"it has {len(shape)} dimensions; arrays have at most {_MOST_DIMENSIONS}")
    if shape and min(shape) < 0:
        raise ValueError(f"its shape {shape} has a negative length")
    # The lengths that are not zero count for NumPy in empty arrays too.
    if math.prod(filter(None, shape)) * itemsize > sys.maxsize:
        raise ValueError(f"its shape {shape} is too large for any memory")
    return math.prod(shape)


def _wrong_fields(fields, dtype, own_field):
    present = [field for field in (*_FIELDS, "raw_data") if field in fields]
    if len(present) > 1:
        return f"it has data in several fields: {', '.join(present)}"
    allowed = own_field if dtype == STRING else f"{own_field} or raw_data"
    return f"its data is in {present[0]}, but that of {type_name(dtype)} tensors is in {allowed}"


def _kind(dtype, shape):
    return f"a {type_name(dtype)} tensor of shape {shape}"


def _strings(values):
    strings = np.empty(len(values), object)
    try:
        strings[:] = [text.decode() for text in values]
    except UnicodeDecodeError as error:
        i = next(i for i, text in enumerate(values) if text == error.object)
        raise ValueError(f"string {i} is not UTF-8: {error.reason} at byte {error.start}") from None
    return strings


def _numbers(values, field, dtype):
    numbers = np.array(values, _FIELDS[field][0])
    if field in ("float_data", "double_data"):
        return numbers.view(dtype)
    # 16-bit types other than integers are stored as their bits.
    stored = dtype if dtype.kind in "iu" else np.dtype("uint8" if dtype.kind == "b" else "uint16")
    low, high = (0, 1) if dtype.kind == "b" else (np.iinfo(stored).min, np.iinfo(stored).max)
    wrong = (numbers < low) | (numbers > high)
    if wrong.any():
        raise ValueError(
            f"value {wrong.argmax()} in {field} is {numbers[wrong.argmax()]}: {type_name(dtype)} tensors "
            f"have {low} to {high} there"
        )
    return numbers.astype(stored).view(dtype)


# Sequences into messages and out of them.


def write_strings(proto: SequenceProto, seq: TensorSequence) -> None:
    """Put the elements of a sequence of strings behind those of a SequenceProto."""
    number = tensor_type(STRING)
    nbytes = 0
    for i, tensor in enumerate(seq):
        try:
            texts = [text.encode() for text in tensor.reshape(-1)]
        except UnicodeEncodeError as error:
            raise ValueError(f"element {i} has a string without UTF-8: {error}") from None
        nbytes += sum(map(len, texts)) + 6 * len(texts)  # each with a head
        check_size(nbytes)
        proto.tensor_values.add(dims=tensor.shape, data_type=number, string_data=texts)


def write_numbers(proto: SequenceProto, seq: TensorSequence) -> None:
    """Put the elements of a sequence of numbers behind those of a SequenceProto."""
    number = tensor_type(seq.dtype)
    check_size(seq.nbytes + _LEAST_NBYTES * len(seq))
    for array in seq:
        proto.tensor_values.add(dims=array.shape, data_type=number, raw_data=raw_bytes(array))


def read_elements(proto: SequenceProto, dtype: np.dtype | None) -> TensorSequence:
    """Return the elements of a SequenceProto that has some, of a type if one is given."""
    arrays = []
    for i, tensor in enumerate(proto.tensor_values):
        arrays.append(_element(tensor, i, dtype))
        dtype = arrays[0].dtype
    return TensorSequence(arrays)


def _element(tensor, i, dtype):
    """Return the array of an element, of a type if there is one."""
    try:
        array = read_tensor(tensor)
        if dtype is not None and array.dtype != dtype:
            raise TypeError(
                f"it is a tensor of {type_name(array.dtype)}, in a sequence of {type_name(dtype)}"
            )
    except (ValueError, TypeError) as error:
        raise type(error)(f"element {i} of the SequenceProto: {error}") from None
    return array
