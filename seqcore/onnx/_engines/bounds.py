"""Bounds on the iterations of loops and the parts of splits, as far as the feed tells them before a run.

A look at it takes the place of nodes that check the same:

    Loop (Gather (Shape (x), 0), …)      x.shape[0] is at most 512
    Loop (steps, …)                      steps is at most 512
"""

from __future__ import annotations

from typing import Any, NamedTuple

from onnx import TensorProto

from seqcore.onnx._model.prepared import Prepared

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
    """The bounds of a model whose loops and splits keep to one limit.

    Parameters
    ----------
    prepared : Prepared
    limit : int
        The most iterations of a loop that carries lists, and parts of a split.
    """

    def __init__(self, prepared: Prepared, limit: int) -> None:
        self._prepared, self._limit = prepared, limit

    def fed_number(self, name: str) -> FedLimit | None:
        """Return the limit that an integer keeps to if a feed does, None if that doesn't tell."""
        numbers, type_ = self._prepared.numbers.get(name, ()), self._prepared.type(name)
        if len(numbers) == 1 and (axis := self._prepared.fed_axis(numbers[0])):
            return FedLimit(*axis, self._limit)
        is_number = type_.number == TensorProto.INT64 and type_.shape in ((), (1,))
        return FedLimit(name, None, self._limit) if is_number and self._is_fed(name) else None

    def fed_length(self, tensor: str, axis: int, most: int, least: int = _LEAST) -> FedLimit | None:
        """Return the limit that an axis of a tensor keeps to if a feed does, None if that doesn't tell."""
        shape = self._prepared.shape(tensor)
        if shape is None or not -len(shape) <= axis < len(shape):
            return None
        place = (tensor, axis) if self._is_fed(tensor) else self._prepared.fed_axis(shape[axis])
        return FedLimit(*place, most, least) if place else None

    def _is_fed(self, name: str) -> bool:
        model = self._prepared.model
        return name in model.graph.inputs and name not in model.defaults and self._prepared.is_tensor(name)
