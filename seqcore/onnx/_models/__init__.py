"""Looking at ONNX models: reading, normal form, types, what is known before a run."""
