"""The last step before a model runs: small constants go to where they are read."""

import math

from seqcore.onnx._models.graphs import all_graphs, subgraphs
from seqcore.onnx._models.normal import defined_names, fresh_name

# Larger constants are left where they are, for all to share.
_MOST_COPIED = 64


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
        if node.op_type != "SequenceMap":
            for inner in subgraphs(node):
                yield inner
                yield from _graphs_with_own(inner)
