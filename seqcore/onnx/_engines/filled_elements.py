"""A check that no element of a sequence is empty: onnxruntime's joins pass such elements by.

It stands where elements are put in, except for those that are known not to be empty: a Range whose step is
the number of items fails where that is 0.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._rewrite.emit import Builder, Nodes


def why_not_filled(name: str, prepared: Prepared) -> str:
    """Return why no check can tell whether elements of a sequence are empty, "" where one can."""
    graph = prepared.model.graph
    owners = owners_of(graph)
    for one in _makers(name, prepared):
        node = prepared.producer(one)
        if node is None:
            return f"joins elements of '{one}', whose shapes may not fit"
        if not node.is_op("SequenceConstruct", "SequenceInsert", "SequenceEmpty"):
            return f"joins elements that {node.label()} makes, whose shapes may not fit"
        inner = prepared.producers[one][1]
        while inner is not graph:
            owner = owners[id(inner)]
            if not owner.is_op("Loop", "If"):
                return f"joins elements that are made within {owner.label()}, whose shapes may not fit"
            inner = prepared.producers[owner.outputs[0]][1]
    return ""


def _makers(name: str, prepared: Prepared) -> Iterator[str]:
    """Yield the sequences that elements of a sequence come from: they are fed, or a node puts them in."""
    for one in prepared.ancestors(name):
        node = prepared.producer(one)
        if one not in prepared.origins or (node is not None and node.is_op("SequenceInsert")):
            yield one


# Their results have all numbers of the first input, and no others.
_KEEPS_ITEMS = ("Cast", "Flatten", "Reshape", "Squeeze", "Transpose", "Unsqueeze")


def known_filled(names: Iterable[str], prepared: Prepared) -> set[str]:
    """Return which values are known not to be empty, of some and those that they depend on.

    Of a sequence that is said if none of its elements is empty. A state of a loop is filled if it begins so
    and stays so: at first all values are believed to be filled, then none whose inputs aren't.
    """
    rules: dict[str, tuple[Callable[[Iterable[bool]], bool], list[str]]] = {}
    todo = list(names)
    while todo:
        name = todo.pop()
        if name not in rules:
            rules[name] = _filled_by(name, prepared)
            todo += rules[name][1]
    filled = set(rules)
    while wrong := {
        name
        for name in filled
        for combine, inputs in [rules[name]]
        if not combine(one in filled for one in inputs)
    }:
        filled -= wrong
    return filled


def _filled_by(name: str, prepared: Prepared) -> tuple[Callable[[Iterable[bool]], bool], list[str]]:
    """Return the values that make one filled, and whether all of them have to be, or any."""
    shape, node = prepared.shape(name), prepared.producer(name)
    if shape is not None and all(isinstance(length, int) and length != 0 for length in shape):
        return all, []  # also of a sequence that never has an element
    if node is not None and node.is_op("SequenceInsert"):
        return all, node.inputs[:2]
    if name in prepared.origins:
        return all, prepared.origins[name]
    if node is None:
        return any, []
    if node.is_op("SequenceConstruct") or record_of(node).broadcasts:
        return all, list(node.inputs)
    if node.is_op("ConcatFromSequence", "SequenceAt", *_KEEPS_ITEMS) or record_of(node).elementwise:
        return all, node.inputs[:1]
    return any, list(node.inputs) if node.is_op("Concat") else []


class FilledElements:
    """The checks of one model.

    Parameters
    ----------
    model : Model
        Changed in place.
    at_the_end_of : callable
        Returns `Nodes` at the end of a graph.
    """

    def __init__(self, model: Model, at_the_end_of: Callable[[Graph], Nodes]) -> None:
        self._model, self._at_the_end_of = model, at_the_end_of
        self._wanted: dict[tuple[str, Node], None] = {}
        self._producers = {name: node for node in model.graph.all_nodes() for name in node.outputs}

    def want(self, name: str, prepared: Prepared) -> None:
        """Have the elements of a sequence checked."""
        put_in = [
            (one, node)
            for node in (self._producers[made] for made in _makers(name, prepared))
            if not node.is_op("SequenceEmpty")
            for one in (node.inputs if node.is_op("SequenceConstruct") else node.inputs[1:2])
        ]
        filled = known_filled([one for one, _ in put_in], prepared)
        self._wanted |= {(one, node): None for one, node in put_in if one not in filled}

    def checks(self) -> Iterator[tuple[Graph, str]]:
        """Put the checks in, and yield each of them with the graph that it stands in. Nobody reads them."""
        graphs = {id(node): graph for graph in self._model.graph.all_graphs() for node in graph.nodes}
        done = set()
        for name, node in self._wanted:
            graph = graphs[id(node)]
            if (name, id(graph)) not in done:
                done.add((name, id(graph)))
                nodes = self._at_the_end_of(graph)
                size = nodes.op("Size", name)
                yield graph, nodes.op("Range", nodes.constant(0), nodes.constant(1), size)


# Checks that nobody reads, kept: each goes out of all graphs around it, so that no optimizer drops it.
#
# body of a Loop    another scan output
# branch of an If   another output; the other branch gives a constant
# the model         another output, which no run asks for


def owners_of(graph: Graph) -> dict[int, Node]:
    """Return by the `id` of each graph inside a graph the node that it belongs to."""
    return {id(inner): node for node in graph.all_nodes() for inner in node.graphs.values()}


def keep_checks(
    model: Model,
    checks: Iterable[tuple[Graph, str]],
    builder: Builder,
    at_the_end_of: Callable[[Graph], Nodes],
) -> None:
    """Lead checks out of a model.

    Parameters
    ----------
    model : Model
        Changed in place.
    checks : iterable of (Graph, str)
        The graph and the name of each. They are integers, and fail by themselves.
    builder : Builder
        Of this model.
    at_the_end_of : callable
        Returns `Nodes` at the end of a graph.
    """
    graphs: dict[int, Graph] = {}
    owners: dict[int, Node] = {}
    for graph, check in checks:
        if not owners and graph is not model.graph:
            graphs = {id(node): one for one in model.graph.all_graphs() for node in one.nodes}
            owners = owners_of(model.graph)
        while graph is not model.graph:
            owner = owners[id(graph)]
            out = builder.fresh(f"{check}/out")
            for inner in owner.graphs.values():
                nothing = "" if inner is graph else at_the_end_of(inner).op("Identity", builder.constant([0]))
                inner.outputs.append(nothing or check)
            owner.outputs.append(out)
            graph, check = graphs[id(owner)], out
        graph.outputs.append(check)
