from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from onnx import GraphProto, ModelProto, OperatorSetIdProto

from seqcore._typing import DTypeName, Path
from seqcore.onnx._bodies.flat import FlatForm

__all__ = ["GraphBody"]

class GraphBody:
    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    # None where the graph leaves a type open.
    input_dtypes: tuple[np.dtype[Any] | None, ...]
    output_dtypes: tuple[np.dtype[Any] | None, ...]

    def __init__(
        self,
        graph: GraphProto | ModelProto | Path,
        opset_imports: dict[str, int] | Iterable[OperatorSetIdProto] | None = None,
        captures: Mapping[str, ArrayLike] | None = None,
    ) -> None: ...
    def check(self, dtypes: Iterable[DTypeName]) -> tuple[np.dtype[Any] | None, ...]: ...
    # Any stands for a tuple of arrays: the graph tells which it is, so that nobody should have to ask.
    def __call__(self, *tensors: ArrayLike) -> NDArray[Any] | Any: ...
    def run_many(self, rows: Sequence[tuple[NDArray[Any], ...]]) -> list[tuple[NDArray[Any], ...]]: ...
    def flat_form(
        self, dtypes: tuple[np.dtype[Any], ...], whole: frozenset[int], elements: int
    ) -> FlatForm | None: ...
    def __copy__(self) -> Self: ...
    def __deepcopy__(self, memo: dict[int, Any]) -> Self: ...
