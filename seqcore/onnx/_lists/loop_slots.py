"""What an iteration puts into a list, as tensors: the elements, whether there are any, and the last ones.

l = If (c) <insert (s, e)> <s>    ──▶    value = If (c) <e> <zeros>    is there one: c
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from seqcore.onnx._lists.loop_edits import (
    IterationEdits,
    Merged,
    Read,
    Slot,
    graphs_in,
    is_always_filled,
    slots_of,
)
from seqcore.onnx._lists.representations import Representation, Representations, Stack
from seqcore.onnx._model.graph import BRANCHES, Node
from seqcore.onnx._model.loop_parts import add_state, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import NEVER, Shape
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder, Nodes


class IterationSlots:
    """The nodes of an iteration for a list that becomes tensors.

    Parameters
    ----------
    edits : IterationEdits
    start : Start
        What the list starts with.
    element_type : int
    shape : tuple of (int, str or None), or None
        Of all elements. It has to be known where an iteration may have none, and where a last one may be
        missing.
    """

    def __init__(
        self,
        builder: Builder,
        prepared: Prepared,
        loop: Node,
        edits: IterationEdits,
        start: Start,
        element_type: int,
        shape: Shape,
    ) -> None:
        self._builder, self._prepared, self._loop, self._edits = builder, prepared, loop, edits
        self._start, self._element_type, self._shape = start, element_type, shape
        self._zeros = ""
        self._made: dict[tuple[object, ...], str] = {}
        self._lasts: dict[tuple[bool, int], str] = {}
        self._counter = self._length = ""
        self._given: set[str] = set()
        self.last_node = prepared.producers[edits.result][0]

    # The elements of an iteration, and whether they are there

    def value(self, slot: Slot) -> str:
        """Return an element as an iteration has it, something of its shape where there is none."""
        if isinstance(slot, str):
            return slot
        key = ("value", slot)
        if key not in self._made:
            self._made[key] = self._value(slot)
        return self._made[key]

    def _value(self, slot: Merged) -> str:
        values = [None if one is None else self.value(one) for one in slot.slots]
        there = [value for value in values if value is not None]
        inside = graphs_in(slot.node.graphs["then_branch"]) | graphs_in(slot.node.graphs["else_branch"])
        if len(set(there)) == 1 and not self._is_made_in(there[0], inside):
            return there[0]
        full = [self.zeros() if value is None else value for value in values]
        return self._if_output(slot.node, slot.k, full, self._element_type, self._shape)

    def _is_made_in(self, name: str, graphs: set[int]) -> bool:
        found = self._prepared.producers.get(name)
        # What isn't known there was made for a branch.
        return id(found[1]) in graphs if found is not None else name in self._made.values()

    def mask(self, slot: Slot | None) -> str:
        """Return the name of whether there is an element, "" where there always is."""
        if slot is None:
            return self._builder.constant(False, np.bool_)
        if isinstance(slot, str) or is_always_filled(slot):
            return ""
        key = ("mask", slot)
        if key not in self._made:
            self._made[key] = self._mask(slot)
        return self._made[key]

    def _mask(self, slot: Merged) -> str:
        condition = slot.node.inputs[0]
        one, other = slot.slots
        if self._prepared.shape(condition) == ():
            if other is None and is_always_filled(one):
                return condition
            if one is None and is_always_filled(other):
                return self._builder.after(slot.node).op("Not", condition)
        always = self._builder.constant(True, np.bool_)
        masks = [self.mask(branch) or always for branch in slot.slots]
        return self._if_output(slot.node, slot.k, masks, TensorProto.BOOL, ())

    def zeros(self) -> str:
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

    def count(self, node: Node, value: str) -> None:
        """Make the nodes that count a list on its way through the iteration, instead of a node."""
        self._count(value, self._builder.instead(node), node.outputs[0])

    def _count(self, value: str, nodes: Nodes, out: str = "") -> str:
        edits = self._edits.edits_of(value) or ()
        slots = [slot for at_front in (False, True) for slot in slots_of(edits, at_front)]
        sure = sum(is_always_filled(slot) for slot in slots)
        number = self._number_before(nodes)
        for mask in filter(None, map(self.mask, slots)):
            one = nodes.op("Cast", mask, to=TensorProto.INT64)
            number = nodes.op("Add", number, nodes.op("Reshape", one, nodes.constant([])))
        return nodes.op("Add", number, nodes.constant(sure), out=out)

    def _number_before(self, nodes: Nodes) -> str:
        """Return how many elements the state has, from the iteration's number where each adds as many."""
        each = [
            slot
            for at_front in (False, True)
            for slot in slots_of(self._edits.edits_of(self._edits.result) or (), at_front)
        ]
        if not all(map(is_always_filled, each)):
            return self._counter_state(each)
        number = nodes.op("Reshape", parts_of(self._loop).iteration, nodes.constant([]))
        if len(each) > 1:
            number = nodes.op("Mul", number, nodes.constant(len(each)))
        length = self._length_of_start()
        return nodes.op("Add", number, length) if length else number

    def _length_of_start(self) -> str:
        """Return how long the list is before the loop, "" where it is empty."""
        if self._start.count == 0:
            return ""
        if not self._length:
            self._length = self._start.length(self._builder.before(self._loop))
        return self._length

    def _counter_state(self, each: list[Slot]) -> str:
        if not self._counter:
            fresh = self._builder.fresh
            self._counter = fresh(f"{self._edits.state}/count")
            initial = self._length_of_start() or self._builder.constant(0)
            type_ = helper.make_tensor_type_proto(TensorProto.INT64, ())
            for slot in each:
                self.mask(slot)  # before what is made of it: both come after the same node
            after = self._count(self._edits.result, self._builder.after(self.last_node))
            add_state(self._loop, initial, self._counter, after, fresh(f"{self._counter}/last"), type_)
        return self._counter

    # The last ones, or the first ones where elements are put to the front

    def read(self, read: Read, is_read: bool) -> None:
        """Make the element that a read on the way gives, instead of its node.

        Where no more than its shape is read, a runtime must not know that beforehand: it would leave out the
        check.
        """
        nodes, out = self._builder.instead(read.node), read.node.outputs[0]
        at_front = read.position >= 0
        j = read.position + 1 if at_front else -read.position
        element = self._last(read.value, at_front, j)
        is_sure = self._is_there(read.value, at_front, j)
        if is_sure or is_read:
            nodes.declare(out, self._element_type, self._shape)
        if is_sure:
            nodes.op("Identity", element, out=out)
            return
        missing = nodes.op("Less", self._count(read.value, nodes), nodes.constant(j))
        zero = nodes.fail_if(missing)
        if is_read and self._element_type != TensorProto.STRING:
            nodes.op("Gather", nodes.unsqueeze(element, 0), zero, axis=0, out=out)
        else:
            nodes.checked(element, zero, out=out)

    def _is_there(self, value: str, at_front: bool, j: int) -> bool:
        """Return whether a list on its way has as many elements for sure."""
        slots = slots_of(self._edits.edits_of(value) or (), at_front)
        return (self._start.least or 0) + sum(map(is_always_filled, slots)) >= j

    def _last(self, value: str, at_front: bool, j: int) -> str:
        """Return element j from an end, counted from 1, of a list on its way through the iteration."""
        key = ("last", value, at_front, j)
        if key in self._made:
            return self._made[key]
        if value == self._edits.state:
            return self._last_state(at_front, j)
        node = self._prepared.producers[value][0]
        if node.is_op("If"):
            k = node.outputs.index(value)
            both = [self._last(node.graphs[branch].outputs[k], at_front, j) for branch in BRANCHES]
            if both[0] == both[1]:
                made = both[0]
            else:
                made = self._if_output(node, k, both, self._element_type, self._shape)
        elif node.is_op("SequenceInsert") and self._edits.puts_to(node, at_front):
            made = node.inputs[1] if j == 1 else self._last(node.inputs[0], at_front, j - 1)
        else:
            made = self._last(node.inputs[0], at_front, j)
        self._made[key] = made
        return made

    def _last_state(self, at_front: bool, j: int) -> str:
        """Return the state that carries the element: what the iteration before ended with."""
        key = at_front, j
        if key not in self._lasts:
            fresh = self._builder.fresh
            initial = self._start.element(self._builder.before(self._loop), at_front, j, self.zeros)
            if not slots_of(self._edits.edits_of(self._edits.result) or (), at_front):
                self._lasts[key] = initial  # in all iterations
                return initial
            name = self._lasts[key] = fresh(f"{self._edits.state}/{'first' if at_front else 'last'}_{j}")
            after = self.output(self._last(self._edits.result, at_front, j))
            type_ = helper.make_tensor_type_proto(self._element_type, self._shape)
            add_state(self._loop, initial, name, after, fresh(f"{name}/final"), type_)
        return self._lasts[key]

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
    parts: list[Any] = []
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


