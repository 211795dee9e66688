"""A model without its weights, and what comes of it with them again."""

import math

from onnx import ModelProto, TensorProto, helper

from seqcore.onnx._models.facts import MOST_NUMBERS
from seqcore.onnx._models.graphs import initializer_names, used_names
from seqcore.onnx._models.normal import copied, replace_all


def without_weights(model):
    """Return a model with inputs in place of its large initializers, which nothing here looks into."""
    hollow = ModelProto()
    for source, target, kept in ((model, hollow, "graph"), (model.graph, hollow.graph, "initializer")):
        for field, value in source.ListFields():
            if field.name == kept:
                continue
            if hasattr(value, "extend"):
                getattr(target, field.name).extend(value)
            elif hasattr(value, "CopyFrom"):
                getattr(target, field.name).CopyFrom(value)
            else:
                setattr(target, field.name, value)
    inputs = {value.name for value in model.graph.input}
    for tensor in model.graph.initializer:
        if not _is_weight(tensor):
            hollow.graph.initializer.add().CopyFrom(tensor)
        elif tensor.name not in inputs:
            value = helper.make_tensor_value_info(tensor.name, tensor.data_type, tensor.dims)
            hollow.graph.input.append(value)
    return hollow


def _is_weight(tensor):
    return math.prod(tensor.dims) > MOST_NUMBERS or tensor.data_location == TensorProto.EXTERNAL


def with_weights(lowered, given):
    """Return a lowered model with the given one's weights and inputs, without what is read no more."""
    replace_all(lowered.graph.input, given.graph.input)
    used = used_names(lowered.graph) | {value.name for value in lowered.graph.output}
    unread = initializer_names(given.graph) - used_names(given.graph)
    inputs = {value.name for value in given.graph.input}
    own = {tensor.name: copied(tensor) for tensor in lowered.graph.initializer}
    tensors = {tensor.name: tensor for tensor in given.graph.initializer if _is_weight(tensor)} | own
    names = dict.fromkeys([tensor.name for tensor in given.graph.initializer if tensor.name in tensors])
    del lowered.graph.initializer[:]
    for name in names | own:
        if name in used | unread | inputs:
            lowered.graph.initializer.add().CopyFrom(tensors[name])
    return lowered
