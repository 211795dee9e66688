"""What an iteration of a loop costs in onnxruntime and as steps of ours, estimated from its body.

All in µs, measured with onnxruntime 1.31 on small tensors; only their proportions matter.
"""

from typing import NamedTuple

# What onnxruntime's copies cost: an element at an Insert or Erase, and at an Identity, which copies the data
# as well; and what an element costs that goes into a session or out of it, and a byte of it.
EDIT, COPY, CROSS, BYTE = 0.01, 0.25, 0.5, 5e-5
# What a step of ours costs beyond the work itself: a part with its session's run, one that NumPy runs, and an
# own node.
_PART, _SMALL, _OWN = 5.0, 1.0, 0.7
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


def costs_of(schedule, planner):
    """Return the `Costs` of a schedule, None where onnxruntime would be slow, or lack something.

    Of branches the dearest counts; of loops inside, which are guarded against many trips, a few trips.
    """
    total = [0.0, 0, 0, 0]
    for entry in schedule.entries:
        more = _of_entry(entry, planner)
        if more is None:
            return None
        total = [a + b for a, b in zip(total, more, strict=True)]
    return Costs(*total)


def _of_entry(entry, planner):
    if not entry.own:
        return Costs(_SMALL if id(entry.nodes[0]) in planner.small else _PART)
    (node,) = entry.nodes
    if node.op_type == "SequenceMap" or node.op_type.startswith("Optional"):
        return None
    if node.op_type == "SequenceInsert":
        return Costs(_OWN, edits=1, grows=1)
    if node.op_type == "SequenceErase":
        return Costs(_OWN, edits=1, grows=-1)
    if not entry.inner:
        return Costs(_OWN, copies=int(node.op_type == "Identity"))
    graphs = [costs_of(inner, planner) for inner in entry.inner]
    if any(graph is None for graph in graphs):
        return None
    times = 1 if node.op_type == "If" else _TRIPS_INSIDE
    saved, edits, copies, grows = (max(values) for values in zip(*graphs, strict=True))
    return Costs(_OWN + times * saved, times * edits, times * copies, times * grows)
