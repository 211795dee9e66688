"""SequenceAt: the element at a position."""

from seqcore.core.maps import element_at
from seqcore.onnx._model.positions import guard_position, position_of
from seqcore.onnx._model.record import Reads, register
from seqcore.onnx._model.types import tensor


@register("SequenceAt")
class SequenceAt(Reads):
    def infer(self, node, known):
        type_ = known.type(node.inputs[0])
        return [tensor(type_.number, type_.shape)]

    def shares(self, node):
        return iter([(node.inputs[0], node.outputs[0])])

    def guard(self, node, prepared, checks):
        guard_position(node, 1, prepared, checks)

    def run(self, node):
        return element_at

    def why_not_lowered(self, node, forms, prepared, read):
        form = forms[node.inputs[0]]
        position = position_of(prepared, node.inputs[1])
        n, i = form.count, position.value
        if n is not None and i is not None and not -n <= i < n:
            return f"position {i} at '{node.name}' is out of range for its {n} elements"
        reason = form.why_not_at(position)
        if not reason and node.outputs[0] not in read and prepared.shape(node.outputs[0]) in ((), None):
            # A runtime knows the shape of a scalar, and leaves all out that it came from.
            reason = "no more than their shape is read"
        return reason and f"'{node.name}' picks elements, but {reason}"

    def lower(self, node, forms, nodes, prepared, is_read):
        """Make the element; of what isn't read, no more than the shape is asked for.

        Where a runtime knows a shape beforehand, it leaves out the node and the error with it: so the check
        is put where the shape comes from.
        """
        form = forms[node.inputs[0]]
        position, out = position_of(prepared, node.inputs[1]), node.outputs[0]
        is_in_range = form.count is not None and position.value is not None
        if is_read or (form.is_sound() and is_in_range):
            form.at(nodes, position, out)
        else:
            nodes.checked(form.at(nodes, position, ""), form.fail_outside(nodes, position), out=out)
