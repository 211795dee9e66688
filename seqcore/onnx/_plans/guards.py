"""Guards: what lets onnxruntime run loops with sequences, and stops it before they get long.

onnxruntime is quick with short sequences, and quadratic with long ones, but how long they get only a run
tells. So a guarded model fails, on purpose, where a loop that carries sequences has more than `LONG`
iterations or a split more pieces: by a Gather whose index is then out of range. Who runs it runs the plan
instead.
"""

from onnx import TensorProto, helper

from seqcore.onnx._models.graphs import subgraphs
from seqcore.onnx._models.normal import replace_all

# Up to here a copy of a list costs no more than some steps of ours.
LONG = 64
_PREFIX = "seqcore/guard"
_LONG, _ZERO, _TRUE = f"{_PREFIX}/long", f"{_PREFIX}/zero", f"{_PREFIX}/true"


class AlwaysLong(Exception):
    """A loop has a number of trips that is known, and more than `LONG`."""


def guard(graph, facts, skip=()):
    """Put guards into a graph of a normal model, and into all graphs inside it.

    Parameters
    ----------
    graph : GraphProto
        Changed in place. Its nodes are those of the model that the facts are of, or copies of them.
    facts : Facts
    skip : iterable of str
        The first outputs of loops that are bounded otherwise. Two nodes may have one name.

    Raises
    ------
    AlwaysLong
        If a loop would fail in every run.
    """
    if _guard(graph, facts, frozenset(skip)):
        graph.initializer.append(helper.make_tensor(_LONG, TensorProto.INT64, [], [LONG]))
        graph.initializer.append(helper.make_tensor(_ZERO, TensorProto.INT64, [1], [0]))
        graph.initializer.append(helper.make_tensor(_TRUE, TensorProto.BOOL, [LONG], [True] * LONG))


def _guard(graph, facts, skip):
    """Guard a graph; return whether there was something to guard."""
    found, nodes = False, []
    for node in graph.node:
        for inner in subgraphs(node):
            found |= _guard(inner, facts, skip)
        if node.domain in ("", "ai.onnx"):
            if node.op_type == "Loop" and node.output[0] not in skip and _carries_sequences(node, facts):
                nodes += _guard_loop(node, facts)
                found = True
            elif node.op_type == "SplitToSequence":
                nodes += _guard_split(node, facts)
                found = True
        nodes.append(node)
    if found:
        replace_all(graph.node, nodes)
    return found


def _carries_sequences(node, facts):
    (body,) = subgraphs(node)
    return any(not facts.is_tensor(value.name) for value in body.input[2:])


def _guard_loop(node, facts):
    """Guard a Loop; return the nodes that go before it."""
    name, trips = f"{_PREFIX}/{node.output[0]}", node.input[0]
    known = facts.constant(trips) if trips else None
    if trips and known is None:
        node.input[0] = f"{name}/trips"
        return [
            *_zero_unless_greater(name, trips, _LONG),
            helper.make_node("Add", [trips, f"{name}/0"], [node.input[0]], f"{name}/Add"),
        ]
    if known is not None and known.max(initial=0) <= LONG:
        return []
    (body,) = subgraphs(node)
    iteration, going_in, going_out = body.input[0].name, body.input[1].name, body.output[0].name
    if going_in == going_out:
        raise AlwaysLong(node.name)
    # A `while`, whose trips are 2⁶³ or not given: the iteration's number looks up whether it may go on.
    body.node.append(helper.make_node("Gather", [_TRUE, iteration], [f"{name}/go"], f"{name}/Gather"))
    body.node.append(helper.make_node("And", [going_out, f"{name}/go"], [f"{name}/on"], f"{name}/And"))
    body.output[0].name = f"{name}/on"
    return []


def _guard_split(node, facts):
    """Guard a SplitToSequence; return the nodes that go before it."""
    name = f"{_PREFIX}/{node.output[0]}"
    tensor, split = (*node.input, "")[:2]
    axis = next((one.i for one in node.attribute if one.name == "axis"), 0)
    nodes = [helper.make_node("Shape", [tensor], [f"{name}/shape"], f"{name}/Shape")]
    limit, rank = _LONG, len(facts.shape(split) or ()) if split else 0
    if rank:
        nodes.append(helper.make_node("Size", [split], [f"{name}/n"], f"{name}/Size"))
    else:
        at = helper.make_node("Constant", [], [f"{name}/axis"], f"{name}/Constant", value_int=axis)
        inputs = [f"{name}/shape", f"{name}/axis"]
        nodes += [at, helper.make_node("Gather", inputs, [f"{name}/n"], f"{name}/Gather")]
    if split and not rank:
        # Of that length at most `LONG` pieces; not a division, which a 0 would break.
        limit, step = f"{name}/limit", f"{name}/step"
        nodes += [
            helper.make_node("Cast", [split], [step], f"{name}/Cast", to=TensorProto.INT64),
            helper.make_node("Mul", [step, _LONG], [limit], f"{name}/Mul"),
        ]
    node.input[0] = f"{name}/input"
    return [
        *nodes,
        *_zero_unless_greater(name, f"{name}/n", limit),
        helper.make_node("Add", [f"{name}/shape", f"{name}/0"], [f"{name}/same"], f"{name}/Add"),
        helper.make_node("Reshape", [tensor, f"{name}/same"], [node.input[0]], f"{name}/Reshape"),
    ]


def _zero_unless_greater(name, number, limit):
    """Return nodes that make `name/0`: a zero, or an error where a number is greater than its limit."""
    to = TensorProto.INT64
    return [
        helper.make_node("Greater", [number, limit], [f"{name}/is_long"], f"{name}/Greater"),
        helper.make_node("Cast", [f"{name}/is_long"], [f"{name}/index"], f"{name}/Cast_1", to=to),
        helper.make_node("Gather", [_ZERO, f"{name}/index"], [f"{name}/0"], f"{name}/Gather_1"),
    ]
