"""What runs tensor operators: onnxruntime, or where it has no kernel, onnx's reference evaluator."""
