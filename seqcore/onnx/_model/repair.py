"""Repairs: a message that onnxruntime loads and onnx's checker refuses becomes one that both take.

onnxruntime sorts the nodes of a model, takes the last of several initializers of a name, needs no name for a
graph, and adds the imports of operator sets that it knows.
"""

from copy import deepcopy

from onnx import IR_VERSION, AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, helper

from seqcore.onnx._model.graph import STANDARD, fresh_name
from seqcore.onnx._model.load import all_graphs, operators_of

# The first version of the IR whose initializers need not be inputs.
_OLDEST_IR = 4


def repair(model: ModelProto, newest_opset: int) -> None:
    """Bring a message into a form that onnx's checker takes, in place, where onnxruntime loads it as it is.

    Parameters
    ----------
    model : ModelProto
    newest_opset : int
        The version of ONNX's own operators for a model that imports other operators alone.
    """
    if model.ir_version:
        model.ir_version = min(max(model.ir_version, _OLDEST_IR), IR_VERSION)
    if model.opset_import:
        for one in model.opset_import:
            one.domain = _domain(one.domain)  # onnx 1.19 looks for the short name alone
        imported = {one.domain for one in model.opset_import}
        # Operators that neither onnx nor onnxruntime has keep their fault.
        for domain in {_domain(domain) for domain, _ in operators_of(model)} - imported:
            if domain in ("", "com.microsoft"):
                model.opset_import.append(helper.make_opsetid(domain, newest_opset if not domain else 1))
    for graph in all_graphs(model):
        if isinstance(graph, GraphProto):
            graph.name = graph.name or "graph"
            _keep_last_initializers(graph)
        _sort_nodes(graph)


def _domain(domain: str) -> str:
    return "" if domain in STANDARD else domain


def _keep_last_initializers(graph: GraphProto) -> None:
    """Drop all but the last initializer of each name, and those without one."""
    last = {one.name: one for one in graph.initializer if one.name}
    if len(last) < len(graph.initializer):
        kept = [deepcopy(one) for one in last.values()]
        del graph.initializer[:]
        graph.initializer.extend(kept)


def _sort_nodes(graph: GraphProto | FunctionProto) -> None:
    """Put nodes into an order in which they can run, and change that of others as little as possible."""
    makers = {name: k for k, node in enumerate(graph.node) for name in node.output if name}
    order: dict[int, None] = {}
    needs = [[makers[name] for name in _reads_of(node) if name in makers] for node in graph.node]
    for first in range(len(needs)):
        todo = [(first, iter(needs[first]))]
        on_the_way = {first}
        while todo:
            k, others = todo[-1]
            other = None if k in order else next(others, None)
            if other is None:
                order[k] = None
                todo.pop()
            elif other not in order:
                if other in on_the_way:
                    return  # a cycle: the checker says so
                on_the_way.add(other)
                todo.append((other, iter(needs[other])))
    if list(order) != sorted(order):
        nodes = [deepcopy(graph.node[k]) for k in order]
        del graph.node[:]
        graph.node.extend(nodes)


def _reads_of(node: NodeProto) -> set[str]:
    """Return the names that a node reads, itself or in its graphs, and perhaps names that these define."""
    found = set(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:
            found.update(one.name for one in attribute.g.output)
            defined = {one.name for one in (*attribute.g.input, *attribute.g.initializer)}
            for inner in attribute.g.node:
                found |= _reads_of(inner) - defined
                defined.update(inner.output)
            found -= defined
    return found


def forget_negative_lengths(model: ModelProto) -> None:
    """Forget lengths below 0 that a message declares: some converters write -1 for one that isn't known.

    onnxruntime takes them so; onnx's shape inference would end the process.
    """
    for graph in all_graphs(model):
        declared = [*graph.input, *graph.output] if isinstance(graph, GraphProto) else []
        kinds = [value.type for value in (*declared, *graph.value_info)]
        kinds += [one.tp for node in graph.node for one in node.attribute if one.HasField("tp")]
        for kind in kinds:
            while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
                kind = getattr(kind, which).elem_type
            if which == "tensor_type":
                for dim in kind.tensor_type.shape.dim:
                    if dim.dim_value < 0:
                        dim.ClearField("dim_value")


def nameless_splits(model: ModelProto) -> list[NodeProto]:
    """Return each Split that has an output without a name.

    onnxruntime (1.32) writes to all of them, and ends the process at one that isn't there.
    """
    return [
        node
        for graph in all_graphs(model)
        for node in graph.node
        if node.op_type == "Split" and node.domain in STANDARD and "" in node.output
    ]


def name_outputs(model: ModelProto) -> None:
    """Name the outputs of each Split that have no name."""
    if nameless := nameless_splits(model):
        taken = {""}
        for graph in all_graphs(model):
            taken.update(name for node in graph.node for name in (*node.input, *node.output))
        for node in nameless:
            for k, name in enumerate(node.output):
                node.output[k] = name or fresh_name("unread", taken)
