"""SequenceInsert: a sequence with a tensor more, at its end or at a position."""

from seqcore.onnx._model.positions import erase_before, guard_position, position_of
from seqcore.onnx._model.record import register
from seqcore.onnx._model.types import join_shapes, sequence
from seqcore.onnx._operators.identity import Edits


@register("SequenceInsert")
class SequenceInsert(Edits):
    is_of_lists = True
    inserts = True
    verb = "inserts into it"

    def infer(self, node, known):
        before, tensor = known.type(node.inputs[0]), known.type(node.inputs[1])
        count = known.count_after(node, inserts=True)
        return [sequence(before.number or tensor.number, join_shapes(before.shape, tensor.shape), count)]

    def shares(self, node):
        return ((name, node.outputs[0]) for name in node.inputs[:2])

    def guard(self, node, prepared, checks):
        guard_position(node, 2, prepared, checks)

    def step(self, entry, planner, in_loop):
        (node,) = entry.nodes
        source = planner.reader(node, node.inputs[0])
        tensor, to = planner.place(node.inputs[1]), planner.place(node.outputs[0])
        at = planner.place(node.input(2))

        def append(frame):
            sequence = source(frame)
            sequence.append(frame[tensor])
            frame[to] = sequence

        def insert(frame):
            sequence = source(frame)
            sequence.insert(frame[at], frame[tensor])
            frame[to] = sequence

        def assign(frame):
            sequence = source(frame)
            sequence[frame[at].item()] = frame[tensor]
            frame[to] = sequence

        if erase_before(planner.prepared, node):
            return assign
        return insert if node.input(2) else append

    def lower(self, node, forms, nodes, prepared, is_read):
        if erase := erase_before(prepared, node):
            at = position_of(prepared, node.inputs[2])
            forms[node.outputs[0]].assign(nodes, forms[erase.inputs[0]], node.inputs[1], at)
            return
        source, position = node.inputs[0], None
        if node.input(2):
            counter = prepared.producer(node.inputs[2])
            if counter is None or not counter.is_op("SequenceLength") or counter.inputs[0] != source:
                position = position_of(prepared, node.inputs[2])
        forms[node.outputs[0]].insert(nodes, forms[source], node.inputs[1], position)
