"""Models in normal form: what the session and the lowering work on.

A normal model has no functions (they are inlined), no name twice in whatever scope, no Constant node
(constants are initializers of the main graph, which every scope sees), no dead and no nameless node. So a
name alone says which value is meant, and a node may move between scopes.
"""

import math
from itertools import count

import onnx.inliner
from onnx import ModelProto, TensorProto, helper

from seqcore.onnx._models.graphs import (
    all_graphs,
    free_names,
    from_sparse_tensor_proto,
    from_tensor_proto,
    initializer_names,
    subgraphs,
    to_tensor_proto,
)
from seqcore.onnx._models.reading import check_with_onnx
from seqcore.onnx._models.runners import one_line

# A Constant's attribute → the element type and rank of what it holds.
_CONSTANTS = {
    "value_float": (TensorProto.FLOAT, 0),
    "value_floats": (TensorProto.FLOAT, 1),
    "value_int": (TensorProto.INT64, 0),
    "value_ints": (TensorProto.INT64, 1),
    "value_string": (TensorProto.STRING, 0),
    "value_strings": (TensorProto.STRING, 1),
}


def normal_form(model):
    """Return a model in normal form, of its own memory. The inputs' and outputs' names stay."""
    if model.functions:
        model = _inlined(model)
    normal = ModelProto()
    normal.CopyFrom(model)
    # From version 4 of the IR on, an initializer need not be an input too.
    normal.ir_version = max(normal.ir_version, 4)
    _fill_sparse_defaults(normal.graph)
    give_unique_names(normal.graph)
    _hoist_constants(normal.graph)
    true = _true_constants(normal.graph)
    taken = {name for graph in all_graphs(normal.graph) for name in defined_names(graph)}
    named = set()
    for graph in all_graphs(normal.graph):
        for node in graph.node:
            # So that errors can name it; onnxruntime refuses one name for two.
            name = node.name or next(filter(None, node.output), "")
            node.name = fresh_name(name, named) if name in named else name
            named.add(node.name)
            if node.op_type == "Loop" and node.domain in ("", "ai.onnx"):
                _settle_condition(node, true)
                _drop_unread_scans(node)
                _name_outputs(node, taken)
            for inner in subgraphs(node):
                # A loop's condition may be handed on as it is.
                _make_outputs(inner, inner.output[node.op_type == "Loop" :], taken)
    drop_dead_nodes(normal.graph)
    return normal


def _inlined(model):
    """Return a model without functions; raise ValueError where one doesn't fit a call."""
    complaint = "the model, its functions inlined, is not valid"
    try:
        model = onnx.inliner.inline_local_functions(model)
    except RuntimeError as error:
        raise ValueError(f"{complaint}: {one_line(error)}") from error
    # Only now are there operators for an input that a call leaves out, or an output that nothing makes.
    check_with_onnx(model, complaint)
    return model


def _fill_sparse_defaults(graph):
    """Make dense what a sparse initializer gives for an input: it is a default, and no constant."""
    inputs = {value.name for value in graph.input}
    for one in graph.sparse_initializer:
        if one.values.name in inputs:
            graph.initializer.append(to_tensor_proto(from_sparse_tensor_proto(one), one.values.name))
    constants = [one for one in graph.sparse_initializer if one.values.name not in inputs]
    if len(constants) < len(graph.sparse_initializer):
        replace_all(graph.sparse_initializer, constants)


def _true_constants(graph):
    """Return the names of the values that are always true, in all depths."""
    true = set()
    for one in graph.initializer:
        if one.data_type == TensorProto.BOOL and math.prod(one.dims) == 1 and from_tensor_proto(one).all():
            true.add(one.name)
    true -= {value.name for value in graph.input}
    for inner in all_graphs(graph):
        for node in inner.node:
            if node.op_type == "Identity" and node.input[0] in true:
                true.update(node.output)
    return true


def _settle_condition(loop, true):
    """Have the body of a loop over a range pass its condition on: no iteration computes it anew.

    That a loop goes over a range is sure where the condition is a constant; and by the text where the loop
    was given a number of trips and no condition: what the body computes is then ignored (not by onnxruntime).
    """
    trips, condition = (*loop.input, "", "")[:2]
    (body,) = subgraphs(loop)
    if body.output[0].name in true or (trips and not condition):
        body.output[0].name = body.input[1].name


def _drop_unread_scans(loop):
    """Drop the scan outputs that a loop leaves out."""
    (body,) = subgraphs(loop)
    nstates = len(body.input) - 2
    names = [*loop.output, *[""] * (len(body.output) - 1 - len(loop.output))]
    kept = [k for k, name in enumerate(names) if name or k < nstates]
    if len(kept) < len(names) == len(body.output) - 1:
        loop.output[:] = [names[k] for k in kept]
        replace_all(body.output, [body.output[0], *(body.output[1 + k] for k in kept)])


def _name_outputs(loop, taken):
    """Name the outputs that a loop leaves out: onnxruntime (1.31) ends the process at such a state."""
    (body,) = subgraphs(loop)
    loop.output.extend([""] * (len(body.output) - 1 - len(loop.output)))
    for k, name in enumerate(loop.output):
        if not name:
            loop.output[k] = fresh_name(f"{loop.name}/unread", taken)


