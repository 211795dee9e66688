"""Run ONNX models with sequences fast: needs the extra `seqcore-tensors[onnx]`.

`InferenceSession` replaces onnxruntime's, `lower` replaces sequence operators with tensor operators for other
runtimes, `GraphBody` compiles a graph for `sequence_map`, `to_proto` and `from_proto` convert to and from
ONNX's `SequenceProto`.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any

try:
    import onnx as _onnx  # noqa: F401
    import onnxruntime as _onnxruntime  # noqa: F401
except ImportError as error:
    raise ImportError(
        f'seqcore.onnx needs the package {error.name}: pip install "seqcore-tensors[onnx]"', name=error.name
    ) from None

if _TYPE_CHECKING:
    from seqcore.onnx.body import GraphBody
    from seqcore.onnx.lowering import lower
    from seqcore.onnx.protos import from_proto, to_proto
    from seqcore.onnx.session import InferenceSession

__all__ = ["GraphBody", "InferenceSession", "from_proto", "lower", "to_proto"]

# The compiler takes longer to import than onnxruntime: each name is imported at its first use.
_MODULES = {
    "GraphBody": "body",
    "InferenceSession": "session",
    "from_proto": "protos",
    "lower": "lowering",
    "to_proto": "protos",
}


def __getattr__(name: str) -> _Any:
    if name in _MODULES:
        value = getattr(_import_module(f"{__name__}.{_MODULES[name]}"), name)
    elif name in (*_MODULES.values(), "backend"):
        value = _import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
