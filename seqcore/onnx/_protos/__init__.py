"""Sequences as protobuf messages: see `seqcore.onnx.protos`."""
