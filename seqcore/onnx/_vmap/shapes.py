"""The shapes of values in a loop, with a name for each length that the loop takes from outside as it is.

So a shape that is known to be the same in all iterations has numbers and names alone:

    x: (?, ?), in the loop: row = Gather (x, i)        row: (x[1])
    part = Slice (row, 0, i)                           part: (?)
"""

from __future__ import annotations

import math
from typing import NamedTuple

from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.inference import Inference
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.types import Shape, Type, tensor
from seqcore.onnx._rewrite.emit import Nodes


class Size(NamedTuple):
    """A number of items: a product of a number and of lengths that have names."""

    number: int
    names: tuple[str, ...] = ()

    def is_within(self, other: Size, times: int) -> bool:
        """Return whether it is at most so many times another, whatever the lengths are."""
        names = list(other.names)
        for name in self.names:
            if name not in names:
                return False
            names.remove(name)
        return self.number <= times * other.number


class LoopShapes:
    """The types of the values in a loop.

    Attributes
    ----------
    types : dict of str to Type
        Of all values that the body sees.
    lengths : dict of str to (str, int)
        The names of lengths → a tensor outside and its axis, or a vector of integers and the place in it,
        counted as -1 - place.
    """

    def __init__(self, prepared: Prepared, loop: Node) -> None:
        self.lengths: dict[str, tuple[str, int]] = {}
        known = Inference(prepared.model, prepared.small_constant, types=prepared.types)
        for name in loop.body.free_names():
            if name not in known.types and (constant := prepared.model.constants.get(name)) is not None:
                # It was made since.
                known.types[name] = tensor(constant.data_type, tuple(constant.dims))
            type_ = prepared.type(name)
            if not type_.is_tensor:
                continue
            if type_.shape is not None:
                known.types[name] = type_._replace(shape=self._named(name, type_.shape))
            if (numbers := prepared.numbers.get(name)) is not None:
                known.numbers[name] = tuple(
                    self._name(f"\0{name}({k})", (name, -1 - k)) if number is None else number
                    for k, number in enumerate(numbers)
                )
        record_of(loop).infer(loop, known)
        self.types: dict[str, Type] = known.types

    def _named(self, name: str, shape: Shape) -> Shape:
        assert shape is not None
        return tuple(
            length if isinstance(length, int) else self._name(length or f"\0{name}[{axis}]", (name, axis))
            for axis, length in enumerate(shape)
        )

    def _name(self, length: str, place: tuple[str, int]) -> str:
        self.lengths.setdefault(length, place)
        return length

    def value(self, length: str, nodes: Nodes) -> str:
        """Return a length that has a name, as a scalar."""
        name, axis = self.lengths[length]
        if axis >= 0:
            return nodes.length(name, axis)
        rank = self.types[name].rank if name in self.types else None
        if rank == 0:
            return name
        numbers = name if rank == 1 else nodes.op("Reshape", name, nodes.constant([-1]))
        return nodes.op("Gather", numbers, nodes.constant(-1 - axis), axis=0)

    def is_fixed(self, name: str) -> bool:
        """Return whether a value has one shape in all iterations for sure."""
        shape = self.types[name].shape if name in self.types else None
        return shape is not None and None not in shape

    def size(self, name: str, first: int = 0) -> Size | None:
        """Return how many items the axes of a value have from the first on, None where that isn't known."""
        shape = self.types[name].shape if name in self.types else None
        if shape is None or None in shape[first:]:
            return None
        shape = shape[first:]
        numbers = [length for length in shape if isinstance(length, int)]
        names = [length for length in shape if isinstance(length, str)]
        if any(name not in self.lengths for name in names):
            return None
        return Size(math.prod(numbers), tuple(sorted(names)))
