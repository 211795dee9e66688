"""SequenceMap as a step of a plan."""

from onnx import ModelProto

from seqcore.mapping import sequence_map
from seqcore.onnx._models.declared import forget_shape
from seqcore.onnx._models.graphs import free_names
from seqcore.onnx._plans.schedule import is_own
from seqcore.onnx.body import GraphBody


def map_step(entry, planner, in_loop):
    """Return a step that maps a body over sequences, on the session's workers.

    A body of tensors alone becomes a `GraphBody`, to which captured tensors go whole, as further inputs.
    Another is a plan, which runs on a frame of its own for each element.
    """
    (node,) = entry.nodes
    (schedule,) = entry.inner
    facts = planner.facts
    captures = [name for name in free_names(schedule.graph) if name not in facts.constants]
    plain = not any(is_own(child, facts) for child in schedule.graph.node)
    values = (*schedule.graph.input, *schedule.graph.output)
    plain = plain and all(facts.is_tensor(name) for name in (*captures, *(one.name for one in values)))
    plain = plain and all(name in facts.types for name in captures)
    inputs = [planner.place(name) for name in (*node.input, *(captures if plain else ()))]
    targets = [planner.place(name) for name in node.output]
    body_on, dtypes = _graph_body(schedule.graph, captures, planner) if plain else _planned(schedule, planner)

    def step(frame):
        results = sequence_map(
            body_on(frame),
            *(frame[i] for i in inputs),
            max_workers=planner.max_workers,
            output_dtypes=dtypes,
        )
        for i, value in zip(targets, results if isinstance(results, tuple) else (results,), strict=True):
            if i:
                frame[i] = value

    return step


def _graph_body(graph, captures, planner):
    """Return a function that gives a frame's body, which is the same for all, and no types: it knows them."""
    facts = planner.facts
    model = ModelProto(ir_version=facts.model.ir_version)
    model.opset_import.extend(facts.model.opset_import)
    model.graph.CopyFrom(graph)
    # onnxruntime would check what is fed, and what a body declares may be wrong (see `declared`).
    for value in (*model.graph.input, *model.graph.output):
        forget_shape(value.type)
    for name in captures:
        model.graph.input.add(name=name).type.CopyFrom(facts.types[name])
    free = free_names(model.graph)
    model.graph.initializer.extend(facts.initializers[name] for name in free if name in facts.initializers)
    sparse = {one.values.name: one for one in facts.model.graph.sparse_initializer}
    model.graph.sparse_initializer.extend(sparse[name] for name in free if name in sparse)
    body = GraphBody(model)
    return lambda frame: body, None


def _planned(schedule, planner):
    """Return a function that gives a body for a frame, and the outputs' types where they are all known."""
    graph = schedule.graph
    plan = planner.plan_of(schedule, in_loop=True)
    inputs = [planner.place(value.name) for value in graph.input]
    outputs = planner.outputs_of(graph)
    dtypes = tuple(planner.expected(value.name)[1] for value in graph.output)

    def body_on(frame):
        def body(*tensors):
            own = frame.copy()
            for i, tensor in zip(inputs, tensors, strict=True):
                own[i] = tensor
            plan.run(own)
            return tuple([read(own) for read in outputs])

        return body

    return body_on, None if any(dtype is None for dtype in dtypes) else dtypes
