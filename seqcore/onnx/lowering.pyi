from typing import NamedTuple

from onnx import ModelProto

from seqcore._typing import Source

__all__ = ["Note", "lower", "lower_with_report"]

class Note(NamedTuple):
    value: str
    node: str
    is_lowered: bool
    text: str

def lower(model: ModelProto | Source) -> ModelProto: ...
def lower_with_report(
    model: ModelProto | Source, keep_maps: bool = False
) -> tuple[ModelProto, list[Note]]: ...
