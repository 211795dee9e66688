"""The states of a loop whose iterations don't depend on each other: what each iteration finds in them.

the same for all    s, s, s, …                  s is handed on as it is
a count             s, s + 2, s + 4, …          next = s + 2
one behind          s, f(0), f(1), …            next = f(i), which depends on no state that depends on it
"""

from __future__ import annotations

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Node, reads_of
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._vmap.shapes import LoopShapes
from seqcore.onnx._vmap.tracer import Tracer, Value

_SUMMED = (TensorProto.INT32, TensorProto.INT64, TensorProto.FLOAT, TensorProto.DOUBLE)


class States:
    """The states of a loop, in a body for many iterations."""

    def __init__(self, loop: Node, body: Tracer, shapes: LoopShapes) -> None:
        self._loop, self._body, self._shapes = loop, body, shapes
        self._parts = parts_of(loop)
        self._makers = {name: node for node in loop.body.nodes for name in node.outputs}
        self._steps = [
            self._step_of(state, after)
            for state, after in zip(self._parts.states, self._parts.next_states, strict=True)
        ]
        self._sums: dict[str, str] = {}  # states that are running sums → these, the one after the last too

    def _source(self, name: str) -> str:
        """Return what a value is a copy of."""
        while (node := self._makers.get(name)) is not None and node.is_op("Identity"):
            name = node.inputs[0]
        return name

    def _step_of(self, state: str, after: str) -> int | None:
        """Return by how much a state grows in each iteration, None where it is no count."""
        after = self._source(after)
        if after == state:
            return 0
        node = self._makers.get(after)
        if node is None or not node.is_op("Add", "Sub"):
            return None
        left, right = map(self._source, node.inputs)
        if right == state and node.is_op("Add"):
            left, right = right, left
        step = self._body.prepared.constant(right)
        type_ = self._shapes.types[state]
        if left != state or step is None or step.size != 1 or step.dtype.kind not in "iu":
            return None
        if type_.shape is None or step.ndim > len(type_.shape):
            return None
        number = int(step.reshape(-1).astype(np.int64)[0])  # what is too large wraps around, as sums do
        return number if node.is_op("Add") else -number

    def _addend_of(self, state: str, after: str) -> str:
        """Return what is added to a state in each iteration, "" where it isn't that."""
        node, types = self._makers.get(self._source(after)), self._shapes.types
        if node is None or not node.is_op("Add") or types[state].number not in _SUMMED:
            return ""
        left, right = map(self._source, node.inputs)
        addend = right if left == state else left if right == state else ""
        is_fixed = addend and self._shapes.is_fixed(state) and addend in types
        return addend if is_fixed and types[addend].shape == types[state].shape else ""

    def follow(self, given: list[str], numbers: str) -> None:
        """Write out the body's nodes, each as soon as what it reads is there.

        `given` are the states that the loop starts with; `numbers` is the vector of the iterations' numbers.
        """
        body, parts = self._body, self._parts
        for k, (state, step) in enumerate(zip(parts.states, self._steps, strict=True)):
            if step == 0:
                body.values[state] = Value(given[k], False)
            elif step is not None:
                body.values[state] = self._counted(state, given[k], step, numbers)
        waiting = {name: k for k, name in enumerate(parts.states) if self._steps[k] is None}
        inside = {*parts.states, *self._makers}
        todo = list(self._loop.body.nodes)
        while todo:
            ready, later = [], []
            for node in todo:
                is_ready = all(name not in inside or name in body.values for name in reads_of(node))
                if is_ready:
                    ready.append(node)
                    body.follow([node])
                else:
                    later.append(node)
            for state, k in list(waiting.items()):
                addend = self._addend_of(state, parts.next_states[k])
                if parts.next_states[k] in body.values:
                    body.values[state] = self._one_behind(state, parts.next_states[k], given[k])
                elif addend in body.values:
                    body.values[state] = self._summed(state, addend, given[k])
                else:
                    continue
                del waiting[state]
                ready.append(self._loop)
            if not ready:
                names = [name for name in waiting if any(name in reads_of(node) for node in todo)] or [
                    *waiting
                ]
                raise Declined(f"carries '{names[0]}' from one iteration to the next")
            todo = later

    def _counted(self, state: str, initial: str, step: int, numbers: str) -> Value:
        body, nodes = self._body, self._body.nodes
        dtype = dtype_of(self._shapes.types[state].number)
        if dtype is None or dtype.kind not in "iu":
            raise Declined(f"carries '{state}', whose type is not known")
        counted = nodes.op("Mul", numbers, nodes.constant(step)) if step != 1 else numbers
        if dtype != "int64":
            counted = nodes.op("Cast", counted, to=self._shapes.types[state].number)
        rank = body.rank(state)
        if rank:
            counted = nodes.unsqueeze(counted, *range(1, 1 + rank))
        return Value(nodes.op("Add", counted, initial), True)

    def _summed(self, state: str, addend: str, given: str) -> Value:
        body, nodes = self._body, self._body.nodes
        terms = nodes.op("Concat", nodes.unsqueeze(given, 0), body.rows(addend), axis=0)
        self._sums[state] = nodes.op("CumSum", terms, nodes.constant(0))
        return Value(nodes.slice(self._sums[state], nodes.constant([0]), nodes.constant([-1]), 0), True)

    def _one_behind(self, state: str, after: str, given: str) -> Value:
        body, nodes, shapes = self._body, self._body.nodes, self._shapes
        if not shapes.is_fixed(state) or shapes.types[state].shape != shapes.types[after].shape:
            raise Declined(f"carries '{state}', which may change its shape")
        rows = body.rows(after)
        before = nodes.slice(rows, nodes.constant([0]), nodes.constant([-1]), 0)
        body.may_fail_empty = True
        return Value(nodes.op("Concat", nodes.unsqueeze(given, 0), before, axis=0), True)

    def final(self, given: list[str], trips: str, last: str) -> list[str]:
        """Return the states after these iterations.

        `trips` is the number of the iteration that would come next, a scalar, and `last` where in these the
        last one stands, of shape [1].
        """
        body, nodes = self._body, self._body.nodes
        results = []
        for k, (step, after) in enumerate(zip(self._steps, self._parts.next_states, strict=True)):
            state = self._parts.states[k]
            if step == 0:
                results.append(given[k])
            elif step is not None:
                number = nodes.larger(trips, nodes.constant(0))
                if step != 1:
                    number = nodes.op("Mul", number, nodes.constant(step))
                if dtype_of(self._shapes.types[state].number) != "int64":
                    number = nodes.op("Cast", number, to=self._shapes.types[state].number)
                results.append(nodes.op("Add", given[k], number))
            else:
                # A sum is there before the first iteration too.
                at = nodes.op("Add", last, nodes.constant([1])) if state in self._sums else last
                end = nodes.op("Add", at, nodes.constant([1]))
                row = nodes.slice(self._sums.get(state) or body.rows(after), at, end, 0)
                results.append(nodes.squeeze(row, 0))
        return results
