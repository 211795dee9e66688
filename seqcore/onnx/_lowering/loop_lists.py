"""Lists that a loop appends to: they become scan outputs of the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TensorProto, helper

from seqcore.onnx._lowering.forms import Forms, Stack
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.types import is_told_by_size
from seqcore.onnx._operators.loop_parts import parts_of
from seqcore.onnx._operators.positions import position_of

if TYPE_CHECKING:
    from seqcore.onnx._model.prepared import Prepared

# An end that lies before the first element, wherever a Slice of step -1 starts.
_BEFORE_ALL = -(1 << 63)


def find_loop_list(forms: Forms, loop: Node, k: int) -> LoopList | str:
    """Return output k of a loop as a list that it appends to, or why it is none."""
    prepared = forms.prepared
    where = f"the loop '{loop.name}'"
    parts, body = parts_of(loop), loop.body
    state, result = parts.states[k], parts.next_states[k]
    start = prepared.producer(parts.initial[k])
    if start is None or not start.is_op("SequenceEmpty"):
        return f"{where} doesn't start with an empty list"
    insert, graph = prepared.producers.get(result, (None, None))
    is_append = insert is not None and insert.is_op("SequenceInsert") and insert.inputs[0] == state
    if insert is None or not is_append or graph is not body:
        return f"{where} {_other_than_append(prepared, loop, state)}"
    counts, returned = [], []
    for value, more in ((state, 0), (result, 1)):
        for reader, _ in prepared.readers[value]:
            if reader is None:
                returned.append(value)
            elif reader.is_op("SequenceLength"):
                counts.append((reader, more))
            elif reader is not insert:
                return f"{where} reads it on the way, at '{reader.name}'"
    if returned != [result]:
        return f"{where} returns it twice"
    at_front = False
    if position := insert.input(2):
        counter = prepared.producer(position)
        at_back = counter is not None and counter.is_op("SequenceLength") and counter.inputs[0] == state
        at_front = not at_back and position_of(prepared, position).value == 0
        if not at_back and not at_front:
            return f"{where} inserts into it elsewhere than at an end"
    if why := _why_checks_are_lost(prepared, loop):
        return f"{where} {why}"
    return LoopList(prepared, loop, k, insert, at_front, counts)


def _why_checks_are_lost(prepared: Prepared, loop: Node) -> str:
    """Return what onnxruntime does not look at in a loop of tensors alone, "" if nothing."""
    parts = parts_of(loop)
    going = () if parts.going_out == parts.going_in else (parts.going_out,)
    for name in filter(None, (parts.trips, parts.condition, *going)):
        if prepared.shape(name) not in ((), (1,)):
            return f"goes by '{name}', which may be no single number"
    for name in parts.scans:
        if not is_told_by_size(prepared.shape(name)):
            return f"gives '{name}' as well, which may change its shape"
    return ""


def _other_than_append(prepared: Prepared, loop: Node, state: str) -> str:
    """Return what a loop does to a state, in a word."""
    reached, todo, edits = {state}, [state], []
    while todo:
        for node, graph in prepared.readers[todo.pop()]:
            if node is None:
                continue
            edits.append((node.op_type, graph))
            fresh = {name for name in node.outputs if prepared.is_sequence(name)} - reached
            reached |= fresh
            todo += fresh
    inserts = [graph for op_type, graph in edits if op_type == "SequenceInsert"]
    words = {op_type for op_type, _ in edits}
    if "SequenceErase" in words:
        return "erases from it"
    if "Loop" in words:
        return "hands it on to a loop inside it"
    if any(graph is not loop.body for graph in inserts):
        return "inserts into it in branches" if len(inserts) > 1 else "inserts into it only in some rounds"
    if len(inserts) > 1:
        return "inserts into it more than once in a round"
    return "makes it anew"


class LoopList(Stack):
    """A list that a loop appends to, once in each round and unconditionally."""

    def __init__(
        self,
        prepared: Prepared,
        loop: Node,
        k: int,
        insert: Node,
        at_front: bool,
        counts: list[tuple[Node, int]],
    ) -> None:
        name = loop.outputs[k]
        self._node, self._insert, self._at_front, self._counts = loop, insert, at_front, counts
        self._name = name
        shape = prepared.shape(insert.inputs[1])
        self._is_proven = shape is not None and None not in shape
        # Where elements of several shapes would be an error anyway, the loop may as well fail. But
        # onnxruntime's sees no more of a shape than its size.
        graph = prepared.producers[name][1]
        stacked = any(
            node is not None
            and node.is_op("ConcatFromSequence")
            and node.attribute("new_axis", 0)
            and place is graph
            for node, place in prepared.readers[name]
        )
        element_type = prepared.element_number(insert.inputs[1]) or prepared.element_number(name)
        is_uniform = self._is_proven or stacked
        super().__init__("", element_type, shape, is_uniform, _runs_at_least_once(prepared, loop))
        self.became = f"becomes a scan output of '{loop.name}'"

    def why_not(self, node, graph, prepared, read):
        if self.element_type == TensorProto.UNDEFINED:
            return "the type of its elements is not known"
        return super().why_not(node, graph, prepared, read)

    def prepare(self, builder, prepared):
        """Give the loop the scan output, and its body the counts of what the state would hold."""
        loop, body = self._node, self._node.body
        scan = self._insert.inputs[1]
        if not self.is_filled and self._fails_without_trip(prepared):
            self._fail_without_trip(builder)
        # A runtime wants its outputs to come from nodes, and each once.
        made = {name for node in body.nodes for name in node.outputs}
        if scan not in made or scan in body.outputs:
            scan = builder.after(self._insert).op("Identity", scan)
        body.outputs.append(scan)
        body.declared[scan] = helper.make_tensor_type_proto(self.element_type, self.shape)
        self.tensor = builder.fresh(f"{loop.outputs[0]}/stack")
        loop.outputs.append(self.tensor)
        if not self._is_proven and not is_told_by_size(self.shape):
            self._check_shapes(builder, scan)
        for node, more in self._counts:
            nodes = builder.instead(node)
            number = nodes.op("Reshape", body.inputs[0], nodes.constant([]))
            nodes.op("Add", number, nodes.constant(more), out=node.outputs[0])
        if self._at_front:
            nodes = builder.after(loop)
            back, axis = nodes.constant([-1]), nodes.constant([0])
            self.tensor = nodes.op("Slice", self.tensor, back, nodes.constant([_BEFORE_ALL]), axis, back)

    def _fails_without_trip(self, prepared: Prepared) -> bool:
        """Return whether a loop over a range without a trip is an error of who reads the list in any case."""
        parts = parts_of(self._node)
        if not parts.trips or parts.going_out != parts.going_in or not _is_true(prepared, parts.condition):
            return False
        graph = prepared.producers[self._name][1]
        return any(
            node is not None and node.is_op("ConcatFromSequence") and place is graph
            for node, place in prepared.readers[self._name]
        )

    def _fail_without_trip(self, builder):
        """Let the loop fail: so no join has to look, and to copy the tensor for that."""
        nodes = builder.before(self._node)
        trips = self._node.inputs[0]
        zero = nodes.fail_if(nodes.op("Less", trips, nodes.constant(1)))
        self._node.inputs[0] = nodes.op("Add", trips, zero)
        self.is_filled = True

    def _check_shapes(self, builder, scan):
        """Let rounds that differ in shape fail: onnxruntime looks only at how many bytes they make (1.31)."""
        loop, body = self._node, self._node.body
        shape = builder.after(self._insert).op("Shape", scan)
        body.outputs.append(shape)
        body.declared[shape] = helper.make_tensor_type_proto(TensorProto.INT64, [self.rank])
        shapes = builder.fresh(f"{loop.outputs[0]}/shapes")
        loop.outputs.append(shapes)
        nodes = builder.after(loop)
        start, end = nodes.constant([0]), nodes.constant([1])
        same = nodes.op("Equal", shapes, nodes.slice(shapes, start, end, 0))
        differing = nodes.op("Cast", nodes.op("Not", same), to=TensorProto.INT64)
        # There is nothing to be had at any position but the first.
        count = nodes.op("ReduceSum", differing, keepdims=0)
        self.zero = nodes.op("Gather", nodes.constant([0]), count, axis=0)


def _runs_at_least_once(prepared: Prepared, loop: Node) -> bool:
    parts = parts_of(loop)
    if parts.trips:
        trips = prepared.constant(parts.trips)
        if trips is None or trips.size != 1 or trips.reshape(-1)[0] < 1:
            return False
    return _is_true(prepared, parts.condition)


def _is_true(prepared: Prepared, name: str) -> bool:
    """Return whether a condition is left out, or the constant true."""
    if not name:
        return True
    condition = prepared.constant(name)
    return condition is not None and condition.size == 1 and bool(condition.reshape(-1)[0])
