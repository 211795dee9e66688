"""Read arrays of other libraries by protocol: tensors of PyTorch, JAX, CuPy and Arrow, and buffers."""

import sys
from typing import TypeGuard, TypeVar

import numpy as np

from seqcore._arguments.shown import got, shown_error
from seqcore.dtypes import element_type

_T = TypeVar("_T")

# The devices of DLPack whose memory the CPU can read: its own, and memory pinned or managed by CUDA and ROCm.
_ON_HOST = (1, 3, 11, 13)


def is_of(value: object, kind: type[_T]) -> TypeGuard[_T]:
    """Return whether a value is of a class, whatever it says with a `__class__` of its own."""
    return issubclass(type(value), kind)


def is_bool(value):
    """Return whether a value is a single bool, of Python, NumPy or another library."""
    if isinstance(value, bool | np.bool_):
        return True
    dtype = getattr(value, "dtype", None)  # of PyTorch's tensors, whose `__index__` takes a bool for 0 or 1
    return (
        dtype is not None
        and str(getattr(dtype, "name", dtype)) in ("bool", "torch.bool")
        and not getattr(value, "ndim", 0)
    )


def is_dataset(value):
    """Return whether a value is a data set of Hugging Face's package `datasets`."""
    return type(value).__module__.partition(".")[0] == "datasets" and hasattr(value, "features")


def instead_of(value, otherwise):
    """Return the call that takes or makes what Arrow can read of a value, else `otherwise`."""
    if is_dataset(value):
        return "Columns.from_dataset(...) takes it"
    return "collect() makes one" if hasattr(value, "collect") else otherwise


class UnreadableTensorError(TypeError):
    """A tensor whose values NumPy can't read: on a GPU, sparse, or with requires_grad.

    A lookup such as `in` passes this error on, because it can't tell whether the tensor equals an element.
    """


def from_protocol(value, name):
    """Return the array that an object stands for, in the object's memory where NumPy can read that.

    Parameters
    ----------
    value : object
        The object, of any class.
    name : str
        The name of the value in messages.

    Raises
    ------
    UnreadableTensorError
        If it is an array that NumPy can't read: on a GPU, sparse, or with requires_grad.
    TypeError
        If it has no protocol that NumPy knows, has missing values or is a table.
    Exception
        What the object itself raises.
    """
    kind = type(value).__name__
    if any(hasattr(value, name) for name in ("__array__", "__array_interface__", "__array_struct__")):
        return _from_array(value, kind, name)
    buffer = _buffer_of(value)
    if buffer is not None:
        try:
            return np.asarray(buffer)
        except ValueError as error:
            raise TypeError(
                f"{name} is a {kind} whose items have no dtype in NumPy: {shown_error(error)}"
            ) from error
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, kind, name)
    if hasattr(value, "__cuda_array_interface__"):
        raise UnreadableTensorError(_on_device(kind, name))
    expected = "expected an array, a number, a string, or nested lists of them"
    if isinstance(value, bytes):
        expected = "np.frombuffer(value, 'uint8') is an array of its bytes, value.decode() a string"
    raise TypeError(f"{name} is {got(value)}: {expected}")


def _from_array(value, kind, name):
    if hasattr(value, "columns") and hasattr(value, "__arrow_c_stream__"):
        raise TypeError(
            f"{name} is a {kind}, which is a table whose columns may differ in dtype: pass its columns"
        )
    if _lacks_values(value):
        raise TypeError(
            f"{name} is a {kind} with nulls, which NumPy would turn into NaN or None: fill or drop them first"
        )
    try:
        array = _as_array(value)
    except (TypeError, RuntimeError) as error:  # PyTorch has either, CuPy the first, JAX the second
        if not hasattr(value, "__dlpack__"):
            raise  # raised by a class of the user's
        nested = getattr(value, "is_nested", False) is True
        reason = "it is nested, and tensor.unbind() has its elements" if nested else shown_error(error)
        raise UnreadableTensorError(f"NumPy can't read {name}, a {kind}: {reason}") from error
    if array.dtype == object and array.size and isinstance(array[(0,) * array.ndim], np.ndarray):
        remedy = "TensorSequence(list(x)) makes each an element"
        if hasattr(value, "__arrow_c_array__") or hasattr(value, "__arrow_c_stream__"):
            remedy = "TensorSequence.from_arrow(x) takes its lists"
        raise TypeError(
            f"{name} is a {kind} whose items are arrays: {remedy}; for one tensor convert it first, for "
            "example with np.stack"
        )
    return array


def _as_array(value):
    try:
        return np.asarray(value)
    except TypeError as error:
        if str(getattr(value, "dtype", "")) != "torch.bfloat16":
            raise
        # PyTorch gives NumPy its bfloat16 as integers only.
        try:
            bits = np.asarray(value.view(sys.modules["torch"].int16))
        except Exception:  # a sparse tensor or the like: the first error says what to do
            raise error from None
        return bits.view(element_type("bfloat16"))


def _lacks_values(value):
    """Return whether an array of Arrow, Polars or pandas has nulls."""
    nulls = getattr(value, "null_count", None)
    if nulls is not None:
        # Polars has a method. Encoded arrays refer to values, a chunked array has them in chunks.
        parts = [getattr(value, "dictionary", None), getattr(value, "values", None)]
        return bool(nulls() if callable(nulls) else nulls) or any(
            map(_lacks_values, [*parts, *getattr(value, "chunks", ())])
        )
    # pandas counts NaN too, which in NumPy's own types is a value.
    own = isinstance(getattr(value, "dtype", None), np.dtype)
    return not own and hasattr(value, "isna") and bool(np.any(value.isna()))


def _buffer_of(value):
    try:
        # Bytes are undecoded text; a bytearray is a buffer.
        return None if isinstance(value, bytes) else memoryview(value)
    except TypeError:
        return None


def _from_dlpack(value, kind, name):
    try:
        if value.__dlpack_device__()[0] not in _ON_HOST:
            raise UnreadableTensorError(_on_device(kind, name))
        return np.from_dlpack(value)
    except (AttributeError, BufferError, RuntimeError) as error:
        raise UnreadableTensorError(
            f"NumPy can't read {name}, a {kind}, by DLPack: {shown_error(error)}"
        ) from error


def _on_device(kind, name):
    return (
        f"{name} is a {kind} in the memory of a GPU or other device: copy it to the host first, for example "
        "with .get() or .cpu()"
    )
