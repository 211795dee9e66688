"""What graphs inside a model declare of types, put right: files may say of shapes what no run checks."""

from __future__ import annotations

from onnx import TypeProto

from seqcore.onnx._model.graph import Graph, Model
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import Shape, Type, from_type_proto, to_type_proto
from seqcore.onnx._model.writing import forget_shape


def declare_types(model: Model, prepared: Prepared) -> None:
    """Declare in a normal model what is known of its graphs' inputs and outputs, and no shapes on the way.

    onnxruntime infers less: it plans memory and picks kernels by the shapes of a loop's states, say, where
    the body declares them. What a file says of scan outputs stays where nothing is known, since that counts
    where there is no trip.

    Parameters
    ----------
    model : Model
        The one that was prepared, or a copy.
    prepared : Prepared
    """
    _forget_shapes(model.graph, keeps={*model.graph.inputs, *model.graph.outputs})
    for node in model.graph.all_nodes():
        for graph in node.graphs.values():
            scans = set(parts_of(node).scans) if node.is_op("Loop") else set()
            _forget_shapes(graph, keeps=scans)
            for name in (*graph.inputs, *graph.outputs):
                type_ = prepared.type(name)
                if not type_.number:
                    continue
                if name in scans and type_.is_tensor:
                    type_ = type_._replace(shape=told_shape(type_, graph.declared.get(name)))
                # The bodies of maps are functions to onnxruntime: nothing is gained there.
                graph.declared[name] = to_type_proto(type_, with_shape=not node.is_op("SequenceMap"))


def told_shape(type_: Type, declared: TypeProto | None) -> Shape:
    """Return what is known of a tensor's shape, else what the file declares of it."""
    known = type_.shape
    told = None if declared is None else from_type_proto(declared).shape
    if known is None or told is None or len(known) != len(told):
        return told if known is None else known
    return tuple(a if isinstance(a, int) else b for a, b in zip(known, told, strict=True))


def _forget_shapes(graph: Graph, keeps: set[str]) -> None:
    for name, kind in graph.declared.items():
        if name not in keeps:
            shapeless = TypeProto()
            shapeless.CopyFrom(kind)
            forget_shape(shapeless)
            graph.declared[name] = shapeless
