"""SequenceEmpty: a sequence that has no element yet."""

from onnx import TensorProto

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._lists.elements import Elements
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import NEVER, sequence


@register("SequenceEmpty")
class SequenceEmpty(Operator):
    is_of_lists = True
    only_reads = True
    never_fails = True

    def infer(self, node, known):
        return [sequence(node.attribute("dtype", TensorProto.FLOAT), NEVER, count=0)]

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        number = node.attribute("dtype", TensorProto.FLOAT)
        dtype = dtype_of(number)
        if dtype is None:
            raise ValueError(f"there are no sequences of {TensorProto.DataType.Name(number).lower()} tensors")
        to = planner.place(node.outputs[0])

        def step(frame):
            frame[to] = TensorSequence(dtype=dtype)

        return step

    def represent(self, node, forms, prepared):
        return Elements(prepared, node.outputs[0], [])

    def why_not_lowered(self, node, forms, prepared, read):
        return ""

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].make_empty(nodes)
