"""SequenceMap: a graph for each element of sequences."""

from seqcore.onnx._engines.map_step import map_step
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._model.types import SEQUENCE, Type, tensor
from seqcore.onnx._operators.if_ import count_of


@register("SequenceMap")
class SequenceMap(Operator):
    is_of_lists = True
    only_reads = True
    # There it is a loop over a list that is copied again and again.
    is_cheap_in_runs = False
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
