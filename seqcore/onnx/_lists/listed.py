"""Lists whose elements are known before the run: constructed, and edited at constant positions."""

from __future__ import annotations

import functools
import math

from onnx import TensorProto

from seqcore.onnx._lists.representations import Representation, Representations, Stack
from seqcore.onnx._model.graph import BRANCHES, Model, Node
from seqcore.onnx._model.loop_parts import add_state, keep_outputs, parts_of
from seqcore.onnx._model.positions import position_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.types import SEQUENCE, Length, Shape, tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._thresholds import MOST_CARRIED, MOST_STACKED


class Listed(Representation):
    """Tensors by their names.

    Attributes
    ----------
    elements : list of str
        A list that is only edited hands them on to the next, so that n edits cost O(n).
    """

    phrase = "becomes its elements"

    def __init__(self, forms: Representations, node: Node, elements: list[str]) -> None:
        self._forms, self._node, self.elements = forms, node, elements
        self.count = len(elements)
        self.element_type = forms.prepared.element_number(elements[0]) if elements else 0
        self._stack: Stack | None = None
        self._needs_stack = False

    def hand_on(self, reader: Node) -> list[str]:
        """Return the elements for a reader to edit: a copy, where there is another reader."""
        readers = self._forms.prepared.readers[self._node.outputs[0]]
        if len(readers) == 1 and readers[0][0] is reader:
            elements, self.elements = self.elements, []
            return elements
        return list(self.elements)

    def serves_edit(self, node):
        return node.outputs[0] in self._forms.found

    @functools.cached_property
    def _shapes(self) -> list[Shape]:
        return [self._forms.prepared.shape(name) for name in self.elements]

    def plan(self, name, prepared, read):
        self._needs_stack = any(
            node is not None
            and node.is_op("SequenceAt")
            and position_of(prepared, node.inputs[1]).value is None
            for node, _ in prepared.readers[name]
        )

    def prepare(self, builder, prepared):
        """Stack the elements where they are picked at positions that only a run knows."""
        if self._needs_stack:
            nodes = builder.after(self._node)
            rows = [nodes.unsqueeze(name, 0) for name in self.elements]
            self._stack = Stack(nodes.op("Concat", *rows, axis=0), self.element_type, self._shapes[0])

    def why_not_at(self, node, position, prepared):
        if position.value is None:
            if not self.elements:
                return "there is none"
            shape = self._shapes[0]
            if self.element_type == TensorProto.UNDEFINED or shape is None or None in shape:
                return "where is known only at run time, and their shapes aren't known"
            if any(other != shape for other in self._shapes):
                return "where is known only at run time, and their shapes differ"
            if self._is_stacked_often(prepared, shape):
                return "where is known only at run time, and each iteration would copy them all"
        return ""

    def _is_stacked_often(self, prepared: Prepared, shape: tuple[Length, ...]) -> bool:
        """Return whether each iteration of a loop makes a stack of them that costs more than it saves."""
        is_inside = prepared.producers[self._node.outputs[0]][1] is not prepared.model.graph
        numbers = [n for n in shape if isinstance(n, int)]
        is_small = len(numbers) == len(shape) and math.prod(numbers) * len(self.elements) <= MOST_STACKED
        return is_inside and not is_small

    def why_not_join(self, axis, stacks, prepared):
        ranks = {None if shape is None else len(shape) for shape in self._shapes}
        if len(ranks) > 1 or None in ranks:
            # Where one is empty and of another rank, onnxruntime's Concat may end the process.
            return "their ranks aren't known" if None in ranks else "their ranks differ"
        rank = ranks.pop() + stacks
        if not -rank <= axis < rank:
            return f"axis {axis} is out of range"
        for k in self._kept_axes(axis, stacks):
            if len({n for n in self._lengths(k) if isinstance(n, int)}) > 1:
                return f"their lengths on axis {k} differ"
        return ""

    def _lengths(self, k: int) -> list[Length]:
        return [None if shape is None else shape[k] for shape in self._shapes]

    def _kept_axes(self, axis: int, stacks: bool) -> list[int]:
        """The axes on which elements that are joined have to have one length."""
        rank = len(self._shapes[0] or ())
        return [k for k in range(rank) if stacks or k != axis % rank]

    def why_not_shape_of_join(self):
        # A runtime that infers the shape leaves out the Concat, and the error where the elements don't fit.
        if all(shape is not None and all(isinstance(n, int) for n in shape) for shape in self._shapes):
            return ""
        return "no more than the shape of that is read, and their shapes aren't known"

    def at(self, nodes, position, out):
        if position.value is None and self._stack is not None:
            return self._stack.at(nodes, position, out)
        return nodes.op("Identity", self.elements[position.value], out=out)

    def length(self, nodes, out):
        return nodes.op("Identity", nodes.constant(self.count), out=out)

    def join(self, nodes, axis, stacks, out):
        parts = list(self.elements)
        kept = self._kept_axes(axis, stacks)
        doubtful = [k for k in kept if len(found := {*self._lengths(k)}) > 1 or None in found]
        if doubtful and len(parts) > 1:
            # onnxruntime's Concat passes by empty tensors, of whatever lengths.
            places = nodes.constant(doubtful)
            lengths = [nodes.op("Gather", nodes.op("Shape", name), places, axis=0) for name in parts]
            same = [nodes.op("Equal", lengths[0], other) for other in lengths[1:]]
            differing = nodes.op("Not", nodes.op("Concat", *same, axis=0))
            count = nodes.op("ReduceSum", nodes.op("Cast", differing, to=TensorProto.INT64), keepdims=0)
            zero = nodes.require_zero(count)
            parts[0] = nodes.checked(parts[0], zero)
        if stacks:
            parts = [nodes.unsqueeze(name, axis) for name in parts]
        nodes.op("Concat", *parts, axis=axis, out=out)


