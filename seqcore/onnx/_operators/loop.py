"""Loop: a graph again and again, which hands its states on to itself.

What stands where among its inputs and outputs, `loop_parts` tells.
"""

from onnx import TensorProto

from seqcore.onnx._engines.control import LoopStep
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.record import Operator, register
from seqcore.onnx._model.types import NEVER, from_type_proto, is_fixed_by_size, tensor, without_shape
from seqcore.onnx._operators.if_ import count_of


@register("Loop")
class Loop(Operator):
    takes_tensors = True
    verb = "carries it"

    def fault(self, node):
        if not all(node.inputs[2:]):
            return "has a state without a name"
        body, states = node.body, max(len(node.inputs) - 2, 0)
        if len(body.inputs) != 2 + states:
            return f"has {count_of(range(states), 'state')}, its body {count_of(body.inputs, 'input')}"
        if len(body.outputs) < 1 + states or len(node.outputs) > len(body.outputs) - 1:
            return (
                f"has {count_of(range(states), 'state')} and {count_of(node.outputs, 'output')}, "
                f"its body {count_of(body.outputs, 'output')}"
            )
        return ""

    def infer(self, node, known):
        parts = parts_of(node)
        body = node.body
        # A body may declare its iteration's number and the condition with one axis, as onnxruntime has it.
        for name, number in ((parts.iteration, TensorProto.INT64), (parts.going_in, TensorProto.BOOL)):
            declared = from_type_proto(body.declared[name]) if name in body.declared else tensor(number)
            known.types[name] = tensor(declared.number or number, (1,) if declared.rank == 1 else ())
        initial = []
        for outer, inner in zip(parts.initial, parts.states, strict=True):
            type_ = known.type(outer)
            if not type_.number and inner in body.declared:
                type_ = without_shape(from_type_proto(body.declared[inner]))
            initial.append(type_)
        known.follow_loop(body, parts.states, parts.next_states, initial)
        states = [known.type(name) for name in parts.states]
        n = parts.trip_count(known)
        scans = []
        for name in parts.scans:
            type_ = known.type(name)
            shape = type_.shape
            if shape is not None and shape != NEVER:
                # Without a trip, lengths that have but a name are 0.
                shape = (n, *(length if isinstance(length, int) else None for length in shape))
            scans.append(tensor(type_.number, shape))
        return [*states, *scans][: len(node.outputs)]

    def aliases(self, node):
        parts = parts_of(node)
        for values in (parts.initial, parts.next_states):
            yield from zip(values, parts.states, strict=True)
            yield from zip(values, parts.final, strict=False)
        yield parts.going_out, parts.going_in

    def shares(self, node):
        parts = parts_of(node)
        yield from zip(parts.initial, parts.states, strict=True)
        yield from zip(parts.next_states, parts.states, strict=True)
        yield from zip(parts.states, parts.final, strict=False)

    def deviates(self, node, prepared):
        """It compares the sizes of a scan output's values, not their shapes."""
        if self._carries_lists(node, prepared):
            for name in parts_of(node).scans:
                if not is_fixed_by_size(prepared.shape(name)):
                    return f"has the scan output '{name}', whose values may be of several shapes"
        return ""

    def guard(self, node, prepared, checks):
        """It takes the first of several conditions or numbers of trips, and may end the process for none."""
        parts = parts_of(node)
        for k in (0, 1):
            if node.input(k):
                checks.want_one_item(node, k, prepared)
        if not parts.passes_condition_on:
            checks.want_one_output(node.body, 0, prepared)
        if self._carries_lists(node, prepared):
            checks.limit_loop(node, prepared)

    def _carries_lists(self, node, prepared):
        return any(not prepared.is_tensor(name) for name in node.body.inputs[2:])

    def step(self, entry, planner, in_loop):
        return LoopStep(entry, planner)
