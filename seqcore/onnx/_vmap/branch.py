"""If in the body of a loop whose iterations go all at once: both branches for all, and a Where.

    y = If (c) {a = Neg (x)} {b = Exp (x)}    ──▶    y = Where (c, Neg (x), Exp (x))

So branches have to be short, and nothing in them may fail in an iteration that would not have taken them.
A position is 0 there.
"""

from __future__ import annotations

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._vmap.tracer import Tracer, Value

# So many nodes cost less for all iterations than a branch for each.
_MOST_NODES = 24
# onnxruntime's Where takes these.
_CHOSEN = ("float32", "float64", "int32", "int64", "uint8")


def choose(node: Node, body: Tracer) -> list[Value]:
    """The rule for If."""
    condition = node.inputs[0]
    then, otherwise = node.graphs["then_branch"], node.graphs["else_branch"]
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
