"""Operators that other runtimes are known to refuse, or to compute differently."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import ModelProto

from seqcore.onnx._model.load import all_graphs

# A target → operators → the runtimes that refuse them, or what they do, as `benchmarks.runtimes` finds it.
_REFUSED: dict[str | None, dict[str, str]] = {
    "portable": {
        "Loop": "tract 0.23, IREE 3.13, onnx2torch 1.5, tinygrad 0.14 and TVM 0.27 have no Loop",
    },
}


def refusals_of(model: ModelProto, target: str | None) -> Iterator[str]:
    """Yield a line for each operator of a lowered model that runtimes of its target are known to refuse."""
    operators = {node.op_type for graph in all_graphs(model) for node in graph.node}
    for operator, text in _REFUSED.get(target, {}).items():
        if operator in operators:
            yield f"known: {text}"
