"""SequenceMap: a graph for each element of sequences."""

from __future__ import annotations

from onnx import TypeProto

from seqcore.mapping import sequence_map
from seqcore.onnx._bodies.graph_body import GraphBody
from seqcore.onnx._engines.executable import cut_out, is_heavy
from seqcore.onnx._engines.planner import Planner
from seqcore.onnx._engines.schedule import Entry, Schedule, Step, is_own
from seqcore.onnx._model.graph import Graph
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._model.types import SEQUENCE, Type, tensor, to_type_proto
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._operators.if_ import count_of


@register("SequenceMap")
class SequenceMap(Operator):
    is_of_lists = True
    only_reads = True
    verb = "maps over it"

    def fault(self, node):
        if not all(node.inputs):
            return "has an input without a name"
        body = node.body
        for kind, outer, inner in (
            ("input", node.inputs, body.inputs),
            ("output", node.outputs, body.outputs),
        ):
            if len(outer) != len(inner):
                return f"has {count_of(outer, kind)}, its body {len(inner)}"
        return ""

    def infer(self, node, known):
        for name, inner in zip(node.inputs, node.body.inputs, strict=True):
            type_ = known.type(name)
            known.types[inner] = tensor(type_.number, type_.shape) if type_.kind == SEQUENCE else type_
        known.follow(node.body)
        made = [known.type(name) for name in node.body.outputs]
        return [Type(SEQUENCE, type_.number, type_.shape) for type_ in made]

    def shares(self, node):
        yield from zip(node.inputs, node.body.inputs, strict=True)
        yield from zip(node.body.outputs, node.outputs, strict=True)

    def deviates(self, node, prepared):
        """It goes by its first sequence there, and doesn't see that another is longer."""
        several = sum(prepared.is_sequence(name) for name in node.inputs) > 1
        return "maps over several sequences, whose lengths it doesn't compare" if several else ""

    def step(self, entry, planner, in_loop):
        return map_step(entry, planner)


# SequenceMap as a step of a plan.


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
    # onnxruntime would check the shapes that a body declares, which may be wrong.
    inputs = {name: _declared(prepared.type(name)) for name in (*graph.inputs, *captures)}
    model = cut_out(graph.nodes, inputs, graph.outputs, prepared, graph.name)
    for name in graph.outputs:
        model.graph.declared[name] = _declared(prepared.type(name))
    body = GraphBody(prepared.weights.fill(to_message(model)))
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
            for i, value in zip(inputs, tensors, strict=True):
                own[i] = value
            plan.run(own)
            return tuple([read(own) for read in outputs])

        return body

    return body_on, None if any(dtype is None for dtype in dtypes) else dtypes
