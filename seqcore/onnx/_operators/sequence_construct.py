"""SequenceConstruct: a sequence of tensors that are named."""

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._lists.elements import Elements
from seqcore.onnx._model.record import Reads, register
from seqcore.onnx._model.types import join, sequence


@register("SequenceConstruct")
class SequenceConstruct(Reads):
    takes_tensors = True
    never_fails = True

    def fault(self, node):
        return "" if all(node.inputs) else "has an input without a name"

    def infer(self, node, known):
        first, *others = (known.type(name) for name in node.inputs)
        for other in others:
            first = join(first, other)
        return [sequence(first.number, first.shape, len(node.inputs))]

    def run(self, node):
        return lambda *tensors: TensorSequence(tensors)

    def represent(self, node, forms, prepared):
        return Elements(prepared, node.outputs[0], list(node.inputs))

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].construct(nodes, node.inputs)
