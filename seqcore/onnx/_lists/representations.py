"""Representations of sequences by tensors, from which each read of a sequence can be computed.

representation  the sequence               becomes
Elements        of named tensors           these
Pieces          split from a tensor        that tensor
Rows            of elements of one shape   a tensor whose axis 0 runs over the elements
Joined          differing on one axis      a tensor of all joined on it, and one of the lengths
Numbers         of elements of one rank    a tensor of all numbers, and one of the shapes

The first two are views: an edit of a known list is another one, and one of pieces makes `Rows` of them.
Before that, lists that loops put elements into become scan outputs, which are split: see `accumulate`.
"""

from __future__ import annotations

from typing import Any

from onnx import TensorProto, TypeProto

from seqcore.onnx._model.positions import Position
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, axis_from_front
from seqcore.onnx._model.types import Shape, Type, tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Nodes


class Representation:
    """A sequence as tensors.

    Attributes
    ----------
    element_type : int
        ONNX's number of the elements' type, 0 where it is not known.
    count : int or None
        The number of elements, if it is known.
    phrase : str
        A phrase for notes.
    is_static : bool
        True if its elements are there, whether or not lists that it is made of are replaced.
    """

    element_type = 0
    count: int | None = None
    phrase = ""
    is_static = False

    def as_stack(self) -> Stack:
        """Return what it is as one tensor, which `stacked` makes. Raise `Declined` where it can't be that."""
        raise Declined("the elements may be of several shapes")

    def stacked(self, nodes: Nodes) -> str:
        """Make the tensor whose axis 0 runs over the elements."""
        raise NotImplementedError

    def plan(self, name: str, prepared: Prepared, read: set[str]) -> None:
        """Look at the readers, which can all be served, and at what is `read`, before anything is made."""

    def prepare(self, nodes: Nodes) -> None:
        """Make what all readers share, where the list is made."""

    def carried(self, nodes: Nodes) -> list[str]:
        """Return the tensors that a loop gets in the place of the list, or a graph returns."""
        raise NotImplementedError

    def carried_types(self, type_: Type, n: int) -> list[TypeProto]:
        """Return the types of these: of n of them for a list of a type."""
        return [to_type_proto(tensor(type_.number, type_.shape), with_shape=True)] * n

    def restore(self, nodes: Nodes, out: str) -> None:
        """Make the list again."""
        raise NotImplementedError

    def is_sound(self) -> bool:
        """Return whether the sequence can be made without an error."""
        return True

    def fail_outside(self, nodes: Nodes, position: Position) -> str:
        """Return a scalar that is 0, of nodes that fail where a position is out of range."""
        n = self.length(nodes, "")
        i = nodes.op("Cast", nodes.position(position, 0), to=TensorProto.INT64)
        bad = nodes.op("Not", nodes.op("Less", i, n))
        if not position.is_from_front:
            bad = nodes.op("Or", nodes.op("Less", i, nodes.op("Neg", n)), bad)
        return nodes.fail_if(bad)

    # Why an element, the number of them or a join can't be had; "" where it can.

    def why_not_at(self, position: Position) -> str:
        return ""

    def why_not_join(self, axis: int, stacks: bool, prepared: Prepared) -> str:
        return ""

    def why_not_shape_of_join(self) -> str:
        return ""

    # These add nodes. The last of them makes `out`.

    def at(self, nodes: Nodes, position: Position, out: str) -> str:
        raise NotImplementedError

    def length(self, nodes: Nodes, out: str) -> str:
        raise NotImplementedError

    def join(self, nodes: Nodes, axis: int, stacks: bool, out: str) -> None:
        raise NotImplementedError


def has_no_zeros(shape: Shape) -> bool:
    """Return whether each axis is known to have a length."""
    return shape is not None and all(isinstance(length, int) and length > 0 for length in shape)


