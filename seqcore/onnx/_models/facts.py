"""What is known of a model before it runs: each value's type, its constant, who makes it and who reads it."""

import math
import re
from collections import defaultdict
from functools import partial

import onnx
from onnx import ModelProto, TypeProto, helper

from seqcore.onnx._models.declared import forget_shape, forget_shapes
from seqcore.onnx._models.graphs import all_graphs, from_tensor_proto, subgraphs, tensor_part
from seqcore.onnx._models.kinds import check_kinds
from seqcore.onnx._models.normal import copied, replace_all
from seqcore.onnx._models.runners import one_line

# Operators that make sequences.
_MAKERS = ("SequenceConstruct", "SequenceEmpty", "SequenceMap", "SplitToSequence")
# Larger constants are weights: nothing is decided by them.
MOST_NUMBERS = 4096
# onnx follows the numbers of vectors one by one, as it does not know which of them are shapes.
_MOST_FOLLOWED = 1 << 17


class Facts:
    """Facts about a model in normal form, in which a name stands for one value.

    Attributes
    ----------
    model : ModelProto
        The model.
    believes : bool
        Whether the shapes that it declares are believed. No run checks them, but for those of fed tensors.
    types : dict of str to TypeProto
        The types that are declared or inferred. A value without one may still be a tensor.
    producers : dict of str to (NodeProto, GraphProto)
        Who makes a value, and where. Inputs and initializers have none.
    readers : dict of str to list of (NodeProto or None, GraphProto)
        Who reads a value, and where; None for the graph whose output it is.
    initializers : dict of str to TensorProto
        The constants. One that is an input too isn't: a feed may override it.
    constants : set of str
        Their names, those of sparse ones included.
    doubtful : set of str
        Pieces of one length, split with keepdims=0: ONNX's text ignores that, and so does what onnx infers;
        onnxruntime drops the axis, as PyTorch's unbind needs it. Nothing is told of their shapes.
    symbols : set of str
        The names that the model's inputs give to lengths.
    """

    def __init__(self, normal, believes=True):
        self.model = normal
        self.believes = believes
        self.types = {}
        self.producers = {}
        self.readers = defaultdict(list)
        self.initializers = {one.name: one for one in self.model.graph.initializer}
        for value in self.model.graph.input:
            self.initializers.pop(value.name, None)
        sparse = {one.values.name for one in self.model.graph.sparse_initializer}
        self.constants = sparse | self.initializers.keys()
        # Protobuf makes a node's object anew when nobody holds it, and we tell nodes apart by their `id`.
        self._held = [(graph, list(graph.node)) for graph in all_graphs(normal.graph)]
        for graph, nodes in self._held:
            for node in nodes:
                for name in filter(None, node.input):
                    self.readers[name].append((node, graph))
                for name in filter(None, node.output):
                    self.producers[name] = node, graph
            for value in graph.output:
                self.readers[value.name].append((None, graph))
        # The lengths that inputs name. Others that have a name may be another in each iteration.
        self.symbols = {
            dim.dim_param
            for value in normal.graph.input
            for dim in value.type.tensor_type.shape.dim
            if dim.dim_param
        }
        self._declared = {
            value.name: value.type
            for graph, _ in self._held
            for value in (*graph.value_info, *graph.input, *graph.output)
        }
        self._read_types(normal)
        self.doubtful = {name for name, (node, _) in self.producers.items() if self._is_doubtful(node)}
        states = {name for node, _ in self.producers.values() for name in self._doubtful_states(node)}
        if self.doubtful or states:
            self._read_types(_hidden(normal, self.doubtful, states, self.types))
        self._complete(normal.graph)
        check_kinds(self, [node for _, nodes in self._held for node in nodes])

    def _complete(self, graph):
        """Add the types that onnx doesn't infer, because a tensor is of a type that it doesn't know."""
        for node in graph.node:
            inners = list(subgraphs(node))
            for inner in inners:
                self._complete(inner)
            if all(name in self.types for name in node.output if name) or node.domain not in ("", "ai.onnx"):
                continue
            sources = []
            if node.op_type in _MAKERS:
                kind = TypeProto()
                kind.sequence_type.elem_type.tensor_type.elem_type = 0
                sources = [kind] * len(node.output)
            elif node.op_type in ("Identity", "SequenceInsert", "SequenceErase"):
                sources = [self.types.get(node.input[0])]
            elif node.op_type in ("If", "Loop"):
                outputs = inners[0].output[1 if node.op_type == "Loop" else 0 :]
                sources = [self.types.get(output.name) for output in outputs]
                if node.op_type == "Loop":
                    states = len(node.input) - 2
                    sources[states:] = [None] * len(sources[states:])
            for name, kind in zip(node.output, sources, strict=False):
                if kind is not None and name:
                    self.types.setdefault(name, kind)

    def is_tensor(self, name):
        """Return whether a value is a tensor: neither a sequence nor optional. What isn't known is one."""
        kind = self.types.get(name)
        return kind is None or kind.WhichOneof("value") in ("tensor_type", "sparse_tensor_type", None)

    def _read_types(self, model):
        self.types = {}
        for graph in all_graphs(infer_types(model, self.believes).graph):
            for value in (*graph.value_info, *graph.output, *graph.input):
                if value.type.WhichOneof("value"):
                    self.types[value.name] = value.type

    def _is_doubtful(self, node):
        if node.op_type != "SplitToSequence" or len(node.input) < 2 or not node.input[1]:
            return False
        lengths = self.constant(node.input[1])
        is_one = self.shape(node.input[1]) == [] if lengths is None else lengths.ndim == 0
        return is_one and any(one.name == "keepdims" and one.i == 0 for one in node.attribute)

    def _doubtful_states(self, node):
        """Return the sequences that a loop begins with: onnx infers that its last ones have their shapes."""
        if node.op_type != "Loop" or node.domain not in ("", "ai.onnx"):
            return []
        return [name for name in node.input[2:] if self.is_sequence(name) and self.shape(name) is not None]

    def constant(self, name):
        """Return the small constant tensor that a value is, None if it is computed, fed or large."""
        while name not in self.initializers:
            node, _ = self.producers.get(name, (None, None))
            if node is None or node.op_type != "Identity" or node.domain:
                return None
            name = node.input[0]
        tensor = self.initializers[name]
        return from_tensor_proto(tensor) if math.prod(tensor.dims) <= MOST_NUMBERS else None

    def is_sequence(self, name):
        """Return whether a value is known to be a sequence."""
        return name in self.types and self.types[name].WhichOneof("value") == "sequence_type"

    def shape(self, name):
        """Return the lengths of a tensor's (or a sequence's elements') axes: int, str, or None each.

        None instead of the list where not even the rank is known.
        """
        if name in self.initializers:
            return list(self.initializers[name].dims)
        return _shape_of(self.types.get(name, TypeProto()))

    def told_shape(self, name):
        """Return what is known of a tensor's shape, else what the model declares of it."""
        known, declared = self.shape(name), _shape_of(self._declared.get(name, TypeProto()))
        if known is None or declared is None or len(known) != len(declared):
            return declared if known is None else known
        return [a if isinstance(a, int) else b for a, b in zip(known, declared, strict=True)]

    def element_number(self, name):
        """Return ONNX's number of the element type of a tensor or of a sequence's tensors, 0 if unknown."""
        if name in self.initializers:
            return self.initializers[name].data_type
        tensor = tensor_part(self.types.get(name, TypeProto()))
        return 0 if tensor is None else tensor.elem_type


