"""GraphBody: the body of a SequenceMap, compiled."""

from seqcore.onnx._bodies.graph_body import GraphBody

__all__ = ["GraphBody"]