# What a list has before a loop puts more into it: nothing, named tensors, or a tensor of them all.


class Start:
    """A list as a loop starts with it.

    Attributes
    ----------
    shape : tuple of (int, str or None), or None
        Of all its elements; `NEVER` where there is none.
    element_type : int
    count : int or None
        How many there are, where that is known.
    least : int
        How many there are at least.
    """

    shape: Shape = NEVER
    element_type = 0
    count: int | None = 0
    least = 0

    def is_there(self) -> bool:
        """Return whether the tensors are made, now that it is settled which lists go."""
        return True

    def length(self, nodes: Nodes) -> str:
        raise NotImplementedError

    def element(self, nodes: Nodes, at_front: bool, j: int, zeros: Callable[[], str]) -> str:
        """Return element j from an end, counted from 1; zeros where it isn't there."""
        return zeros()

    def stacked(self, nodes: Nodes) -> str:
        """Return all as a tensor, "" for none."""
        return ""


class ListedStart(Start):
    """Tensors by their names."""

    def __init__(self, element_type: int, elements: list[str], shape: Shape) -> None:
        self._elements, self.element_type, self.shape = elements, element_type, shape
        self.count = self.least = len(elements)

    def length(self, nodes):
        return nodes.constant(self.count)

    def element(self, nodes, at_front, j, zeros):
        if j > self.count:
            return zeros()
        return self._elements[j - 1 if at_front else -j]

    def stacked(self, nodes):
        rows = [nodes.unsqueeze(name, 0) for name in self._elements]
        return nodes.op("Concat", *rows, axis=0) if len(rows) > 1 else rows[0] if rows else ""


