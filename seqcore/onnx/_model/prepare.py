"""Check a message, bring it into normal form and infer its types."""

from __future__ import annotations

from onnx import ModelProto, TypeProto

from seqcore.onnx._model.checks import (
    ONNX_DIVIDES,
    check_inputs,
    check_kinds,
    check_message,
    check_signatures,
    check_splits,
    type_fault,
)
from seqcore.onnx._model.equal_nodes import drop_equal_nodes
from seqcore.onnx._model.graph import STANDARD, Graph, Model
from seqcore.onnx._model.load import operators_of
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.normal_form import from_proto, inline_functions, make_dense, normalize
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_named
from seqcore.onnx._model.repair import name_outputs
from seqcore.onnx._model.types import OPTIONAL, SEQUENCE, Shape, Type, from_type_proto, to_type_proto
from seqcore.onnx._model.weights import Weights
from seqcore.onnx._model.writing import forget_shape, to_message


def prepare(weightless: ModelProto, weights: Weights, believes_elements: bool = False) -> Prepared:
    """Check a message and bring it into normal form; return what is known of it.

    Parameters
    ----------
    weightless : ModelProto
        A message without its weights, which is changed.
    weights : Weights
        These: see `without_weights`.
    believes_elements : bool, optional
        As `Prepared` has it.

    Raises
    ------
    ValueError
        If the model is invalid, by onnx's checker, its type inference or our own checks.
    """
    name_outputs(weightless)
    check_message(weightless)
    check_inputs(weightless, weights.stubs)
    make_dense(weightless)
    if weightless.functions:
        weightless = inline_functions(weightless)
        # Only now are there operators for an input that a call leaves out, or an output that nothing makes.
        check_message(weightless)
    model = from_proto(weightless, weights)
    check_signatures(model.graph.all_nodes())
    may_be_faulty = ONNX_DIVIDES or type_fault(weightless)
    normalize(model, weights)
    check_splits(model)
    # onnx reports outputs that a loop leaves out; a normal model has all, and its weights in their places.
    if may_be_faulty and (fault := type_fault(to_message(model, weights_are_inputs=True))):
        raise ValueError(f"the model is not valid: {fault}")
    drop_equal_nodes(model, Prepared(model, weights).small_constant)
    prepared = Prepared(model, weights, believes_elements)
    check_kinds(prepared)
    declare_types(model, prepared)
    return prepared


def message_has_lists(message: ModelProto) -> bool:
    """Return whether a message has to do with sequences of tensors, or with optionals."""
    for domain, op_type in operators_of(message):
        if domain in STANDARD and record_named(op_type).is_of_lists:
            return True
    kinds = (from_type_proto(one.type).kind for one in (*message.graph.input, *message.graph.output))
    return any(kind in (SEQUENCE, OPTIONAL) for kind in kinds)


# The declared types of graphs inside a model, corrected: no run checks the shapes that files declare.


def declare_types(model: Model, prepared: Prepared) -> None:
    """Declare in a normal model what is known of its graphs' inputs and outputs, and no shapes on the way.

    onnxruntime infers less: it plans memory and picks kernels by the shapes of a loop's states, say, where
    the body declares them. The declared shapes of scan outputs stay if no others are known, since they matter
    for a loop without iterations, and all that a Scan's body gives.

    Parameters
    ----------
    model : Model
        The one that was prepared, or a copy.
    prepared : Prepared
    """
    _forget_shapes(model.graph, keeps={*model.graph.inputs, *model.graph.outputs})
    for node in model.graph.all_nodes():
        for graph in node.graphs.values():
            scans = set(parts_of(node).scans if node.is_op("Loop") else ())
            if node.is_op("Scan"):
                scans = {*graph.outputs}  # onnxruntime wants a shape of each
            _forget_shapes(graph, keeps=scans)
            for name in (*graph.inputs, *graph.outputs):
                type_ = prepared.type(name)
                if not type_.number:
                    continue
                if name in scans and type_.is_tensor:
                    type_ = type_._replace(shape=declared_shape(type_, graph.declared.get(name)))
                # The bodies of maps are functions to onnxruntime: nothing is gained there.
                graph.declared[name] = to_type_proto(type_, with_shape=not node.is_op("SequenceMap"))


def declared_shape(type_: Type, declared: TypeProto | None) -> Shape:
    """Return what is known of a tensor's shape, else what the file declares of it."""
    known = type_.shape
    fixed = None if declared is None else from_type_proto(declared).shape
    if known is None or fixed is None or len(known) != len(fixed):
        return fixed if known is None else known
    return tuple(a if isinstance(a, int) else b for a, b in zip(known, fixed, strict=True))


def _forget_shapes(graph: Graph, keeps: set[str]) -> None:
    for name, kind in graph.declared.items():
        if name not in keeps:
            shapeless = TypeProto()
            shapeless.CopyFrom(kind)
            forget_shape(shapeless)
            graph.declared[name] = shapeless
