"""Lists that a loop appends to, where its iterations go all at once: what they become.

    elements of one shape       a scan output: rows                  list = SplitToSequence (rows)
    elements of any length      items one behind the other: flat     list = SplitToSequence (flat, lengths)

So the list is pieces of a tensor, which passes know how to go on with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import Shape, tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes


class AppendedList(NamedTuple):
    """A state of a loop that is a list and only appended to.

    Attributes
    ----------
    k : int
        Which state it is.
    element : str
        What the body appends.
    insert : Node
        The node that does.
    counts : list of (Node, int)
        Nodes in the body that count it, and how many elements it has more than iterations came before.
    """

    k: int
    element: str
    insert: Node
    counts: list[tuple[Node, int]]


def appended_lists(loop: Node, prepared: Prepared) -> list[AppendedList]:
    """Return the lists among a loop's states.

    Raises
    ------
    Declined
        If one of them is more than appended to.
    """
    parts = parts_of(loop)
    found = []
    for k, (state, result) in enumerate(zip(parts.states, parts.next_states, strict=True)):
        if prepared.is_tensor(state):
            continue
        start, insert = prepared.producer(parts.initial[k]), prepared.producer(result)
        is_append = insert is not None and insert.is_op("SequenceInsert") and insert.inputs[0] == state
        if start is None or not start.is_op("SequenceEmpty") or insert is None or not is_append:
            raise Declined(f"carries the list '{state}'")
        counts = []
        for name, more in ((state, 0), (result, 1)):
            for reader, graph in prepared.readers[name]:
                if reader is not None and reader.is_op("SequenceLength") and graph is loop.body:
                    counts.append((reader, more))
                elif reader is not insert and not (reader is None and name == result):
                    raise Declined(f"reads the list '{state}' on the way")
        if insert not in loop.body.nodes or insert.input(2):
            raise Declined(f"inserts into the list '{state}' elsewhere than at its end")
        found.append(AppendedList(k, insert.inputs[1], insert, counts))
    return found


def with_scans(loop: Node, lists: list[AppendedList], builder: Builder) -> Node:
    """Return a loop that gives the elements of lists as scan outputs, behind its own, and has no such lists.

    Its other states and scan outputs are as they were, and the nodes of its body, but for the counts.
    """
    made = Node.copy(loop)
    body = made.body
    gone = {one.insert.name for one in lists}
    counts = {node.name: more for one in lists for node, more in one.counts}
    nodes: list[Node] = []
    for node in body.nodes:
        if node.name in gone:
            continue
        if node.name in counts:
            number = Nodes(builder, node)
            here = number.op("Reshape", body.inputs[0], number.constant([]))
            number.op("Add", here, number.constant(counts[node.name]), out=node.outputs[0])
            nodes += number.nodes
            continue
        nodes.append(node)
    body.nodes = nodes
    left = [k for k in range(len(body.inputs) - 2) if k not in {one.k for one in lists}]
    nstates = len(body.inputs) - 2
    made.inputs = [*made.inputs[:2], *(made.inputs[2 + k] for k in left)]
    own = made.outputs
    body.inputs = [*body.inputs[:2], *(body.inputs[2 + k] for k in left)]
    outputs = body.outputs
    elements = Nodes(builder, loop)
    elements.nodes = body.nodes
    body.outputs = [outputs[0], *(outputs[1 + k] for k in left), *outputs[1 + nstates :]]
    made.outputs = [*(own[k] for k in left), *own[nstates:]]
    taken = set(body.outputs)
    makers = {name for node in body.nodes for name in node.outputs}
    for one in lists:
        name = one.element
        if name in taken or name not in makers:
            name = elements.op("Identity", name)
        taken.add(name)
        body.outputs.append(name)
        made.outputs.append(builder.fresh(f"{own[one.k]}/rows"))
    return made


def flat_of(nodes: Nodes, rows: str, mask: str, shape: Shape) -> str:
    """Return the items of padded rows, of shape (n, longest, *rest), one behind the other."""
    assert shape is not None
    items = nodes.merge_first_axes(rows, shape[1:])
    return nodes.op("Compress", items, nodes.op("Reshape", mask, nodes.constant([-1])), axis=0)


def flat_in_loop(
    nodes: Nodes, loop: Node, state: int, one: AppendedList, number: int, shape: Shape
) -> tuple[str, str]:
    """Have a loop with a list give its items one behind the other, and their lengths.

    The list starts with an element of length 0, so that there is something to join without an iteration.
    """
    assert shape is not None
    builder, body = nodes.builder, loop.body
    dtype = dtype_of(number)
    rest = [length for length in shape[1:] if isinstance(length, int)]
    if dtype is None or len(rest) < len(shape) - 1:
        raise Declined("gives elements of several lengths, of which too little is known")
    before, at_end = Nodes(builder, loop), Nodes(builder, loop)
    empty = before.constant(np.zeros((0, *rest)), dtype)
    loop.inputs[2 + state] = before.op("SequenceConstruct", empty)
    length = at_end.length(one.element)
    body.nodes += at_end.nodes
    body.outputs.append(length)
    body.declared[length] = to_type_proto(tensor(7, ()), with_shape=True)
    lengths = builder.fresh(f"{loop.name}/lengths")
    loop.outputs.append(lengths)
    nodes.nodes[:0] = before.nodes
    flat = nodes.op("ConcatFromSequence", loop.outputs[state], axis=0)
    return flat, lengths
