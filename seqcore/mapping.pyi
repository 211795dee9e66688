from collections.abc import Callable
from typing import Any, Concatenate, SupportsIndex, TypeAlias, overload

from numpy.typing import ArrayLike, NDArray

from seqcore._typing import (
    T1,
    T2,
    T3,
    DTypeName,
    DTypeOf,
    Graph,
    Model,
    Output,
    Path,
    PlainTensors,
    Progress,
    T,
    Tensors,
    Typed,
    Workers,
)
from seqcore.core.sequence import TensorSequence
from seqcore.onnx.body import GraphBody

__all__ = ["map_batches", "sequence_map"]

_Graph: TypeAlias = Graph | Model | GraphBody | Path
_DTypes: TypeAlias = list[Any] | tuple[Any, ...]

# One sequence or a tuple of them, which depends on the graph; Any, so that users need no check. With
# `output_dtypes` the type is known.
_OneOrSeveral: TypeAlias = Any

# Type checkers infer a body's parameters and result from these overloads. There is one group for one input,
# in which a lambda's parameter has the type of the elements, one for two inputs, and one for more. Each group
# has the possible outputs of a body. If mypy doesn't know the type of the result, as for `a.mean(0)`, several
# overloads match and it infers Any.

# -- an ONNX graph -----------------------------------------------------------------------------------

@overload
def sequence_map(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeOf[T],
    progress: Progress = None,
) -> TensorSequence[T]: ...
@overload
def sequence_map(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: _DTypes,
    progress: Progress = None,
) -> tuple[TensorSequence[Any], ...]: ...
@overload
def sequence_map(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | None = None,
    progress: Progress = None,
) -> _OneOrSeveral: ...

# -- a callable of one input -------------------------------------------------------------------------

@overload
def sequence_map(
    body: Callable[[NDArray[T]], Output[T1]],
    input_sequence: Typed[T],
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | None = None,
    progress: Progress = None,
) -> TensorSequence[T1]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T]], tuple[Output[T1], Output[T2]]],
    input_sequence: Typed[T],
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: tuple[DTypeName, DTypeName] | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T]], tuple[Output[T1], Output[T2], Output[T3]]],
    input_sequence: Typed[T],
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: tuple[DTypeName, DTypeName, DTypeName] | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2], TensorSequence[T3]]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T]], tuple[Output[Any], ...]],
    input_sequence: Typed[T],
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: _DTypes | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[Any], ...]: ...

# -- a callable of two inputs ------------------------------------------------------------------------

@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], Output[T1]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | None = None,
    progress: Progress = None,
) -> TensorSequence[T1]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], tuple[Output[T1], Output[T2]]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: tuple[DTypeName, DTypeName] | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], tuple[Output[T1], Output[T2], Output[T3]]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: tuple[DTypeName, DTypeName, DTypeName] | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2], TensorSequence[T3]]: ...
@overload
def sequence_map(
    body: Callable[[NDArray[T], NDArray[Any]], tuple[Output[Any], ...]],
    input_sequence: Typed[T],
    additional_input: ArrayLike,
    /,
    *,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: _DTypes | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[Any], ...]: ...

# -- a callable of more inputs -----------------------------------------------------------------------

@overload
def sequence_map(
    body: Callable[..., Output[T1]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | None = None,
    progress: Progress = None,
) -> TensorSequence[T1]: ...
@overload
def sequence_map(
    body: Callable[..., tuple[Output[T1], Output[T2]]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: tuple[DTypeName, DTypeName] | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def sequence_map(
    body: Callable[..., tuple[Output[T1], Output[T2], Output[T3]]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: tuple[DTypeName, DTypeName, DTypeName] | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2], TensorSequence[T3]]: ...
@overload
def sequence_map(
    body: Callable[..., tuple[Output[Any], ...]],
    input_sequence: Typed[Any],
    additional_input: ArrayLike,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: _DTypes | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[Any], ...]: ...

# -- less precise ------------------------------------------------------------------------------------

# Lists of Python values.
@overload
def sequence_map(
    body: Callable[..., Any],
    input_sequence: PlainTensors,
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | _DTypes | None = None,
    progress: Progress = None,
) -> Any: ...

# A body that is declared to return `ArrayLike`. mypy doesn't match lambdas with it, so the overloads above
# remain unambiguous for them.
@overload
def sequence_map(
    body: Callable[Concatenate[NDArray[T], ...], ArrayLike],
    input_sequence: Typed[T],
    *additional_inputs: ArrayLike,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    chunksize: SupportsIndex | None = None,
    output_dtypes: DTypeName | None = None,
    progress: Progress = None,
) -> TensorSequence[Any]: ...

# -- batches: the arguments have one more axis, or the length of several elements --------------------

@overload
def map_batches(
    body: _Graph,
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    batch_size: SupportsIndex | None = None,
    new_axis: SupportsIndex = 0,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    output_dtypes: DTypeName | _DTypes | None = None,
    progress: Progress = None,
) -> _OneOrSeveral: ...
@overload
def map_batches(
    body: Callable[..., Output[T1]],
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    batch_size: SupportsIndex | None = None,
    new_axis: SupportsIndex = 0,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    output_dtypes: DTypeName | None = None,
    progress: Progress = None,
) -> TensorSequence[T1]: ...
@overload
def map_batches(
    body: Callable[..., tuple[Output[T1], Output[T2]]],
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    batch_size: SupportsIndex | None = None,
    new_axis: SupportsIndex = 0,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    output_dtypes: _DTypes | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[T1], TensorSequence[T2]]: ...
@overload
def map_batches(
    body: Callable[..., tuple[Output[Any], ...]],
    input_sequence: Tensors,
    *additional_inputs: ArrayLike,
    batch_size: SupportsIndex | None = None,
    new_axis: SupportsIndex = 0,
    max_workers: SupportsIndex | None = 1,
    executor: Workers | None = None,
    output_dtypes: _DTypes | None = None,
    progress: Progress = None,
) -> tuple[TensorSequence[Any], ...]: ...
