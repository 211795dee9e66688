"""Identity: the same value, also where it is a sequence or optional."""

import numpy as np

from seqcore.onnx._lists.elements import edited, is_edited_too
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._vmap import ragged, rules
from seqcore.onnx._vmap.tracer import BatchRule


@register("Identity")
class Identity(Operator):
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
        return iter([(node.inputs[0], node.outputs[0])])

    def shares(self, node):
        return self.aliases(node)

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        source, to = planner.reader(node, node.inputs[0]), planner.place(node.outputs[0])

        def step(frame):
            frame[to] = source(frame)

        return step

    def represent(self, node, forms, prepared):
        return edited(forms.get(node.inputs[0]), node, inserts=None, prepared=prepared)

    def why_not_lowered(self, node, forms, prepared, read):
        return "" if is_edited_too(node, forms) else super().why_not_lowered(node, forms, prepared, read)

    def lower(self, node, forms, nodes, prepared, is_read):
        forms[node.outputs[0]].pass_on(nodes, forms[node.inputs[0]])
