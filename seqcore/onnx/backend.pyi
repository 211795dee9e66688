from collections.abc import Sequence
from typing import Any

from onnx import ModelProto, NodeProto
from onnx.backend.base import Backend, BackendRep

from seqcore._typing import DTypeName, Source
from seqcore.onnx.session import InferenceSession

__all__ = [
    "SeqcoreBackend",
    "SeqcoreBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

class SeqcoreBackendRep(BackendRep):
    def __init__(self, session: InferenceSession) -> None: ...
    # The options are onnxruntime's, which has no types. The result has the outputs as attributes.
    def run(self, inputs: Any, run_options: Any = None, **kwargs: Any) -> Any: ...

class SeqcoreBackend(Backend):
    @classmethod
    def supports_device(cls, device: str) -> bool: ...
    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool: ...
    @classmethod
    def prepare(cls, model: ModelProto | Source, device: str = "CPU", **kwargs: Any) -> SeqcoreBackendRep: ...
    @classmethod
    def run_model(
        cls, model: ModelProto | Source, inputs: Any, device: str = "CPU", **kwargs: Any
    ) -> Any: ...
    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[DTypeName, Sequence[int | str | None] | None]] | None = None,
        **kwargs: Any,
    ) -> Any: ...

is_compatible = SeqcoreBackend.is_compatible
prepare = SeqcoreBackend.prepare
run_model = SeqcoreBackend.run_model
run_node = SeqcoreBackend.run_node
supports_device = SeqcoreBackend.supports_device
