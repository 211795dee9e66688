"""Models without what nothing reads."""


def nodes_of(graph):
    for node in graph.node:
        yield node
        for one in node.attribute:
            if one.HasField("g"):
                yield from nodes_of(one.g)


def graphs_of(graph):
    yield graph
    for node in graph.node:
        for one in node.attribute:
            if one.HasField("g"):
                yield from graphs_of(one.g)


def prune(model):
    """Take out what nothing reads, in all depths."""
    while True:
        graphs = list(graphs_of(model.graph))
        read = {name for graph in graphs for node in graph.node for name in node.input}
        read |= {one.name for graph in graphs for one in graph.output}
        size = model.ByteSize()
        for graph in graphs:
            for kept in (graph.node, graph.initializer):
                for one in [*kept]:
                    names = one.output if hasattr(one, "output") else [one.name]
                    if not read.intersection(names):
                        kept.remove(one)
        for node in nodes_of(model.graph):
            if node.op_type == "Loop":
                prune_loop(node, read)
        for one in [*model.graph.input]:
            if one.name not in read:
                model.graph.input.remove(one)
        if model.ByteSize() == size:
            return


def prune_loop(node, read):
    """Take out states that nothing but themselves reads, and scan outputs that nothing reads."""
    body = node.attribute[0].g
    nstates = len(node.input) - 2
    for k in reversed(range(len(node.output))):
        if node.output[k] in read or len(node.output) == 1:
            continue
        if k >= nstates:
            del node.output[k], body.output[k + 1]
        elif body.input[k + 2].name not in needed(body, k + 1):
            del node.output[k], body.output[k + 1], body.input[k + 2], node.input[k + 2]
            nstates -= 1


def needed(body, k):
    """The names that a body's outputs are made of, but for the one at k."""
    names = {one.name for j, one in enumerate(body.output) if j != k}
    for node in reversed(body.node):
        if names.intersection(node.output):
            names.update(node.input)
            for graph in (one.g for one in node.attribute if one.HasField("g")):
                names |= {name for inner in nodes_of(graph) for name in inner.input}
                names |= {one.name for one in graph.output}
    return names
