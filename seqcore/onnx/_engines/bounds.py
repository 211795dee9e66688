"""Bounds on the iterations of loops and the elements of lists, as far as they are known before a run.

A look at the feed takes the place of nodes that check the same, if it depends on the feed alone:

    Loop (Gather (Shape (x), 0), …)      x.shape[0] is at most 512
    Loop (steps, …)                      steps is at most 512
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from onnx import TensorProto

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import Length

_LEAST = -(1 << 63)  # the least of an int64


class FedLimit(NamedTuple):
    """A range for the length of an axis of a fed tensor, or with the axis None for its only number."""

    name: str
    axis: int | None
    most: int
    least: int = _LEAST

    def allows(self, value: Any) -> bool:
        n: int = value.item() if self.axis is None else value.shape[self.axis]
        return self.least <= n <= self.most


class Bounds:
    """The bounds of a model whose loops over lists and whose splits keep to one limit.

    Parameters
    ----------
    prepared : Prepared
    limit : int
        The most iterations of a loop that carries lists, parts of a split, and elements of a fed list.
    """

    def __init__(self, prepared: Prepared, limit: int) -> None:
        self._prepared, self._limit = prepared, limit
        self._elements: dict[str, float] = {}

    def fed_number(self, name: str) -> FedLimit | None:
        """Return the limit that an integer keeps to if a feed does, None if that doesn't tell."""
        numbers, type_ = self._prepared.numbers.get(name, ()), self._prepared.type(name)
        if len(numbers) == 1 and (axis := self._fed_axis(numbers[0])):
            return FedLimit(*axis, self._limit)
        is_number = type_.number == TensorProto.INT64 and type_.shape in ((), (1,))
        return FedLimit(name, None, self._limit) if is_number and self._is_fed(name) else None

    def fed_length(self, tensor: str, axis: int, most: int, least: int = _LEAST) -> FedLimit | None:
        """Return the limit that an axis of a tensor keeps to if a feed does, None if that doesn't tell."""
        shape = self._prepared.shape(tensor)
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        place = (tensor, axis) if self._is_fed(tensor) else self._fed_axis(shape[axis])
        return FedLimit(*place, most, least) if place else None

    def _fed_axis(self, length: Length) -> tuple[str, int] | None:
        """Return the input and the axis that a length has its name from; no other has the same."""
        for name in self._prepared.model.graph.inputs:
            shape = self._prepared.shape(name)
            if isinstance(length, str) and shape is not None and length in shape:
                return name, shape.index(length)
        return None

    def _is_fed(self, name: str) -> bool:
        model = self._prepared.model
        return name in model.graph.inputs and name not in model.defaults and self._prepared.is_tensor(name)

    def is_limited(self, trips: str) -> bool:
        """Return whether a number of iterations is within the limit, whatever is fed."""
        return self._most(trips) <= self._limit

    def _most(self, name: str) -> float:
        """Return the most that an integer may be, infinity if that isn't known."""
        number, node = self._prepared.integer(name), self._prepared.producer(name)
        if number is not None:
            return number
        if node is None:
            return math.inf
        if node.is_op("SequenceLength"):
            return self._most_elements(node.inputs[0])
        if node.is_op("Min"):
            return min(map(self._most, dict.fromkeys(node.inputs)))
        if node.is_op("ReduceMin") and self._prepared.type(node.inputs[0]).rank == 1:
            joined = self._prepared.producer(node.inputs[0])
            return min(map(self._most, joined.inputs)) if joined and joined.is_op("Concat") else math.inf
        if node.is_op("Add"):
            one, other = node.inputs
            if self._is_zero(one):
                return self._most(other)
            return self._most(one) if self._is_zero(other) else math.inf
        if node.is_op("Identity", "Squeeze", "Unsqueeze"):
            return self._most(node.inputs[0])
        return math.inf

    def _is_zero(self, name: str) -> bool:
        """Return whether an integer is 0, unless the model fails: see `Nodes.fail_if`."""
        node = self._prepared.producer(name)
        table = self._prepared.constant(node.inputs[0]) if node is not None and node.is_op("Gather") else None
        return table is not None and not table.any()

    def _most_elements(self, name: str) -> float:
        """Return the most elements that a list may have, infinity if that isn't known."""
        if name not in self._elements:
            self._elements[name] = math.inf  # of a list that depends on itself
            self._elements[name] = self._counted(name)
        return self._elements[name]

    def _counted(self, name: str) -> float:
        name, more = self._before_edits(name)
        node = self._prepared.producer(name)
        if node is None:
            is_fed = name in self._prepared.model.graph.inputs  # else it is a state
            return self._limit + more if is_fed else math.inf
        if node.is_op("SplitToSequence"):
            return self._limit + more
        if node.is_op("SequenceConstruct"):
            return len(node.inputs) + more
        if node.is_op("SequenceEmpty"):
            return more
        if node.is_op("SequenceMap"):
            return self._most_elements(node.inputs[0]) + more
        if node.is_op("If"):
            k = node.outputs.index(name)
            return max(self._most_elements(graph.outputs[k]) for graph in node.graphs.values()) + more
        return self._after(node, node.outputs.index(name)) + more if node.is_op("Loop") else math.inf

    def _before_edits(self, name: str, state: str = "") -> tuple[str, int]:
        """Return the list that inserts and erases in a row begin with, and how many elements they add."""
        more = 0
        while name != state and (node := self._prepared.producer(name)) is not None:
            if not node.is_op("Identity", "SequenceErase", "SequenceInsert"):
                break
            more += int(node.is_op("SequenceInsert")) - int(node.is_op("SequenceErase"))
            name = node.inputs[0]
        return name, more

    def _after(self, loop: Node, k: int) -> float:
        """Return the most elements of a list that a loop carries as its state k."""
        parts = parts_of(loop)
        added, made = self._grown(parts.next_states[k], parts.states[k])
        return max(self._most_elements(parts.initial[k]), made) + (self._limit * max(added, 0))

    def _grown(self, name: str, state: str) -> tuple[float, float]:
        """Return how many elements more than a state a list has, and how many if it isn't made of it."""
        name, more = self._before_edits(name, state)
        if name == state:
            return more, -math.inf
        node = self._prepared.producer(name)
        if node is not None and node.is_op("If"):
            k = node.outputs.index(name)
            both = [self._grown(graph.outputs[k], state) for graph in node.graphs.values()]
            return max(added for added, _ in both) + more, max(made for _, made in both) + more
        return -math.inf, self._most_elements(name) + more
