from collections.abc import Mapping, Sequence
from typing import Any, Protocol, SupportsIndex, TypeAlias, type_check_only

from onnx import ModelProto

from seqcore._typing import Source

__all__ = ["InferenceSession"]

# onnxruntime has no types, and an import of what has none would make these unknown, not Any.
_SessionOptions: TypeAlias = Any
_RunOptions: TypeAlias = Any

@type_check_only
class _NodeArg(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> str: ...
    @property
    def shape(self) -> list[int | str | None]: ...

@type_check_only
class _ModelMetadata(Protocol):
    @property
    def producer_name(self) -> str: ...
    @property
    def graph_name(self) -> str: ...
    @property
    def domain(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def graph_description(self) -> str: ...
    @property
    def version(self) -> int: ...
    @property
    def custom_metadata_map(self) -> dict[str, str]: ...

class InferenceSession:
    def __init__(
        self,
        model: ModelProto | Source,
        sess_options: _SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        max_workers: SupportsIndex | None = 1,
    ) -> None: ...
    # An array, a TensorSequence or None for each output, in a model without sequences whatever onnxruntime
    # has. The model tells which, so nobody should have to ask; feeds are as varied.
    def run(
        self,
        output_names: list[str] | tuple[str, ...] | None,
        input_feed: Mapping[str, Any],
        run_options: _RunOptions | None = None,
    ) -> list[Any]: ...
    def get_inputs(self) -> list[_NodeArg]: ...
    def get_outputs(self) -> list[_NodeArg]: ...
    def get_overridable_initializers(self) -> list[_NodeArg]: ...
    def get_modelmeta(self) -> _ModelMetadata: ...
    def get_providers(self) -> list[str]: ...
    def get_provider_options(self) -> dict[str, dict[str, str]]: ...
    def get_session_options(self) -> _SessionOptions: ...
