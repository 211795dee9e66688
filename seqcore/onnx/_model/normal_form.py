"""The normal form, in which passes and engines take a model: what it is, and the passes that lead there.

A normal model has no functions, no name twice in whatever scope, no Constant node (constants are the
model's, which every scope sees), no dead and no nameless node. So a name alone says which value is meant, and
a node may move between scopes.
"""

import math

import numpy as np
import onnx.inliner
from onnx import FunctionProto, ModelProto, TensorProto, helper

from seqcore.onnx._model.graph import Graph, Model, Node, fresh_name, reads_of
from seqcore.onnx._model.load import all_graphs
from seqcore.onnx._model.tensors import (
    from_sparse_tensor_proto,
    from_tensor_proto,
    one_line,
    to_tensor_proto,
)
from seqcore.onnx._model.weights import Weights, weight_of

# A Constant's attribute → the element type and rank of what it holds.
_CONSTANTS = {
    "value_float": (TensorProto.FLOAT, 0),
    "value_floats": (TensorProto.FLOAT, 1),
    "value_int": (TensorProto.INT64, 0),
    "value_ints": (TensorProto.INT64, 1),
    "value_string": (TensorProto.STRING, 0),
    "value_strings": (TensorProto.STRING, 1),
}


def normalize(model: Model, weights: Weights) -> None:
    """Bring a model into normal form, in place: one pass after the other."""
    give_unique_names(model)
    hoist_constants(model, weights)
    name_nodes(model)
    for node in model.graph.all_nodes():
        if node.is_op("Loop"):
            drop_unread_scans(node)
    settle_conditions(model)
    drop_splits_of_one(model)
    give_outputs_nodes(model)
    drop_dead_nodes(model.graph)


def make_dense(model: ModelProto) -> None:
    """Make initializers of sparse ones, in all depths: operators take them for tensors with many zeros."""
    for graph in all_graphs(model):
        for sparse in getattr(graph, "sparse_initializer", ()):
            graph.initializer.append(to_tensor_proto(from_sparse_tensor_proto(sparse), sparse.values.name))
        if not isinstance(graph, FunctionProto):
            graph.ClearField("sparse_initializer")


def inline_functions(model: ModelProto) -> ModelProto:
    """Return a message without functions: each call becomes what is in its function.

    Raises
    ------
    ValueError
        If a function doesn't fit a call.
    """
    functions = {(one.domain, one.name, one.overload): one for one in model.functions}
    for node in (node for graph in all_graphs(model) for node in graph.node):
        function = functions.get((node.domain, node.op_type, node.overload))
        if function is None:
            continue
        for kind, outer, inner in (
            ("input", node.input, function.input),
            ("output", node.output, function.output),
        ):
            if len(outer) > len(inner):
                name = node.name or next(filter(None, node.output), "")
                number = f"{len(outer)} {kind}{'' if len(outer) == 1 else 's'}"
                raise ValueError(
                    f"the model is not valid: {node.op_type} '{name}' has {number}, its function {len(inner)}"
                )
        given = {one.name for one in node.attribute}  # onnx (1.23) leaves out the defaults of others
        node.attribute.extend(one for one in function.attribute_proto if one.name not in given)
    try:
        return onnx.inliner.inline_local_functions(model)
    except RuntimeError as error:
        raise ValueError(f"the model, its functions inlined, is not valid: {one_line(error)}") from error


def from_proto(proto: ModelProto, weights: Weights) -> Model:
    """Return a checked message without functions as a `Model`, which is not normal yet."""
    graph = proto.graph
    opsets: dict[str, int] = {}
    for one in proto.opset_import:
        domain = "" if one.domain == "ai.onnx" else one.domain
        opsets[domain] = max(opsets.get(domain, 0), one.version)
    # From version 4 of the IR on, an initializer need not be an input too.
    model = Model(Graph.from_proto(graph), opsets, max(proto.ir_version, 4))
    constants = model.graph.defaults
    model.graph.defaults = {}
    constants |= weights.stubs
    fed = [name for name in model.graph.inputs if name not in weights.stubs or name in weights.defaults]
    model.graph.inputs = fed
    # A constant that is an input too is none: a feed may override it.
    model.defaults = {name: constants.pop(name) for name in fed if name in constants}
    model.constants = constants
    return model


