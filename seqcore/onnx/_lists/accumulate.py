"""Lists that a loop appends or prepends to: they become scan outputs of the loop.

    l = Loop (n, c, start) <t = insert (s, e)>    ──▶    rows = Loop (n, c) <e>    l = Concat (start, rows)

Each addition of an iteration (see `trace`) is a scan output, and they are interleaved after the loop. If an
iteration may leave an addition empty, a condition is a scan output too, by which Compress selects:

    t = If (c) <insert (s, e)> <s>                ──▶    value = If (c) <e> <zeros>    mask = c
"""

from __future__ import annotations

from functools import reduce
from typing import NamedTuple

import numpy as np
from onnx import TensorProto, helper

from seqcore.onnx._lists.representations import Representation, Representations, Stack, why_no_zeros
from seqcore.onnx._lists.trace import Addition, Merged, Read, Trace, elements_of, is_always_filled
from seqcore.onnx._model.graph import BRANCHES, Node
from seqcore.onnx._model.loop_parts import add_state, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import NEVER, Shape, is_told_by_size, join_shapes
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder, Nodes

# An end before the first element, wherever a Slice of step -1 starts.
_BEFORE_ALL = -(1 << 63)
# A loop that reads farther from an end than this searches the list.
_FARTHEST = 16


def accumulated(forms: Representations, loop: Node, k: int) -> Accumulated:
    """Return output k of a loop as a list that it puts elements into. Raise `Declined` if it isn't one."""
    start = _start_of(forms, loop, parts_of(loop).initial[k])
    try:
        found = Accumulated(forms.prepared, loop, k, start)
    except Declined as why:
        raise Declined(f"the loop '{loop.name}' {why}") from None
    form = forms.found.get(found.start_name)
    if form is not None and start.count != 0:
        form.takers += (found,)
    return found


