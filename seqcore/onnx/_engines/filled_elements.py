"""A check that no element of a sequence is empty: onnxruntime's joins pass such elements by.

It stands where elements are put in. A Range whose step is the number of items fails where that is 0. What it
makes is read by nobody, so it goes out of all graphs around it, that no optimizer drops it:

    body of a Loop    another scan output
    branch of an If   another output; the other branch gives a constant
    the model         another output, which no run asks for
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from seqcore.onnx._model.graph import Graph, Model, Node, fresh_name
from seqcore.onnx._operators.loop_parts import parts_of

if TYPE_CHECKING:
    from seqcore.onnx._model.prepared import Prepared


def why_not_filled(name: str, prepared: Prepared) -> str:
    """Return why no check can tell whether elements of a sequence are empty, "" where one can."""
    graph = prepared.model.graph
    owners = _owners_of(graph)
    for node in _makers(name, prepared.producers, _states_of(graph)):
        if isinstance(node, str):
            return f"joins elements of '{node}', whose shapes may not fit"
        if not node.is_op("SequenceConstruct", "SequenceInsert", "SequenceEmpty"):
            return f"joins elements that {node.label()} makes, whose shapes may not fit"
        inner = prepared.producers[node.outputs[0]][1]
        while inner is not graph:
            owner = owners[id(inner)]
            if not owner.is_op("Loop", "If"):
                return f"joins elements that are made within {owner.label()}, whose shapes may not fit"
            inner = prepared.producers[owner.outputs[0]][1]
    return ""


def _owners_of(graph: Graph) -> dict[int, Node]:
    """Return by the `id` of each graph inside a graph the node that it belongs to."""
    return {id(inner): node for node in graph.all_nodes() for inner in node.graphs.values()}


def _states_of(graph: Graph) -> dict[str, tuple[Node, int]]:
    return {
        name: (node, k)
        for node in graph.all_nodes()
        if node.is_op("Loop")
        for k, name in enumerate(parts_of(node).states)
    }


def _makers(name, producers, states):
    """Yield the nodes where elements come from, and the names of sequences that nobody makes."""
    seen, todo = set(), [name]
    while todo:
        name = todo.pop()
        if name in seen:
            continue
        seen.add(name)
        node, _ = producers.get(name, (None, None))
        if name in states:
            loop, k = states[name]
            todo += [parts_of(loop).initial[k], parts_of(loop).next_states[k]]
        elif node is None:
            yield name
        elif node.is_op("Loop"):
            # The last state is the first one, or what an iteration gives.
            todo.append(parts_of(node).states[node.outputs.index(name)])
        elif node.is_op("If"):
            todo += [graph.outputs[node.outputs.index(name)] for graph in node.graphs.values()]
        elif node.is_op("Identity", "SequenceErase"):
            todo.append(node.inputs[0])
        else:
            yield node
            if node.is_op("SequenceInsert"):
                todo.append(node.inputs[0])


class FilledElements:
    """The checks of one model.

    Parameters
    ----------
    model : Model
        Changed in place.
    put : callable
        Takes a graph, an operator and its inputs, adds the node at the graph's end, returns its output.
    """

    def __init__(self, model: Model, put: Callable[..., str]) -> None:
        self._model, self._put = model, put
        self._wanted: dict[Node, None] = {}
        self._done: set[str] = set()
        self._taken = model.names()
        self._producers = {
            name: (node, graph)
            for graph in model.graph.all_graphs()
            for node in graph.nodes
            for name in node.outputs
        }
        self._states = _states_of(model.graph)

    def want(self, name: str, prepared: Prepared) -> None:
        """Have the elements of a sequence checked."""
        for node in _makers(name, self._producers, self._states):
            if isinstance(node, Node) and not node.is_op("SequenceEmpty"):
                self._wanted[node] = None

    def finish(self) -> None:
        """Put the checks in."""
        graphs = {id(node): graph for graph in self._model.graph.all_graphs() for node in graph.nodes}
        owners = _owners_of(self._model.graph)
        for node in self._wanted:
            tensors = node.inputs if node.is_op("SequenceConstruct") else node.inputs[1:2]
            for name in tensors:
                if name not in self._done:
                    self._done.add(name)
                    self._check(name, graphs[id(node)], graphs, owners)

    def _check(self, name: str, graph: Graph, graphs: dict[int, Graph], owners: dict[int, Node]) -> None:
        size = self._put(graph, "Size", name)
        check = self._put(graph, "Range", np.int64(0), np.int64(1), size)
        while graph is not self._model.graph:
            owner = owners[id(graph)]
            out = fresh_name(f"{check}/out", self._taken)
            for inner in owner.graphs.values():
                inner.outputs.append(check if inner is graph else self._put(inner, "Identity", _NOTHING))
            owner.outputs.append(out)
            graph, check = graphs[id(owner)], out
        graph.outputs.append(check)


_NOTHING = np.zeros(1, np.int64)
