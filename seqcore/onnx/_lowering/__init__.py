"""The rules by which sequences are compiled away: see `seqcore.onnx.lowering`."""
