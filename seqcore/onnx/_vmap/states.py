"""The states of a loop whose iterations don't depend on each other: what each iteration finds in them.

the same for all    s, s, s, …                  s is passed on as it is
a counter           s, s + 2, s + 4, …          next = s + 2
a running sum       s, s + x(0), …              next = s + x(i)
one behind          s, f(0), f(1), …            next = f(i), which depends on no state that depends on it
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from onnx import TensorProto

from seqcore.onnx._lists.cuts import zeros
from seqcore.onnx._lists.trace import Trace
from seqcore.onnx._model.graph import Node, reads_of
from seqcore.onnx._model.loop_parts import keep_outputs, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import Shape, Type, tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._vmap.shapes import LoopShapes
from seqcore.onnx._vmap.tracer import Tracer, Value

_INTEGERS = (TensorProto.INT32, TensorProto.INT64)
_SUMMED = (*_INTEGERS, TensorProto.FLOAT, TensorProto.DOUBLE)


class States:
    """The states of a loop, in a body for many iterations."""

    def __init__(self, loop: Node, body: Tracer, shapes: LoopShapes) -> None:
        self._loop, self._body, self._shapes = loop, body, shapes
        self._parts = parts_of(loop)
        self._makers = {name: node for node in loop.body.nodes for name in node.outputs}
        # States that are sums: of floats → these, the one after the last too; of integers → what is added;
        # that count → what is added or taken.
        self._sums: dict[str, str] = {}
        self._rows: dict[str, str] = {}
        self._steps: dict[str, tuple[str, str]] = {}

    def _source(self, name: str) -> str:
        """Return what a value is a copy of."""
        while (node := self._makers.get(name)) is not None and node.is_op("Identity"):
            name = node.inputs[0]
        return name

    def _addend_of(self, state: str, after: str) -> str:
        """Return what is added to a state in each iteration, or taken from it, "" where it isn't that."""
        node, types = self._makers.get(self._source(after)), self._shapes.types
        if node is None or not node.is_op("Add", "Sub") or types[state].number not in _SUMMED:
            return ""
        left, right = map(self._source, node.inputs)
        if right == state and node.is_op("Add"):
            left, right = right, left
        is_fixed = left == state and self._shapes.is_fixed(state) and right in types
        return right if is_fixed and types[right].shape == types[state].shape else ""

    def follow(self, given: list[str]) -> None:
        """Write out the body's nodes, each as soon as what it reads is there.

        `given` are the states that the loop starts with.
        """
        body, parts = self._body, self._parts
        waiting = {}
        for k, state in enumerate(parts.states):
            if self._source(parts.next_states[k]) == state:
                body.values[state] = Value(given[k], False)
            else:
                waiting[state] = k
        inside = {*parts.states, *self._makers}
        todo = list(self._loop.body.nodes)
        while todo:
            ready, later = [], []
            for node in todo:
                is_ready = all(name not in inside or name in body.values for name in reads_of(node))
                if is_ready:
                    ready.append(node)
                    body.follow([node])
                else:
                    later.append(node)
            for state, k in list(waiting.items()):
                addend = self._addend_of(state, parts.next_states[k])
                if parts.next_states[k] in body.values:
                    body.values[state] = self._one_behind(state, parts.next_states[k], given[k])
                elif addend and (addend in body.values or addend not in inside):
                    is_taken = self._makers[self._source(parts.next_states[k])].is_op("Sub")
                    body.values[state] = self._summed(state, addend, given[k], is_taken)
                else:
                    continue
                del waiting[state]
                ready.append(self._loop)
            if not ready:
                names = [name for name in waiting if any(name in reads_of(node) for node in todo)] or [
                    *waiting
                ]
                raise Declined(f"carries '{names[0]}' from one iteration to the next")
            todo = later

    def _summed(self, state: str, addend: str, given: str, is_taken: bool) -> Value:
        body, nodes = self._body, self._body.nodes
        if not body.varies(addend) and self._shapes.types[state].number in _INTEGERS:
            self._steps[state] = addend, "Sub" if is_taken else "Add"
            times, rank = body.name(self._parts.iteration), body.rank(self._parts.iteration)
            times = nodes.squeeze(times, 1) if rank else times
            return Value(self._after(state, given, times), True)
        rows = nodes.op("Neg", body.rows(addend)) if is_taken else body.rows(addend)
        if self._shapes.types[state].number in _INTEGERS:
            self._rows[state] = rows
            before = nodes.op("CumSum", rows, nodes.constant(0), exclusive=1)
            is_none = body.prepared.integer(given) == 0 and not body.rank(state)
            return Value(before if is_none else nodes.op("Add", before, given), True)
        # Floats are added in the order of the loop.
        terms = nodes.op("Concat", nodes.unsqueeze(given, 0), rows, axis=0)
        self._sums[state] = nodes.op("CumSum", terms, nodes.constant(0))
        return Value(nodes.slice(self._sums[state], nodes.constant([0]), nodes.constant([-1]), 0), True)

    def _after(self, state: str, given: str, times: str) -> str:
        """Return a state that counts, after so many iterations: a vector of them."""
        body, nodes = self._body, self._body.nodes
        (addend, op_type), type_ = self._steps[state], self._shapes.types[state]
        if type_.rank:
            times = nodes.unsqueeze(times, *range(1, 1 + type_.rank))
        if type_.number != TensorProto.INT64:
            times = nodes.op("Cast", times, to=type_.number)
        if body.prepared.integer(addend) != 1:
            times = nodes.op("Mul", times, body.name(addend))
        if op_type == "Add" and not type_.rank and body.prepared.integer(given) == 0:
            return times
        return nodes.op(op_type, given, times)

    def _one_behind(self, state: str, after: str, given: str) -> Value:
        body, nodes, shapes = self._body, self._body.nodes, self._shapes
        if not shapes.is_fixed(state) or shapes.types[state].shape != shapes.types[after].shape:
            raise Declined(f"carries '{state}', which may change its shape")
        all_ = nodes.op("Concat", nodes.unsqueeze(given, 0), body.rows(after), axis=0)
        body.fails_empty()
        return Value(nodes.slice(all_, nodes.constant([0]), nodes.constant([-1]), 0), True)

    def final(self, given: list[str]) -> list[str]:
        """Return the states after these iterations."""
        body, nodes = self._body, self._body.nodes
        results = []
        for state, start, after in zip(self._parts.states, given, self._parts.next_states, strict=True):
            if state in body.values and not body.varies(state):
                results.append(start)
                continue
            if state in self._rows:
                results.append(nodes.op("Add", start, nodes.sum(self._rows[state])))
                continue
            if state in self._steps:
                results.append(nodes.squeeze(self._after(state, start, body.count), 0))
                continue
            rows = self._sums.get(state) or body.rows(after)
            results.append(nodes.op("Gather", rows, nodes.constant(-1), axis=0))
        return results