def _make_outputs(graph, outputs, taken):
    """Have a node of a graph make each of some outputs, for it alone.

    Where a body gives its iteration's number, onnxruntime (1.31) gives that of the next; a sequence that is
    given twice it loses.
    """
    given = {name for node in graph.node for name in node.output}
    for output in outputs:
        if output.name in given:
            given.remove(output.name)
        else:
            again = fresh_name(output.name, taken)
            graph.node.append(helper.make_node("Identity", [output.name], [again], again))
            output.name = again


def drop_dead_nodes(graph):
    """Take out the nodes of which nobody reads an output, in all depths."""
    read = {value.name for value in graph.output}
    live = []
    for node in reversed(graph.node):
        if not read.isdisjoint(filter(None, node.output)):
            live.append(node)
            for inner in subgraphs(node):
                drop_dead_nodes(inner)
                read.update(free_names(inner))
            read.update(node.input)
    if len(live) < len(graph.node):
        replace_all(graph.node, reversed(live))


def give_unique_names(graph):
    """Rename the values inside subgraphs so that no name is defined twice in all of a graph."""
    taken = set()
    for inner in all_graphs(graph):
        taken.update(defined_names(inner))
    _rename(graph, {}, set(defined_names(graph)), taken)


def defined_names(graph):
    """Yield the names that a graph defines, not those of graphs inside it."""
    yield from (value.name for value in graph.input)
    yield from initializer_names(graph)
    for node in graph.node:
        yield from node.output


def _rename(graph, names, defined, taken):
    """Rename in a graph by `names`; `defined` has what is defined so far, `taken` all that is in use."""
    for node in graph.node:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for inner in subgraphs(node):
            own = {}
            for name in filter(None, defined_names(inner)):
                own[name] = fresh_name(name, taken) if name in defined else name
            defined.update(own.values())
            _rename(inner, names | own, defined, taken)
    sparse = (one.values for one in graph.sparse_initializer)
    for value in (*graph.input, *graph.output, *graph.value_info, *graph.initializer, *sparse):
        value.name = names.get(value.name, value.name)


def fresh_name(name, taken):
    """Return a name like this one that isn't taken, and take it."""
    fresh = next(other for i in count(1) if (other := f"{name}_{i}") not in taken)
    taken.add(fresh)
    return fresh


def _hoist_constants(graph):
    """Make initializers of the main graph of all constants, in whatever scope they stand."""
    taken = {name for inner in all_graphs(graph) for name in defined_names(inner)}
    # Innermost first: a graph's nodes are copied when they are replaced, with the graphs inside them.
    for inner in reversed(list(all_graphs(graph))):
        inputs = {value.name for value in inner.input}
        outputs = {value.name for value in inner.output}
        nodes = []
        for node in inner.node:
            constant = _constant_of(node)
            if constant is None:
                nodes.append(node)
            else:
                _add(graph, constant, node.output[0], outputs, taken, nodes)
        if inner is graph:
            if len(nodes) < len(graph.node):
                replace_all(graph.node, nodes)
            continue
        # What is an input too stays: it is a default, which the node may override.
        for constants, name_of in (
            (inner.initializer, lambda one: one.name),
            (inner.sparse_initializer, lambda one: one.values.name),
        ):
            for one in constants:
                if name_of(one) not in inputs:
                    _add(graph, one, name_of(one), outputs, taken, nodes)
            replace_all(constants, [one for one in constants if name_of(one) in inputs])
        replace_all(inner.node, nodes)


def _add(graph, constant, name, outputs, taken, nodes):
    """Add an initializer under a name; where that is an output, a node has to compute it."""
    if name in outputs:
        inner, name = name, fresh_name(name, taken)
        nodes.insert(0, helper.make_node("Identity", [name], [inner]))
    if isinstance(constant, TensorProto):
        graph.initializer.add().CopyFrom(constant)
        graph.initializer[-1].name = name
    else:
        graph.sparse_initializer.add().CopyFrom(constant)
        graph.sparse_initializer[-1].values.name = name


def _constant_of(node):
    """Return what a Constant node holds, as an initializer; None for another node."""
    if node.op_type != "Constant" or node.domain not in ("", "ai.onnx") or len(node.attribute) != 1:
        return None
    attribute = node.attribute[0]
    if attribute.name == "value":
        return attribute.t
    if attribute.name == "sparse_value":
        return attribute.sparse_tensor
    number, rank = _CONSTANTS[attribute.name]
    value = helper.get_attribute_value(attribute)
    values = value if rank else [value]
    return helper.make_tensor("", number, [len(values)] * rank, values)


def replace_all(field, values):
    """Give a repeated field of a message these values, which may be some of its own."""
    copies = [copied(value) for value in values]
    del field[:]
    field.extend(copies)


def copied(message):
    """Return a message of the same kind and content, of its own memory."""
    copy = type(message)()
    copy.CopyFrom(message)
    return copy