def edited(forms: Representations, node: Node, inserts: bool) -> Listed | None:
    """Return a known list after an edit, None for another. Raise `Declined` where it isn't known then."""
    source = forms.found.get(node.inputs[0])
    if not isinstance(source, Listed):
        return None
    n = source.count or 0
    position = n - (not inserts)
    if given := node.input(1 + inserts):
        fixed = position_of(forms.prepared, given).value
        if fixed is None:
            raise Declined(f"where '{node.name}' edits is known only at run time")
        position = fixed
    if not -n <= position < n + inserts:
        raise Declined(f"position {position} at '{node.name}' is out of range for {n} elements")
    elements = source.hand_on(node)
    if inserts:
        elements.insert(position + n if position < 0 else position, node.inputs[1])
    else:
        del elements[position]
    return Listed(forms, node, elements)


# Lists of a few elements that keep their number: in a loop and behind an If, each element goes on its own.
#
#     l = Loop (n, c, start) <t = erase (s, 0); u = insert (t, e)>
#     ──▶
#     a, b = Loop (n, c, SequenceAt (start, 0), SequenceAt (start, 1)) <s = SequenceConstruct (p, q); …
#         SequenceAt (u, 0), SequenceAt (u, 1)>
#     l = SequenceConstruct (a, b)
#
# The rules for known lists then make of these operators what they make of any: nothing is left of them, or
# the list goes on as it was.


def write_out_lists(
    model: Model, prepared: Prepared, builder: Builder, kept: set[str]
) -> dict[str, set[str]]:
    """Let the elements of lists that keep their number go through loops and branches as tensors.

    Parameters
    ----------
    model : Model
    prepared : Prepared
        The types of this model.
    builder : Builder
        Of this model.
    kept : set of str
        The lists that stay, as loops and Ifs give them.

    Returns
    -------
    dict of str to set of str
        The lists → the outputs of the sequence operators that came in their place. They are all gone after
        lowering, or the list would better have stayed. Behind loops and branches a list may be made of its
        elements once.
    """
    written: dict[str, set[str]] = {}
    writer = _Writer(prepared, builder)
    # Innermost first: what comes after a node in a body is made in the order in which it is read.
    for node in reversed(list(model.graph.all_nodes())):
        if not node.is_op("Loop", "If"):
            continue
        for name in [name for name in node.outputs if name and name not in kept]:
            kind, number, _, _, n = prepared.type(name)
            if kind == SEQUENCE and number and n and n <= MOST_CARRIED:
                write = writer.write_state if node.is_op("Loop") else writer.write_branches
                written[name] = write(node, name, n)
                if writer.producers[name][1] is not model.graph:
                    written[name].add(name)
    builder.apply()
    return written


class _Writer:
    """Writes the elements of lists as values of their own."""

    def __init__(self, prepared: Prepared, builder: Builder) -> None:
        self._prepared, self._builder = prepared, builder
        self.producers, self._readers = prepared.producers, prepared.readers

    def write_state(self, loop: Node, name: str, n: int) -> set[str]:
        parts, body, builder = parts_of(loop), loop.body, self._builder
        k = loop.outputs.index(name)
        state = parts.states[k]
        before, after = builder.before(loop), builder.after(loop)
        at_end, result = self._end(parts.next_states[k])
        number, shape = self._prepared.element_number(name), self._prepared.shape(name)
        type_ = to_type_proto(tensor(number, shape), with_shape=True)
        written: set[str] = set()
        states, final = ([builder.fresh(f"{one}/{j}") for j in range(n)] for one in (state, name))
        for j in range(n):
            initial, element = _pick(before, parts.initial[k], j), _pick(at_end, result, j)
            add_state(loop, initial, states[j], element, final[j], type_)
            written.update((initial, element))
        keep_outputs(loop, [j for j in range(len(body.outputs) - 1) if j != k])
        # In front of all that reads the state, wherever that is.
        inside = Nodes(builder, loop)
        inside.op("SequenceConstruct", *states, out=state)
        body.nodes[:0] = inside.nodes
        after.op("SequenceConstruct", *final, out=name)
        return written | {state}

    def write_branches(self, node: Node, name: str, n: int) -> set[str]:
        k = node.outputs.index(name)
        given = [self._builder.fresh(f"{name}/{j}") for j in range(n)]
        written: set[str] = set()
        type_ = to_type_proto(tensor(self._prepared.element_number(name)))
        for key in BRANCHES:
            branch = node.graphs[key]
            nodes, result = self._end(branch.outputs.pop(k))
            picked = [_pick(nodes, result, j) for j in range(n)]
            branch.declared |= dict.fromkeys(picked, type_)
            branch.outputs += picked
            written.update(picked)
        node.outputs.pop(k)
        node.outputs += given
        self._builder.after(node).op("SequenceConstruct", *given, out=name)
        return written

    def _end(self, result: str) -> tuple[Nodes, str]:
        """Return where the elements of a graph's list are picked, and from which list.

        An Identity that only stood there for the graph to have a node of its own is of no use any more.
        """
        node, graph = self.producers[result]
        nodes = self._builder.after(node)
        if node.is_op("Identity") and self._readers[result] == [(None, graph)]:
            self._builder.instead(node)
            result = node.inputs[0]
        return nodes, result


def _pick(nodes: Nodes, sequence: str, position: int) -> str:
    return nodes.op("SequenceAt", sequence, nodes.constant(position))
