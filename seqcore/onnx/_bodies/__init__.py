"""How a body runs for many elements: see `seqcore.onnx.body`."""
