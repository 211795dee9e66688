"""What tests of inference share: whether what is inferred of a value is so, once the value is there."""

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model import inference
from seqcore.onnx._model.graph import Model
from seqcore.onnx._model.tensors import tensor_type
from seqcore.onnx._model.types import NEVER, SEQUENCE, TENSOR


def named_lengths(model, feed):
    """The lengths that names of a model stand for: of the input's axis that has the name first."""
    found = {}
    for value in model.graph.input:
        if not isinstance(feed.get(value.name), np.ndarray | np.generic):
            continue
        for dim, length in zip(value.type.tensor_type.shape.dim, feed[value.name].shape, strict=False):
            if dim.dim_param:
                found.setdefault(dim.dim_param, length)
    return found


def unsound(type_, value, lengths):
    """In which way a value isn't what is inferred of it, "" where it is."""
    if isinstance(value, list):
        if type_.kind not in ("", SEQUENCE):
            return f"a sequence, not a {type_.kind}"
        of_elements = type_._replace(kind=TENSOR)
        return next(filter(None, (unsound(of_elements, one, lengths) for one in value)), "")
    if not isinstance(value, np.ndarray | np.generic):
        return ""
    value = np.asarray(value)
    if type_.kind not in ("", TENSOR):
        return f"a tensor, not a {type_.kind}"
    if type_.number and value.dtype.kind not in "OU" and type_.number != tensor_type(value.dtype):
        return f"of the type {value.dtype}, not {type_.number}"
    if type_.number and value.dtype.kind in "OU" and type_.number != TensorProto.STRING:
        return f"strings, not {type_.number}"
    if type_.shape is None:
        return ""
    if type_.shape == NEVER:
        return "there, though it never is"
    expected = tuple(lengths[n] if isinstance(n, str) else n for n in type_.shape)
    fits = len(expected) == value.ndim and all(
        n is None or n == length for n, length in zip(expected, value.shape, strict=True)
    )
    return "" if fits else f"of the shape {value.shape}, not {type_.shape} = {expected}"


def unsound_numbers(numbers, value, lengths):
    """The same of the integers that are inferred of a tensor."""
    found = [int(n) for n in np.asarray(value).reshape(-1)]
    expected = [lengths[n] if isinstance(n, str) else n for n in numbers]
    fits = len(expected) == len(found) and all(
        n is None or n == m for n, m in zip(expected, found, strict=True)
    )
    return "" if fits else f"the numbers {found}, not {list(numbers)} = {expected}"


def inference_of(prepared):
    """All that is inferred of a prepared model, with the numbers."""
    made = []

    class Kept(inference.Inference):
        def __init__(self, model: Model, constant, memo=None) -> None:
            super().__init__(model, constant, memo)
            made.append(self)

    known, inference.Inference = inference.Inference, Kept
    try:
        inference.infer(prepared.model, prepared.small_constant, prepared.believes_elements)
    finally:
        inference.Inference = known
    return made[0]
