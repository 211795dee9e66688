"""Models as messages again: for onnxruntime, and for whoever asked for a lowered model."""

import math

from onnx import AttributeProto, GraphProto, ModelProto, TensorProto, TypeProto, helper

from seqcore.onnx._model.graph import Graph, Model, Node, fresh_name
from seqcore.onnx._thresholds import MOST_OWN


class Writer:
    """Writes graphs into messages.

    Small constants that a graph inside another reads become initializers of its own: a loop hands all that
    its body takes from outside on in each iteration; what is its own costs nothing.

    Parameters
    ----------
    constants : dict of str to TensorProto, optional
        Those of the model.
    taken : set of str, optional
        The names in the model.
    """

    def __init__(
        self, constants: dict[str, TensorProto] | None = None, taken: set[str] | None = None
    ) -> None:
        self._small = {
            name: tensor
            for name, tensor in (constants or {}).items()
            if math.prod(tensor.dims) <= MOST_OWN and tensor.data_location != TensorProto.EXTERNAL
        }
        self._taken = set() if taken is None else taken
        self.shared: set[str] = set()  # the constants that are read where they are

    def write_graph(self, graph: Graph, proto: GraphProto, is_own: bool = False) -> None:
        """Write a graph; `is_own` for one that may have initializers of its own."""
        proto.name = graph.name or "graph"
        own: dict[str, str] = {}
        for node in graph.nodes:
            self.write_node(node, proto.node, own if is_own else None)
        for names, field in ((graph.inputs, proto.input), (graph.outputs, proto.output)):
            for name in names:
                value = field.add(name=name)
                if name in graph.declared:
                    value.type.CopyFrom(graph.declared[name])
        for name in (name for node in graph.nodes for name in node.outputs):
            if name in graph.declared and name not in graph.outputs:
                proto.value_info.add(name=name).type.CopyFrom(graph.declared[name])
        for name, copy in own.items():
            _add_initializer(proto, self._small[name], copy)
        for name, tensor in graph.defaults.items():
            _add_initializer(proto, tensor, name)
        self.shared.update(graph.outputs)

    def write_node(self, node: Node, field, own: dict[str, str] | None = None) -> None:
        """Add a node to a repeated field; `own` has the names of the graph's own constants."""
        proto = field.add(op_type=node.op_type, domain=node.domain, name=node.name)
        if node.overload:
            proto.overload = node.overload
        if own is None or self._small.keys().isdisjoint(node.inputs):
            proto.input.extend(node.inputs)
            self.shared.update(node.inputs)
        else:
            proto.input.extend([self._own_name(name, own) for name in node.inputs])
        proto.output.extend(node.outputs)
        for message in node.attribute_messages():
            proto.attribute.add().CopyFrom(message)
        for key, graph in node.graphs.items():
            attribute = proto.attribute.add(name=key, type=AttributeProto.GRAPH)
            # onnxruntime makes functions of the bodies of maps, which don't have any.
            self.write_graph(graph, attribute.g, is_own=node.op_type != "SequenceMap")

    def _own_name(self, name: str, own: dict[str, str]) -> str:
        if name not in self._small:
            self.shared.add(name)
            return name
        if name not in own:
            own[name] = fresh_name(f"{name}/own", self._taken)
        return own[name]


def _add_initializer(proto: GraphProto, tensor: TensorProto, name: str) -> None:
    added = proto.initializer.add()
    added.CopyFrom(tensor)
    added.name = name


def to_message(model: Model, *, weights_are_inputs: bool = False) -> ModelProto:
    """Return a model as a message, with the constants that something reads.

    Weights are left outside (see `Weights`), or are inputs, for who wants to see no data.
    """
    proto = ModelProto(ir_version=model.ir_version)
    for domain, version in model.opsets.items():
        proto.opset_import.add(domain=domain, version=version)
    writer = Writer(model.constants, model.names())
    writer.write_graph(model.graph, proto.graph)
    for name, tensor in model.defaults.items():
        if not (weights_are_inputs and tensor.data_location == TensorProto.EXTERNAL):
            _add_initializer(proto.graph, tensor, name)
    for name, tensor in model.constants.items():
        if name in writer.shared:
            if weights_are_inputs and tensor.data_location == TensorProto.EXTERNAL:
                value = helper.make_tensor_value_info(name, tensor.data_type, tensor.dims)
                proto.graph.input.append(value)
            else:
                _add_initializer(proto.graph, tensor, name)
    return proto


def forget_shape(kind: TypeProto) -> None:
    """Forget the shape in a type: of a tensor or of a sequence's elements, optional or not."""
    while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
        kind = getattr(kind, which).elem_type
    if which == "tensor_type":
        kind.tensor_type.ClearField("shape")
