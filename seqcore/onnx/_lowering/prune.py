"""Taking out of a normal model what nothing reads: nodes, states of loops, outputs of branches, constants."""

from onnx import helper

from seqcore.onnx._models.graphs import all_graphs, subgraphs
from seqcore.onnx._models.normal import replace_all

STANDARD = ("", "ai.onnx")


def prune(model):
    """Drop the nodes of a normal model that no output needs, and states that only feed themselves.

    onnxruntime drops dead nodes too, so nothing that would run is lost; states it keeps.
    """
    live = _Live(model.graph, True)
    for graph in reversed(list(all_graphs(model.graph))):
        nodes = [node for node in graph.node if any(name in live.names for name in node.output)]
        for node in nodes:
            if is_op(node, "Loop"):
                _drop_states(node, live)
            elif is_op(node, "If"):
                _drop_outputs(node, live)
        if len(nodes) < len(graph.node):
            replace_all(graph.node, nodes)
    for graph in all_graphs(model.graph):
        defined = {name for node in graph.node for name in node.output}
        values = [value for value in graph.value_info if value.name in defined]
        if len(values) < len(graph.value_info):
            replace_all(graph.value_info, values)


def read_names(model):
    """Return the names of what an output needs, other than for its shape."""
    return _Live(model.graph, False).names


def is_op(node, *op_types):
    """Return whether a node, which may be None, is one of some operators of ONNX."""
    return node is not None and node.domain in STANDARD and node.op_type in op_types


class _Live:
    """The names of what is needed for a graph's outputs."""

    def __init__(self, graph, for_shapes):
        self.names = set()
        self._for_shapes = for_shapes
        self._producers = {}
        self._states = {}  # a state inside a loop's body → the loop, and which state it is
        for inner in all_graphs(graph):
            for node in inner.node:
                self._producers |= dict.fromkeys(node.output, node)
                if is_op(node, "Loop"):
                    for k, value in enumerate(body_of(node).input[2:]):
                        self._states[value.name] = node, k
        # A stack of its own: chains of nodes are longer than Python's.
        self._todo = [value.name for value in graph.output]
        while self._todo:
            name = self._todo.pop()
            if name and name not in self.names:
                self.names.add(name)
                self._visit(name)

    def _visit(self, name):
        if name in self._states:
            node, k = self._states[name]
            self._todo += [node.input[2 + k], body_of(node).output[1 + k].name]
            return
        node = self._producers.get(name)
        if is_op(node, "Loop"):
            body = body_of(node)
            self._todo += [*node.input[:2], body.output[0].name]
            k = list(node.output).index(name)
            self._todo.append(body.output[1 + k].name)
            if k < len(body.input) - 2:
                self._todo.append(node.input[2 + k])
        elif is_op(node, "If"):
            k = list(node.output).index(name)
            self._todo += [*node.input, *(branch.output[k].name for branch in subgraphs(node))]
        elif node is not None and (self._for_shapes or not is_op(node, "Shape", "Size")):
            self._todo += node.input
            for inner in subgraphs(node):
                # What the nodes in it read is visited when they are.
                self._todo += [value.name for value in inner.output]


def _drop_states(node, live):
    body = body_of(node)
    nstates = len(body.input) - 2
    kept = [
        k
        for k in range(len(body.output) - 1)
        if (k < len(node.output) and node.output[k] in live.names)
        or (k < nstates and body.input[2 + k].name in live.names)
    ]
    if len(kept) == len(body.output) - 1:
        return
    states = [k for k in kept if k < nstates]
    node.input[:] = [*node.input[:2], *(node.input[2 + k] for k in states)]
    node.output[:] = [node.output[k] for k in kept if k < len(node.output)]
    replace_all(body.input, [*body.input[:2], *(body.input[2 + k] for k in states)])
    replace_all(body.output, [body.output[0], *(body.output[1 + k] for k in kept)])


def _drop_outputs(node, live):
    kept = [k for k, name in enumerate(node.output) if name in live.names]
    if len(kept) < len(node.output):
        node.output[:] = [node.output[k] for k in kept]
        for branch in subgraphs(node):
            replace_all(branch.output, [branch.output[k] for k in kept])


def drop_aliases(model, is_sequence):
    """Let the readers of a sequence that an Identity passes on read it where it comes from.

    `is_sequence` tells by a name. What a graph returns as it got it keeps its Identity, as runtimes want it.
    """
    for graph in all_graphs(model.graph):
        made = {name for node in graph.node for name in node.output}
        outputs = [value.name for value in graph.output]
        aliases = {}
        for node in graph.node:
            if not is_op(node, "Identity") or not is_sequence(node.output[0]):
                continue
            source = aliases.get(node.input[0], node.input[0])
            if node.output[0] not in outputs:
                aliases[node.output[0]] = source
            elif graph is not model.graph and source in made and source not in outputs:
                aliases[node.output[0]] = source
                outputs[outputs.index(node.output[0])] = source
        if not aliases:
            continue
        for value in graph.output:
            value.name = aliases.get(value.name, value.name)
        for inner in all_graphs(graph):
            for node in inner.node:
                if any(name in aliases for name in node.input):
                    node.input[:] = [aliases.get(name, name) for name in node.input]
            if inner is not graph:
                for value in inner.output:
                    value.name = aliases.get(value.name, value.name)


def body_of(node):
    """Return the graph in a node's attribute `body`."""
    return next(attribute.g for attribute in node.attribute if attribute.name == "body")


def attribute_of(node, name, default=None):
    """Return a node's attribute, or a default."""
    return next((helper.get_attribute_value(one) for one in node.attribute if one.name == name), default)
