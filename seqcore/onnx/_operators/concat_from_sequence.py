"""ConcatFromSequence: the elements joined along an axis of theirs, or stacked along a new one."""

from seqcore.onnx._model.types import NEVER, tensor
from seqcore.onnx._operators.record import Operator, axis_from_front, register
from seqcore.operators import concat_from_sequence


@register("ConcatFromSequence")
class ConcatFromSequence(Operator):
    is_of_lists = True
    only_looks = True

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

    def departs(self, node, prepared):
        """Empty elements may have any shape there, and one of another rank ends the process."""
        shape = prepared.shape(node.inputs[0])
        axis, stacks = _join_of(node)
        if shape == NEVER:
            return ""  # an error here and there
        if shape is None:
            return "joins elements whose ranks may differ"
        own = None if stacks else axis_from_front(axis, len(shape))
        if any(length is None and k != own for k, length in enumerate(shape)):
            return "joins elements whose shapes may not fit"
        return ""

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        axis, stacks = node.attribute("axis"), node.attribute("new_axis", 0)
        sequence, to = planner.place(node.inputs[0]), planner.place(node.outputs[0])

        def step(frame):
            frame[to] = concat_from_sequence(frame[sequence], axis, stacks)

        return step

    def why_not_lowered(self, node, form, prepared, read):
        reason = "there is none" if form.count == 0 else form.why_not_join(*_join_of(node), prepared)
        if not reason and node.outputs[0] not in read:
            reason = form.why_not_shape_of_join()
        return reason and f"'{node.name}' joins elements, but {reason}"

    def lower(self, node, form, nodes, prepared, is_read):
        form.join(nodes, *_join_of(node), node.outputs[0])


def _join_of(node):
    return node.attribute("axis", 0), bool(node.attribute("new_axis", 0))
