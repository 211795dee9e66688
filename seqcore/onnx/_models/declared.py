"""What a model declares of shapes: a run checks that of fed tensors alone, the rest may be wrong."""

from onnx import TensorProto

from seqcore.onnx._models.graphs import all_graphs, subgraphs, tensor_part

# Of a loop's iteration and its condition, which the body need not declare.
_NUMBER_TYPES = TensorProto.INT64, TensorProto.BOOL


def forget_shapes(graph, defaults):
    """Forget the shapes that a graph declares, but for those of fed tensors: of inputs without a default.

    Nor is it checked that a name for lengths stands for one length: the first place alone keeps it.
    """
    names = {""}
    for value in graph.input:
        if value.name in defaults or not value.type.HasField("tensor_type"):
            forget_shape(value.type)
        for dim in value.type.tensor_type.shape.dim:
            if dim.dim_param in names:
                dim.ClearField("dim_param")
            names.add(dim.dim_param)
    forget_states(graph)
    for inner in all_graphs(graph):
        numbers = {value.name for node in inner.node for value in _numbers(node)}
        for value in inner.output:
            forget_shape(value.type)
        for node in inner.node:
            for body in subgraphs(node):
                for value in body.input:
                    if value.name not in numbers:
                        forget_shape(value.type)


def forget_states(graph):
    """Forget the shapes that the bodies of loops declare for states, and all of values on the way.

    They may change from trip to trip, and onnxruntime would put constants for what is computed from them.
    What a body declares for its iteration's number and the condition, on the other hand, says whether they
    come as scalars or with one axis.
    """
    for inner in all_graphs(graph):
        for value in inner.value_info:
            forget_shape(value.type)
        for node in inner.node:
            if _is_loop(node):
                (body,) = subgraphs(node)
                for value in (*body.input[2:], *body.output[: len(body.input) - 1]):
                    forget_shape(value.type)
                for value, number in zip(_numbers(node), _NUMBER_TYPES, strict=True):
                    value.type.tensor_type.elem_type = value.type.tensor_type.elem_type or number
                    shape = value.type.tensor_type.shape
                    rank = len(shape.dim)
                    shape.Clear()
                    shape.SetInParent()
                    if rank == 1:
                        shape.dim.add(dim_value=1)


def _is_loop(node):
    return node.op_type == "Loop" and node.domain in ("", "ai.onnx")


def _numbers(node):
    """Return a loop's inputs of its body that are no states."""
    return next(subgraphs(node)).input[:2] if _is_loop(node) else []


def forget_shape(kind):
    """Forget the shape in a type: of a tensor or of a sequence's elements, optional or not."""
    tensor = tensor_part(kind)
    if tensor is not None:
        tensor.ClearField("shape")
