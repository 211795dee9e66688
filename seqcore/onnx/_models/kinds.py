"""Whether tensors, sequences and optionals go where such are taken: of captures onnx doesn't ask that."""

from functools import cache

import onnx

from seqcore.onnx._models.graphs import subgraphs

_STANDARD = ("", "ai.onnx")
# How types begin in ONNX's text → what protobuf calls them.
_KINDS = {
    "tensor": "tensor_type",
    "seq": "sequence_type",
    "optional": "optional_type",
    "map": "map_type",
    "sparse_tensor": "sparse_tensor_type",
}


def check_kinds(facts, nodes):
    """Raise ValueError where one of some nodes gets a value of a kind that it doesn't take.

    Parameters
    ----------
    facts : Facts
    nodes : list of NodeProto
        The nodes of the model, in all depths.
    """
    version = next((one.version for one in facts.model.opset_import if one.domain in _STANDARD), 1)
    for node in nodes:
        if node.domain not in _STANDARD:
            continue
        for field, verb in (("input", "take"), ("output", "make")):
            for k, name in enumerate(getattr(node, field)):
                kind = _kind_of(name, facts)
                if kind and kind not in _kinds_at(node.op_type, version, field, k):
                    what = f"doesn't {verb} '{name}', which is of type {_word(kind)}"
                    raise ValueError(f"the model is not valid: {node.op_type} '{node.name}' {what}")
        for name, other in _passed_on(node):
            kind, target = _kind_of(name, facts), _kind_of(other, facts)
            # A state may be an optional at first, and be filled.
            if kind and target and target not in (kind, "optional_type"):
                what = f"passes '{name}' of type {_word(kind)} on to '{other}' of type {_word(target)}"
                raise ValueError(f"the model is not valid: {node.op_type} '{node.name}' {what}")


def _kind_of(name, facts):
    """Return the kind of a value, None where it isn't known."""
    if name in facts.types:
        kind = facts.types[name]
        element = kind.sequence_type.elem_type.WhichOneof("value")
        return kind.WhichOneof("value") if element in (None, "tensor_type") else f"sequence_of_{element}"
    return "tensor_type" if name in facts.constants else None


@cache
def _kinds_at(operator, version, field, k):
    """Return of which kinds an operator's input or output k may be, in protobuf's words."""
    schema = onnx.defs.get_schema(operator, version) if onnx.defs.has(operator, version) else None
    formal = () if schema is None else getattr(schema, f"{field}s")
    if not formal:
        return _KINDS.values()
    kinds = {_KINDS[text.split("(")[0]] for text in formal[min(k, len(formal) - 1)].types}
    return kinds | {"sparse_tensor_type"} if "tensor_type" in kinds else kinds


def _passed_on(node):
    """Yield the pairs (from, to) of names between which a node passes a value on."""
    graphs = list(subgraphs(node))
    if node.op_type == "Identity":
        yield node.input[0], node.output[0]
    elif node.op_type == "If":
        for graph in graphs:
            yield from ((value.name, name) for value, name in zip(graph.output, node.output, strict=True))
    elif node.op_type == "Loop":
        (body,) = graphs
        inner, given = ([value.name for value in field] for field in (body.input[1:], body.output))
        yield from zip(node.input[2:], inner[1:], strict=False)
        yield from zip(given, inner, strict=False)
        yield from zip(given[1:], node.output, strict=False)


def _word(kind):
    return kind.removesuffix("_type").replace("_", " ")
