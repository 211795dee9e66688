"""What is an array by a protocol: the tensors of PyTorch, JAX, CuPy and Arrow, and buffers."""

import sys

import numpy as np

from seqcore._shown import shown, shown_error
from seqcore.dtypes import element_type

# Of DLPack's devices those whose memory the CPU reads: its own, and what CUDA and ROCm pin or manage.
_ON_HOST = (1, 3, 11, 13)


class Unreadable(TypeError):
    """An array whose values can't be read, so that nobody can say what it equals."""


def from_protocol(value):
    """Return the array that an object stands for, in the object's memory where NumPy can read that.

    Raises
    ------
    Unreadable
        If it is an array that NumPy can't read: it lies on a GPU, is sparse or requires grad.
    TypeError
        If it has no protocol that NumPy knows, lacks values or is a table.
    Exception
        What the object itself raises.
    """
    kind = type(value).__name__
    if hasattr(value, "__array__") or hasattr(value, "__array_interface__"):
        return _from_array(value, kind)
    buffer = _buffer_of(value)
    if buffer is not None:
        try:
            return np.asarray(buffer)
        except ValueError as error:
            raise TypeError(
                f"the items of this {kind} are of no type that NumPy has: {shown_error(error)}"
            ) from error
    if hasattr(value, "__dlpack__"):
        return _from_dlpack(value, kind)
    if hasattr(value, "__cuda_array_interface__"):
        raise Unreadable(_on_device(kind))
    raise TypeError(
        f"{shown(value, 80)} is no tensor: a {kind} is neither an array nor a number, a string "
        "or nested lists of them"
    )


def _from_array(value, kind):
    if hasattr(value, "columns") and hasattr(value, "__arrow_c_stream__"):
        raise TypeError(f"a {kind} is a table, whose columns may differ in type: put in the columns")
    if _lacks_values(value):
        raise TypeError(
            f"this {kind} has nulls, of which NumPy would make NaN or None: fill or drop them first"
        )
    try:
        array = _as_array(value)
    except (TypeError, RuntimeError) as error:  # PyTorch has either, CuPy the first, JAX the second
        if not hasattr(value, "__dlpack__"):
            raise  # by an object of somebody's own, and theirs to know
        raise Unreadable(f"NumPy can't read this {kind}: {shown_error(error)}") from error
    if array.dtype == object and array.size and isinstance(array[(0,) * array.ndim], np.ndarray):
        raise TypeError(
            f"the items of this {kind} are arrays: put them in one by one, or make one array of them "
            "first, with .to_numpy_ndarray() or what else it has for that"
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
        except Exception:  # it is sparse, or the like: the first error says what to do
            raise error from None
        return bits.view(element_type("bfloat16"))


def _lacks_values(value):
    """Whether an array of Arrow, Polars or pandas has nulls."""
    nulls = getattr(value, "null_count", None)
    if nulls is not None:
        # Polars has a method. What is encoded refers to values, a chunked array has them in chunks.
        parts = [getattr(value, "dictionary", None), getattr(value, "values", None)]
        return bool(nulls() if callable(nulls) else nulls) or any(
            map(_lacks_values, [*parts, *getattr(value, "chunks", ())])
        )
    # pandas counts NaN too, which in NumPy's own types is a value.
    own = isinstance(getattr(value, "dtype", None), np.dtype)
    return not own and hasattr(value, "isna") and bool(np.any(value.isna()))


def _buffer_of(value):
    try:
        # Bytes are text that was not decoded; a bytearray is a buffer.
        return None if isinstance(value, bytes) else memoryview(value)
    except TypeError:
        return None


def _from_dlpack(value, kind):
    try:
        if value.__dlpack_device__()[0] not in _ON_HOST:
            raise Unreadable(_on_device(kind))
        return np.from_dlpack(value)
    except (AttributeError, BufferError, RuntimeError) as error:
        raise Unreadable(f"NumPy can't read this {kind} by DLPack: {shown_error(error)}") from error


def _on_device(kind):
    return (
        f"the data of this {kind} are on a GPU or other device: copy them to the host first, "
        "with .get() or what else it has for that"
    )