def give_unique_names(model: Model) -> None:
    """Rename values inside graphs so that no name is defined twice in all of a model."""
    graphs = list(model.graph.all_graphs())
    taken = {"", *model.constants, *model.defaults}
    for graph in graphs:
        taken.update(_defined(graph))
    if len(graphs) > 1:
        own = {*model.constants, *model.defaults, *_defined(model.graph)}
        _rename(model.graph, {}, own, taken)


def _defined(graph):
    yield from graph.inputs
    yield from graph.defaults
    for node in graph.nodes:
        yield from node.outputs


def _rename(graph, names, defined, taken):
    """Rename in a graph by `names`; `defined` has what is defined so far, `taken` all that is in use."""
    for node in graph.nodes:
        if names:
            node.inputs = [names.get(name, name) for name in node.inputs]
            node.outputs = [names.get(name, name) for name in node.outputs]
        for inner in node.graphs.values():
            own = {}
            for name in filter(None, _defined(inner)):
                if name in own:
                    continue
                own[name] = fresh_name(name, taken) if name in defined else name
            defined.update(own.values())
            hides = {name: new for name, new in own.items() if name != new}
            outer = {name: new for name, new in names.items() if name not in own}
            _rename(inner, outer | hides, defined, taken)
    if names:
        graph.inputs = [names.get(name, name) for name in graph.inputs]
        graph.outputs = [names.get(name, name) for name in graph.outputs]
        graph.declared = {names.get(name, name): kind for name, kind in graph.declared.items()}
        graph.defaults = {names.get(name, name): one for name, one in graph.defaults.items()}


def hoist_constants(model: Model, weights: Weights) -> None:
    """Make constants of the model of all constants, in whatever scope they stand.

    An inner graph's initializer that is its input too stays: it is a default, which the node may override.
    """
    for graph in model.graph.all_graphs():
        nodes = []
        for node in graph.nodes:
            constant = _constant_of(node)
            if constant is None:
                nodes.append(node)
            else:
                model.constants[node.outputs[0]] = weight_of(constant, weights)
        graph.nodes = nodes
        if graph is not model.graph:
            for name in [name for name in graph.defaults if name not in graph.inputs]:
                model.constants[name] = weight_of(graph.defaults.pop(name), weights)


def _constant_of(node):
    """Return what a Constant node holds, as a tensor; None for another node."""
    if not node.is_op("Constant") or len(node.attribute_names()) != 1:
        return None
    (name,) = node.attribute_names()
    if name == "value":
        return node.tensor(name)
    value = node.attribute(name)
    if name == "sparse_value":
        return to_tensor_proto(from_sparse_tensor_proto(value), "")
    number, rank = _CONSTANTS[name]
    values = value if rank else [value]
    return helper.make_tensor("", number, [len(values)] * rank, values)


def name_nodes(model: Model) -> None:
    """Give each node a name of its own, so that errors can name it; onnxruntime refuses one for two."""
    named: set[str] = {""}
    for node in model.graph.all_nodes():
        node.name = fresh_name(node.name or next(filter(None, node.outputs), "node"), named)


def drop_unread_scans(loop: Node) -> None:
    """Drop the scan outputs that a loop leaves out."""
    body = loop.body
    nstates = len(body.inputs) - 2
    names = [*loop.outputs, *[""] * (len(body.outputs) - 1 - len(loop.outputs))]
    kept = [k for k, name in enumerate(names) if name or k < nstates]
    loop.outputs = [names[k] for k in kept]
    body.outputs = [body.outputs[0], *(body.outputs[1 + k] for k in kept)]


