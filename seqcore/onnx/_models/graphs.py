"""Looking at graphs: their nodes, names and types, in whatever depth of subgraphs."""

import functools

import numpy as np
from onnx import AttributeProto, GraphProto, TensorProto

from seqcore.dtypes import ELEMENT_TYPES, STRING, element_type, type_name

# ONNX's words for the types where they are not NumPy's.
_WORDS = {"float32": "float", "float64": "double"}


def subgraphs(node):
    """Yield the graphs among a node's attributes."""
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            yield attribute.g
        elif attribute.type == AttributeProto.GRAPHS:
            yield from attribute.graphs


def all_graphs(graph):
    """Yield a graph (or a function, which has nodes too) and all graphs inside it."""
    yield graph
    for node in graph.node:
        for inner in subgraphs(node):
            yield from all_graphs(inner)


def nodes_as_they_run(graph):
    """Yield the nodes of a graph in all depths: one with graphs comes before and after what is in them."""
    for node in graph.node:
        yield node
        inners = list(subgraphs(node))
        for inner in inners:
            yield from nodes_as_they_run(inner)
        if inners:
            yield node


def all_nodes(model):
    """Yield the nodes of a model in all depths, those of its functions too."""
    for root in (model.graph, *model.functions):
        for graph in all_graphs(root):
            yield from graph.node


def all_tensors(model):
    """Yield the tensors that are stored in a model: initializers and attributes."""
    for root in (model.graph, *model.functions):
        for graph in all_graphs(root):
            if isinstance(graph, GraphProto):
                yield from graph.initializer
    for node in all_nodes(model):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.TENSOR:
                yield attribute.t
            elif attribute.type == AttributeProto.TENSORS:
                yield from attribute.tensors


def initializer_names(graph):
    """Return the names that a graph's initializers define, sparse ones included."""
    return {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}


def free_names(graph):
    """Return the names that a graph or one inside it uses and none of them defines, in order of use."""
    defined = {one.name for one in graph.input} | initializer_names(graph)
    used = {}
    for node in graph.node:
        used |= dict.fromkeys(node.input)
        for inner in subgraphs(node):
            used |= dict.fromkeys(free_names(inner))
        defined.update(node.output)
    used |= dict.fromkeys(output.name for output in graph.output)
    return [name for name in used if name and name not in defined]


def reads_of(node):
    """Return the names of the values that a node reads, itself or in its graphs."""
    names = {name for name in node.input if name}
    for inner in subgraphs(node):
        names.update(free_names(inner))
    return names


def used_names(graph):
    """Return the names that nodes read, in all depths: more than a graph's own where they are shadowed."""
    used = set()
    for inner in all_graphs(graph):
        for node in inner.node:
            used.update(node.input)
        if inner is not graph:
            used.update(output.name for output in inner.output)
    return used


def tensor_part(kind):
    """Return the tensor type inside a type: of a tensor, a sequence of them, or an optional of either."""
    while True:
        which = kind.WhichOneof("value")
        if which == "tensor_type":
            return kind.tensor_type
        if which not in ("sequence_type", "optional_type"):
            return None
        kind = getattr(kind, which).elem_type


@functools.cache
def tensor_type(dtype):
    """Return ONNX's number of an element type."""
    name = type_name(dtype)
    return TensorProto.DataType.Value(_WORDS.get(name, name).upper())


@functools.cache
def dtype_of(number):
    """Return the element type for one of ONNX's numbers, None where sequences have no such tensors."""
    word = TensorProto.DataType.Name(number).lower()
    return _dtype_of_word(word)


def dtype_of_text(text):
    """Return the element type for onnxruntime's `tensor(float)`, None where it is none of ours."""
    return _dtype_of_word(text.removeprefix("tensor(").removesuffix(")"))


def _dtype_of_word(word):
    name = next((name for name, other in _WORDS.items() if other == word), word)
    return element_type(name) if name in ELEMENT_TYPES or name == "bfloat16" else None


def declared_dtype(value):
    """Return the element type that a graph declares for an input or output, None where it declares none.

    Raises
    ------
    ValueError
        If it is no tensor, or one of a type that sequences don't have.
    """
    kind = value.type.WhichOneof("value")
    if kind is None:
        return None
    if kind != "tensor_type":
        what = kind.removesuffix("_type").replace("_", " ")
        raise ValueError(f"'{value.name}' of the body is of type {what}: a body takes and returns tensors")
    number = value.type.tensor_type.elem_type
    if number == TensorProto.UNDEFINED:
        return None
    dtype = dtype_of(number)
    if dtype is None:
        word = TensorProto.DataType.Name(number).lower()
        raise ValueError(f"'{value.name}' of the body has the type {word}, which sequences don't have")
    return dtype


def to_tensor_proto(array, name):
    """Return a tensor as an initializer of a name."""
    proto = TensorProto(name=name, dims=array.shape, data_type=tensor_type(array.dtype))
    if array.dtype == STRING:
        proto.string_data.extend(text.encode() for text in array.reshape(-1))
    else:
        # ONNX's raw data is little-endian, whatever the machine.
        little = array if array.dtype.name == "bfloat16" else array.astype(array.dtype.newbyteorder("<"))
        proto.raw_data = little.tobytes()
    return proto


def from_tensor_proto(proto):
    """Return the tensor that an initializer holds; raise ValueError where it holds none."""
    try:
        return _from_tensor_proto(proto)
    except KeyError as error:
        raise ValueError(f"the tensor '{proto.name}' of the model is of no known type: {error}") from error
    except (TypeError, ValueError) as error:
        raise ValueError(f"the tensor '{proto.name}' of the model can't be read: {error}") from error


def from_sparse_tensor_proto(proto):
    """Return the tensor that a sparse initializer stands for, with all its zeros."""
    values, indices = from_tensor_proto(proto.values), from_tensor_proto(proto.indices)
    try:
        array = np.zeros(tuple(proto.dims), values.dtype)
    except (MemoryError, ValueError) as error:
        raise ValueError(f"the tensor '{proto.values.name}' of the model can't be read: {error}") from error
    if array.dtype == STRING:
        array[...] = ""
    if indices.ndim == 1:
        array.reshape(-1)[indices] = values
    else:
        array[tuple(indices.T)] = values
    return array


def _from_tensor_proto(proto):
    from onnx import numpy_helper

    if proto.data_type == TensorProto.BFLOAT16:
        # onnx gives float32 here before its version 1.19.
        if proto.HasField("raw_data"):
            bits = np.frombuffer(proto.raw_data, np.uint16)
        else:
            bits = np.array(proto.int32_data, np.uint16)
        return bits.view(element_type("bfloat16")).reshape(tuple(proto.dims))
    array = numpy_helper.to_array(proto)
    if proto.data_type == TensorProto.STRING:
        strings = np.empty(array.shape, object)
        strings.reshape(-1)[:] = [text.decode() for text in proto.string_data]
        return strings
    return array
