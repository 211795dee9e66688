"""Run ONNX models with sequences fast: needs the extra `seqcore-tensors[onnx]`.

`InferenceSession` replaces onnxruntime's, `lower` replaces sequence operators with tensor operators for other
runtimes, `GraphBody` compiles a graph for `sequence_map`, `to_proto` and `from_proto` convert to and from
ONNX's `SequenceProto`.
"""

try:
    import onnx as _onnx  # noqa: F401
    import onnxruntime as _onnxruntime  # noqa: F401
except ImportError as error:
    raise ImportError(
        f'seqcore.onnx needs the package {error.name}: pip install "seqcore-tensors[onnx]"', name=error.name
    ) from None

import seqcore.onnx._operators  # noqa: F401  (which registers the records of all operators)
from seqcore.onnx.body import GraphBody
from seqcore.onnx.lowering import lower
from seqcore.onnx.protos import from_proto, to_proto
from seqcore.onnx.session import InferenceSession

__all__ = ["GraphBody", "InferenceSession", "from_proto", "lower", "to_proto"]