class StackedStart(Start):
    """A tensor whose axis 0 runs over the elements."""

    def __init__(self, form: Representation, stack: Stack) -> None:
        self._form = form
        self.element_type = stack.element_type
        self.shape = None if stack.shape is None else tuple(stack.shape)
        self.count = form.count
        self.least = form.count or int(stack.is_filled)

    def is_there(self):
        return self._form.is_there()

    def length(self, nodes):
        return self._form.length(nodes, "")

    def element(self, nodes, at_front, j, zeros):
        tensor = self.stacked(nodes)
        start, end = ([j - 1], [j]) if at_front else ([-j], [AFTER_ALL])
        there = nodes.slice(tensor, nodes.constant(start), nodes.constant(end), 0)
        if self.least < j:
            # What isn't there is not read; but something has to be.
            spare = nodes.unsqueeze(zeros(), 0)
            parts = [there, spare] if at_front else [*[spare] * j, there]
            there = nodes.op("Concat", *parts, axis=0)
        return nodes.op("Gather", there, nodes.constant(0 if at_front else -j), axis=0)

    def stacked(self, nodes):
        return self._form.stacked(nodes)


def start_of(forms: Representations, loop: Node, name: str) -> Start:
    """Return what a loop starts a list with. Raise `Declined` where it can't be had as tensors."""
    where = f"the loop '{loop.name}'"
    producer = forms.prepared.producer(name)
    if producer is not None and producer.is_op("SequenceEmpty"):
        return Start()
    form = forms.found.get(name)
    if form is None:
        raise Declined(f"{where} doesn't start with an empty list")
    start: Start
    if (elements := form.elements_by_name()) is not None:
        start = ListedStart(form.element_type, *elements)
    else:
        try:
            start = StackedStart(form, form.as_stack())
        except Declined as why:
            raise Declined(f"{where} starts with '{name}', where {why}") from None
    if start.shape is None or None in start.shape:
        raise Declined(f"{where} starts with '{name}', whose elements may be of several shapes")
    return start
