"""What nobody reads but for its number or shape: where making it may be an error, it is made all the same.

l = SequenceInsert (rows, bad)    n = Add (Shape (l), what is 0 once l is made)
n = SequenceLength (l)      ──▶

A runtime that knows the shape of l would leave out `bad`, and its error. See also `Listed`.
"""

from __future__ import annotations

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of


def is_only_counted(name: str, prepared: Prepared, read: set[str]) -> bool:
    """Return whether only the number of a list's elements is read, the making of which may be an error.

    `read` has the names of what is read, other than for its shape.
    """
    readers = prepared.readers[name]
    if not any(node is not None and node.is_op("SequenceLength") for node, _ in readers):
        return False
    place = prepared.producers[name][1] if name in prepared.producers else None
    for node, graph in readers:
        is_data = node is not None and node.is_op("SequenceAt", "ConcatFromSequence")
        if node is not None and is_data and graph is place and node.outputs[0] in read:
            return False
    return _makes_errors(name, prepared)


def why_errors_are_lost(loop: Node, prepared: Prepared, read: set[str]) -> str:
    """Return of which output a loop had better stay one, "" for none: only its shape is read.

    A runtime runs a loop, but leaves out an operator of which it knows the shape.
    """
    for name, inner in zip(loop.outputs, loop.body.outputs[1:], strict=False):
        if name and name not in read and prepared.readers[name] and may_fail(prepared, inner):
            return f"makes '{name}', of which only the shape is read, and may fail"
    return ""


def may_fail(prepared: Prepared, name: str) -> bool:
    """Return whether making a value can be an error: of a position, a join or a split, not of its shapes."""
    seen: set[Node] = set()
    todo = [name]
    while todo:
        node = prepared.producer(todo.pop())
        if node is None or node in seen:
            continue  # an input, a constant, or what a graph is given: there already
        seen.add(node)
        if not record_of(node).never_fails:
            return True
        todo += filter(None, node.inputs)
    return False


def _makes_errors(name: str, prepared: Prepared) -> bool:
    """Return whether making a list's elements may be an error."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        name = todo.pop()
        node = prepared.producer(name)
        if node is None or name in seen:
            continue
        seen.add(name)
        if any(map(_has_errors, node.graphs.values())):
            return True
        for source in filter(None, node.inputs):
            if prepared.is_sequence(source):
                todo.append(source)
            elif may_fail(prepared, source):
                return True
    return False


def _has_errors(graph: Graph) -> bool:
    return any(_is_unsure(node) for node in graph.all_nodes())


def _is_unsure(node: Node) -> bool:
    return not (record_of(node).never_fails or node.is_op("SequenceInsert", "If"))
