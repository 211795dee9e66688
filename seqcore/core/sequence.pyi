from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from types import GenericAlias
from typing import Any, ClassVar, Literal, Self, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqcore._typing import (
    T1,
    ArrowArray,
    ArrowStream,
    DTypeName,
    DTypeOf,
    Extents,
    Integers,
    Position,
    Selection,
    Side,
    SupportsArray,
    T,
    TensorOf,
)

class TensorSequence(MutableSequence[NDArray[T]]):
    __array_ufunc__: ClassVar[None]
    __hash__: ClassVar[None]  # type: ignore[assignment]

    def __class_getitem__(cls, item: Any) -> GenericAlias: ...
    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any: ...

    # The element type is that of a dtype given as a NumPy class or `np.dtype`, otherwise that of the arrays.
    # One of tensors and dtype is required, so each overload has one of them without a default.
    @overload
    def __init__(
        self, tensors: Iterable[ArrayLike] = (), *, dtype: DTypeOf[T], copy: bool = False
    ) -> None: ...
    @overload
    def __init__(self, tensors: Iterable[ArrayLike], dtype: DTypeOf[T], *, copy: bool = False) -> None: ...
    @overload
    def __init__(
        self, tensors: Iterable[SupportsArray[T]], dtype: DTypeName | None = None, *, copy: bool = False
    ) -> None: ...
    @overload
    def __init__(
        self: TensorSequence[Any],
        tensors: Iterable[ArrayLike],
        dtype: DTypeName | None = None,
        *,
        copy: bool = False,
    ) -> None: ...
    @overload
    def __init__(
        self: TensorSequence[Any], tensors: Iterable[ArrayLike] = (), *, dtype: DTypeName, copy: bool = False
    ) -> None: ...

    # -- properties ----------------------------------------------------------------------------------

    @property
    def dtype(self) -> np.dtype[T]: ...
    @property
    def nbytes(self) -> int: ...
    @property
    def pinned_nbytes(self) -> int: ...
    @property
    def shapes(self) -> list[tuple[int, ...]]: ...
    def __len__(self) -> int: ...
    def __eq__(self, other: object, /) -> bool: ...
    def _repr_html_(self) -> str: ...

    # -- reading: a search accepts any tensor --------------------------------------------------------

    # In this order, because for a type checker all integer arrays are indices, of any rank.
    @overload
    def __getitem__(self, key: int | np.integer[Any], /) -> NDArray[T]: ...
    @overload
    def __getitem__(self, key: slice | Selection | TensorSequence[np.bool_], /) -> TensorSequence[T]: ...
    @overload
    def __getitem__(self, key: SupportsIndex, /) -> NDArray[T]: ...
    def __getitems__(self, positions: Selection, /) -> TensorSequence[T]: ...
    def __iter__(self) -> Iterator[NDArray[T]]: ...
    def __reversed__(self) -> Iterator[NDArray[T]]: ...
    def __contains__(self, tensor: object, /) -> bool: ...
    def index(self, tensor: object, start: Position = 0, stop: Position | None = None) -> int: ...
    def count(self, tensor: object) -> int: ...

    # -- insertion: tensors of the same dtype --------------------------------------------------------

    def insert(self, position: Position, tensor: TensorOf[T]) -> None: ...
    def append(self, tensor: TensorOf[T]) -> None: ...
    def extend(self, tensors: Iterable[TensorOf[T]]) -> None: ...
    def __iadd__(self, tensors: Iterable[TensorOf[T]], /) -> Self: ...
    def __add__(self, other: Sequence[TensorOf[T]], /) -> TensorSequence[T]: ...
    def __radd__(self, other: Sequence[TensorOf[T]], /) -> TensorSequence[T]: ...
    @overload
    def __setitem__(self, key: int | np.integer[Any], value: TensorOf[T], /) -> None: ...
    @overload
    def __setitem__(
        self, key: slice | Selection | TensorSequence[np.bool_], value: Iterable[TensorOf[T]], /
    ) -> None: ...
    @overload
    def __setitem__(self, key: SupportsIndex, value: TensorOf[T], /) -> None: ...

    # -- removal -------------------------------------------------------------------------------------

    def erase(self, position: Position = -1) -> None: ...
    def pop(self, position: Position = -1) -> NDArray[T]: ...
    def remove(self, tensor: object) -> None: ...
    def __delitem__(self, key: SupportsIndex | slice | Selection | TensorSequence[np.bool_], /) -> None: ...
    def clear(self) -> None: ...

    # -- conversion ----------------------------------------------------------------------------------

    @overload
    def astype(self, dtype: DTypeOf[T1]) -> TensorSequence[T1]: ...
    @overload
    def astype(self, dtype: DTypeName) -> TensorSequence[Any]: ...
    def tolist(self) -> list[Any]: ...
    # `__array__` is left out, because with it a sequence would pass for a tensor, as in `seq.append(seq)`.
    # -- ragged and padded layouts -------------------------------------------------------------------
    def values(self) -> NDArray[T]: ...
    @overload
    def lengths(self, dtype: DTypeOf[T1]) -> NDArray[T1]: ...
    @overload
    def lengths(self, dtype: Literal["int64"] = "int64") -> NDArray[np.int64]: ...
    @overload
    def lengths(self, dtype: DTypeName) -> NDArray[Any]: ...
    @overload
    def offsets(self, dtype: DTypeOf[T1]) -> NDArray[T1]: ...
    @overload
    def offsets(self, dtype: Literal["int64"] = "int64") -> NDArray[np.int64]: ...
    @overload
    def offsets(self, dtype: DTypeName) -> NDArray[Any]: ...
    @overload
    def segment_ids(self, dtype: DTypeOf[T1]) -> NDArray[T1]: ...
    @overload
    def segment_ids(self, dtype: Literal["int64"] = "int64") -> NDArray[np.int64]: ...
    @overload
    def segment_ids(self, dtype: DTypeName) -> NDArray[Any]: ...
    @overload
    def position_ids(self, dtype: DTypeOf[T1], *, start: SupportsIndex | Integers = 0) -> NDArray[T1]: ...
    @overload
    def position_ids(
        self, dtype: Literal["int64"] = "int64", *, start: SupportsIndex | Integers = 0
    ) -> NDArray[np.int64]: ...
    @overload
    def position_ids(self, dtype: DTypeName, *, start: SupportsIndex | Integers = 0) -> NDArray[Any]: ...
    # -- rows of each ----------------------------------------------------------------------------------
    @overload
    def windows(
        self,
        size: SupportsIndex,
        step: SupportsIndex | None = None,
        *,
        partial: bool = True,
        return_ids: Literal[False] = False,
    ) -> TensorSequence[T]: ...
    @overload
    def windows(
        self,
        size: SupportsIndex,
        step: SupportsIndex | None = None,
        *,
        partial: bool = True,
        return_ids: Literal[True],
    ) -> tuple[TensorSequence[T], NDArray[np.int64]]: ...
    def truncate(self, size: SupportsIndex, *, side: Side = "right") -> TensorSequence[T]: ...
    def take_rows(
        self, position: SupportsIndex, *, empty: complex | str | np.generic | None = None
    ) -> NDArray[T]: ...
    @overload
    def accumulate(
        self, ufunc: np.ufunc | Callable[..., Any], *, dtype: DTypeOf[T1]
    ) -> TensorSequence[T1]: ...
    @overload
    def accumulate(
        self, ufunc: np.ufunc | Callable[..., Any], *, dtype: DTypeName | None = None
    ) -> TensorSequence[Any]: ...
    # NumPy's stubs don't say what dtype a reduction has.
    @overload
    def reduce(
        self,
        how: np.ufunc | Callable[..., Any],
        *,
        axis: SupportsIndex | None = 0,
        initial: complex | np.generic | None = None,
        empty: complex | np.generic | None = None,
        dtype: DTypeOf[T1],
    ) -> NDArray[T1]: ...
    @overload
    def reduce(
        self,
        how: np.ufunc | Callable[..., Any],
        *,
        axis: SupportsIndex | None = 0,
        initial: complex | np.generic | None = None,
        empty: complex | np.generic | None = None,
        dtype: DTypeName | None = None,
    ) -> NDArray[Any]: ...
    @classmethod
    def from_lengths(cls, values: ArrayLike, lengths: Integers) -> Self: ...
    @classmethod
    def from_offsets(cls, values: ArrayLike, offsets: Integers) -> Self: ...
    @overload
    def to_padded(
        self,
        padding_value: ArrayLike = 0,
        *,
        side: Side = "right",
        shape: Extents = None,
        multiple_of: Extents = None,
        truncate: bool = False,
        dtype: None = None,
        return_mask: Literal[False] = False,
        out: NDArray[T] | None = None,
    ) -> NDArray[T]: ...
    @overload
    def to_padded(
        self,
        padding_value: ArrayLike = 0,
        *,
        side: Side = "right",
        shape: Extents = None,
        multiple_of: Extents = None,
        truncate: bool = False,
        dtype: None = None,
        return_mask: Literal[True],
        out: NDArray[T] | None = None,
    ) -> tuple[NDArray[T], NDArray[np.bool_]]: ...
    @overload
    def to_padded(
        self,
        padding_value: ArrayLike = 0,
        *,
        side: Side = "right",
        shape: Extents = None,
        multiple_of: Extents = None,
        truncate: bool = False,
        dtype: DTypeOf[T1],
        return_mask: Literal[False] = False,
        out: NDArray[T1] | None = None,
    ) -> NDArray[T1]: ...
    @overload
    def to_padded(
        self,
        padding_value: ArrayLike = 0,
        *,
        side: Side = "right",
        shape: Extents = None,
        multiple_of: Extents = None,
        truncate: bool = False,
        dtype: DTypeOf[T1],
        return_mask: Literal[True],
        out: NDArray[T1] | None = None,
    ) -> tuple[NDArray[T1], NDArray[np.bool_]]: ...
    @overload
    def to_padded(
        self,
        padding_value: ArrayLike = 0,
        *,
        side: Side = "right",
        shape: Extents = None,
        multiple_of: Extents = None,
        truncate: bool = False,
        dtype: DTypeName,
        return_mask: Literal[False] = False,
        out: NDArray[Any] | None = None,
    ) -> NDArray[Any]: ...
    @overload
    def to_padded(
        self,
        padding_value: ArrayLike = 0,
        *,
        side: Side = "right",
        shape: Extents = None,
        multiple_of: Extents = None,
        truncate: bool = False,
        dtype: DTypeName,
        return_mask: Literal[True],
        out: NDArray[Any] | None = None,
    ) -> tuple[NDArray[Any], NDArray[np.bool_]]: ...
    @classmethod
    def from_padded(
        cls, batch: ArrayLike, lengths: Integers | ArrayLike, *, side: Side = "right"
    ) -> Self: ...

    # -- Arrow ---------------------------------------------------------------------------------------

    def __arrow_c_schema__(self) -> object: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...
    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object: ...
    @classmethod
    def from_arrow(cls, array: ArrowArray | ArrowStream) -> Self: ...

    # -- the whole sequence --------------------------------------------------------------------------

    def reverse(self) -> None: ...
    def compact(self) -> None: ...
    def copy(self) -> Self: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Self: ...

def restore(
    cls: type[TensorSequence[Any]],
    dtype: str,
    parts: list[tuple[Any, ...]],
    order: tuple[Any, ...] | NDArray[np.int64],
    positional: tuple[Any, ...] = (),
    named: dict[str, Any] | None = None,
) -> TensorSequence[Any]: ...
