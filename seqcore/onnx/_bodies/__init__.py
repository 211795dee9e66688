"""Bodies: graphs that a map applies to many elements. See `seqcore.onnx.body`."""
