"""Operators that other runtimes are known to refuse, or to compute differently."""

from __future__ import annotations

from collections.abc import Iterator

from onnx import ModelProto

from seqcore.onnx._model.load import all_graphs

# A target → operators → the runtimes that refuse them, or what they do, as `benchmarks.runtimes` finds it.
_REFUSED: dict[str | None, dict[str, str]] = {
    "portable": {
        "Loop": "tract 0.23, IREE 3.13, onnx2torch 1.5, tinygrad 0.14 and TVM 0.27 refuse Loop",
        "If": "onnx2torch 1.5 refuses If, and tract 0.23 refuses it if its branches have different shapes",
        "GridSample": "IREE 3.13, onnx2torch 1.5 and tinygrad 0.14 refuse GridSample",
        "NonMaxSuppression": "tinygrad 0.14 refuses NonMaxSuppression, and tract 0.23 its scalar inputs",
        "NonZero": "onnx2torch 1.5 returns the result of NonZero transposed",
        "ReduceProd": "IREE 3.13 refuses ReduceProd",
        "ScatterND": "tinygrad 0.14 writes the result of ScatterND into its input",
        "TopK": "onnx2torch 1.5 returns equal numbers of TopK in any order",
    },
    "openvino": {
        "Loop": "OpenVINO 2026.4 may refuse a run of a Loop, or return other numbers, if several states grow",
        "NonMaxSuppression": "OpenVINO 2026.4 also drops a box that overlaps by just the threshold",
    },
}


def refusals_of(model: ModelProto, target: str | None) -> Iterator[str]:
    """Yield a line for each operator of a lowered model that runtimes of its target are known to refuse."""
    operators = {node.op_type for graph in all_graphs(model) for node in graph.node}
    for operator, text in _REFUSED.get(target, {}).items():
        if operator in operators:
            yield f"known: {text}"
