from typing import Any, overload

from onnx import SequenceProto

from seqcore._typing import DTypeName, DTypeOf, Source, T, Tensors
from seqcore.core.sequence import TensorSequence

__all__ = ["from_proto", "to_proto"]

def to_proto(seq: Tensors, name: str = "") -> SequenceProto: ...
@overload
def from_proto(proto: SequenceProto | Source, dtype: DTypeOf[T]) -> TensorSequence[T]: ...
@overload
def from_proto(proto: SequenceProto | Source, dtype: DTypeName | None = None) -> TensorSequence[Any]: ...
