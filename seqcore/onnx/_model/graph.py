"""Graphs as plain Python objects: what all rooms work on, and the way from ONNX's messages and back.

A value is a name. In a normal model (see `normal_form`) a name means one value in all depths, so a graph's
inputs and outputs are lists of names and nothing else. Whatever is said of a value's type stands beside.
"""

from collections.abc import Iterator, Mapping
from typing import Any, Self

from onnx import AttributeProto, GraphProto, NodeProto, TensorProto, TypeProto, helper

# Domains of ONNX's own operators.
STANDARD = ("", "ai.onnx")
# The graphs of an If.
BRANCHES = ("then_branch", "else_branch")


class Node:
    """An operator in a graph.

    Attributes
    ----------
    op_type, domain, name : str
    inputs, outputs : list of str
        The names of values, "" for one that is left out.
    graphs : dict of str to Graph
        The attributes that are graphs, in order.
    """

    __slots__ = ("_attributes", "domain", "graphs", "inputs", "name", "op_type", "outputs", "overload")

    def __init__(
        self,
        op_type: str,
        inputs: list[str],
        outputs: list[str],
        name: str = "",
        domain: str = "",
        **attributes: Any,
    ) -> None:
        self.op_type, self.domain, self.name, self.overload = op_type, domain, name, ""
        self.inputs, self.outputs = list(inputs), list(outputs)
        self.graphs: dict[str, Graph] = {}
        self._attributes: dict[str, AttributeProto] = {}
        for key, value in attributes.items():
            if isinstance(value, Graph):
                self.graphs[key] = value
            else:
                self._attributes[key] = helper.make_attribute(key, value)

    @classmethod
    def from_proto(cls, proto: NodeProto) -> Self:
        node = cls.__new__(cls)
        node.op_type, node.domain, node.name = proto.op_type, proto.domain, proto.name
        node.overload = proto.overload
        node.inputs, node.outputs = list(proto.input), list(proto.output)
        node.graphs, node._attributes = {}, {}
        for attribute in proto.attribute:
            if attribute.type == AttributeProto.GRAPHS:
                raise ValueError(
                    f"{node.op_type} '{node.name}' has a list of graphs, which nothing here reads"
                )
            if attribute.type == AttributeProto.GRAPH:
                node.graphs[attribute.name] = Graph.from_proto(attribute.g)
            else:
                node._attributes[attribute.name] = attribute
        return node

    def is_op(self, *op_types: str) -> bool:
        """Return whether it is one of some operators of ONNX."""
        return self.op_type in op_types and self.domain in STANDARD

    def attribute(self, name: str, default: Any = None) -> Any:
        """Return the value of an attribute that is not a graph, or a default."""
        attribute = self._attributes.get(name)
        return default if attribute is None else helper.get_attribute_value(attribute)

    def attribute_names(self) -> list[str]:
        """Return the names of the attributes that are not graphs."""
        return list(self._attributes)

    def tensor(self, name: str) -> TensorProto:
        """Return an attribute that is a tensor, as the message that it is."""
        return self._attributes[name].t

    def set_attribute(self, name: str, value: Any) -> None:
        self._attributes[name] = helper.make_attribute(name, value)

    def drop_attribute(self, name: str) -> None:
        self._attributes.pop(name, None)

    def attribute_messages(self) -> Iterator[AttributeProto]:
        """Yield the attributes that are not graphs."""
        yield from self._attributes.values()

    def input(self, i: int) -> str:
        """Return the name of input i, "" where it is left out."""
        return self.inputs[i] if i < len(self.inputs) else ""

    @property
    def body(self) -> "Graph":
        """The graph of a Loop, a Scan or a SequenceMap."""
        return self.graphs["body"]

    def copy(self) -> "Node":
        """Return a node that can be changed apart from this one, with the graphs in it."""
        node = Node.__new__(Node)
        node.op_type, node.domain, node.name, node.overload = (
            self.op_type,
            self.domain,
            self.name,
            self.overload,
        )
        node.inputs, node.outputs = list(self.inputs), list(self.outputs)
        node._attributes = dict(self._attributes)
        node.graphs = {key: graph.copy() for key, graph in self.graphs.items()}
        return node

    def label(self) -> str:
        """Return what errors call it."""
        return f"{self.op_type} '{self.name}'"

    def __repr__(self) -> str:
        return f"{', '.join(self.outputs)} = {self.op_type}({', '.join(self.inputs)})"


