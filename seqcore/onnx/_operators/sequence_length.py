"""SequenceLength: how many elements there are."""

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.record import Looks, register
from seqcore.onnx._model.types import tensor


@register("SequenceLength")
class SequenceLength(Looks):
    never_fails = True

    def infer(self, node, known):
        if (count := known.type(node.inputs[0]).count) is not None:
            known.numbers[node.outputs[0]] = (count,)
        return [tensor(TensorProto.INT64, ())]

    def shares(self, node):
        return iter(())

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        sequence, to = planner.place(node.inputs[0]), planner.place(node.outputs[0])

        def step(frame):
            frame[to] = np.array(len(frame[sequence]))

        return step

    def why_not_lowered(self, node, forms, prepared, read):
        return ""

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.inputs[0]].length(nodes, node.outputs[0])
