"""Checks that nobody reads, kept: each goes out of all graphs around it, so that no optimizer drops it.

body of a Loop    another scan output
branch of an If   another output; the other branch gives a constant
the model         another output, which no run asks for
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from seqcore.onnx._model.graph import Graph, Model, Node, fresh_name

_NOTHING = np.zeros(1, np.int64)


def owners_of(graph: Graph) -> dict[int, Node]:
    """Return by the `id` of each graph inside a graph the node that it belongs to."""
    return {id(inner): node for node in graph.all_nodes() for inner in node.graphs.values()}


def keep_checks(
    model: Model, checks: Iterable[tuple[Graph, str]], taken: set[str], put: Callable[..., str]
) -> None:
    """Lead checks out of a model.

    Parameters
    ----------
    model : Model
        Changed in place.
    checks : iterable of (Graph, str)
        Where each stands, and its name. They are integers, and fail by themselves.
    taken : set of str
        The names that are taken.
    put : callable
        Takes a graph, an operator and its inputs, adds the node at the graph's end, returns its output.
    """
    graphs: dict[int, Graph] = {}
    owners: dict[int, Node] = {}
    for graph, check in checks:
        if not owners and graph is not model.graph:
            graphs = {id(node): one for one in model.graph.all_graphs() for node in one.nodes}
            owners = owners_of(model.graph)
        while graph is not model.graph:
            owner = owners[id(graph)]
            out = fresh_name(f"{check}/out", taken)
            for inner in owner.graphs.values():
                inner.outputs.append(check if inner is graph else put(inner, "Identity", _NOTHING))
            owner.outputs.append(out)
            graph, check = graphs[id(owner)], out
        graph.outputs.append(check)