class Graph:
    """Nodes in an order in which they can run.

    Attributes
    ----------
    name : str
    inputs, outputs : list of str
    nodes : list of Node
    declared : dict of str to TypeProto
        The types of inputs, outputs and other values, as the file declares them, unchecked. In a normal
        model, as its readers should see them.
    defaults : dict of str to TensorProto
        Of inputs inside a model that have one. The main graph's constants stand in the model.
    """

    __slots__ = ("declared", "defaults", "inputs", "name", "nodes", "outputs")

    def __init__(
        self, name: str, inputs: list[str], outputs: list[str], nodes: list[Node] | None = None
    ) -> None:
        self.name, self.inputs, self.outputs = name, list(inputs), list(outputs)
        self.nodes = [] if nodes is None else nodes
        self.declared: dict[str, TypeProto] = {}
        self.defaults: dict[str, TensorProto] = {}

    @classmethod
    def from_proto(cls, proto: GraphProto) -> Self:
        graph = cls(
            proto.name,
            [value.name for value in proto.input],
            [value.name for value in proto.output],
            [Node.from_proto(node) for node in proto.node],
        )
        for values in (proto.value_info, proto.output, proto.input):
            for value in values:
                if value.type.WhichOneof("value"):
                    graph.declared[value.name] = value.type
        graph.defaults = {one.name: one for one in proto.initializer}
        return graph

    def copy(self) -> "Graph":
        """Return a graph that can be changed apart from this one, in all depths."""
        graph = Graph(self.name, self.inputs, self.outputs, [node.copy() for node in self.nodes])
        graph.declared, graph.defaults = dict(self.declared), dict(self.defaults)
        return graph

    def all_graphs(self) -> Iterator["Graph"]:
        """Yield this graph and all inside it, outer ones first."""
        yield self
        for node in self.nodes:
            for inner in node.graphs.values():
                yield from inner.all_graphs()

    def all_nodes(self) -> Iterator[Node]:
        """Yield the nodes in all depths, one with graphs before what is in them."""
        for node in self.nodes:
            yield node
            for inner in node.graphs.values():
                yield from inner.all_nodes()

    def free_names(self) -> dict[str, None]:
        """Return the names that it or a graph inside it uses and none of them defines, in order of use."""
        defined = {*self.inputs, *self.defaults}
        used: dict[str, None] = {}
        for node in self.nodes:
            used.update(reads_of(node))
            defined.update(node.outputs)
        used.update(dict.fromkeys(self.outputs))
        return {name: None for name in used if name and name not in defined}


def reads_of(node: Node) -> dict[str, None]:
    """Return the names of the values that a node reads, itself or in its graphs, in order."""
    names = {name: None for name in node.inputs if name}
    for inner in node.graphs.values():
        names.update(inner.free_names())
    return names


def rename(nodes: list[Node], names: Mapping[str, str]) -> None:
    """Give values of nodes other names, in all depths."""
    for node in nodes:
        node.inputs = [names.get(name, name) for name in node.inputs]
        node.outputs = [names.get(name, name) for name in node.outputs]
        for graph in node.graphs.values():
            graph.inputs = [names.get(name, name) for name in graph.inputs]
            graph.outputs = [names.get(name, name) for name in graph.outputs]
            graph.declared = {names.get(name, name): kind for name, kind in graph.declared.items()}
            graph.defaults = {names.get(name, name): one for name, one in graph.defaults.items()}
            rename(graph.nodes, names)


def fresh_name(name: str, taken: set[str]) -> str:
    """Return a name like this one that isn't taken, and take it."""
    fresh, i = name, 0
    while fresh in taken:
        i += 1
        fresh = f"{name}_{i}"
    taken.add(fresh)
    return fresh


class Model:
    """A model in normal form.

    Attributes
    ----------
    graph : Graph
    opsets : dict of str to int
        Domain → version. The standard domain is "".
    ir_version : int
    constants : dict of str to TensorProto
        The constants of all graphs. Weights among them are stubs.
    defaults : dict of str to TensorProto
        The defaults of inputs.
    """

    def __init__(self, graph: Graph, opsets: dict[str, int], ir_version: int) -> None:
        self.graph, self.opsets, self.ir_version = graph, opsets, ir_version
        self.constants: dict[str, TensorProto] = {}
        self.defaults: dict[str, TensorProto] = {}

    @property
    def opset(self) -> int:
        """The version of ONNX's own operators."""
        return self.opsets.get("", 0)

    def copy(self) -> "Model":
        """Return a model that can be changed apart from this one; constants are shared."""
        model = Model(self.graph.copy(), dict(self.opsets), self.ir_version)
        model.constants, model.defaults = dict(self.constants), dict(self.defaults)
        return model

    def names(self) -> set[str]:
        """Return all names that are taken."""
        taken = {"", *self.constants, *self.defaults}
        for graph in self.graph.all_graphs():
            taken.update(graph.inputs)
            for node in graph.nodes:
                taken.update(node.outputs)
        return taken
