"""What graphs inside a model declare of types, put right: files may say of shapes what no run checks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onnx import TypeProto

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.types import Shape, Type, from_type_proto, to_type_proto
from seqcore.onnx._model.writing import forget_shape
from seqcore.onnx._operators.loop_parts import parts_of

if TYPE_CHECKING:
    from seqcore.onnx._model.prepared import Prepared


def declare_types(prepared: Prepared) -> None:
    """Declare in a normal model what is known of its graphs' inputs and outputs, and no shapes on the way.

    The shapes of states may change from trip to trip, and onnxruntime would put constants for what is
    computed from them. What a body says of its iteration's number and the condition stays, since that settles
    whether they have an axis. And what is declared of scan outputs, since that counts where there is no trip.
    """
    _forget_shapes(prepared.model.graph, keeps=prepared.model.graph.inputs + prepared.model.graph.outputs)
    for node in prepared.model.graph.all_nodes():
        for graph in node.graphs.values():
            shaped = _shaped_names(node, graph, prepared)
            _forget_shapes(graph, keeps=shaped)
            for name in (*graph.inputs, *graph.outputs):
                type_ = prepared.type(name)
                if not type_.number:
                    continue
                if name in shaped:
                    type_ = type_._replace(shape=told_shape(type_, graph.declared.get(name)))
                    graph.declared[name] = to_type_proto(type_, with_shape=True)
                else:
                    graph.declared[name] = to_type_proto(type_)


def _shaped_names(node: Node, graph: Graph, prepared: Prepared) -> list[str]:
    if not node.is_op("Loop"):
        return []
    parts = parts_of(node)
    return [parts.iteration, parts.going_in, *(name for name in parts.scans if prepared.is_tensor(name))]


def told_shape(type_: Type, declared: TypeProto | None) -> Shape:
    """Return what is known of a tensor's shape, else what the file declares of it."""
    known = type_.shape
    told = None if declared is None else from_type_proto(declared).shape
    if known is None or told is None or len(known) != len(told):
        return told if known is None else known
    return tuple(a if isinstance(a, int) else b for a, b in zip(known, told, strict=True))


def _forget_shapes(graph: Graph, keeps: list[str]) -> None:
    for name, kind in graph.declared.items():
        if name not in keeps:
            shapeless = TypeProto()
            shapeless.CopyFrom(kind)
            forget_shape(shapeless)
            graph.declared[name] = shapeless
