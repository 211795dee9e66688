"""Which shapes a sequence's elements can have, as far as a model tells before it runs."""

from onnx import helper

from seqcore.onnx._models.graphs import nodes_as_they_run, subgraphs

# What is known of elements of any shape. Of a sequence that never has elements there is no entry at all.
ANY = None


def element_shapes(facts):
    """Return for each sequence in a model what all its elements have in common.

    Parameters
    ----------
    facts : Facts

    Returns
    -------
    dict of str to (list of (int, str or None), or None)
        Name → the lengths of the axes, None for one that may differ from element to element, a str for a
        length that an input of the model names; or None where ranks may differ.
    """
    shapes = {}
    nodes = list(nodes_as_they_run(facts.model.graph))
    for value in facts.model.graph.input:
        if not facts.is_tensor(value.name):
            shapes[value.name] = ANY  # whatever the feed has
    while True:
        before = dict(shapes)
        for node in nodes:
            if node.domain in ("", "ai.onnx"):
                for name, shape in _flows(node, shapes, facts):
                    if name:
                        _join(shapes, name, shape)
        if shapes == before:
            return shapes


def known_shape(facts, name):
    """Return a tensor's shape with None for lengths that may change within a run."""
    shape = facts.shape(name)
    if shape is None:
        return ANY
    return [length if isinstance(length, int) or length in facts.symbols else None for length in shape]


def _join(shapes, name, shape):
    if name not in shapes:
        shapes[name] = shape
        return
    known = shapes[name]
    if known is ANY or shape is ANY or len(known) != len(shape):
        shapes[name] = ANY
    else:
        shapes[name] = [a if a == b else None for a, b in zip(known, shape, strict=True)]


def _flows(node, shapes, facts):
    """Yield pairs (sequence, shape of elements that it may have) that a node makes."""

    def passed_on(source, target):
        if source in shapes:
            yield target, shapes[source]

    if node.op_type == "SequenceConstruct":
        for name in node.input:
            yield node.output[0], known_shape(facts, name)
    elif node.op_type == "SequenceInsert":
        yield from passed_on(node.input[0], node.output[0])
        yield node.output[0], known_shape(facts, node.input[1])
    elif node.op_type in ("SequenceErase", "Identity", "Optional", "OptionalGetElement"):
        if any(node.input):
            yield from passed_on(node.input[0], node.output[0])
    elif node.op_type == "SplitToSequence":
        yield node.output[0], _piece_shape(node, facts)
    elif node.op_type == "If":
        for graph in subgraphs(node):
            for value, name in zip(graph.output, node.output, strict=False):
                yield from passed_on(value.name, name)
    elif node.op_type == "SequenceMap":
        (body,) = subgraphs(node)
        for value, name in zip(body.output, node.output, strict=False):
            yield name, known_shape(facts, value.name)
    elif node.op_type == "Loop":
        (body,) = subgraphs(node)
        for outer, inner in zip(node.input[2:], body.input[2:], strict=False):
            yield from passed_on(outer, inner.name)
        for given, inner, name in zip(body.output[1:], body.input[2:], node.output, strict=False):
            yield from passed_on(given.name, inner.name)
            yield from passed_on(inner.name, name)


def _piece_shape(node, facts):
    shape = known_shape(facts, node.input[0])
    if shape is ANY:
        return ANY
    given = {one.name: helper.get_attribute_value(one) for one in node.attribute}
    axis = given.get("axis", 0)
    if not -len(shape) <= axis < len(shape):
        return ANY
    if any(node.input[1:]):
        shape[axis] = None
    elif given.get("keepdims", 1):
        shape[axis] = 1
    else:
        del shape[axis]
    return shape
