"""Which values may lie in the memory of a model's feeds."""

from __future__ import annotations

from collections import defaultdict

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of


def feed_holders(prepared: Prepared, own: set[Node]) -> set[str]:
    """Return the names of the values that may hold memory of the feeds.

    Parameters
    ----------
    prepared : Prepared
    own : set of Node
        Those that don't run in onnxruntime, where results have memory of their own.
    """
    targets = defaultdict(list)
    for node in own:
        for source, target in record_of(node).shares(node):
            targets[source].append(target)
    holding = set(prepared.model.graph.inputs)
    todo = list(holding)
    while todo:
        fresh = [name for name in targets[todo.pop()] if name not in holding]
        holding.update(fresh)
        todo += fresh
    return holding
