"""SequenceMap, written out as a loop: what the other rules then make of the loop's lists is the lowering."""

import numpy as np
from onnx import GraphProto, TensorProto, helper

from seqcore.onnx._lowering.build import Nodes, node_key
from seqcore.onnx._lowering.prune import body_of, is_op
from seqcore.onnx._models.graphs import all_graphs


def write_out_maps(model, facts, builder, kept):
    """Replace each SequenceMap by a loop that picks, applies the body and appends.

    Parameters
    ----------
    model : ModelProto
        In normal form.
    facts : Facts
        Of this model.
    builder : Builder
        Of this model.
    kept : set of str
        The keys of maps that stay.

    Returns
    -------
    dict of str to set of str
        The key of a map → the outputs of the sequence operators that came in its place. They are all gone
        after lowering, or the map would better have stayed.
    """
    written = {}
    # One at a time, innermost first: a body moves with the maps in it.
    while True:
        graphs = reversed(list(all_graphs(model.graph)))
        maps = (node for graph in graphs for node in graph.node if is_op(node, "SequenceMap"))
        maps = (one for one in maps if node_key(one) not in kept | written.keys() and _is_plain(one, facts))
        node = next(maps, None)
        if node is None:
            return written
        written[node_key(node)] = _write_out(node, facts, builder)
        builder.apply()


def _is_plain(node, facts):
    """Return whether all that a map takes and gives is there and of a known type, without defaults."""
    body = body_of(node)
    return (
        len(node.input) == len(body.input)
        and len(node.output) == len(body.output)
        and all(name in facts.types for name in (*node.input, *node.output))
        and not body.initializer
        and not body.sparse_initializer
    )


def _write_out(node, facts, builder):
    nodes = builder.instead(node)
    operators = set()

    def sequence_op(place, *arguments, **attributes):
        name = place.op(*arguments, **attributes)
        operators.add(name)
        return name

    body = body_of(node)
    sequences = [name for name in node.input if facts.is_sequence(name)]
    trips = sequence_op(nodes, "SequenceLength", node.input[0])
    for other in dict.fromkeys(sequences):
        if other != node.input[0]:
            length = sequence_op(nodes, "SequenceLength", other)
            trips = nodes.op("Add", trips, nodes.fail_unless_equal(trips, length))
    starts = [sequence_op(nodes, "SequenceEmpty", dtype=facts.element_number(name)) for name in node.output]
    loop = GraphProto(name=body.name or "body")
    own = Nodes(builder, node)
    fresh, number = builder.fresh, builder.fresh(f"{own.label}/number")
    going, still = fresh(f"{own.label}/going"), fresh(f"{own.label}/still_going")
    loop.input.append(helper.make_tensor_value_info(number, TensorProto.INT64, []))
    loop.input.append(helper.make_tensor_value_info(going, TensorProto.BOOL, []))
    own.op("Identity", going, out=still)
    for name, value in zip(node.input, body.input, strict=True):
        if name in sequences:
            sequence_op(own, "SequenceAt", name, number, out=value.name)
        else:
            own.op("Identity", name, out=value.name)
    loop.output.append(helper.make_tensor_value_info(still, TensorProto.BOOL, []))
    ends = Nodes(builder, node)
    for name, value in zip(node.output, body.output, strict=True):
        state = fresh(f"{name}/state")
        element_type = facts.element_number(name)
        kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(element_type, None))
        loop.input.append(helper.make_value_info(state, kind))
        longer = sequence_op(ends, "SequenceInsert", state, value.name)
        loop.output.append(helper.make_value_info(longer, kind))
    loop.node.extend([*own.nodes, *body.node, *ends.nodes])
    declared = {value.name: value for value in (*body.value_info, *body.output, *body.input)}
    loop.value_info.extend(value for value in declared.values() if value.type.WhichOneof("value"))
    always = nodes.constant(True, np.bool_)
    nodes.ops("Loop", [trips, always, *starts], list(node.output), body=loop)
    return operators
