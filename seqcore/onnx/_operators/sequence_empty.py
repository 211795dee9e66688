"""SequenceEmpty: a sequence that has no element yet."""

from onnx import TensorProto

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._lists.elements import Elements
from seqcore.onnx._model.record import Reads, register
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import NEVER, sequence


@register("SequenceEmpty")
class SequenceEmpty(Reads):
    takes_tensors = True
    never_fails = True

    def infer(self, node, known):
        return [sequence(node.attribute("dtype", TensorProto.FLOAT), NEVER, count=0)]

    def run(self, node):
        number = node.attribute("dtype", TensorProto.FLOAT)
        dtype = dtype_of(number)
        if dtype is None:
            raise ValueError(f"there are no sequences of {TensorProto.DataType.Name(number).lower()} tensors")
        return lambda: TensorSequence(dtype=dtype)

    def represent(self, node, forms, prepared):
        return Elements(prepared, node.outputs[0], [])

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].make_empty(nodes)