class Accumulated(Stack):
    """A list that a loop puts elements into, at its ends.

    Attributes
    ----------
    node : Node
        The loop.
    start_name : str
        The list that the loop starts with.
    """

    def __init__(self, prepared: Prepared, loop: Node, k: int, start: _Start) -> None:
        name = loop.outputs[k]
        self.node, self.start_name = loop, parts_of(loop).initial[k]
        self.start, self._name = start, name
        self.trace = trace = Trace(prepared, loop, k, start.count)
        self.ends = trace.ends[trace.result]
        if not self.ends.all():
            raise Declined("passes it on as it is")
        if why := _why_checks_are_lost(prepared, loop):
            raise Declined(why)
        additions = self.ends.all()
        elements = [element for addition in additions for element in elements_of(addition)]
        shape = reduce(join_shapes, map(prepared.shape, elements), start.shape)
        self.is_proven = shape is not None and shape != NEVER and None not in shape
        # If elements of several shapes would be an error anyway, the loop may as well fail. But
        # onnxruntime's sees no more of a shape than its size.
        is_plain = start.count == 0 and additions == tuple(elements) and len(additions) == 1
        is_uniform = self.is_proven or (is_plain and self._is_stacked(prepared))
        self._is_sure = any(map(is_always_filled, additions))
        is_filled = start.least > 0 or (self._is_sure and _runs_at_least_once(prepared, loop))
        numbers = (prepared.element_number(element) for element in (*elements, name))
        super().__init__("", next(filter(None, numbers), 0), shape, is_uniform, is_filled)
        self._why_not_reshaped = why_no_zeros(prepared, shape) if max(map(len, self.ends)) > 1 else ""
        self.became = f"becomes a scan output of '{loop.name}'"
        for read in trace.reads:
            if not self._can_carry(read):
                raise Declined(f"reads it on the way, at '{read.node.name}'")

    def _is_stacked(self, prepared: Prepared) -> bool:
        return any(node.attribute("new_axis", 0) for node in self._joins(prepared))

    def _joins(self, prepared: Prepared) -> list[Node]:
        """Return the joins of the list in the graph that it stands in."""
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
        is_there = self.start.least >= j or (self.is_proven and (j == 1 or not read.is_computed))
        return j <= _FARTHEST and is_counted and is_there

    def why_not(self, node, graph, prepared, read):
        if self.element_type == TensorProto.UNDEFINED:
            return "the type of its elements is not known"
        return self._why_not_reshaped or super().why_not(node, graph, prepared, read)

    def why_not_started(self):
        if not self.start.is_there():
            return f"the loop '{self.node.name}' starts with '{self.start_name}', which stays"
        return self._why_not_reshaped or self._why_not_uniform()

    def plan(self, name, prepared, read):
        self._read = read

    def prepare(self, builder, prepared):
        """Give the loop the scan outputs, and its body the lengths and elements that are read there."""
        if not self.is_filled and self._fails_without_trip(prepared):
            self._fail_without_trip(builder)
        iteration = _Iteration(builder, prepared, self)
        ends = [self._scan_end(iteration, builder, additions) for additions in self.ends]
        for node, value in self.trace.lengths:
            iteration.count(value, builder.instead(node), node.outputs[0])
        for read in self.trace.reads:
            iteration.read(read, read.node.outputs[0] in self._read)
        nodes = builder.after(self.node)
        front, back = (self._joined(nodes, *end) for end in ends)
        if front:
            last, axis = nodes.constant([-1]), nodes.constant([0])
            front = nodes.op("Slice", front, last, nodes.constant([_BEFORE_ALL]), axis, last)
        parts = [front, self.start.stacked(nodes), back]
        if parts[1] and not all(isinstance(length, int) for length in self.shape):
            shape = shape_tensor(nodes, prepared, self.shape)
            parts[::2] = [part and self._with_lengths(nodes, part, shape) for part in parts[::2]]
        parts = [part for part in parts if part]
        self.tensor = nodes.op("Concat", *parts, axis=0) if len(parts) > 1 else parts[0]

    def _scan_end(
        self, iteration: _Iteration, builder: Builder, additions: tuple[Addition, ...]
    ) -> tuple[list[str], list[str]]:
        """Make the elements at an end scan outputs; if some may be missing, their masks too."""
        values, masks = (
            [iteration.value(addition) for addition in additions],
            [iteration.mask(addition) for addition in additions],
        )
        masks = [mask or builder.constant(True, bool) for mask in masks] if any(masks) else []
        if additions and not self.is_proven and not is_told_by_size(self.shape):
            self._check_shapes(builder, values[0], iteration.last_node)
        stacks = [self._scan(iteration, builder, value, self.element_type, self.shape) for value in values]
        return stacks, [self._scan(iteration, builder, mask, TensorProto.BOOL, ()) for mask in masks]

    def _scan(self, iteration: _Iteration, builder: Builder, value: str, element_type: int, shape) -> str:
        return _add_scan(
            self.node, iteration.output(value), builder.fresh(f"{self._name}/stack"), element_type, shape
        )

    def _joined(self, nodes: Nodes, stacks: list[str], masks: list[str]) -> str:
        """Return what iterations put to an end as one tensor, in its order; "" for nothing."""
        if not stacks:
            return ""
        stack = self._interleaved(nodes, stacks)
        if masks:
            stack = nodes.op("Compress", stack, self._interleaved(nodes, masks, is_flat=True), axis=0)
        return stack

    def _with_lengths(self, nodes: Nodes, stack: str, shape: str) -> str:
        """Return a stack with the lengths that its elements have: without a trip, it may have others."""
        total = nodes.slice(nodes.op("Shape", stack), nodes.constant([0]), nodes.constant([1]), 0)
        # If a 0 isn't allowed it stands for the length that is there: which then is a 0 too.
        return nodes.op("Reshape", stack, nodes.join_axes(total, shape), **nodes.builder.allow_zeros)

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
        whole = nodes.join_axes(total, nodes.slice(shape, second, rank, 0))
        return nodes.op("Reshape", rows, whole, **nodes.builder.allow_zeros)

    def _fails_without_trip(self, prepared: Prepared) -> bool:
        """Return whether a reader fails in any case if a loop over a range has no iteration."""
        parts = parts_of(self.node)
        is_range = parts.trips and parts.going_out == parts.going_in and _is_true(prepared, parts.condition)
        return bool(is_range and self._is_sure and self.start.count == 0 and self._joins(prepared))

    def _fail_without_trip(self, builder):
        """Let the loop fail: so no join has to check, and to copy the tensor for that."""
        nodes = builder.before(self.node)
        trips = self.node.inputs[0]
        zero = nodes.fail_if(nodes.op("Less", trips, nodes.constant(1)))
        self.node.inputs[0] = nodes.op("Add", trips, zero)
        self.is_filled = True

    def _check_shapes(self, builder, scan, last_node):
        """Fail if iterations differ in shape: onnxruntime (1.31) compares no more than their bytes."""
        shape = builder.after(last_node).op("Shape", scan)
        name = builder.fresh(f"{self._name}/shapes")
        shapes = _add_scan(self.node, shape, name, TensorProto.INT64, [self.rank])
        nodes = builder.after(self.node)
        start, end = nodes.constant([0]), nodes.constant([1])
        same = nodes.op("Equal", shapes, nodes.slice(shapes, start, end, 0))
        differing = nodes.op("Cast", nodes.op("Not", same), to=TensorProto.INT64)
        # Only position 0 is in range.
        self.zero = nodes.require_zero(nodes.op("ReduceSum", differing, keepdims=0))


def _from_end(position: int) -> tuple[bool, int]:
    """Return whether a position counts from the front, and which element from that end it is, from 1."""
    return (True, position + 1) if position >= 0 else (False, -position)


def _add_scan(loop: Node, value: str, stack: str, element_type: int, shape) -> str:
    loop.body.outputs.append(value)
    loop.body.declared[value] = helper.make_tensor_type_proto(element_type, shape)
    loop.outputs.append(stack)
    return stack