# Lists that a loop appends to, where its iterations go all at once: what they become.
#
#     elements of one shape       a scan output: rows                  list = SplitToSequence (rows)
#     elements of any length      items one behind the other: flat     list = SplitToSequence (flat, lengths)
#
# So the list is pieces of a tensor, which passes know how to go on with.


class AppendedList(NamedTuple):
    """A state of a loop that is a list and only appended to.

    Attributes
    ----------
    k : int
        Which state it is.
    element : str
        The element that the body appends.
    insert : Node
        The node that does.
    """

    k: int
    element: str
    insert: Node


def appended_lists(loop: Node, prepared: Prepared) -> list[AppendedList]:
    """Return the lists among a loop's states.

    Raises
    ------
    Declined
        If more is done to one of them.
    """
    parts = parts_of(loop)
    found = []
    for k, state in enumerate(parts.states):
        if prepared.is_tensor(state):
            continue
        why = f"carries the list '{state}' from one iteration to the next"
        start, insert = prepared.producer(parts.initial[k]), prepared.producer(parts.next_states[k])
        if start is None or insert is None:
            raise Declined(why)
        if not (start.is_op("SequenceEmpty") and insert.is_op("SequenceInsert")):
            raise Declined(why)
        try:
            trace = Trace(prepared, loop, k, 0)
        except Declined as does:
            raise Declined(f"{why}: it {does}") from None
        is_plain = insert.inputs[0] == state and trace.ends[trace.result].back == (insert.inputs[1],)
        if not is_plain or trace.reads or trace.lengths:
            raise Declined(why)
        found.append(AppendedList(k, insert.inputs[1], insert))
    return found