def settle_conditions(model: Model) -> None:
    """Have the body of a loop over a range pass its condition on: no iteration computes it anew.

    That a loop goes over a range is sure where the condition is a constant. A loop that was given a number of
    trips and no condition begins under one that holds: by the specification what its body computes is
    ignored, but not by onnxruntime, and so onnxscript writes a `break`.
    """
    true = {name for name, tensor in model.constants.items() if _is_true(tensor)}
    for node in model.graph.all_nodes():
        if node.is_op("Identity") and node.inputs[0] in true:
            true.update(node.outputs)
    for node in model.graph.all_nodes():
        if node.is_op("Loop"):
            body = node.body
            if body.outputs[0] in true or _is_handed_on(body):
                body.outputs[0] = body.inputs[1]
            elif node.input(0) and not node.input(1):
                node.inputs[1:2] = [_add_true(model)]
            _settle_inner_conditions(model, body)


def _settle_inner_conditions(model: Model, body: Graph) -> None:
    """Have the loops in a loop's body begin under no condition, where that is the outer one's.

    In an iteration it holds.
    """
    inner = [node for node in body.all_nodes() if node.is_op("Loop") and node.input(1) == body.inputs[1]]
    if inner:
        name = _add_true(model)
        for node in inner:
            node.inputs[1] = name


def _add_true(model: Model) -> str:
    """Add a constant that holds to a model, and return its name."""
    name = fresh_name("seqcore/true", model.names())
    model.constants[name] = to_tensor_proto(np.array(True), name)
    return name


def _is_handed_on(body):
    """Return whether a loop's body gives its condition as it got it."""
    copied = {one.outputs[0]: one.inputs[0] for one in body.nodes if one.is_op("Identity")}
    name = body.outputs[0]
    while name in copied:
        name = copied[name]
    return name == body.inputs[1]


def _is_true(tensor):
    is_one = tensor.data_type == TensorProto.BOOL and math.prod(tensor.dims) == 1
    return is_one and bool(np.all(from_tensor_proto(tensor)))


def drop_splits_of_one(model: Model) -> None:
    """Drop a scalar split of 1: the same is said without, and to onnx such pieces keep their axis."""
    for node in model.graph.all_nodes():
        split = model.constants.get(node.input(1)) if node.is_op("SplitToSequence") else None
        if split is not None and not split.dims and from_tensor_proto(split) == 1:
            node.inputs = node.inputs[:1]


def give_outputs_nodes(model: Model) -> None:
    """Have a node of each graph make each of its outputs, for it alone.

    Where a body gives its iteration's number, onnxruntime (1.31) gives that of the next; a sequence that is
    given twice it loses; and at a state that a loop leaves out it ends the process.
    """
    taken = model.names()
    for graph in list(model.graph.all_graphs()):
        for node in graph.nodes:
            if node.is_op("Loop"):
                node.outputs = [name or fresh_name(f"{node.name}/unread", taken) for name in node.outputs]
            for inner in node.graphs.values():
                # A loop's condition may be handed on as it is.
                _give_outputs_nodes(inner, int(node.is_op("Loop")), taken)
    made = {name for node in model.graph.nodes for name in node.outputs}
    for name in model.graph.outputs:
        # A constant that is returned: a node has to compute it.
        if name in model.constants and name not in made:
            hidden = fresh_name(name, taken)
            model.constants[hidden] = model.constants.pop(name)
            _rename_reads(model.graph, name, hidden)
            model.graph.nodes.insert(0, Node("Identity", [hidden], [name], fresh_name(name, taken)))
            made.add(name)


def _give_outputs_nodes(graph, first, taken):
    given = {name for node in graph.nodes for name in node.outputs}
    for k in range(first, len(graph.outputs)):
        name = graph.outputs[k]
        if name in given:
            given.remove(name)
        else:
            again = fresh_name(name, taken)
            graph.nodes.append(Node("Identity", [name], [again], again))
            graph.outputs[k] = again
            if name in graph.declared:
                graph.declared[again] = graph.declared[name]


def _rename_reads(graph, old, new):
    for node in graph.all_nodes():
        if old in node.inputs:
            node.inputs = [new if name == old else name for name in node.inputs]


def drop_dead_nodes(graph: Graph) -> None:
    """Remove dead nodes, in all depths."""
    read = set(graph.outputs)
    live = []
    for node in reversed(graph.nodes):
        if not read.isdisjoint(filter(None, node.outputs)):
            live.append(node)
            for inner in node.graphs.values():
                drop_dead_nodes(inner)
            read.update(reads_of(node))
    graph.nodes = live[::-1]
