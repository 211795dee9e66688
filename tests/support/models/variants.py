"""Other ways to write the same model, which mean the same to onnxruntime, or which it refuses.

Each takes a message and returns a changed copy of it. `VARIANTS` has them by name.
"""

import copy
import itertools
import random

import onnx
from onnx import AttributeProto, TensorProto, helper

VARIANTS = {}


def variant(make):
    VARIANTS[make.__name__] = make
    return make


def graphs_of(graph):
    """A graph and all inside it."""
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from graphs_of(attribute.g)


def copied(message):
    made = onnx.ModelProto()
    made.CopyFrom(message)
    return made


def put_nodes(graph, nodes):
    nodes = [copy.deepcopy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(nodes)


def reads_of(graph):
    """The names that a graph reads, in all depths."""
    found = {output.name for output in graph.output}
    for node in graph.node:
        found.update(node.input)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                found |= reads_of(attribute.g)
    return found


@variant
def nodes_shuffled(message):
    """Of the main graph: onnxruntime refuses other graphs whose nodes aren't in order."""
    made = copied(message)
    put_nodes(made.graph, random.Random(7).sample(list(made.graph.node), len(made.graph.node)))
    return made


@variant
def nodes_reversed(message):
    made = copied(message)
    put_nodes(made.graph, list(made.graph.node)[::-1])
    return made


@variant
def names_emptied(message):
    """Of the main graph, of nodes, and of outputs that nothing reads."""
    made = copied(message)
    made.graph.name = ""
    for graph in graphs_of(made.graph):
        read = reads_of(graph)
        for node in graph.node:
            node.name = ""
            if node.op_type in ("Split", "LSTM", "GRU"):
                for k, name in enumerate(node.output):
                    node.output[k] = name if name in read else ""
    return made


@variant
def initializers_doubled(message):
    made = with_initializers(message)
    made.graph.initializer.extend([copy.deepcopy(one) for one in made.graph.initializer])
    return made


@variant
def with_initializers(message):
    """Initializers in place of Constant nodes, in the graphs where they are."""
    made = copied(message)
    for graph in graphs_of(made.graph):
        nodes = []
        for node in graph.node:
            if node.op_type == "Constant" and node.attribute[0].name == "value":
                tensor = graph.initializer.add()
                tensor.CopyFrom(node.attribute[0].t)
                tensor.name = node.output[0]
            else:
                nodes.append(node)
        put_nodes(graph, nodes)
    return made


@variant
def with_constants(message):
    """Constant nodes in place of initializers."""
    made = copied(message)
    for graph in graphs_of(made.graph):
        fed = {one.name for one in graph.input}
        kept = [one for one in graph.initializer if one.name in fed]
        nodes = [
            helper.make_node("Constant", [], [one.name], value=one)
            for one in graph.initializer
            if one.name not in fed
        ]
        kept = [copy.deepcopy(one) for one in kept]
        put_nodes(graph, [*nodes, *graph.node])
        del graph.initializer[:]
        graph.initializer.extend(kept)
    return made


@variant
def functions_outlined(message):
    """Each node without graphs is a function, of its attributes too: those of a call, or defaults."""
    made = copied(message)
    opsets = [one for one in made.opset_import if one.domain in ("", "ai.onnx")]
    made.opset_import.append(helper.make_opsetid("outlined", 1))
    made.ir_version = max(made.ir_version, 8)
    for k, node in enumerate(list(made.graph.node)):
        has_graphs = any(one.type == AttributeProto.GRAPH for one in node.attribute)
        if node.domain or has_graphs or "" in (*node.input, *node.output):
            continue
        inputs = [f"in_{i}" for i in range(len(node.input))]
        outputs = [f"out_{i}" for i in range(len(node.output))]
        inner = onnx.NodeProto()
        inner.CopyFrom(node)
        inner.input[:], inner.output[:] = inputs, outputs
        del inner.attribute[:]
        for one in node.attribute:
            inner.attribute.add(name=one.name, type=one.type, ref_attr_name=one.name)
        names, defaults = ([], node.attribute) if k % 2 else ([one.name for one in node.attribute], [])
        made.functions.append(
            helper.make_function(
                "outlined", f"f{k}", inputs, outputs, [inner], opsets, names, attribute_protos=defaults
            )
        )
        call = helper.make_node(f"f{k}", list(node.input), list(node.output), node.name, domain="outlined")
        call.attribute.extend([] if k % 2 else node.attribute)
        made.graph.node[k].CopyFrom(call)
    return made


@variant
def nodes_repeated(message):
    """Some inputs are computed anew, as by the node before that made them, in the same graph or around."""
    made, drawn, count = copied(message), random.Random(7), itertools.count()

    def visit(graph, makers):
        makers, nodes = dict(makers), []
        for node in list(graph.node):
            for name in filter(makers.get, dict.fromkeys(node.input)):
                if drawn.random() < 0.5:
                    again = copy.deepcopy(makers[name])
                    fresh = {one: f"{one}/again{next(count)}" for one in again.output}
                    again.name, again.output[:] = "", fresh.values()
                    nodes.append(again)
                    node.input[:] = [fresh.get(one, one) for one in node.input]
            inner = [one.g for one in node.attribute if one.type == AttributeProto.GRAPH]
            for one in inner:
                visit(one, {} if node.op_type == "SequenceMap" else makers)
            nodes.append(node)
            if not inner and "" not in node.output and not node.op_type.startswith("Random"):
                makers.update(dict.fromkeys(node.output, node))
        put_nodes(graph, nodes)

    visit(made.graph, {})
    return made


@variant
def opset_named_in_full(message):
    made = copied(message)
    for one in made.opset_import:
        one.domain = one.domain or "ai.onnx"
    return made


@variant
def oldest_ir(message):
    made = copied(message)
    made.ir_version = 4
    return made


@variant
def types_forgotten(message):
    """Of the values between nodes; of outputs the shapes."""
    made = copied(message)
    for graph in graphs_of(made.graph):
        del graph.value_info[:]
    for output in made.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    return made


@variant
def ranks_forgotten(message):
    """Of inputs, and of the elements of those that are lists."""
    made = copied(message)
    for one in made.graph.input:
        kind = one.type
        if kind.HasField("sequence_type"):
            kind = kind.sequence_type.elem_type
        kind.tensor_type.ClearField("shape")
    return made


@variant
def imports_missing(message):
    """An operator of onnxruntime's own, which nothing imports."""
    made = copied(message)
    one = next((one for one in made.graph.input if one.type.tensor_type.elem_type == TensorProto.FLOAT), None)
    if one is None:
        return made
    fresh = f"{one.name}/same"
    for graph in graphs_of(made.graph):
        for node in graph.node:
            for k, name in enumerate(node.input):
                node.input[k] = fresh if name == one.name else name
    made.graph.node.insert(0, helper.make_node("QuickGelu", [one.name], ["gelu"], domain="com.microsoft"))
    made.graph.node.insert(1, helper.make_node("Sub", ["gelu", "gelu"], ["zero/s"]))
    made.graph.node.insert(2, helper.make_node("Add", [one.name, "zero/s"], [fresh]))
    return made


def saved_outside(message, path, location="weights.bin"):
    """Write a model whose tensors, those of Constant nodes too, are in another file."""
    onnx.save(
        copied(message),
        path,
        save_as_external_data=True,
        location=location,
        size_threshold=0,
        convert_attribute=True,
    )


@variant
def lengths_negative(message):
    """-1 in place of each length that isn't known, as some converters write it."""
    message = copied(message)
    for graph in graphs_of(message.graph):
        for value in (*graph.input, *graph.output, *graph.value_info):
            kind = value.type
            while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
                kind = getattr(kind, which).elem_type
            for dim in kind.tensor_type.shape.dim if which == "tensor_type" else ():
                if not dim.HasField("dim_value"):
                    dim.dim_value = -1
    return message
