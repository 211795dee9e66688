"""Which outputs of a model may share memory with its feeds, or with each other."""

from onnx import AttributeProto

from seqcore.onnx._models.graphs import nodes_as_they_run, subgraphs

# Own operators that pass memory on, from an input to an output.
_PASSING = frozenset(
    (
        *("Identity", "If", "Loop", "Optional", "OptionalGetElement", "Scan", "SequenceMap"),
        *("SequenceAt", "SequenceConstruct", "SequenceErase", "SequenceInsert", "SplitToSequence"),
    )
)


def feed_holders(facts, own):
    """Return the names of the values that may hold memory of the feeds.

    Parameters
    ----------
    facts : Facts
    own : set of int
        The `id`s of the nodes that don't run in onnxruntime, where results have memory of their own.
    """
    holding = {value.name for value in facts.model.graph.input}
    nodes = [node for node in nodes_as_they_run(facts.model.graph) if id(node) in own]
    before = -1
    while before < len(holding):
        before = len(holding)
        for node in nodes:
            for source, target in _passes(node):
                if source in holding:
                    holding.add(target)
    return holding


def _passes(node):
    """Yield the pairs (from, to) of values between which a node passes memory on."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _PASSING:
        return
    if node.op_type == "If":
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                yield from zip((value.name for value in attribute.g.output), node.output, strict=False)
    elif node.op_type == "Loop":
        (body,) = subgraphs(node)
        inner = [value.name for value in body.input[2:]]
        outer = [value.name for value in body.output[1:]]
        yield from zip(node.input[2:], inner, strict=False)
        yield from zip(outer, inner, strict=False)
        yield from zip(inner, node.output, strict=False)
    elif node.op_type in ("Scan", "SequenceMap"):
        (body,) = subgraphs(node)
        inner = [value.name for value in body.input]
        outer = [value.name for value in body.output]
        yield from zip(node.input, inner, strict=True)
        yield from zip(outer, node.output, strict=False)
        if node.op_type == "Scan":
            yield from zip(outer, inner, strict=False)  # its states, at least
    else:
        for source in node.input:
            for target in node.output:
                yield source, target
