"""If in the body of a loop whose iterations go all at once: both branches for all, and a Where.

    y = If (c) {a = Neg (x)} {b = Exp (x)}    ──▶    y = Where (c, Neg (x), Exp (x))

So branches have to be short, and nothing in them may fail in an iteration that would not have taken them.
A position is 0 there.
"""

from __future__ import annotations

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import to_type_proto
from seqcore.onnx._vmap.tracer import Tracer, Value

# So many nodes cost less for all iterations than a branch for each.
_MOST_NODES = 24
# onnxruntime's Where takes these.
_CHOSEN = ("float32", "float64", "int32", "int64", "uint8")


def choose(node: Node, body: Tracer) -> list[Value]:
    """The rule for If."""
    condition = node.inputs[0]
    then, otherwise = node.graphs["then_branch"], node.graphs["else_branch"]
    if not body.varies(condition):
        return _as_if(node, then, otherwise, body)
    if sum(1 for branch in (then, otherwise) for _ in branch.all_nodes()) > _MOST_NODES:
        raise Declined(f"has long branches at {node.label()}")
    nodes = body.nodes
    taken = body.rows(condition)
    if body.rank(condition):
        taken = nodes.op("Reshape", taken, nodes.constant([-1]))
    not_taken = nodes.op("Not", taken)
    for branch, where in ((then, taken), (otherwise, not_taken)):
        with body.where(where):
            body.follow(branch.nodes)
    made = []
    for one, other in zip(then.outputs, otherwise.outputs, strict=True):
        if one == other or (not body.varies(one) and body.name(one) == body.name(other)):
            made.append(body.values.get(one, Value(one, False)))
            continue
        made.append(Value(_chosen(node, one, other, taken, body), True))
    return made


def _chosen(node: Node, one: str, other: str, taken: str, body: Tracer) -> str:
    nodes, types = body.nodes, body.types
    dtype = dtype_of(types[one].number)
    if body.lengths(one) or body.lengths(other):
        raise Declined(f"has elements of several lengths at {node.label()}")
    shape = types[one].shape
    if shape is None or None in shape or shape != types[other].shape:
        raise Declined(f"may get values of several shapes from {node.label()}")
    if len(shape):
        taken = nodes.unsqueeze(taken, *range(1, 1 + len(shape)))
    if dtype == "bool":
        yes = nodes.op("And", taken, body.name(one))
        return nodes.op("Or", yes, nodes.op("And", nodes.op("Not", taken), body.name(other)))
    if dtype is None or dtype.name not in _CHOSEN:
        raise Declined(f"chooses between values of such a type at {node.label()}")
    return nodes.op("Where", taken, body.name(one), body.name(other))


def _as_if(node: Node, then: Graph, otherwise: Graph, body: Tracer) -> list[Value]:
    """All iterations take one branch."""
    outer, graphs = body.nodes, []
    condition = body.name(node.inputs[0])
    if not body.is_portable:
        for lengths, _, _ in body.padded:
            body.are_equal(lengths)  # which branches may ask for, and who comes after them
    before = len(body.guards), len(body.padded)
    for branch in (then, otherwise):
        body.nodes = outer.apart()
        try:
            body.follow(branch.nodes)
            graphs.append((body.nodes, branch))
        finally:
            body.nodes = outer
    if (len(body.guards), len(body.padded)) != before:
        raise Declined(f"needs to know before the loop what is in a branch of {node.label()}")
    varies = [
        body.varies(one) or body.varies(other)
        for one, other in zip(then.outputs, otherwise.outputs, strict=True)
    ]
    written = {}
    for key, (nodes, branch) in zip(("then_branch", "else_branch"), graphs, strict=True):
        body.nodes = nodes
        try:
            if any(body.lengths(name) for name in branch.outputs):
                raise Declined(f"has elements of several lengths at {node.label()}")
            results = [
                body.rows(name) if wide else body.name(name)
                for name, wide in zip(branch.outputs, varies, strict=True)
            ]
        finally:
            body.nodes = outer
        graph = Graph(branch.name, [], nodes.own(results), nodes.nodes)
        for name, result, wide in zip(branch.outputs, graph.outputs, varies, strict=True):
            type_ = body.types[name]
            if type_.shape is not None:
                told = (length if isinstance(length, int) else None for length in type_.shape)
                type_ = type_._replace(shape=(*[None] * wide, *told))
            graph.declared[result] = to_type_proto(type_, with_shape=True)
        written[key] = graph
    made = outer.ops("If", [condition], [""] * len(node.outputs), **written)
    return [Value(name, wide) for name, wide in zip(made, varies, strict=True)]