def _hidden(normal, names, states, types):
    """Return a model in which onnx infers nothing of some sequences' shapes.

    The nodes that make those of the first `names` are of an operator that it doesn't know, and the `states`
    go through such an operator into loops.
    """
    hidden = copied(normal)
    hidden.opset_import.add(domain=_HIDDEN, version=1)
    for graph in all_graphs(hidden.graph):
        for name in {name for node in graph.node for name in node.output} & names:
            next(node for node in graph.node if name in node.output).domain = _HIDDEN
            values = [value for value in (*graph.value_info, *graph.output) if value.name == name]
            for value in values or [graph.value_info.add(name=name)]:
                if name in types:
                    value.type.CopyFrom(_shapeless(types[name]))
    # Innermost first: a graph's nodes are copied when they are replaced, with the graphs inside them.
    for graph in reversed(list(all_graphs(hidden.graph))):
        nodes = []
        for node in graph.node:
            if node.op_type == "Loop" and node.domain in ("", "ai.onnx"):
                for k, name in enumerate(node.input[2:], 2):
                    if name in states:
                        node.input[k] = f"{_HIDDEN}/{node.output[0]}/{k}"
                        nodes.append(helper.make_node("Forget", [name], [node.input[k]], domain=_HIDDEN))
                        graph.value_info.add(name=node.input[k]).type.CopyFrom(_shapeless(types[name]))
            nodes.append(node)
        if len(nodes) > len(graph.node):
            replace_all(graph.node, nodes)
    return hidden


