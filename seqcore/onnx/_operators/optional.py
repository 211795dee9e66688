"""Optional, OptionalHasElement, OptionalGetElement: a value that may be missing."""

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.record import Operator, Reads, register
from seqcore.onnx._model.types import OPTIONAL, SEQUENCE, TENSOR, UNKNOWN, Type, from_type_proto, tensor
from seqcore.onnx._operators.identity import Identity


@register("Optional")
class Optional(Operator):
    is_of_lists = True

    def infer(self, node, known):
        given = node.input(0)
        inner = known.type(given) if given else from_type_proto(node.attribute("type"))
        return [Type(OPTIONAL, inner.number, inner.shape, inner.kind)]

    def shares(self, node):
        return ((name, node.outputs[0]) for name in node.inputs)

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        if node.input(0):
            return Identity().step(entry, planner, in_loop)
        to = planner.place(node.outputs[0])

        def step(frame):
            frame[to] = None

        return step


@register("OptionalHasElement")
class OptionalHasElement(Reads):
    def infer(self, node, known):
        return [tensor(TensorProto.BOOL, ())]

    def shares(self, node):
        return iter(())

    def run(self, node):
        return lambda value=None: np.array(value is not None)


@register("OptionalGetElement")
class OptionalGetElement(Operator):
    is_of_lists = True

    def infer(self, node, known):
        type_ = known.type(node.inputs[0])
        if type_.kind != OPTIONAL:
            return [type_]
        return [
            Type(type_.inner, type_.number, type_.shape) if type_.inner in (TENSOR, SEQUENCE) else UNKNOWN
        ]

    def shares(self, node):
        return iter([(node.inputs[0], node.outputs[0])])

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        name = node.inputs[0]
        source, to = planner.reader(node, name), planner.place(node.outputs[0])

        def step(frame):
            value = source(frame)
            if value is None:
                raise ValueError(f"the optional '{name}' is empty: ask OptionalHasElement first")
            frame[to] = value

        return step