class Stack(Representation):
    """A tensor whose axis 0 runs over the elements, which have one shape.

    Parameters
    ----------
    tensor : str
    element_type : int
    shape : tuple of (int, str or None), or None
        The elements' shape as far as it is known, None where not even the rank is.
    is_filled : bool
        If True, there is at least one element.
    """

    def __init__(self, tensor: str, element_type: int, shape: Shape, is_filled: bool = False) -> None:
        self.tensor, self.element_type = tensor, element_type
        self.shape: Any = shape  # a join is asked for only where it is known
        self.is_filled = is_filled

    def of(self, tensor: str) -> Stack:
        """Return the same for another tensor."""
        return Stack(tensor, self.element_type, self.shape, self.is_filled)

    @property
    def rank(self) -> Any:
        return None if self.shape is None else len(self.shape)

    def as_stack(self):
        return self

    def stacked(self, nodes):
        return self.tensor

    def why_not_join(self, axis, stacks, prepared):
        rank = self.rank
        if rank is None:
            return "" if stacks and axis == 0 else "their rank is not known"
        if axis_from_front(axis, rank + stacks) is None:
            return f"axis {axis} is out of range"
        return ""

    def at(self, nodes, position, out):
        nodes.declare(out, self.element_type, self.shape)
        # onnxruntime's Gather takes one string only for each index (1.31).
        is_string = self.element_type == TensorProto.STRING
        at = nodes.position(position, 1 if is_string else 0)
        if is_string:
            return nodes.op("GatherND", self.tensor, at, out=out)
        return nodes.op("Gather", self.tensor, at, axis=0, out=out)

    def length(self, nodes, out):
        return nodes.length(self.tensor, out=out)

    def join(self, nodes, axis, stacks, out):
        if stacks:
            self._stack(nodes, 0 if axis == 0 else axis_from_front(axis, self.rank + 1), out)
        else:
            self._concat(nodes, axis_from_front(axis, self.rank), out)

    def _stack(self, nodes, axis, out):
        if self.shape is not None:
            nodes.declare(out, self.element_type, [*self.shape[:axis], self.count, *self.shape[axis:]])
        moved = "" if axis == 0 else self._moved(nodes, axis, out if self.is_filled else "")
        if not self.is_filled:
            shape = nodes.op("Shape", moved or self.tensor)
            zero = self._fail_if_empty(nodes, shape, axis)
            nodes.op("Reshape", moved or self.tensor, nodes.op("Add", shape, zero), out=out)
        elif not moved:
            nodes.op("Identity", self.tensor, out=out)

    def _concat(self, nodes, axis, out):
        nodes.declare(out, self.element_type, [*self.shape[:axis], None, *self.shape[axis + 1 :]])
        moved = self._moved(nodes, axis) if axis else self.tensor
        zeros = {}
        if has_no_zeros(self.shape):
            shape = nodes.constant([*self.shape[:axis], -1, *self.shape[axis + 1 :]])
        else:
            lengths = nodes.op("Shape", moved)
            ends = [nodes.constant([k]) for k in range(axis, axis + 3)]
            both = nodes.op(
                "Mul",
                nodes.slice(lengths, ends[0], ends[1], 0),
                nodes.slice(lengths, ends[1], ends[2], 0),
            )
            parts = [both]
            if axis:
                parts.insert(0, nodes.slice(lengths, nodes.constant([0]), ends[0], 0))
            if axis + 1 < len(self.shape):
                parts.append(nodes.slice(lengths, ends[2], nodes.constant([len(self.shape) + 1]), 0))
            shape = nodes.join_axes(*parts)
            zeros = {"allowzero": 1}
        if not self.is_filled:
            own = nodes.op("Shape", self.tensor)
            shape = nodes.op("Add", shape, self._fail_if_empty(nodes, own, 0))
        nodes.op("Reshape", moved, shape, out=out, **zeros)

    def _moved(self, nodes, axis, out=""):
        """Return the tensor with the elements' axis at another place."""
        order = [*range(1, axis + 1), 0, *range(axis + 1, len(self.shape) + 1)]
        return nodes.op("Transpose", self.tensor, perm=order, out=out)

    def _fail_if_empty(self, nodes, shape, axis):
        return nodes.unless_empty(nodes.op("Gather", shape, nodes.constant(axis), axis=0), 0)
