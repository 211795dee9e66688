"""SequenceMap as a step of a plan."""

from __future__ import annotations

from onnx import TypeProto

from seqcore.mapping import sequence_map
from seqcore.onnx._bodies.graph_body import GraphBody
from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry, Schedule, Step, is_own
from seqcore.onnx._engines.tensor_part import cut_out, is_heavy
from seqcore.onnx._model.graph import Graph
from seqcore.onnx._model.types import to_type_proto
from seqcore.onnx._model.writing import to_message


def map_step(entry: Entry, planner: Planner) -> Step:
    """Return a step that maps a body over sequences, on the session's workers.

    A body of tensors alone becomes a `GraphBody`, to which captured tensors go whole, as further inputs.
    Another is a plan, which runs on a frame of its own for each element.
    """
    (node,) = entry.nodes
    schedule, body = entry.inner["body"], node.body
    prepared = planner.prepared
    captures = [name for name in body.free_names() if not prepared.is_constant(name)]
    names = (*captures, *body.inputs, *body.outputs)
    plain = not any(is_own(child, prepared) for child in body.nodes)
    plain = plain and all(prepared.is_tensor(name) for name in names)
    plain = plain and all(prepared.element_number(name) for name in captures)
    # A body is a model of its own, that holds its weights more than once.
    plain = plain and not is_heavy(cut_out(body.nodes, {}, [], prepared, "body"))
    inputs = [planner.place(name) for name in (*node.inputs, *(captures if plain else ()))]
    targets = [planner.place(name) for name in node.outputs]
    body_on, dtypes = _graph_body(body, captures, planner) if plain else _planned(schedule, planner)

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


def _graph_body(graph: Graph, captures: list[str], planner: Planner):
    """Return a function that gives a frame's body, which is the same for all, and no types: it knows them."""
    prepared = planner.prepared
    # onnxruntime would check shapes of what is fed, and what a body declares may be wrong.
    inputs = {name: _declared(prepared.type(name)) for name in (*graph.inputs, *captures)}
    model = cut_out(graph.nodes, inputs, graph.outputs, prepared, graph.name)
    for name in graph.outputs:
        model.graph.declared[name] = _declared(prepared.type(name))
    body = GraphBody(prepared.weights.filled_model(to_message(model)))
    return lambda frame: body, None


def _declared(type_):
    return to_type_proto(type_) if type_.number else TypeProto()


def _planned(schedule: Schedule, planner: Planner):
    """Return a function that gives a body for a frame, and the outputs' types where they are all known."""
    graph = schedule.graph
    plan = planner.plan_of(schedule, in_loop=True)
    inputs = [planner.place(name) for name in graph.inputs]
    outputs = planner.outputs_of(graph)
    dtypes = tuple(planner.expected(name, graph)[1] for name in graph.outputs)

    def body_on(frame):
        def body(*tensors):
            own = frame.copy()
            for i, tensor in zip(inputs, tensors, strict=True):
                own[i] = tensor
            plan.run(own)
            return tuple([read(own) for read in outputs])

        return body

    return body_on, None if any(dtype is None for dtype in dtypes) else dtypes
