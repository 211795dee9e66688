"""How a model with sequences runs in parts: see `seqcore.onnx.session`."""
