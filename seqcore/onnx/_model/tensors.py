"""Tensors and types in ONNX's words: element types, constants, and arrays made of them and back."""

import functools

import numpy as np
import onnx
from onnx import TensorProto, ValueInfoProto, numpy_helper

from seqcore._arguments.shown import shown_error
from seqcore.dtypes import ELEMENT_TYPES, STRING, element_type, type_name

# ONNX's words for the types where they are not NumPy's.
_WORDS = {"float32": "float", "float64": "double"}


def one_line(error: BaseException) -> str:
    """Return an exception's message on one line."""
    return " ".join(shown_error(error).split())


@functools.cache
def tensor_type(dtype: np.dtype) -> int:
    """Return ONNX's number of an element type."""
    name = type_name(dtype)
    return TensorProto.DataType.Value(_WORDS.get(name, name).upper())


@functools.cache
def dtype_of(number: int) -> np.dtype | None:
    """Return the element type for one of ONNX's numbers, None where sequences have no such tensors."""
    return _dtype_of_word(TensorProto.DataType.Name(number).lower()) if number else None


def dtype_of_text(text: str) -> np.dtype | None:
    """Return the element type for onnxruntime's `tensor(float)`, None where it is none of ours."""
    return _dtype_of_word(text.removeprefix("tensor(").removesuffix(")"))


def _dtype_of_word(word: str) -> np.dtype | None:
    name = next((name for name, other in _WORDS.items() if other == word), word)
    return element_type(name) if name in ELEMENT_TYPES or name == "bfloat16" else None


def declared_dtype(value: ValueInfoProto) -> np.dtype | None:
    """Return the element type that a graph declares for an input or output, None where it declares none.

    Raises
    ------
    ValueError
        If it is not a tensor, or has a type that sequences don't support.
    """
    kind = value.type.WhichOneof("value")
    if kind is None:
        return None
    if kind != "tensor_type":
        what = kind.removesuffix("_type").replace("_", " ")
        raise ValueError(f"'{value.name}' of the body is of type {what}: a body takes and returns tensors")
    number = value.type.tensor_type.elem_type
    if number == TensorProto.UNDEFINED:
        return None
    dtype = dtype_of(number)
    if dtype is None:
        word = TensorProto.DataType.Name(number).lower()
        raise ValueError(f"'{value.name}' of the body has the type {word}, which sequences don't have")
    return dtype


def to_tensor_proto(array: np.ndarray, name: str) -> TensorProto:
    """Return a tensor as an initializer of a name."""
    proto = TensorProto(name=name, dims=array.shape, data_type=tensor_type(array.dtype))
    if array.dtype == STRING:
        proto.string_data.extend(text.encode() for text in array.reshape(-1))
    else:
        # ONNX's raw data is little-endian, whatever the machine.
        little = array if array.dtype.name == "bfloat16" else array.astype(array.dtype.newbyteorder("<"))
        proto.raw_data = little.tobytes()
    return proto


def from_tensor_proto(proto: TensorProto) -> np.ndarray:
    """Return the tensor that an initializer holds; raise ValueError where it holds none."""
    try:
        return _from_tensor_proto(proto)
    except KeyError as error:
        raise ValueError(f"the tensor '{proto.name}' of the model has an unknown type: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"the tensor '{proto.name}' of the model can't be read: {error}") from error


def from_sparse_tensor_proto(proto: onnx.SparseTensorProto) -> np.ndarray:
    """Return the tensor that a sparse initializer stands for, with all its zeros."""
    values, indices = from_tensor_proto(proto.values), from_tensor_proto(proto.indices)
    try:
        array = np.zeros(tuple(proto.dims), values.dtype)
    except (MemoryError, ValueError) as error:
        raise ValueError(f"the tensor '{proto.values.name}' of the model can't be read: {error}") from error
    if array.dtype == STRING:
        array[...] = ""
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return array


def _from_tensor_proto(proto: TensorProto) -> np.ndarray:
    array = numpy_helper.to_array(proto)
    if proto.data_type == TensorProto.STRING:
        strings = np.empty(array.shape, object)
        strings.reshape(-1)[:] = [text.decode() for text in proto.string_data]
        return strings
    return array
