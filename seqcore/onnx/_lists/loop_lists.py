"""Lists that a loop puts elements into, at their ends: they become scan outputs of the loop.

    l = Loop (n, c, start) <t = insert (s, e)>    ──▶    rows = Loop (n, c) <e>    l = Concat (start, rows)

Several elements of an iteration are as many outputs, interleaved behind the loop. Where an iteration may have
none, a condition is an output as well, by which Compress takes the others.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

from onnx import TensorProto, helper

from seqcore.onnx._lists.loop_edits import IterationEdits, Slot, elements_of, is_always_filled, slots_of
from seqcore.onnx._lists.loop_slots import IterationSlots, Start, shape_tensor, start_of
from seqcore.onnx._lists.representations import Representations, Stack, why_no_zeros
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import NEVER, is_told_by_size, join_shapes
from seqcore.onnx._rewrite.emit import ZEROS_ALLOWED, Builder, Nodes

# An end that lies before the first element, wherever a Slice of step -1 starts.
_BEFORE_ALL = -(1 << 63)
# An element that is read on the way farther from an end than this is one of a list that is searched.
_FARTHEST = 16


def find_loop_list(forms: Representations, loop: Node, k: int) -> LoopList:
    """Return output k of a loop as a list that it puts elements into. Raise `Declined` where it is none."""
    prepared = forms.prepared
    where = f"the loop '{loop.name}'"
    parts = parts_of(loop)
    start = start_of(forms, loop, parts.initial[k])
    edits = IterationEdits(prepared, loop, k, start.count)
    if why := edits.why or _why_checks_are_lost(prepared, loop):
        raise Declined(f"{where} {why}")
    found = LoopList(forms, loop, k, edits, start)
    if why := found.why_not_read_on_the_way():
        raise Declined(f"{where} {why}")
    form = forms.found.get(found.start_name)
    if form is not None and start.count != 0:
        form.takers += (found,)
    return found


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


class LoopList(Stack):
    """A list that a loop puts elements into, at its ends.

    Attributes
    ----------
    node : Node
        The loop.
    start_name : str
        What the loop starts with.
    """

    def __init__(
        self, forms: Representations, loop: Node, k: int, edits: IterationEdits, start: Start
    ) -> None:
        prepared = forms.prepared
        name = loop.outputs[k]
        self.node, self.start_name = loop, parts_of(loop).initial[k]
        self._edits, self._start, self._name = edits, start, name
        all_edits = edits.edits_of(edits.result) or ()
        self._front, self._back = slots_of(all_edits, True), slots_of(all_edits, False)
        slots = [*self._front, *self._back]
        elements = [element for slot in slots for element in elements_of(slot)]
        shape = reduce(join_shapes, map(prepared.shape, elements), start.shape)
        self._is_proven = shape is not None and shape != NEVER and None not in shape
        # Where elements of several shapes would be an error anyway, the loop may as well fail. But
        # onnxruntime's sees no more of a shape than its size.
        is_plain = start.count == 0 and slots == elements and len(slots) == 1
        is_uniform = self._is_proven or (is_plain and self._is_stacked(prepared))
        self._is_sure = any(map(is_always_filled, slots))
        is_filled = start.least > 0 or (self._is_sure and _runs_at_least_once(prepared, loop))
        numbers = (prepared.element_number(element) for element in (*elements, name))
        super().__init__("", next(filter(None, numbers), 0), shape, is_uniform, is_filled)
        self._why_not_reshaped = why_no_zeros(prepared, shape) if max(map(len, self._ends())) > 1 else ""
        self.became = f"becomes a scan output of '{loop.name}'"

    def _ends(self) -> tuple[list[Slot], list[Slot]]:
        return self._front, self._back

    def _is_stacked(self, prepared: Prepared) -> bool:
        graph = prepared.producers[self._name][1]
        return any(
            node is not None
            and node.is_op("ConcatFromSequence")
            and node.attribute("new_axis", 0)
            and place is graph
            for node, place in prepared.readers[self._name]
        )

    def why_not(self, node, graph, prepared, read):
        if self.element_type == TensorProto.UNDEFINED:
            return "the type of its elements is not known"
        return self._why_not_reshaped or super().why_not(node, graph, prepared, read)

    def why_not_started(self):
        if self.is_uniform and not self._why_not_reshaped and self._start.is_there():
            return ""
        if not self._start.is_there():
            return f"the loop '{self.node.name}' starts with '{self.start_name}', which stays"
        return self._why_not_reshaped or "their shapes may differ"

    def why_not_read_on_the_way(self) -> str:
        """Return which element is read in an iteration that no state can carry, "" if there is none."""
        for read in self._edits.reads:
            at_front = read.position >= 0
            j = read.position + 1 if at_front else -read.position
            # From the other end it is counted only where there are enough for sure.
            is_counted = not self._ends()[at_front] or self._start.least >= j
            is_there = self._start.least >= j or (self._is_proven and (j == 1 or not read.is_counted))
            if j > _FARTHEST or not is_counted or not is_there:
                return f"reads it on the way, at '{read.node.name}'"
        return ""

    def plan(self, name, prepared, read):
        self._read = read

    def prepare(self, builder, prepared):
        """Give the loop the scan outputs, and its body the counts and the elements that are read there."""
        if not self.is_filled and self._fails_without_trip(prepared):
            self._fail_without_trip(builder)
        edits = self._edits
        iteration = IterationSlots(
            builder, prepared, self.node, edits, self._start, self.element_type, self.shape
        )
        ends = [self._scan_end(iteration, builder, slots) for slots in self._ends()]
        for node, value in edits.counts:
            iteration.count(node, value)
        for read in edits.reads:
            iteration.read(read, read.node.outputs[0] in self._read)
        nodes = builder.after(self.node)
        front, back = (self._joined(nodes, *end) for end in ends)
        if front:
            last, axis = nodes.constant([-1]), nodes.constant([0])
            front = nodes.op("Slice", front, last, nodes.constant([_BEFORE_ALL]), axis, last)
        parts = [front, self._start.stacked(nodes), back]
        if parts[1] and not all(isinstance(length, int) for length in self.shape):
            shape = shape_tensor(nodes, prepared, self.shape)
            parts[::2] = [part and self._with_lengths(nodes, part, shape) for part in parts[::2]]
        parts = [part for part in parts if part]
        self.tensor = nodes.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def _scan_end(
        self, iteration: IterationSlots, builder: Builder, slots: list[Slot]
    ) -> tuple[list[str], list[str]]:
        """Give the loop the elements at an end as scan outputs, and which of them are there."""
        values, masks = [iteration.value(slot) for slot in slots], [iteration.mask(slot) for slot in slots]
        masks = [mask or builder.constant(True, bool) for mask in masks] if any(masks) else []
        if slots and not self._is_proven and not is_told_by_size(self.shape):
            self._check_shapes(builder, values[0], iteration.last_node)
        stacks = [self._scan(iteration, builder, value, self.element_type, self.shape) for value in values]
        return stacks, [self._scan(iteration, builder, mask, TensorProto.BOOL, ()) for mask in masks]

    def _scan(self, iteration: IterationSlots, builder: Builder, value: str, element_type: int, shape) -> str:
        loop, body = self.node, self.node.body
        value = iteration.output(value)
        body.outputs.append(value)
        body.declared[value] = helper.make_tensor_type_proto(element_type, shape)
        stack = builder.fresh(f"{loop.outputs[0]}/stack")
        loop.outputs.append(stack)
        return stack

    def _joined(self, nodes: Nodes, stacks: list[str], masks: list[str]) -> str:
        """Return what iterations put to an end in one tensor, in its order; "" for nothing."""
        if not stacks:
            return ""
        stack = self._interleaved(nodes, stacks)
        if masks:
            stack = nodes.op("Compress", stack, self._interleaved(nodes, masks, is_flat=True), axis=0)
        return stack

    def _with_lengths(self, nodes: Nodes, stack: str, shape: str) -> str:
        """Return a stack with the lengths that its elements have: without a trip, others may be there."""
        total = nodes.slice(nodes.op("Shape", stack), nodes.constant([0]), nodes.constant([1]), 0)
        # Where a 0 isn't allowed it stands for the length that is there: which then is one of 0 too.
        zeros: dict[str, Any] = {"allowzero": 1} if nodes.builder.opset >= ZEROS_ALLOWED else {}
        return nodes.op("Reshape", stack, nodes.join_axes(total, shape), **zeros)

    def _interleaved(self, nodes: Nodes, stacks: list[str], is_flat: bool = False) -> str:
        """Return several scan outputs as one: iteration by iteration."""
        if len(stacks) == 1:
            return stacks[0]
        rows = nodes.op("Concat", *(nodes.unsqueeze(stack, 1) for stack in stacks), axis=1)
        if is_flat:
            return nodes.op("Reshape", rows, nodes.constant([-1]))
        shape = nodes.op("Shape", stacks[0])
        first, second, rank = (nodes.constant([k]) for k in (0, 1, len(self.shape or ()) + 1))
        total = nodes.op("Mul", nodes.slice(shape, first, second, 0), nodes.constant([len(stacks)]))
        zeros: dict[str, Any] = {"allowzero": 1} if nodes.builder.opset >= ZEROS_ALLOWED else {}
        return nodes.op("Reshape", rows, nodes.join_axes(total, nodes.slice(shape, second, rank, 0)), **zeros)

    def _fails_without_trip(self, prepared: Prepared) -> bool:
        """Return whether a loop over a range without a trip is an error of who reads the list in any case."""
        parts = parts_of(self.node)
        is_range = parts.trips and parts.going_out == parts.going_in and _is_true(prepared, parts.condition)
        if not is_range or not self._is_sure or self._start.count != 0:
            return False
        graph = prepared.producers[self._name][1]
        return any(
            node is not None and node.is_op("ConcatFromSequence") and place is graph
            for node, place in prepared.readers[self._name]
        )

    def _fail_without_trip(self, builder):
        """Let the loop fail: so no join has to look, and to copy the tensor for that."""
        nodes = builder.before(self.node)
        trips = self.node.inputs[0]
        zero = nodes.fail_if(nodes.op("Less", trips, nodes.constant(1)))
        self.node.inputs[0] = nodes.op("Add", trips, zero)
        self.is_filled = True

    def _check_shapes(self, builder, scan, last_node):
        """Let iterations that differ in shape fail: onnxruntime (1.31) compares no more than their bytes."""
        loop, body = self.node, self.node.body
        shape = builder.after(last_node).op("Shape", scan)
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
        self.zero = nodes.require_zero(count)


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
