"""Scan outputs in the place of lists: the list that a loop starts with, and the output that it gets."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from onnx import TensorProto, helper

from seqcore.onnx._lists.pieces import Pieces, pieces_of
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import NEVER, Shape, is_fixed_by_size
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder, Nodes


class Start:
    """The list that a loop starts with.

    Attributes
    ----------
    name : str
    shape : tuple of (int, str or None), or None
        The shape of all elements; `NEVER` if there are none.
    count : int or None
        The number of elements, if it is known.
    least : int
        A lower bound of that.
    phrase : str
        A phrase for notes, "" if the list is still read.
    """

    def __init__(self, prepared: Prepared, name: str) -> None:
        self.name, self.shape = name, prepared.shape(name)
        self.count = 0 if self.shape == NEVER else prepared.type(name).count
        node = prepared.producer(name)
        self.least = self.count or int(node is not None and node.is_op("SequenceInsert"))
        self._names: list[str] = []
        self._pieces: Pieces | None = None
        self.phrase = ""
        if node is not None and node.is_op("SequenceConstruct"):
            self._names, self.phrase = node.inputs, "becomes its elements"
        if node is not None and node.is_op("SplitToSequence"):
            with suppress(Declined):
                pieces = pieces_of(node, prepared)
                pieces.as_stack()
                self._pieces, self.phrase = pieces, pieces.phrase

    def why_not(self, prepared: Prepared, may_be_carried: bool = False) -> str:
        """Return why it can't be stacked, "" where it can: inside of a loop that carries it on demand."""
        if self.shape is None or None in self.shape:
            return f"starts with '{self.name}', whose elements may be of several shapes"
        if not may_be_carried and self.count != 0 and _is_carried(prepared, self.name):
            return f"starts with '{self.name}', which a loop around it carries"
        return ""

    def length(self, nodes: Nodes) -> str:
        if self.count is None:
            return nodes.op("SequenceLength", self.name)
        return nodes.constant(self.count)

    def element(self, nodes: Nodes, position: int) -> str:
        if self._names:
            return self._names[position]
        return nodes.op("SequenceAt", self.name, nodes.constant(position))

    def rows(self, nodes: Nodes, zeros: Callable[[], str]) -> str:
        """Return all as a tensor, "" for none; `zeros` makes a tensor of an element's shape."""
        if self.count == 0:
            return ""
        if self._names:
            parts = [nodes.unsqueeze(name, 0) for name in self._names]
            return nodes.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
        if self._pieces is not None:
            return self._pieces.stacked(nodes)
        if self.least:
            return nodes.op("ConcatFromSequence", self.name, axis=0, new_axis=1)
        # An empty list can't be joined.
        filled = nodes.op("SequenceInsert", self.name, zeros(), nodes.constant(0))
        rows = nodes.op("ConcatFromSequence", filled, axis=0, new_axis=1)
        return nodes.slice(rows, nodes.constant([1]), nodes.constant([AFTER_ALL]), 0)


def drop_spares(prepared: Prepared) -> bool:
    """Take out the spare rows of `Start.rows`: a tensor may be empty. Return whether there were any."""
    found = False
    for node in prepared.model.graph.all_nodes():
        join = _maker(prepared, node.inputs[0]) if node.is_op("Slice") else None
        if join is None or not join.is_op("Concat") or len(join.inputs) != 2 or join.attribute("axis", 0):
            continue
        spare = prepared.producer(join.inputs[0])
        if spare is None or not spare.is_op("Unsqueeze") or prepared.integer(spare.inputs[1]) != 0:
            continue
        zeros = prepared.producer(spare.inputs[0])
        are_ours = zeros is not None and zeros.is_op("ConstantOfShape", "Expand")
        if are_ours and [*map(prepared.integer, node.inputs[1:])] == [1, AFTER_ALL, 0]:
            node.op_type, node.inputs, found = "Identity", join.inputs[1:], True
    return found


def _maker(prepared: Prepared, name: str) -> Node | None:
    """Return the node that computes a value, not one that hands it on."""
    node = prepared.producer(name)
    while node is not None and node.is_op("Identity"):
        node = prepared.producer(node.inputs[0])
    return node


def _is_carried(prepared: Prepared, name: str) -> bool:
    """Return whether a list is made of a state of a loop around it, anew in each iteration."""
    origins, node = prepared.ancestors(name), prepared.producer(name)
    return any(
        not origins.keys().isdisjoint(graph.inputs) and (node is None or node in graph.all_nodes())
        for graph in prepared.model.graph.all_graphs()
        if graph is not prepared.model.graph
    )


def add_scan(builder: Builder, loop: Node, value: str, stack: str, element_type: int, shape: Shape) -> str:
    """Give a loop a scan output, and return its name."""
    if element_type == TensorProto.STRING:
        value = Nodes(builder, loop, loop.body.nodes).copied(value)
    loop.body.outputs.append(value)
    loop.body.declared[value] = helper.make_tensor_type_proto(element_type, shape)
    loop.outputs.append(stack)
    return stack


def with_lengths(nodes: Nodes, stack: str, shape: str) -> str:
    """Return a stack with the lengths that its elements have: without a trip, it may have others."""
    total = nodes.slice(nodes.op("Shape", stack), nodes.constant([0]), nodes.constant([1]), 0)
    return nodes.reshape(stack, nodes.join_axes(total, shape))


def why_checks_are_lost(prepared: Prepared, loop: Node) -> str:
    """Return what onnxruntime doesn't check in a loop of tensors alone, "" if nothing."""
    parts = parts_of(loop)
    going = () if parts.passes_condition_on else (parts.going_out,)
    for name in filter(None, (parts.trips, parts.condition, *going)):
        if prepared.shape(name) not in ((), (1,)):
            return f"goes by '{name}', which may be no single number"
    for name in parts.scans:
        if not is_fixed_by_size(prepared.shape(name)):
            return f"gives '{name}' as well, which may change its shape"
    return ""
