"""SequenceMap, written out as a loop: what the other rules then make of the loop's lists is the lowering.

t = SequenceMap (s, x) <body>    ──▶    t = Loop (length of s, true, []) <pick from s; body; append>
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import sequence, tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes


def write_out_maps(model: Model, prepared: Prepared, builder: Builder, kept: set[str]) -> dict[str, set[str]]:
    """Replace each SequenceMap by a loop that picks, applies the body and appends.

    Parameters
    ----------
    model : Model
    prepared : Prepared
        The types of this model.
    builder : Builder
        Of this model.
    kept : set of str
        The names of maps that stay.

    Returns
    -------
    dict of str to set of str
        The name of a map → the outputs of the sequence operators that came in its place. They are all gone
        after lowering, or the map would better have stayed.
    """
    written = {}
    # Innermost first: a body moves with the maps in it.
    for node in reversed(list(model.graph.all_nodes())):
        if node.is_op("SequenceMap") and node.name not in kept and _is_plain(node, prepared):
            written[node.name] = _write_out(node, prepared, builder)
            builder.apply()
    return written


def _read_instead(graph: Graph, old: str, new: str) -> None:
    """Have a graph, in all depths, read another value in the place of one."""
    for inner in graph.all_graphs():
        for node in inner.nodes:
            node.inputs = [new if name == old else name for name in node.inputs]
        inner.outputs = [new if name == old else name for name in inner.outputs]


def _is_plain(node: Node, prepared: Prepared) -> bool:
    """Return whether all that a map takes and gives is of a known type, without defaults."""
    names = (*node.inputs, *node.outputs)
    return all(prepared.type(name).number for name in names) and not node.body.defaults


def _write_out(node: Node, prepared: Prepared, builder: Builder) -> set[str]:
    nodes = builder.instead(node)
    operators: set[str] = set()

    def sequence_op(place: Nodes, *arguments: str, **attributes) -> str:
        name = place.op(*arguments, **attributes)
        operators.add(name)
        return name

    body = node.body
    sequences = [name for name in node.inputs if prepared.is_sequence(name)]
    trips = sequence_op(nodes, "SequenceLength", node.inputs[0])
    for other in dict.fromkeys(sequences):
        if other != node.inputs[0]:
            length = sequence_op(nodes, "SequenceLength", other)
            trips = nodes.op("Add", trips, nodes.fail_unless_equal(trips, length))
    starts = [
        sequence_op(nodes, "SequenceEmpty", dtype=prepared.element_number(name)) for name in node.outputs
    ]
    own = Nodes(builder, node)
    fresh = builder.fresh
    number, going = fresh(f"{node.name}/number"), fresh(f"{node.name}/going")
    loop = Graph(body.name or "body", [number, going], [going])
    loop.declared = dict(body.declared)
    loop.declared[number] = to_type_proto(tensor(TensorProto.INT64, ()), with_shape=True)
    loop.declared[going] = to_type_proto(tensor(TensorProto.BOOL, ()), with_shape=True)
    for name, inner in zip(node.inputs, body.inputs, strict=True):
        if name in sequences:
            sequence_op(own, "SequenceAt", name, number, out=inner)
        else:
            _read_instead(body, inner, name)
    ends = Nodes(builder, node)
    for name, inner in zip(node.outputs, body.outputs, strict=True):
        state = fresh(f"{name}/state")
        longer = sequence_op(ends, "SequenceInsert", state, inner)
        loop.inputs.append(state)
        loop.outputs.append(longer)
        for one in (state, longer):
            loop.declared[one] = to_type_proto(sequence(prepared.element_number(name)))
    loop.nodes = [*own.nodes, *body.nodes, *ends.nodes]
    always = nodes.constant(True, np.bool_)
    nodes.ops("Loop", [trips, always, *starts], list(node.outputs), body=loop)
    return operators
