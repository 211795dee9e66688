from collections.abc import Sequence
from typing import Any, Literal, SupportsIndex, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqcore._typing import (
    DTypeName,
    DTypeOf,
    Position,
    SupportsArray,
    T,
    TensorOf,
    Tensors,
    Typed,
)
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

@overload
def as_sequence(tensors: Typed[T], dtype: DTypeName = "float32") -> TensorSequence[T]: ...
@overload
def as_sequence(tensors: Tensors, dtype: DTypeName = "float32") -> TensorSequence[Any]: ...
@overload
def sequence_construct(*tensors: SupportsArray[T]) -> TensorSequence[T]: ...
@overload
def sequence_construct(*tensors: ArrayLike) -> TensorSequence[Any]: ...
@overload
def sequence_empty(dtype: Literal["float32"] = "float32") -> TensorSequence[np.float32]: ...
@overload
def sequence_empty(dtype: DTypeOf[T]) -> TensorSequence[T]: ...
@overload
def sequence_empty(dtype: DTypeName) -> TensorSequence[Any]: ...
def sequence_length(seq: Tensors) -> int: ...
@overload
def sequence_at(seq: Typed[T], position: Position) -> NDArray[T]: ...
@overload
def sequence_at(seq: Tensors, position: Position) -> NDArray[Any]: ...
@overload
def sequence_insert(
    seq: TensorSequence[T], tensor: TensorOf[T], position: Position | None = None
) -> TensorSequence[T]: ...
@overload
def sequence_insert(
    seq: list[Any] | tuple[Any, ...], tensor: SupportsArray[T], position: Position | None = None
) -> TensorSequence[T]: ...
@overload
def sequence_insert(
    seq: list[Any] | tuple[Any, ...], tensor: ArrayLike, position: Position | None = None
) -> TensorSequence[Any]: ...
@overload
def sequence_erase(seq: Typed[T], position: Position | None = None) -> TensorSequence[T]: ...
@overload
def sequence_erase(seq: Tensors, position: Position | None = None) -> TensorSequence[Any]: ...
@overload
def split_to_sequence(
    input: SupportsArray[T],
    split: SupportsIndex | Sequence[SupportsIndex] | SupportsArray[np.integer[Any]] | None = None,
    axis: SupportsIndex = 0,
    keepdims: SupportsIndex = 1,
) -> TensorSequence[T]: ...
@overload
def split_to_sequence(
    input: ArrayLike,
    split: SupportsIndex | Sequence[SupportsIndex] | SupportsArray[np.integer[Any]] | None = None,
    axis: SupportsIndex = 0,
    keepdims: SupportsIndex = 1,
) -> TensorSequence[Any]: ...
@overload
def concat_from_sequence(seq: Typed[T], axis: SupportsIndex, new_axis: SupportsIndex = 0) -> NDArray[T]: ...
@overload
def concat_from_sequence(seq: Tensors, axis: SupportsIndex, new_axis: SupportsIndex = 0) -> NDArray[Any]: ...
