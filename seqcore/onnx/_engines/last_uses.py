"""Who may take a sequence: at its last use a value is moved and edited in place, before that it is copied.

A copy shares its buffer until one of the two is edited, so a copy costs as much as the first edit after it. A
list that a loop appends to has its last use at the append, also where that stands in the branch of an If: no
iteration copies it.
"""

from __future__ import annotations

from seqcore.onnx._engines.schedule import Schedule
from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.record import record_of

Takes = set[tuple[Node | Graph | None, str]]


def find_takes(schedule: Schedule) -> Takes:
    """Return the pairs (reader, name) where the reader may take the value.

    A reader is a node, or a graph whose output it is. For an output that is named several times, it is the
    last that may take.
    """
    takes: Takes = set()
    _find(schedule, set(schedule.graph.inputs), takes)
    return takes


def _find(schedule: Schedule, movable: set[str], takes: Takes) -> None:
    """Add the takes of a graph: of what it makes itself, and of the `movable` names."""
    last = {name: i for i, entry in enumerate(schedule.entries) for name in entry.reads}
    outputs = set(schedule.graph.outputs)
    made = {name for entry in schedule.entries for node in entry.nodes for name in node.outputs}
    movable = movable | made
    takes.update((schedule.graph, name) for name in outputs & movable)
    for i, entry in enumerate(schedule.entries):
        if not entry.own:
            continue
        (node,) = entry.nodes
        free = {name for name in entry.reads if name in movable and name not in outputs and last[name] == i}
        deeper = {name for inner in entry.inner.values() for name in inner.graph.free_names()}
        # A node that reads a value twice would find it gone the second time.
        takes.update((node, name) for name in free - deeper if node.inputs.count(name) == 1)
        for inner in entry.inner.values():
            if record_of(node).takes_twice(node):
                # What a body takes from outside it needs again for its next run.
                _find(inner, set(inner.graph.inputs), takes)
            else:
                _find(inner, free - set(node.inputs), takes)
