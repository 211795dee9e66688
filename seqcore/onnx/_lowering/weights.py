"""A model without its weights, and what comes of it with them again."""

import math

from onnx import ModelProto, TensorProto, helper

from seqcore.onnx._lowering.prune import is_op
from seqcore.onnx._models.facts import MOST_NUMBERS
from seqcore.onnx._models.graphs import all_graphs, initializer_names, subgraphs, used_names
from seqcore.onnx._models.normal import copied, defined_names, fresh_name, replace_all

# Larger constants are left where they are, for all to share.
_MOST_COPIED = 64


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


def sink_constants(graph):
    """Give the graphs inside a graph initializers of their own for the small constants that they read.

    A loop hands all that its body takes from outside on in each round; what is its own costs nothing.
    """
    fed = {value.name for value in graph.input}
    small = {
        tensor.name: tensor
        for tensor in graph.initializer
        if math.prod(tensor.dims) <= _MOST_COPIED and tensor.name not in fed
    }
    taken = {name for inner in all_graphs(graph) for name in defined_names(inner)}
    for inner in _graphs_with_own(graph):
        own = {}
        for node in inner.node:
            for k, name in enumerate(node.input):
                if name in small:
                    if name not in own:
                        own[name] = fresh_name(name, taken)
                        inner.initializer.add().CopyFrom(small[name])
                        inner.initializer[-1].name = own[name]
                    node.input[k] = own[name]


def _graphs_with_own(graph):
    """Yield the graphs inside a graph that may have initializers: not the bodies of maps."""
    for node in graph.node:
        if not is_op(node, "SequenceMap"):
            for inner in subgraphs(node):
                yield inner
                yield from _graphs_with_own(inner)
