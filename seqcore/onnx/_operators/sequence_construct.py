"""SequenceConstruct: a sequence of tensors that are named."""

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._lists.elements import Elements
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._model.types import join, sequence


@register("SequenceConstruct")
class SequenceConstruct(Operator):
    is_of_lists = True
    only_reads = True
    never_fails = True

    def fault(self, node):
        return "" if all(node.inputs) else "has an input without a name"

    def infer(self, node, known):
        first, *others = (known.type(name) for name in node.inputs)
        for other in others:
            first = join(first, other)
        return [sequence(first.number, first.shape, len(node.inputs))]

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        places = [planner.place(name) for name in node.inputs]
        to = planner.place(node.outputs[0])

        def step(frame):
            frame[to] = TensorSequence([frame[i] for i in places])

        return step

    def represent(self, node, forms, prepared):
        return Elements(prepared, node.outputs[0], list(node.inputs))

    def why_not_lowered(self, node, forms, prepared, read):
        return ""

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].construct(nodes, node.inputs)
