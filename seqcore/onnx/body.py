"""GraphBody: the body of a SequenceMap, compiled."""

import seqcore.onnx._operators  # noqa: F401  (which registers the records of all operators)
from seqcore.onnx._bodies.graph_body import GraphBody

__all__ = ["GraphBody"]