def _why_checks_are_lost(prepared: Prepared, loop: Node) -> str:
    """Return what onnxruntime doesn't check in a loop of tensors alone, "" if nothing."""
    parts = parts_of(loop)
    going = () if parts.going_out == parts.going_in else (parts.going_out,)
    for name in filter(None, (parts.trips, parts.condition, *going)):
        if prepared.shape(name) not in ((), (1,)):
            return f"goes by '{name}', which may be no single number"
    for name in parts.scans:
        if not is_told_by_size(prepared.shape(name)):
            return f"gives '{name}' as well, which may change its shape"
    return ""


def _runs_at_least_once(prepared: Prepared, loop: Node) -> bool:
    parts = parts_of(loop)
    trips = prepared.integer(parts.trips) if parts.trips else 1
    return trips is not None and trips >= 1 and _is_true(prepared, parts.condition)


def _is_true(prepared: Prepared, name: str) -> bool:
    """Return whether a condition is left out, or true in every run."""
    return not name or bool(prepared.condition(name))


class _Start(NamedTuple):
    """The list that a loop starts with.

    Attributes
    ----------
    form : Representation
    names : list of str or None
        Its elements, None if they have no names.
    shape : tuple of (int, str or None), or None
        The shape of all elements; `NEVER` if there are none.
    count : int or None
        The number of elements, if it is known.
    least : int
        A lower bound of that.
    """

    form: Representation
    names: list[str] | None
    shape: Shape
    count: int | None  # type: ignore[assignment]  # tuples have a method of that name
    least: int

    def is_there(self) -> bool:
        """Return whether the tensors are made, now that it is settled which lists go."""
        return self.names is not None or self.form.is_there()

    def length(self, nodes: Nodes) -> str:
        return self.form.length(nodes, "") if self.count is None else nodes.constant(self.count)

    def stacked(self, nodes: Nodes) -> str:
        """Return all as a tensor, "" for none."""
        if self.names is None:
            return self.form.stacked(nodes)
        rows = [nodes.unsqueeze(name, 0) for name in self.names]
        return nodes.op("Concat", *rows, axis=0) if len(rows) > 1 else "".join(rows)


def _start_of(forms: Representations, loop: Node, name: str) -> _Start:
    """Return the list that a loop starts with. Raise `Declined` if it can't be had as tensors."""
    where = f"the loop '{loop.name}'"
    form = forms.found.get(name)
    if form is None:
        raise Declined(f"{where} doesn't start with an empty list")
    if (elements := form.elements_by_name()) is not None:
        names, shape = elements
        start = _Start(form, names, shape, len(names), len(names))
    else:
        try:
            stack = form.as_stack()
        except Declined as why:
            raise Declined(f"{where} starts with '{name}', where {why}") from None
        shape = None if stack.shape is None else tuple(stack.shape)
        least = form.count or int(stack.is_filled)
        start = _Start(form, None, shape, form.count, least)
    if start.shape is None or None in start.shape:
        raise Declined(f"{where} starts with '{name}', whose elements may be of several shapes")
    return start


class _Iteration:
    """The nodes of an iteration for a list that becomes scan outputs."""

    def __init__(self, builder: Builder, prepared: Prepared, found: Accumulated) -> None:
        self._builder, self._prepared, self._loop, self._trace = builder, prepared, found.node, found.trace
        # The shape is known if an addition may be empty, or a last element missing.
        self._start, self._element_type, self._shape = found.start, found.element_type, found.shape
        self._zeros = ""
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
        number = nodes.op("Reshape", parts_of(self._loop).iteration, nodes.constant([]))
        if len(each) > 1:
            number = nodes.op("Mul", number, nodes.constant(len(each)))
        length = self._length_of_start()
        return nodes.op("Add", number, length) if length else number

    def _length_of_start(self) -> str:
        """Return the length of the list before the loop, "" if it is empty."""
        if self._start.count != 0 and not self._length:
            self._length = self._start.length(self._builder.before(self._loop))
        return self._length

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
        if start.names is not None:
            return start.names[j - 1 if at_front else -j] if j <= len(start.names) else self._zeros_like()
        first, last = ([j - 1], [j]) if at_front else ([-j], [AFTER_ALL])
        there = nodes.slice(start.stacked(nodes), nodes.constant(first), nodes.constant(last), 0)
        if start.least < j:
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


def shape_tensor(nodes: Nodes, prepared: Prepared, shape: Shape) -> str:
    """Return a known shape as a tensor. A name in it is a length that an input of the model gives."""
    if all(isinstance(length, int) for length in shape or ()):
        return nodes.constant(list(shape or ()))
    parts: list[str | list[int]] = []
    for length in shape or ():
        if isinstance(length, int):
            parts.append([length])
            continue
        name, axis = next(
            (name, lengths.index(length))
            for name in prepared.model.graph.inputs
            if prepared.is_tensor(name) and length in (lengths := prepared.shape(name) or ())
        )
        parts.append(nodes.op("Gather", nodes.op("Shape", name), nodes.constant([axis]), axis=0))
    return nodes.join_axes(*parts)
