"""Sequences of tensors: ONNX's sequence operators on a typed container with a Cython core."""

try:
    from seqcore._sequence import TensorSequence
except ModuleNotFoundError as error:
    if not (error.name or "").startswith("seqcore._"):
        raise
    raise ImportError(
        f"seqcore was imported from {__path__[0]}, a source tree whose compiled modules are missing for this "
        "Python. Build them there with `pip install -e .`, or start Python in another folder to use "
        "an installed seqcore."
    ) from error
