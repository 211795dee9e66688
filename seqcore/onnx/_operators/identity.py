"""Identity: the same value, also where it is a sequence or optional."""

import numpy as np

from seqcore.onnx._lists.elements import edited
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._vmap import ragged, rules
from seqcore.onnx._vmap.tracer import BatchRule


class Edits(Operator):
    """An operator that makes a sequence of another: it inserts an element, or erases one, or neither."""

    inserts: bool | None = None

    def shares(self, node):
        return self.continues(node)

    def represent(self, node, forms, prepared):
        return edited(forms.get(node.inputs[0]), node, self.inserts, prepared)

    def why_not_lowered(self, node, forms, prepared, read):
        # It has representations of both lists, or makes one.
        form = forms.get(node.outputs[0])
        if form is not None and (form.is_static or node.inputs[0] in forms):
            return ""
        return super().why_not_lowered(node, forms, prepared, read)

    def continues(self, node):
        return iter([(node.inputs[0], node.outputs[0])])


@register("Identity")
class Identity(Edits):
    never_fails = True
    elementwise = True
    numpy = staticmethod(np.asarray)
    batch_rule = BatchRule(rules.elementwise, ragged.elementwise, runs_empty=True, adds_none=True)
    copies_lists = True
    verb = "passes it on as a result"

    def infer(self, node, known):
        name = node.inputs[0]
        if (numbers := known.numbers_of(name)) is not None:
            known.numbers[node.outputs[0]] = numbers
        return [known.type(name)]

    def aliases(self, node):
        return self.continues(node)

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        source, to = planner.reader(node, node.inputs[0]), planner.place(node.outputs[0])

        def step(frame):
            frame[to] = source(frame)

        return step

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].pass_on(nodes, forms[node.inputs[0]])
