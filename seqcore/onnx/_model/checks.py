"""Check that a model is valid, with onnx's checker and beyond it."""

import re
from collections.abc import Iterable
from functools import cache

import onnx
from onnx import ModelProto, TensorProto

from seqcore.onnx._model.graph import STANDARD, Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.repair import forget_negative_lengths, repair
from seqcore.onnx._model.tensors import from_tensor_proto, one_line

# How types begin in the ONNX specification → what protobuf calls them.
_KINDS = {
    "tensor": "tensor_type",
    "seq": "sequence_type",
    "optional": "optional_type",
    "map": "map_type",
    "sparse_tensor": "sparse_tensor_type",
}


def check_message(model: ModelProto, label: str = "the model") -> None:
    """Raise ValueError where onnx's checker rejects a message, or doesn't know its versions.

    What onnxruntime takes all the same is repaired in place: see `repair`.
    """
    forget_negative_lengths(model)
    for one in model.opset_import:
        known = known_opset(one.domain)
        if known and one.version > known:
            raise ValueError(
                f"{label} asks for opset {one.version} of '{one.domain or 'ai.onnx'}': "
                f"onnx {onnx.__version__} knows them up to {known}"
            )
    complaint = f"{label} is not valid" if label == "the model" else f"{label} is not a valid graph"
    if _complaint_of(model):
        repair(model, known_opset(""))
        if fault := _complaint_of(model):
            raise ValueError(f"{complaint}: {fault}")


def _complaint_of(model: ModelProto) -> str:
    """Return what onnx's checker finds in a message, "" if nothing."""
    checked = model
    if not all(_has_type_and_shape(value.type) for value in (*model.graph.input, *model.graph.output)):
        # The checker wants a type and a shape for each, but makes no use of them.
        checked = ModelProto()
        checked.CopyFrom(model)
        for value in (*checked.graph.input, *checked.graph.output):
            if value.type.WhichOneof("value") in ("tensor_type", None):
                kind = value.type.tensor_type
                kind.elem_type = kind.elem_type or TensorProto.FLOAT
                kind.shape.SetInParent()
    try:
        onnx.checker.check_model(checked)
    except (onnx.checker.ValidationError, ValueError) as error:
        fault = one_line(error)
        if fault.startswith("No Op registered for"):  # onnxruntime adds operators to ONNX's domain
            fault += "; of a model that onnxruntime optimized, pass the one that it was made of"
        return fault
    return ""


def _has_type_and_shape(kind):
    if kind.WhichOneof("value") not in ("tensor_type", None):
        return True
    return kind.tensor_type.elem_type != TensorProto.UNDEFINED and kind.tensor_type.HasField("shape")


def check_inputs(model: ModelProto, weights: dict[str, TensorProto]) -> None:
    """Raise ValueError where an input has no type, or a default of another."""
    graph = model.graph
    defaults = {one.name: one.data_type for one in (*graph.initializer, *weights.values())}
    defaults |= {one.values.name: one.values.data_type for one in graph.sparse_initializer}
    for value in graph.input:
        kind = value.type
        while (which := kind.WhichOneof("value")) in ("sequence_type", "optional_type"):
            kind = getattr(kind, which).elem_type
        number = kind.tensor_type.elem_type
        if which is None or (which == "tensor_type" and not number):
            raise ValueError(f"the model is not valid: its input '{value.name}' is of no type")
        if value.name in defaults and (kind is not value.type or number != defaults[value.name]):
            raise ValueError(f"the model is not valid: the default of '{value.name}' is of another type")


def check_signatures(nodes: Iterable[Node]) -> None:
    """Raise ValueError where a node doesn't fit a graph of its own: onnx's checker doesn't count.

    The nodes are of a model that onnx's checker takes: they have the graphs that they need.
    """
    for node in nodes:
        if fault := record_of(node).fault(node):
            name = node.name or next(filter(None, node.outputs), "")
            raise ValueError(f"the model is not valid: {node.op_type} '{name}' {fault}")


# Before, its shape inference divides by a scalar split of 0, and ends the process.
ONNX_DIVIDES = tuple(map(int, onnx.__version__.split(".")[:2])) < (1, 23)


def check_splits(model: Model) -> None:
    """Raise ValueError where onnx would divide by the length of the parts that a SplitToSequence makes, 0.

    Other versions leave that to the run.
    """
    for node in model.graph.all_nodes() if ONNX_DIVIDES else ():
        split = model.constants.get(node.input(1)) if node.is_op("SplitToSequence") else None
        if split is not None and not split.dims and not from_tensor_proto(split).any():
            raise ValueError(f"the model is not valid: {node.label()} splits into parts of length 0")


def type_fault(model: ModelProto) -> str:
    """Return which operator of a message doesn't take the types that it gets, "" if all do.

    What onnx says of shapes may be what a file declares and the model never does, and a type may be missing
    because an operator's domain isn't onnx's: neither counts.
    """
    try:
        onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
    except onnx.shape_inference.InferenceError as error:
        first = re.search(r"\): \[(\w+)\] ([^(]*)", str(error))
        if first and first[1] == "TypeInferenceError" and "is null" not in first[2]:
            return one_line(error)
    except ValueError as error:
        return one_line(error)
    return ""


def check_kinds(prepared: "Prepared") -> None:
    """Raise ValueError where tensors, sequences and optionals go where such aren't taken.

    Of what graphs take from outside, onnx doesn't ask that.
    """
    version = prepared.model.opset or 1
    kinds = {name: type_.kind for name, type_ in prepared.types.items() if type_.kind}
    nodes = [node for node in prepared.model.graph.all_nodes() if node.domain in STANDARD]
    for node in nodes:
        for field, verb, names in (("input", "take", node.inputs), ("output", "make", node.outputs)):
            for k, name in enumerate(names):
                kind = kinds.get(name)
                if kind and kind not in kinds_at(node.op_type, version, field, k):
                    what = f"doesn't {verb} '{name}', which is of type {_word(kind)}"
                    raise ValueError(f"the model is not valid: {node.label()} {what}")
    for node in nodes:
        for name, other in record_of(node).aliases(node):
            kind, target = kinds.get(name), kinds.get(other)
            # A state may be an optional at first, and be filled.
            if kind and target and target not in (kind, "optional_type"):
                what = f"passes '{name}' of type {_word(kind)} on to '{other}' of type {_word(target)}"
                raise ValueError(f"the model is not valid: {node.label()} {what}")


@cache
def known_opset(domain: str) -> int:
    """Return the newest version of a domain that onnx knows, 0 where it knows none."""
    schemas = onnx.defs.get_all_schemas_with_history()
    return max((schema.since_version for schema in schemas if schema.domain == domain), default=0)


@cache
def kinds_at(operator: str, version: int, field: str, k: int) -> frozenset[str]:
    """Return the kinds that an operator's input or output k may have, in protobuf's words."""
    schema = onnx.defs.get_schema(operator, version) if onnx.defs.has(operator, version) else None
    formal = () if schema is None else getattr(schema, f"{field}s")
    if not formal:
        return frozenset(_KINDS.values())
    kinds = {_KINDS[text.split("(")[0]] for text in formal[min(k, len(formal) - 1)].types}
    return frozenset(kinds | {"sparse_tensor_type"} if "tensor_type" in kinds else kinds)


def _word(kind):
    return kind.removesuffix("_type").replace("_", " ")
