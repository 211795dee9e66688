"""Sequences that a model takes and gives as tensors: nodes of our own, while it is lowered.

They are not operators of ONNX. None is left in a lowered model (see `_lowering/ragged`).
"""

import numpy as np
from onnx import TensorProto

from seqcore.onnx._lists.boundary import (
    FROM_EXTENTS,
    TO_TENSORS,
    Layout,
    give_nothing,
    give_numbers,
    give_rows,
)
from seqcore.onnx._lists.packed import Joined, Nothing, Numbers, Packed
from seqcore.onnx._model.record import Declined, Reads, register
from seqcore.onnx._model.types import SEQUENCE, Type, tensor


@register(FROM_EXTENTS)
class FromExtents(Reads):
    """A sequence of all numbers, one element behind the other, and the elements' extents."""

    takes_tensors = True

    def infer(self, node, known):
        return [Type(SEQUENCE, known.type(node.inputs[0]).number, _told_shape(node))]

    def lower(self, node, forms, nodes, prepared, is_read):
        """Pass the tensors on, if they fit each other and the declared shape of the elements."""
        given, extents = node.inputs
        fixed = node.attribute("shape")
        least = np.maximum(fixed, 0)
        bad = nodes.op("Less", extents, nodes.constant(least))
        if max(fixed) >= 0:
            most = np.where(np.array(fixed) < 0, np.iinfo(np.int64).max, fixed)
            bad = nodes.op("Or", bad, nodes.op("Less", nodes.constant(most), extents))
        count = nodes.op("ReduceSum", nodes.op("Cast", bad, to=TensorProto.INT64), keepdims=0)
        form = forms[node.outputs[0]]
        sizes = form.sizes(nodes, extents)
        missing = nodes.op("Sub", nodes.op("Shape", given), nodes.op("ReduceSum", sizes, keepdims=0))
        count = nodes.op("Add", count, nodes.op("Abs", missing))
        zero = nodes.require_zero(nodes.squeeze(count, 0))
        values, own = form.parts
        nodes.bound(given, zero, out=values)
        nodes.op("Add", extents, zero, out=own)


@register(TO_TENSORS)
class ToTensors(Reads):
    """The tensors that stand for a sequence that a model returns."""

    verb = "returns it"

    def infer(self, node, known):
        return [tensor(number, shape) for number, shape in _layout(node, known.type(node.inputs[0])).types()]

    def why_not_lowered(self, node, forms, prepared, read):
        form = forms[node.inputs[0]]
        if isinstance(form, Packed):
            return ""
        try:
            form.as_stack()
        except Declined:
            return "the model returns it"
        return ""

    def lower(self, node, forms, nodes, prepared, is_read):
        form = forms[node.inputs[0]]
        layout = _layout(node, prepared.type(node.inputs[0]))
        if isinstance(form, Nothing):
            give_nothing(nodes, form.count_of(nodes), layout, node.outputs)
        elif isinstance(form, Joined):
            for name, out in zip(form.parts, node.outputs, strict=True):
                nodes.op("Identity", name, out=out)
        elif isinstance(form, Numbers):
            values, extents = form.parts
            give_numbers(nodes, values, extents, layout, node.outputs)
        else:
            give_rows(nodes, form.stacked(nodes), layout, node.outputs)


def _told_shape(node):
    return tuple(None if length < 0 else length for length in node.attribute("shape", ()))


def _layout(node, type_):
    return Layout(type_.number, _told_shape(node), bool(node.attribute("session", 0)))
