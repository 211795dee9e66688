"""Who may take a sequence: at its last use a value is moved and edited in place, before that it is copied.

A copy shares its buffer until one of the two is edited, so a copy costs as much as the first edit after it. A
list that a loop appends to has its last use at the append, also where that stands in the branch of an If: no
iteration copies it.
"""

from seqcore.onnx._models.graphs import free_names


def find_takes(schedule):
    """Return the pairs (reader, name) where the reader may take the value.

    A reader is the `id` of a node, or of a graph whose output it is. For an output that is named several
    times, it is the last that may take.
    """
    takes = set()
    _find(schedule, {value.name for value in schedule.graph.input}, takes)
    return takes


def _find(schedule, movable, takes):
    """Add the takes of a graph: of what it makes itself, and of the `movable` names."""
    last = {name: i for i, entry in enumerate(schedule.entries) for name in entry.reads}
    outputs = {value.name for value in schedule.graph.output}
    made = {name for entry in schedule.entries for node in entry.nodes for name in node.output}
    movable = movable | made
    takes.update((id(schedule.graph), name) for name in outputs & movable)
    for i, entry in enumerate(schedule.entries):
        if not entry.own:
            continue
        (node,) = entry.nodes
        free = {name for name in entry.reads & movable - outputs if last[name] == i}
        deeper = {name for inner in entry.inner for name in free_names(inner.graph)}
        # A node that reads a value twice would find it gone the second time.
        takes.update((id(node), name) for name in free - deeper if list(node.input).count(name) == 1)
        for inner in entry.inner:
            if node.op_type == "If":
                _find(inner, free - set(node.input), takes)
            else:
                # What a body takes from outside it needs again for its next run.
                _find(inner, {value.name for value in inner.graph.input}, takes)
