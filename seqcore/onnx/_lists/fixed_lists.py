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

from typing import NamedTuple

from seqcore.onnx._model.graph import BRANCHES, Model, Node
from seqcore.onnx._model.loop_parts import add_state, keep_outputs, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import SEQUENCE, tensor, to_type_proto
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
        The types of this model.
    builder : Builder
        Of this model.
    kept : set of str
        The lists that stay, as loops and Ifs give them.
    """
    written: dict[str, Written] = {}
    writer = _Writer(prepared, builder)
    # Innermost first: what comes after a node in a body is made in the order in which it is read.
    for node in reversed(list(model.graph.all_nodes())):
        if not node.is_op("Loop", "If"):
            continue
        for name in [name for name in node.outputs if name and name not in kept]:
            kind, number, _, _, n = prepared.type(name)
            if kind == SEQUENCE and number and n and n <= _MOST:
                write = writer.write_state if node.is_op("Loop") else writer.write_branches
                written[name] = write(node, name, n)
                if writer.producers[name][1] is not model.graph:
                    written[name].operators.add(name)
    builder.apply()
    return written


class _Writer:
    """Writes the elements of lists as values of their own."""

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
