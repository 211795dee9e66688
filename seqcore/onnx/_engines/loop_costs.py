"""What an iteration of a loop costs in onnxruntime and as steps of ours, estimated from its body.

All in µs, measured with onnxruntime 1.31 on small tensors; only their proportions matter.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry, Schedule
from seqcore.onnx._model.record import record_of

# What onnxruntime's copies cost: an element at an Insert or Erase, and at an Identity, which copies the data
# as well; and what an element costs that goes into a session or out of it, and a byte of it.
EDIT, COPY, CROSS, BYTE = 0.01, 0.25, 0.5, 5e-5
# What a part costs beyond the work itself, with its session's run, and one that NumPy runs.
PART, _SMALL = 5.0, 1.0
# The trips of a loop inside the loop that are counted on.
_TRIPS_INSIDE = 4


class Costs(NamedTuple):
    """What one iteration saves in onnxruntime, and what it does to sequences there.

    Attributes
    ----------
    saved : float
        What its steps would cost beyond the operators themselves.
    edits, copies : int
        How often it inserts or erases, and how often it copies a sequence with its data.
    grows : int
        By how many elements the sequences grow at most.
    """

    saved: float = 0.0
    edits: int = 0
    copies: int = 0
    grows: int = 0

    def price(self, length, nbytes):
        """Return what the copies cost for sequences of some total length and size."""
        return self.edits * EDIT * length + self.copies * (COPY * length + BYTE * nbytes)


def costs_of(schedule: Schedule, planner: Planner) -> Costs | str:
    """Return the `Costs` of a schedule, or why onnxruntime would be slow, or lack something.

    Of branches the dearest counts; of loops inside, which are guarded against many trips, a few trips.
    """
    total = Costs()
    for entry in schedule.entries:
        more = _of_entry(entry, planner)
        if isinstance(more, str):
            return more
        sums: list[Any] = [a + b for a, b in zip(total, more, strict=True)]
        total = Costs(*sums)
    return total


def _of_entry(entry: Entry, planner: Planner) -> Costs | str:
    if not entry.own:
        return Costs(_SMALL if entry.nodes[0] in planner.by_numpy else PART)
    (node,) = entry.nodes
    record = record_of(node)
    if not record.is_cheap_in_runs:
        return f"{node.label()} would be slow there"
    saved, edits, copies, grows = record.cost(node)
    graphs = [costs_of(inner, planner) for inner in entry.inner.values()]
    for graph in graphs:
        if isinstance(graph, str):
            return graph
    if not graphs:
        return Costs(saved, edits, copies, grows)
    times = _TRIPS_INSIDE if record.takes_twice(node) else 1
    dearest: list[Any] = [max(values) for values in zip(*graphs, strict=True)]
    return Costs(saved + times * dearest[0], *(times * value for value in dearest[1:]))
