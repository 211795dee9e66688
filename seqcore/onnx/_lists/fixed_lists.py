"""Lists of a few elements that keep their number: in a loop and behind an If, each element goes on its own.

    l = Loop (n, c, start) <t = erase (s, 0); u = insert (t, e)>
    ──▶
    a, b = Loop (n, c, SequenceAt (start, 0), SequenceAt (start, 1)) <s = SequenceConstruct (p, q); …
        SequenceAt (u, 0), SequenceAt (u, 1)>
    l = SequenceConstruct (a, b)

The other rules then make of these operators what they make of any known list: nothing is left of them, or the
list goes on as it was.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from seqcore.onnx._lists.representations import Representations
from seqcore.onnx._model.graph import BRANCHES, Graph, Model, Node
from seqcore.onnx._model.loop_parts import add_state, keep_outputs, parts_of
from seqcore.onnx._model.positions import position_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes

# So many elements are as many values that go around.
_MOST = 16


class Written(NamedTuple):
    """A list whose elements go on as tensors.

    Attributes
    ----------
    operators : set of str
        The outputs of the sequence operators that came in its place. They are all gone after lowering, or the
        list would better have stayed. Behind loops and branches a list may be made of its elements once.
    elements : set of str
        The names of the tensors.
    """

    operators: set[str]
    elements: set[str]


def write_out_lists(model: Model, prepared: Prepared, builder: Builder, kept: set[str]) -> dict[str, Written]:
    """Let the elements of lists that keep their number go through loops and branches as tensors.

    Parameters
    ----------
    model : Model
    prepared : Prepared
        What is known of this model.
    builder : Builder
        Of this model.
    kept : set of str
        The lists that stay, as loops and Ifs give them.
    """
    written: dict[str, Written] = {}
    if not any(
        node.is_op("Loop", "If") and any(map(prepared.is_sequence, node.outputs))
        for node in model.graph.all_nodes()
    ):
        return written
    counts = _Counts(Representations(prepared), kept)
    writer = _Writer(prepared, builder)
    counts.follow(model.graph)
    # Innermost first: what comes after a node in a body is made in the order in which it is read.
    for node in reversed(list(model.graph.all_nodes())):
        if node.is_op("Loop", "If"):
            for name in list(node.outputs):
                n = counts.known.get(name)
                if n and n <= _MOST and prepared.is_sequence(name) and prepared.element_number(name):
                    write = writer.write_state if node.is_op("Loop") else writer.write_branches
                    written[name] = write(node, name, n)
                    if writer.producers[name][1] is not model.graph:
                        written[name].operators.add(name)
    builder.apply()
    return written


class _Counts:
    """How many elements lists have, where that is one number in all runs.

    Attributes
    ----------
    known : dict of str to int
    """

    def __init__(self, forms: Representations, kept: set[str]) -> None:
        self._forms, self._prepared, self._kept = forms, forms.prepared, kept
        self.known: dict[str, int] = {}

    def follow(self, graph: Graph) -> None:
        for node in graph.nodes:
            for name, n in zip(node.outputs, self._counts_of(node), strict=False):
                if n is None or name in self._kept:
                    self.known.pop(name, None)
                else:
                    self.known[name] = n

    def _counts_of(self, node: Node) -> Iterable[int | None]:
        if node.is_op("SequenceInsert", "SequenceErase"):
            return [self._edited(node, node.is_op("SequenceInsert"))]
        if node.is_op("Identity"):
            return [self.known.get(node.inputs[0])]
        if node.is_op("If"):
            for branch in node.graphs.values():
                self.follow(branch)
            both = ([self.known.get(name) for name in node.graphs[key].outputs] for key in BRANCHES)
            return [one if one == other else None for one, other in zip(*both, strict=True)]
        if node.is_op("Loop"):
            return self._around(node)
        for inner in node.graphs.values():
            self.follow(inner)
        forms = (self._forms.found.get(name) for name in node.outputs)
        return [None if form is None else form.count for form in forms]

    def _edited(self, node: Node, inserts: bool) -> int | None:
        n = self.known.get(node.inputs[0])
        if n is None:
            return None
        if given := node.input(1 + inserts):
            position = position_of(self._prepared, given).value
            if position is None or not -n <= position < n + inserts:
                return None
        return n + 1 if inserts else n - 1 if n else None

    def _around(self, loop: Node) -> list[int | None]:
        """Follow a body until the states have as many elements after an iteration as before."""
        parts = parts_of(loop)
        states = [
            None if name in self._kept else self.known.get(initial)
            for initial, name in zip(parts.initial, parts.final, strict=True)
        ]
        while True:
            for name, n in zip(parts.states, states, strict=True):
                self.known.pop(name, None)
                if n is not None:
                    self.known[name] = n
            self.follow(loop.body)
            after = [self.known.get(name) for name in parts.next_states]
            same = [n if n == m else None for n, m in zip(states, after, strict=True)]
            if same == states:
                return states
            states = same


class _Writer:
    """What is known of a model before it is changed, and the nodes that come into it."""

    def __init__(self, prepared: Prepared, builder: Builder) -> None:
        self._prepared, self._builder = prepared, builder
        self.producers, self._readers = prepared.producers, prepared.readers

    def write_state(self, loop: Node, name: str, n: int) -> Written:
        parts, body, builder = parts_of(loop), loop.body, self._builder
        k = loop.outputs.index(name)
        state = parts.states[k]
        before, after = builder.before(loop), builder.after(loop)
        at_end, result = self._end(parts.next_states[k])
        number, shape = self._prepared.element_number(name), self._prepared.shape(name)
        type_ = to_type_proto(tensor(number, shape), with_shape=True)
        written = Written(set(), set())
        states, final = ([builder.fresh(f"{one}/{j}") for j in range(n)] for one in (state, name))
        for j in range(n):
            initial, element = _pick(before, parts.initial[k], j), _pick(at_end, result, j)
            add_state(loop, initial, states[j], element, final[j], type_)
            written.operators.update((initial, element))
        keep_outputs(loop, [j for j in range(len(body.outputs) - 1) if j != k])
        # In front of all that reads the state, wherever that is.
        inside = Nodes(builder, loop)
        inside.op("SequenceConstruct", *states, out=state)
        body.nodes[:0] = inside.nodes
        after.op("SequenceConstruct", *final, out=name)
        written.operators.add(state)
        written.elements.update(states, final)
        return written

    def write_branches(self, node: Node, name: str, n: int) -> Written:
        k = node.outputs.index(name)
        given = [self._builder.fresh(f"{name}/{j}") for j in range(n)]
        written = Written(set(), set(given))
        type_ = to_type_proto(tensor(self._prepared.element_number(name)))
        for key in BRANCHES:
            branch = node.graphs[key]
            nodes, result = self._end(branch.outputs.pop(k))
            picked = [_pick(nodes, result, j) for j in range(n)]
            branch.declared |= dict.fromkeys(picked, type_)
            branch.outputs += picked
            written.operators.update(picked)
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