def with_scans(loop: Node, lists: list[AppendedList], prepared: Prepared, builder: Builder) -> Node:
    """Return a loop that gives the elements of lists as scan outputs, behind its own, and has no such lists.

    Its other states and scan outputs are as they were, and the nodes of its body.
    """
    made = Node.copy(loop)
    body = made.body
    gone = {one.insert.name for one in lists}
    body.nodes = [node for node in body.nodes if node.name not in gone]
    own, dropped = list(made.outputs), {one.k for one in lists}
    keep_outputs(made, [k for k in range(len(body.outputs) - 1) if k not in dropped])
    elements = Nodes(builder, loop, body.nodes)
    taken = set(body.outputs)
    makers = {name for node in body.nodes for name in node.outputs}
    for one in lists:
        name = one.element
        if prepared.element_number(name) == TensorProto.STRING:
            name = elements.copied(name)
        elif name in taken or name not in makers:
            name = elements.op("Identity", name)
        taken.add(name)
        body.outputs.append(name)
        made.outputs.append(builder.fresh(f"{own[one.k]}/rows"))
    return made


def flat_of(nodes: Nodes, rows: str, mask: str, shape: Shape, axis: int = 0) -> str:
    """Return the items of padded rows one behind the other, along an axis of the elements' shape.

    Of the rows, that is the axis behind the first; it is as long as the longest.
    """
    assert shape is not None
    rank = len(shape)
    rest = [length for k, length in enumerate(shape) if k != axis]
    if axis:
        order = [0, axis + 1, *(k + 1 for k in range(rank) if k != axis)]
        rows = nodes.op("Transpose", rows, perm=order)
    items = nodes.merge_first_axes(rows, rest)
    flat = nodes.op("Compress", items, nodes.op("Reshape", mask, nodes.constant([-1])), axis=0)
    return (
        nodes.op("Transpose", flat, perm=[*range(1, axis + 1), 0, *range(axis + 1, rank)]) if axis else flat
    )


def _without_rows(nodes: Nodes, type_: Type, axis: int, prepared: Prepared) -> str:
    """Return an element of a type whose length along an axis is 0."""
    lengths = [0 if k == axis else length for k, length in enumerate(type_.shape or ())]
    fed = [None if isinstance(length, int) else prepared.fed_axis(length) for length in lengths]
    dtype = dtype_of(type_.number)
    if dtype is None or not all(isinstance(length, int) or fed[k] for k, length in enumerate(lengths)):
        raise Declined("gives elements of several lengths and unknown shapes")
    if not any(fed):
        return nodes.constant(np.zeros(lengths), dtype)
    parts = [nodes.unsqueeze(nodes.length(*one), 0) if one else [lengths[k]] for k, one in enumerate(fed)]
    return zeros(nodes, type_.number, nodes.join_axes(*parts))


def flat_in_loop(
    nodes: Nodes, loop: Node, state: int, one: AppendedList, type_: Type, axis: int, prepared: Prepared
) -> tuple[str, str]:
    """Have a loop with a list give its items one behind the other along an axis, and their lengths.

    The list starts with an element of length 0, so that there is something to join without an iteration.
    """
    builder, body = nodes.builder, loop.body
    before, at_end = Nodes(builder, loop), Nodes(builder, loop)
    loop.inputs[2 + state] = before.op("SequenceConstruct", _without_rows(before, type_, axis, prepared))
    length = at_end.length(one.element, axis)
    body.nodes += at_end.nodes
    body.outputs.append(length)
    body.declared[length] = to_type_proto(tensor(7, ()), with_shape=True)
    lengths = builder.fresh(f"{loop.name}/lengths")
    loop.outputs.append(lengths)
    nodes.nodes[:0] = before.nodes
    flat = nodes.op("ConcatFromSequence", loop.outputs[state], axis=axis)
    return flat, lengths
