"""Lists that a loop appends or prepends to: they become scan outputs of the loop, split into a list again.

    l = Loop (n, c, start) <t = insert (s, e)>    ──▶    rows = Loop (n, c) <e>
                                                         l = SplitToSequence (Concat (start, rows))

Each addition of an iteration (see `trace`) is a scan output, and they are interleaved after the loop. If an
iteration may leave an addition empty, a condition is a scan output too, by which Compress selects:

    t = If (c) <insert (s, e)> <s>                ──▶    value = If (c) <e> <zeros>    mask = c

A list whose element i iteration i assigns (see `assigned`) is one too, with the elements that are left.

Nothing is left of the split, if all readers of the list can do with pieces of the tensor.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from onnx import TensorProto, helper

from seqcore.onnx._lists.assigned import Assigned, assigned
from seqcore.onnx._lists.cuts import shape_tensor
from seqcore.onnx._lists.representations import Stack
from seqcore.onnx._lists.scans import Start, add_scan, why_checks_are_lost, with_lengths
from seqcore.onnx._lists.trace import Addition, Merged, Read, Trace, elements_of, is_always_filled
from seqcore.onnx._model.graph import BRANCHES, Model, Node
from seqcore.onnx._model.loop_parts import add_state, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import NEVER, Shape, is_fixed_by_size, join_shapes
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder, Nodes
from seqcore.onnx._rewrite.prune import prune, read_names
from seqcore.onnx._thresholds import FARTHEST


def accumulate_lists(
    model: Model, prepared: Prepared, builder: Builder, packs: bool = False
) -> tuple[dict[str, str], dict[str, str]]:
    """Make scan outputs of the lists that loops put elements into.

    Parameters
    ----------
    model : Model
        Changed in place.
    prepared : Prepared
        The types of this model.
    builder : Builder
        Of this model.
    packs : bool, optional
        If True, lists that stay are packed in the end: see `packed`.

    Returns
    -------
    (dict of str to str, dict of str to str)
        What became of those that are scan outputs now, and why others stay.
    """
    found: dict[str, _Accumulated | Assigned] = {}
    reasons: dict[str, str] = {}
    for loop in model.graph.all_nodes():
        if not loop.is_op("Loop"):
            continue
        for k, name in enumerate(parts_of(loop).final):
            if not prepared.is_sequence(name):
                continue
            try:
                one = assigned(prepared, loop, k) or _Accumulated(prepared, loop, k, packs)
            except Declined as why:
                reasons[name] = f"the loop '{loop.name}' {why}"
            else:
                if one.start.name not in found:  # that is a split in the next round
                    found[name] = one
    if found:
        read = read_names(model)
        for one in found.values():
            one.write(builder, read)
        builder.apply()
        prune(model)
    replaced = {name: f"becomes a scan output of '{one.node.name}'" for name, one in found.items()}
    return {
        one.start.name: one.start.phrase for one in found.values() if one.start.phrase
    } | replaced, reasons


class _Accumulated:
    """A list that a loop puts elements into, at its ends: output k of the loop.

    Raises
    ------
    Declined
        If the loop does something else.
    """

    def __init__(self, prepared: Prepared, loop: Node, k: int, packs: bool) -> None:
        parts = parts_of(loop)
        self._prepared, self.node, self._k, self._name = prepared, loop, k, parts.final[k]
        self.start = start = Start(prepared, parts.initial[k])
        self.trace = trace = Trace(prepared, loop, k, start.count)
        self.ends = trace.ends[trace.result]
        if not self.ends.all():
            raise Declined("passes it on as it is")
        additions = self.ends.all()
        # Packed, a list that a loop around this one carries is a tensor already.
        may_be_carried = packs and all(map(is_always_filled, additions))
        if why := start.why_not(prepared, may_be_carried) or why_checks_are_lost(prepared, loop):
            raise Declined(why)
        elements = [element for addition in additions for element in elements_of(addition)]
        self.shape = shape = reduce(join_shapes, map(prepared.shape, elements), start.shape)
        numbers = (prepared.element_number(element) for element in (*elements, self._name))
        self.element_type = next(filter(None, numbers), 0)
        self._is_proven = shape is not None and shape != NEVER and None not in shape
        # If elements of several shapes would be an error anyway, the loop may as well fail. But
        # onnxruntime's sees no more of a shape than its size.
        is_plain = start.count == 0 and additions == tuple(elements) and len(additions) == 1
        if not (self._is_proven or (is_plain and self._is_stacked())):
            raise Declined("puts elements into it, but their shapes may differ")
        if self.element_type == TensorProto.UNDEFINED:
            raise Declined("puts elements into it whose type is not known")
        self._is_sure = any(map(is_always_filled, additions))
        self._difference = ""  # by how much lengths of elements differ from those of the first
        for read in trace.reads:
            if not self._can_carry(read):
                raise Declined(f"reads it on the way, at '{read.node.name}'")

    def _is_stacked(self) -> bool:
        return any(node.attribute("new_axis", 0) for node in self._joins())

    def _joins(self) -> list[Node]:
        """Return the joins of the list in the graph that it stands in."""
        prepared = self._prepared
        graph = prepared.producers[self._name][1]
        return [
            node
            for node, place in prepared.readers[self._name]
            if node is not None and node.is_op("ConcatFromSequence") and place is graph
        ]

    def _can_carry(self, read: Read) -> bool:
        """Return whether a state can carry the element that is read in an iteration."""
        at_front, j = _from_end(read.position)
        # From the other end it is counted only if there are enough elements for sure.
        is_counted = not self.ends.at(not at_front) or self.start.least >= j
        is_there = self.start.least >= j or (self._is_proven and (j == 1 or not read.is_computed))
        return j <= FARTHEST and is_counted and is_there

    def write(self, builder: Builder, read: set[str]) -> None:
        """Give the loop the scan outputs, its body the lengths and elements that are read there.

        `read` has the names of values that are read, not only their shapes.
        """
        loop = self.node
        joins = self._joins() if self._is_filled(builder) else []
        iteration = _Iteration(builder, self._prepared, self)
        ends = [self._scan_end(iteration, builder, additions) for additions in self.ends]
        for node, value in self.trace.lengths:
            iteration.count(value, builder.instead(node), node.outputs[0])
        for one in self.trace.reads:
            iteration.read(one, one.node.outputs[0] in read)
        tensor = self._rows(iteration, builder, ends)
        # These need no check that there is an element.
        stack = Stack(tensor, self.element_type, self.shape, is_filled=True)
        for join in joins:
            how = join.attribute("axis", 0), bool(join.attribute("new_axis", 0))
            if not stack.why_not_join(*how, self._prepared):
                nodes = builder.instead(join, declares=join.outputs[0] in read)
                stack.join(nodes, *how, join.outputs[0])
        loop.outputs[self._k] = builder.fresh(f"{self._name}/list")  # which nobody reads
        builder.after(loop).op("SplitToSequence", tensor, axis=0, keepdims=0, out=self._name)

    def _rows(self, iteration: _Iteration, builder: Builder, ends: list[tuple[list[str], list[str]]]) -> str:
        """Return the elements as one tensor, of scan outputs and what the list starts with."""
        nodes = builder.after(self.node)
        front, back = (self._joined(nodes, *end) for end in ends)
        if front:
            front = nodes.reverse(front)
        parts = [front, iteration.start_rows(), back]
        if parts[1] and not all(isinstance(length, int) for length in self.shape or ()):
            shape = shape_tensor(nodes, self._prepared, self.shape)
            parts[::2] = [part and with_lengths(nodes, part, shape) for part in parts[::2]]
        parts = [part for part in parts if part]
        rows = nodes.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]
        return nodes.bound_to(rows, self._difference) if self._difference else rows

    def _scan_end(
        self, iteration: _Iteration, builder: Builder, additions: tuple[Addition, ...]
    ) -> tuple[list[str], list[str]]:
        """Make the elements at an end scan outputs; if some may be missing, their masks too."""
        values, masks = (
            [iteration.value(addition) for addition in additions],
            [iteration.mask(addition) for addition in additions],
        )
        masks = [mask or builder.constant(True, bool) for mask in masks] if any(masks) else []
        if additions and self._compares_shapes():
            self._check_shapes(builder, values[0], iteration.last_node)
        stacks = [self._scan(iteration, builder, value, self.element_type, self.shape) for value in values]
        return stacks, [self._scan(iteration, builder, mask, TensorProto.BOOL, ()) for mask in masks]

    def _scan(self, iteration: _Iteration, builder: Builder, value: str, element_type: int, shape) -> str:
        name = builder.fresh(f"{self._name}/stack")
        return add_scan(builder, self.node, iteration.output(value), name, element_type, shape)

    def _joined(self, nodes: Nodes, stacks: list[str], masks: list[str]) -> str:
        """Return what iterations put to an end as one tensor, in its order; "" for nothing."""
        if not stacks:
            return ""
        stack = self._interleaved(nodes, stacks, self.shape)
        if masks:
            stack = nodes.op("Compress", stack, self._interleaved(nodes, masks, ()), axis=0)
        return stack

    def _interleaved(self, nodes: Nodes, stacks: list[str], shape: Shape) -> str:
        """Return several scan outputs as one: iteration by iteration."""
        if len(stacks) == 1:
            return stacks[0]
        rows = nodes.op("Concat", *(nodes.unsqueeze(stack, 1) for stack in stacks), axis=1)
        return nodes.merge_first_axes(rows, shape)

    def _is_filled(self, builder: Builder) -> bool:
        """Return whether there is an element for sure, once the loop fails where a join of none would."""
        if self.start.least:
            return True
        parts, prepared = parts_of(self.node), self._prepared
        if not self._is_sure:
            return False
        if parts.runs_at_least_once(prepared):
            return True
        is_range = parts.trips and parts.passes_condition_on and parts.begins(prepared)
        if not is_range or self.start.count != 0 or not self._joins():
            return False
        if self._compares_shapes() and not builder.is_for_openvino:
            return True  # there is a first shape that the others are compared with, or the loop fails
        nodes = builder.before(self.node)
        self.node.inputs[0] = nodes.at_least_one(parts.trips)
        return True

    def _compares_shapes(self) -> bool:
        return not self._is_proven and not is_fixed_by_size(self.shape)

    def _check_shapes(self, builder, scan, last_node):
        """Fail if iterations differ in shape: onnxruntime (1.31) compares no more than their bytes.

        Without an iteration the model fails too, except in OpenVINO.
        """
        shape = builder.after(last_node).op("Shape", scan)
        name = builder.fresh(f"{self._name}/shapes")
        rank = None if self.shape is None else len(self.shape)
        shapes = add_scan(builder, self.node, shape, name, TensorProto.INT64, (rank,))
        nodes = builder.after(self.node)
        first = nodes.op("Gather", shapes, nodes.constant([0]), axis=0)
        self._difference = nodes.sum_of_sizes(nodes.op("Sub", shapes, first))


def _from_end(position: int) -> tuple[bool, int]:
    """Return whether a position counts from the front, and which element from that end it is, from 1."""
    return (True, position + 1) if position >= 0 else (False, -position)


class _Iteration:
    """The nodes of an iteration for a list that becomes scan outputs."""

    def __init__(self, builder: Builder, prepared: Prepared, found: _Accumulated) -> None:
        self._builder, self._prepared, self._loop, self._trace = builder, prepared, found.node, found.trace
        # The shape is known if an addition may be empty, or a last element missing.
        self._start, self._element_type, self._shape = found.start, found.element_type, found.shape
        self._zeros = self._rows = ""
        self._made: dict[tuple[object, ...], str] = {}
        self._lasts: dict[tuple[bool, int], str] = {}
        self._counter = self._length = ""
        self._given: set[str] = set()
        self._each = found.ends
        self.last_node = prepared.producers[found.trace.result][0]

    # The elements of an iteration, and whether they are there

    def value(self, addition: Addition) -> str:
        """Return the element in an addition, or another tensor of its shape if the addition is empty."""
        if isinstance(addition, str):
            return addition
        key = ("value", addition)
        if key not in self._made:
            self._made[key] = self._value(addition)
        return self._made[key]

    def _value(self, addition: Merged) -> str:
        values = [None if one is None else self.value(one) for one in addition.additions]
        there = {value for value in values if value is not None}
        inside = {id(graph) for key in BRANCHES for graph in addition.node.graphs[key].all_graphs()}
        if len(there) == 1 and not self._is_made_in(only := next(iter(there)), inside):
            return only
        full = [self._zeros_like() if value is None else value for value in values]
        return self._if_output(addition.node, addition.k, full, self._element_type, self._shape)

    def _is_made_in(self, name: str, graphs: set[int]) -> bool:
        found = self._prepared.producers.get(name)
        # A value that isn't known there was made for a branch.
        return id(found[1]) in graphs if found is not None else name in self._made.values()

    def mask(self, addition: Addition | None) -> str:
        """Return the name of whether there is an element, "" if there always is."""
        if addition is None:
            return self._builder.constant(False, np.bool_)
        if isinstance(addition, str) or is_always_filled(addition):
            return ""
        key = ("mask", addition)
        if key not in self._made:
            self._made[key] = self._mask(addition)
        return self._made[key]

    def _mask(self, addition: Merged) -> str:
        condition = addition.node.inputs[0]
        one, other = addition.additions
        if self._prepared.shape(condition) == ():
            if other is None and is_always_filled(one):
                return condition
            if one is None and is_always_filled(other):
                return self._builder.after(addition.node).op("Not", condition)
        always = self._builder.constant(True, np.bool_)
        masks = [self.mask(branch) or always for branch in addition.additions]
        return self._if_output(addition.node, addition.k, masks, TensorProto.BOOL, ())

    def _zeros_like(self) -> str:
        """Return a tensor of the elements' shape, made before the loop."""
        if not self._zeros:
            nodes = self._builder.before(self._loop)
            shape = shape_tensor(nodes, self._prepared, self._shape)
            if self._element_type == TensorProto.STRING:
                self._zeros = nodes.op("Expand", nodes.constant("", object), shape)
            else:
                zero = helper.make_tensor("zero", self._element_type, [1], [0])
                self._zeros = nodes.op("ConstantOfShape", shape, value=zero)
        return self._zeros

    def _if_output(self, node: Node, k: int, values: list[str], element_type: int, shape: Shape) -> str:
        """Give an If another output beside the list that is its output k, and return its name."""
        type_ = helper.make_tensor_type_proto(element_type, shape)
        for key, value in zip(BRANCHES, values, strict=True):
            branch = node.graphs[key]
            producer, graph = self._prepared.producers.get(value, (None, None))
            if producer is None or graph is not branch or value in branch.outputs:
                anchor = self._prepared.producers[branch.outputs[k]][0]
                value = self._builder.after(anchor).op("Identity", value)
            branch.outputs.append(value)
            branch.declared[value] = type_
        name = self._builder.fresh(f"{node.name}/element")
        node.outputs.append(name)
        return name

    # How many there are

    def count(self, value: str, nodes: Nodes, out: str = "") -> str:
        """Return the length of a list of the iteration."""
        additions = self._trace.ends[value].all()
        number = self._length_of_state(nodes)
        for mask in filter(None, map(self.mask, additions)):
            one = nodes.op("Cast", mask, to=TensorProto.INT64)
            number = nodes.op("Add", number, nodes.op("Reshape", one, nodes.constant([])))
        return nodes.op("Add", number, nodes.constant(sum(map(is_always_filled, additions))), out=out)

    def _length_of_state(self, nodes: Nodes) -> str:
        """Return the length of the state, from the iteration's number if each adds as many."""
        each = self._each.all()
        if not all(map(is_always_filled, each)):
            return self._counter_state(each)
        iteration = parts_of(self._loop).iteration
        number = nodes.of_rank(iteration, 0, self._prepared.type(iteration).rank)
        if len(each) > 1:
            number = nodes.op("Mul", number, nodes.constant(len(each)))
        length = self._length_of_start()
        return nodes.op("Add", number, length) if length else number

    def _length_of_start(self) -> str:
        """Return the length of the list before the loop, "" if it is empty."""
        if self._start.count != 0 and not self._length:
            self._length = self._start.length(self._builder.before(self._loop))
        return self._length

    def start_rows(self) -> str:
        """Return the elements before the loop as one tensor, "" for none."""
        if not self._rows:
            self._rows = self._start.rows(self._builder.before(self._loop), self._zeros_like)
        return self._rows

    def _counter_state(self, each: tuple[Addition, ...]) -> str:
        if not self._counter:
            fresh = self._builder.fresh
            self._counter = fresh(f"{self._trace.state}/count")
            initial = self._length_of_start() or self._builder.constant(0)
            type_ = helper.make_tensor_type_proto(TensorProto.INT64, ())
            for addition in each:
                self.mask(addition)  # before what is made of it: both come after the same node
            after = self.count(self._trace.result, self._builder.after(self.last_node))
            add_state(self._loop, initial, self._counter, after, fresh(f"{self._counter}/last"), type_)
        return self._counter

    # The last elements, or the first ones if they are put to the front

    def read(self, read: Read, is_read: bool) -> None:
        """Make the element that a SequenceAt in the loop returns, instead of its node.

        If no more than its shape is read, a runtime must not know that beforehand: it would leave out the
        check.
        """
        nodes, out = self._builder.instead(read.node), read.node.outputs[0]
        at_front, j = _from_end(read.position)
        element = self._last(read.value, at_front, j)
        additions = self._trace.ends[read.value].at(at_front)
        is_sure = self._start.least + sum(map(is_always_filled, additions)) >= j
        if is_sure or is_read:
            nodes.declare(out, self._element_type, self._shape)
        if is_sure:
            nodes.op("Identity", element, out=out)
            return
        zero = nodes.fail_if(nodes.op("Less", self.count(read.value, nodes), nodes.constant(j)))
        if is_read and self._element_type != TensorProto.STRING:
            nodes.op("Gather", nodes.unsqueeze(element, 0), zero, axis=0, out=out)
        else:
            nodes.checked(element, zero, out=out)

    def _last(self, value: str, at_front: bool, j: int) -> str:
        """Return element j from an end, counted from 1, of a list of the iteration."""
        key = ("last", value, at_front, j)
        if key in self._made:
            return self._made[key]
        if value == self._trace.state:
            return self._last_of_state(at_front, j)
        node = self._prepared.producers[value][0]
        if node.is_op("If"):
            k = node.outputs.index(value)
            both = [self._last(node.graphs[branch].outputs[k], at_front, j) for branch in BRANCHES]
            made = both[0]
            if made != both[1]:
                made = self._if_output(node, k, both, self._element_type, self._shape)
        elif self._puts_to(node, at_front):
            made = node.inputs[1] if j == 1 else self._last(node.inputs[0], at_front, j - 1)
        else:
            made = self._last(node.inputs[0], at_front, j)
        self._made[key] = made
        return made

    def _puts_to(self, node: Node, at_front: bool) -> bool:
        """Return whether a node puts an element to an end."""
        ends = self._trace.ends
        return len(ends[node.outputs[0]].at(at_front)) > len(ends[node.inputs[0]].at(at_front))

    def _last_of_state(self, at_front: bool, j: int) -> str:
        """Return the state that carries the element: what the iteration before ended with."""
        key = at_front, j
        if key not in self._lasts:
            fresh = self._builder.fresh
            initial = self._last_of_start(at_front, j)
            if not self._each.at(at_front):
                self._lasts[key] = initial  # in all iterations
                return initial
            name = self._lasts[key] = fresh(f"{self._trace.state}/{'first' if at_front else 'last'}_{j}")
            after = self.output(self._last(self._trace.result, at_front, j))
            type_ = helper.make_tensor_type_proto(self._element_type, self._shape)
            add_state(self._loop, initial, name, after, fresh(f"{name}/final"), type_)
        return self._lasts[key]

    def _last_of_start(self, at_front: bool, j: int) -> str:
        """Return element j from an end of the list before the loop; zeros if it isn't there."""
        start, nodes = self._start, self._builder.before(self._loop)
        if j <= start.least:
            return start.element(nodes, j - 1 if at_front else -j)
        if start.count is not None:
            return self._zeros_like()
        first, last = ([j - 1], [j]) if at_front else ([-j], [AFTER_ALL])
        there = nodes.slice(self.start_rows(), nodes.constant(first), nodes.constant(last), 0)
        # A missing element is not read, but the tensor needs a row.
        spare = nodes.unsqueeze(self._zeros_like(), 0)
        parts = [there, spare] if at_front else [*[spare] * j, there]
        there = nodes.op("Concat", *parts, axis=0)
        return nodes.op("Gather", there, nodes.constant(0 if at_front else -j), axis=0)

    def output(self, value: str) -> str:
        """Return a value as an output of the body. Runtimes want those to come from nodes, and each once."""
        body = self._loop.body
        producer, graph = self._prepared.producers.get(value, (None, None))
        if producer is None or graph is not body or value in body.outputs or value in self._given:
            value = self._builder.after(self.last_node).op("Identity", value)
        self._given.add(value)
        return value
