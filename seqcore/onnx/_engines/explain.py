"""What of a model runs where, and why not elsewhere, as text."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Schedule
from seqcore.onnx._model.graph import Node


def lines_of(schedule: Schedule, planner: Planner, indent: str) -> Iterator[str]:
    """Yield a line for each entry of a schedule, in order."""
    if not schedule.entries:
        yield f"{indent}nothing to run"
    for entry in schedule.entries:
        if not entry.own:
            who = "numpy      " if entry.nodes[0] in planner.by_numpy else "onnxruntime"
            yield f"{indent}{who}  {_counted(entry.nodes)}"
            continue
        (node,) = entry.nodes
        yield f"{indent}seqcore      {node.label()}{_remark(node, planner)}"
        for name, inner in entry.inner.items():
            if len(entry.inner) > 1:
                yield f"{indent}    {name}"
            yield from lines_of(inner, planner, indent + "    " * (1 + (len(entry.inner) > 1)))


def _counted(nodes: list[Node]) -> str:
    """Return `Gather x2, Mul`: operators in the order in which they first come."""
    counts = Counter(node.op_type for node in nodes)
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts.items())


def _remark(node: Node, planner: Planner) -> str:
    edited = node.input(0)
    if node.is_op("SequenceInsert", "SequenceErase"):
        taken = (node, edited) in planner.takes
        return ", in place" if taken else f": on a copy, since '{edited}' is needed again"
    batches = planner.loops.get(node)
    if batches is None:
        return ""
    if batches.why_not:
        return f", step by step: {batches.why_not}"
    if batches.appended and not batches.carried:
        return ", in batches in onnxruntime: its sequences are only appended to"
    if batches.carried:
        return ", in batches in onnxruntime while its sequences are short"
    return ", in onnxruntime where it has iterations enough"
