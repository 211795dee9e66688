"""Few iterations one by one: where all at once take some preparation, and the loop stays for many numbers.

    lengths, sums, …                                   If (n > 3) {lengths, sums, …
    If (fits) {all at once} else {loop}     ──▶            If (fits) {all at once} else {loop}}
                                                       else {loop}

How many are few, the numbers of nodes say.
"""

from __future__ import annotations

from collections.abc import Mapping, Set

from seqcore.onnx._model.graph import Graph, Node, reads_of, rename
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._thresholds import LEAST_PREPARED, LOOP_TAKES, MOST_AROUND, MOST_NOT_PADDED, MOST_ONE_BY_ONE

_MORE = "more"  # the name of the branch for more iterations


def keep_few_iterations(prepared: Prepared, names: Set[str]) -> None:
    """Have loops with few iterations run as they were, wherever that takes fewer nodes than the choice.

    The model is changed in place. `names` are those of the loops that stay beside all iterations at once:
    the branches of another If don't do the same.
    """
    builder = Builder(prepared.model)
    for graph in list(prepared.model.graph.all_graphs()):
        for node in graph.nodes[:]:
            if node.is_op("If") and (loop := _loop_of(node, prepared)) and loop.name in names:
                _keep(graph, node, loop, prepared, builder)


def few_of(choice: Node, prepared: Prepared) -> int | None:
    """Return up to how many iterations go one by one by an If that was made here, None for another If."""
    compares = prepared.producer(choice.inputs[0])
    if choice.graphs["then_branch"].name != _MORE or compares is None or not compares.is_op("Greater"):
        return None
    return prepared.integer(compares.inputs[1])


def _loop_of(choice: Node, prepared: Prepared) -> Node | None:
    """Return the loop that stays where all iterations at once are too much, None for another If."""
    otherwise = choice.graphs["else_branch"]
    loops = [node for node in otherwise.nodes if node.is_op("Loop")]
    if len(loops) != 1:
        return None
    trips = parts_of(loops[0]).trips
    is_decided_here = trips in otherwise.free_names() and prepared.integer(trips) is None
    return loops[0] if is_decided_here else None


def _keep(graph: Graph, choice: Node, loop: Node, prepared: Prepared, builder: Builder) -> None:
    otherwise = choice.graphs["else_branch"]
    prepares = _only_for(graph, choice, prepared)
    at_once = choice.graphs["then_branch"]
    each = _size(loop.body, prepared)
    nmore, naround = len(prepares) + _size(at_once, prepared), _size(otherwise, prepared) - each
    most = min(MOST_ONE_BY_ONE, (nmore - naround - LOOP_TAKES) // max(each, 1))
    if any(node.is_op("Loop") for node in at_once.nodes):
        most = MOST_NOT_PADDED  # it pads rows, whose iterations have two nodes more
    if len(prepares) < LEAST_PREPARED or naround > MOST_AROUND or most < 1:
        return
    nodes = Nodes(builder, loop)
    trips = parts_of(loop).trips
    count = _unchecked(trips, prepared)
    is_more = nodes.op("Greater", count, nodes.constant(most))
    outs = [builder.fresh(name) for name in choice.outputs]
    inner = choice.copy()
    inner.outputs = outs
    inner.name = builder.fresh_node_name(choice.name)
    gone = set(prepares)
    # More than these are more than none.
    made = {name for node in graph.nodes for name in node.outputs} - {count}
    checked = {name: count for name in made if _unchecked(name, prepared) == count}
    more = Graph(_MORE, [], outs, [*(node for node in prepares if node.outputs[0] not in checked), inner])
    rename(more.nodes, checked)
    for name in [name for node in prepares for name in node.outputs if name in graph.declared]:
        more.declared[name] = graph.declared.pop(name)
    few_nodes = nodes.apart()
    names = dict.fromkeys((trips, *checked), _one_to(most, count, few_nodes)) if checked else {}
    few = copied(otherwise, names, builder, "few")
    few.nodes[:0] = few_nodes.nodes
    for branch in (more, few):
        for name, own in zip(branch.outputs, otherwise.outputs, strict=True):
            branch.declared[name] = otherwise.declared[own]
    nodes.ops("If", [is_more], choice.outputs, then_branch=more, else_branch=few)
    at = graph.nodes.index(choice)
    graph.nodes[at : at + 1] = nodes.nodes
    graph.nodes = [node for node in graph.nodes if node not in gone]


def _one_to(most: int, count: str, nodes: Nodes) -> str:
    """Return a count of at most so many iterations unchanged; the model fails if there is none."""
    # Looked up from the back, where 0 is out of range.
    at = nodes.op("Sub", count, nodes.constant(most + 1))
    return nodes.op("Gather", nodes.constant(range(1, most + 1)), at, axis=0)


def _unchecked(name: str, prepared: Prepared) -> str:
    """Return the count that one is made of by `Nodes.at_least_one`, of another value its own name."""
    squeeze = prepared.producer(name)
    add = prepared.producer(squeeze.inputs[0]) if squeeze is not None and squeeze.is_op("Squeeze") else None
    check = prepared.producer(add.inputs[1]) if add is not None and add.is_op("Add") else None
    if add is None or check is None or not check.is_op("Range") or check.inputs[2] != add.inputs[0]:
        return name
    return add.inputs[0]


def _only_for(graph: Graph, choice: Node, prepared: Prepared) -> list[Node]:
    """Return the nodes of a graph that are there for a choice and its first branch alone, in order.

    Without those that fail instead of the loop: see `_checks`.
    """
    at = graph.nodes.index(choice)
    needed = {*graph.outputs, *choice.graphs["else_branch"].free_names()}
    for node in graph.nodes[at + 1 :]:
        needed.update(reads_of(node))
    found = []
    for node in reversed(graph.nodes[:at]):
        if needed.isdisjoint(node.outputs) and not _checks(node, prepared):
            found.append(node)
        else:
            needed.update(reads_of(node))
    return found[::-1]


def _checks(node: Node, prepared: Prepared) -> bool:
    """Return whether a node is there to fail, as those of `Nodes` that say so."""
    if node.is_op("Range"):
        return prepared.constant(node.inputs[2]) is None
    if node.is_op("CumSum"):
        return prepared.constant(node.inputs[1]) is None
    if not node.is_op("Gather"):
        return False
    maker, table = prepared.producer(node.inputs[0]), prepared.constant(node.inputs[0])
    is_of_shape = maker is not None and maker.is_op("Shape")
    if prepared.constant(node.inputs[1]) is not None:
        return prepared.type(node.inputs[0]).rank == 1 and not is_of_shape
    return is_of_shape or (table is not None and len(table) == 1)


def _size(graph: Graph, prepared: Prepared) -> int:
    """Return how many nodes a runtime can't do without."""
    nodes = (node for node in graph.all_nodes() if not node.is_op("Identity", "Constant"))
    return sum(any(prepared.constant(name) is None for name in node.inputs) for node in nodes)


def copied(graph: Graph, names: Mapping[str, str], builder: Builder, word: str) -> Graph:
    """Return a copy of a graph inside a model, whose values have names of their own, others those given."""
    own = [
        name
        for one in graph.all_graphs()
        for name in (*one.inputs, *one.defaults, *(name for node in one.nodes for name in node.outputs))
    ]
    names = {name: builder.fresh(f"{name}/{word}") for name in own if name} | dict(names)
    made = graph.copy()
    rename(made.nodes, names)
    made.outputs = [names.get(name, name) for name in made.outputs]
    for node in made.all_nodes():
        node.name = builder.fresh_node_name(f"{node.name}/{word}")
    return made