_HIDDEN = "seqcore.hidden"


def _shapeless(kind):
    plain = copied(kind)
    forget_shape(plain)
    return plain


def _shape_of(kind):
    tensor = tensor_part(kind)
    if tensor is None or not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else dim.dim_param or None for dim in tensor.shape.dim]


def infer_types(normal, believes=True):
    """Return a normal model with the types that onnx infers, in all depths.

    What the model declares of shapes goes into that, unless it is not believed.

    Raises
    ------
    ValueError
        If an operator doesn't take the types that it gets.
    """
    known = ModelProto(ir_version=normal.ir_version)
    known.opset_import.extend(normal.opset_import)
    graph = known.graph
    for field in ("node", "input", "output", "value_info", "sparse_initializer"):
        getattr(graph, field).extend(getattr(normal.graph, field))
    fed = {value.name for value in normal.graph.input}
    for one in normal.graph.initializer:
        if one.name in fed:
            continue  # a default says nothing of what is fed in its place
        if math.prod(one.dims) <= MOST_NUMBERS:
            graph.initializer.append(one)
        else:  # weights are of a type and a shape; their numbers would only be copied
            graph.initializer.add(name=one.name, dims=one.dims, data_type=one.data_type)
    if not believes:
        forget_shapes(graph, {one.name for one in normal.graph.initializer})
    _sink_constants(graph)
    try:
        typed = _inferred(known, data_prop=False)
        return typed if _has_long_vectors(typed) else _inferred(known, data_prop=True)
    except onnx.shape_inference.InferenceError as error:
        raise ValueError(f"the model is not valid: {one_line(error)}") from error


def _inferred(model, data_prop):
    infer = partial(onnx.shape_inference.infer_shapes, model, check_type=True, data_prop=data_prop)
    try:
        return infer(strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        # What it says of shapes may be what a file declares and the model never does, and a type may be
        # missing because an operator's domain isn't onnx's.
        first = re.search(r"\): \[(\w+)\] ([^(]*)", str(error))
        if first and first[1] == "TypeInferenceError" and "is null" not in first[2]:
            raise
        return infer()


def _has_long_vectors(model):
    """Return whether a vector is so long that its numbers, followed one by one, would fill the memory."""
    shapes = [one.dims for one in model.graph.initializer]
    for graph in all_graphs(model.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            shapes.append([dim.dim_value for dim in value.type.tensor_type.shape.dim])
    return any(len(shape) == 1 and shape[0] > _MOST_FOLLOWED for shape in shapes)


def _sink_constants(graph):
    """Put small initializers into each graph that reads them: onnx looks nowhere else for axes and shapes."""
    small = {one.name: one for one in graph.initializer if math.prod(one.dims) <= MOST_NUMBERS}
    for inner in all_graphs(graph):
        if inner is not graph:
            read = {name for node in inner.node for name in node.input}
            inner.initializer.extend(small[name] for name in read if name in small)
