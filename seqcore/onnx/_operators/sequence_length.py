"""SequenceLength: how many elements there are."""

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.record import Reads, register
from seqcore.onnx._model.types import tensor


@register("SequenceLength")
class SequenceLength(Reads):
    takes_tensors = True
    never_fails = True

    def infer(self, node, known):
        if (count := known.type(node.inputs[0]).count) is not None:
            known.numbers[node.outputs[0]] = (count,)
        return [tensor(TensorProto.INT64, ())]

    def shares(self, node):
        return iter(())

    def run(self, node):
        return lambda sequence: np.array(len(sequence))

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.inputs[0]].length(nodes, node.outputs[0])
