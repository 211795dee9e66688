"""ConcatFromSequence: the elements joined along an axis of theirs, or stacked along a new one."""

from seqcore.onnx._engines.filled_elements import why_not_filled
from seqcore.onnx._model.record import Reads, axis_from_front, register
from seqcore.onnx._model.types import NEVER, tensor
from seqcore.operators import concat_from_sequence


@register("ConcatFromSequence")
class ConcatFromSequence(Reads):
    def infer(self, node, known):
        type_ = known.type(node.inputs[0])
        axis, stacks = _join_of(node)
        if type_.shape is None or type_.shape == NEVER:
            return [tensor(type_.number, type_.shape)]
        lengths = list(type_.shape)
        k = axis_from_front(axis, len(lengths) + stacks)
        if k is None:
            return [tensor(type_.number)]
        lengths[k : k + 1 - stacks] = [None]
        return [tensor(type_.number, tuple(lengths))]

    def shares(self, node):
        return iter(())

    def deviates(self, node, prepared):
        """Elements of another rank end the process there; see `guard` for empty ones."""
        shape = prepared.shape(node.inputs[0])
        if shape is None:
            return "joins elements whose ranks may differ"
        return "" if self._fit(node, prepared) else why_not_filled(node.inputs[0], prepared)

    def guard(self, node, prepared, checks):
        """It passes by empty elements, of whatever lengths."""
        if not self._fit(node, prepared):
            checks.want_filled(node.inputs[0], prepared)

    def _fit(self, node, prepared):
        """Return whether all elements fit each other, except for errors that onnxruntime raises too."""
        shape = prepared.shape(node.inputs[0])
        if shape is None or shape == NEVER:
            return shape == NEVER
        axis, stacks = _join_of(node)
        own = None if stacks else axis_from_front(axis, len(shape))
        return all(length is not None or k == own for k, length in enumerate(shape))

    def run(self, node):
        axis, stacks = node.attribute("axis"), node.attribute("new_axis", 0)
        return lambda sequence: concat_from_sequence(sequence, axis, stacks)

    def why_not_lowered(self, node, forms, prepared, read):
        form = forms[node.inputs[0]]
        reason = "there is none" if form.count == 0 else form.why_not_join(*_join_of(node), prepared)
        if not reason and node.outputs[0] not in read:
            reason = form.why_not_shape_of_join()
        return reason and f"'{node.name}' joins elements, but {reason}"

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.inputs[0]].join(nodes, *_join_of(node), node.outputs[0])


def _join_of(node):
    return node.attribute("axis", 0), bool(node.attribute("new_axis", 0))
