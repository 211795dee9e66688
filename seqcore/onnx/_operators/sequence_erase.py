"""SequenceErase: a sequence without its last element, or without the one at a position."""

from seqcore.onnx._model.positions import guard_position, insert_after, position_of
from seqcore.onnx._model.record import register
from seqcore.onnx._operators.identity import Edits


@register("SequenceErase")
class SequenceErase(Edits):
    is_of_lists = True
    inserts = False
    verb = "erases from it"

    def infer(self, node, known):
        return [known.type(node.inputs[0])._replace(count=known.count_after(node, inserts=False))]

    def guard(self, node, prepared, checks):
        guard_position(node, 1, prepared, checks)

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        source = planner.reader(node, node.inputs[0])
        to, at = planner.place(node.outputs[0]), planner.place(node.input(1))
        is_last = not node.input(1)
        if insert_after(planner.prepared, node):

            def pass_on(frame):
                frame[to] = source(frame)

            return pass_on

        def step(frame):
            sequence = source(frame)
            sequence.erase(-1 if is_last else frame[at])
            frame[to] = sequence

        return step

    def lower(self, node, forms, nodes, prepared, is_read):
        position = position_of(prepared, node.inputs[1]) if node.input(1) else None
        forms[node.outputs[0]].erase(nodes, forms[node.inputs[0]], position)
