"""Names that the stubs share. They are for type checkers alone: at run time there is no such module."""

import os
from array import array
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Executor
from typing import Any, Literal, Protocol, SupportsIndex, TypeAlias, type_check_only

import numpy as np
from numpy.typing import ArrayLike, NDArray
from typing_extensions import TypeVar

# The bound is no narrower, since bfloat16 is a `np.generic` and nothing else.
T = TypeVar("T", bound=np.generic, default=Any)
T1 = TypeVar("T1", bound=np.generic, default=Any)
T2 = TypeVar("T2", bound=np.generic, default=Any)
T3 = TypeVar("T3", bound=np.generic, default=Any)

_T_co = TypeVar("_T_co", bound=np.generic, covariant=True)

@type_check_only
class SupportsArray(Protocol[_T_co]):
    """An array or NumPy scalar of a type; tensors of other libraries, whose stubs tell none, are of any."""

    def __array__(self) -> np.ndarray[Any, np.dtype[_T_co]]: ...

@type_check_only
class ArrowArray(Protocol):
    """What gives itself away as an array of Arrow's."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

@type_check_only
class ArrowStream(Protocol):
    """What gives itself away as a stream of Arrow's arrays."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...

# Values whose type adapts, as far as a type checker can see. Not tuples: a body has several outputs then.
_Plain: TypeAlias = complex | str | list[Any] | bytearray | memoryview | array[Any]

# What goes into a sequence of T: not any `ArrayLike`, for an array of another type is a TypeError there. But
# other numbers pass: NumPy's stubs have float64 for `rows / 255` of float32, and tell `np.intp` from int64.
TensorOf: TypeAlias = SupportsArray[T | np.number[Any]] | _Plain | tuple[Any, ...]

# What a body returns for one output.
Output: TypeAlias = SupportsArray[T] | _Plain

# Sequences of which the type is known, sequences of Python values, and all of them. Not `list`, which is
# invariant: a list of matrices is no list of arrays of any rank.
Typed: TypeAlias = Sequence[SupportsArray[T]]
PlainTensors: TypeAlias = Sequence[complex | str | list[Any] | tuple[Any, ...]]
Tensors: TypeAlias = Sequence[ArrayLike]

Position: TypeAlias = SupportsIndex | NDArray[np.int32 | np.int64]

# Several positions, or a mask: lists, ranges, and arrays of any library's.
Selection: TypeAlias = list[int] | list[bool] | range | SupportsArray[Any]

# Lengths and offsets.
Integers: TypeAlias = Sequence[SupportsIndex] | SupportsArray[Any]

# Of a padding: a number for axis 0, or one for each.
Extents: TypeAlias = SupportsIndex | Sequence[SupportsIndex | None] | None
Side: TypeAlias = Literal["left", "right"]

DTypeOf: TypeAlias = type[T] | np.dtype[T]
DTypeName: TypeAlias = str | type[Any] | np.dtype[Any]

Path: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = bytes | bytearray | memoryview | Path

# Graphs and models of onnx, told from its other messages by what only they have: onnx may not be installed.

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
    """A `dask.distributed.Client`, whose methods give what they promise or a coroutine of that."""

    def get_executor(self, *, pure: bool = ...) -> Any: ...
    def nthreads(self) -> Any: ...

Workers: TypeAlias = Executor | DaskClient
Progress: TypeAlias = bool | Callable[[int, int], object] | None
