"""Runtimes for tensor operators: onnxruntime, or onnx's reference evaluator if it has no kernel."""
