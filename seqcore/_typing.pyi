"""Type aliases of the stubs. They are for type checkers only: the module doesn't exist at run time."""

import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from types import ModuleType
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypeVar

from seqcore.onnx.body import GraphBody as GraphBody

# The bound is not narrower, because bfloat16 derives from `np.generic` only.
T = TypeVar("T", bound=np.generic, default=Any)
T1 = TypeVar("T1", bound=np.generic, default=Any)
T2 = TypeVar("T2", bound=np.generic, default=Any)

_T_co = TypeVar("_T_co", bound=np.generic, covariant=True)

@type_check_only
class SupportsArray(Protocol[_T_co]):
    """An array or NumPy scalar of a dtype. Tensors of other libraries, without dtypes in stubs, match any."""

    def __array__(self) -> np.ndarray[Any, np.dtype[_T_co]]: ...

@type_check_only
class ArrowArray(Protocol):
    """An object that exports an Arrow array."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@type_check_only
class ArrowStream(Protocol):
    """An object that exports a stream of Arrow arrays."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

# Values that are converted to the dtype of a sequence. Not tuples, which are several outputs of a body.
_Plain: TypeAlias = complex | str | list[Any] | bytearray | memoryview | array[Any]

# The tensors for a sequence of T: not any `ArrayLike`, because an array of another dtype is a TypeError.
# Other numbers pass, because in NumPy's stubs `rows / 255` of float32 is float64, and `np.intp` is not int64.
TensorOf: TypeAlias = SupportsArray[T | np.number[Any]] | _Plain | tuple[Any, ...]

# A result of a body, for one output.
Output: TypeAlias = SupportsArray[T] | _Plain

# Sequences of a known type, sequences of Python values, and any sequences. Not `list`, which is invariant: a
# list of matrices is not a list of arrays of any rank.
Typed: TypeAlias = Sequence[SupportsArray[T]]
PlainTensors: TypeAlias = Sequence[complex | str | list[Any] | tuple[Any, ...]]
Tensors: TypeAlias = Sequence[ArrayLike]

Position: TypeAlias = SupportsIndex | NDArray[np.int32 | np.int64]

# Several positions, or a mask: lists, ranges, and arrays of any library.
Selection: TypeAlias = list[int] | list[bool] | range | SupportsArray[Any]

# Lengths and offsets.
Integers: TypeAlias = Sequence[SupportsIndex] | SupportsArray[Any]

Split: TypeAlias = SupportsIndex | Sequence[SupportsIndex] | SupportsArray[np.integer[Any]]

# The sizes for padding: one for axis 0, or one for each axis.
Extents: TypeAlias = SupportsIndex | Sequence[SupportsIndex | None] | None
Side: TypeAlias = Literal["left", "right"]

DTypeOf: TypeAlias = type[T] | np.dtype[T]
DTypeName: TypeAlias = str | type[Any] | np.dtype[Any]

Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = bytes | bytearray | memoryview | Path

# Graphs and models of onnx, recognized by attributes that other messages lack, because onnx may not be
# installed.

@type_check_only
class Graph(Protocol):
    """An `onnx.GraphProto`."""

    @property
    def node(self) -> Iterable[Any]: ...
    @property
    def initializer(self) -> Iterable[Any]: ...

@type_check_only
class Model(Protocol):
    """An `onnx.ModelProto`."""

    @property
    def graph(self) -> Graph: ...
    @property
    def opset_import(self) -> Iterable[Any]: ...

@type_check_only
class DaskClient(Protocol):
    """A `dask.distributed.Client`, whose methods return their result or a coroutine of it."""

    def nthreads(self) -> Any: ...
    def scatter(self, data: Any, *, broadcast: bool = ..., hash: bool = ...) -> Any: ...

Workers: TypeAlias = Executor | DaskClient | ModuleType  # the module is Ray
Progress: TypeAlias = bool | Callable[[int, int], object] | None
