"""Pieces: what is picked from a split tensor is gathered or sliced from the tensor itself.

A split without lengths makes pieces of length 1. A number makes equal pieces, except the last, which may be
smaller. A list gives the lengths. The checks of SplitToSequence are made where it was, and the
elements depend on them.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from onnx import TensorProto

from seqcore.onnx._lists.cuts import cut_out, flat_places
from seqcore.onnx._lists.representations import Representation, Stack
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.positions import Position, position_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, axis_from_front
from seqcore.onnx._model.tensors import from_tensor_proto
from seqcore.onnx._thresholds import MOST_AT_ONCE_PIECES, MOST_NUMBERS, MOST_ROWS

# onnxruntime has kernels of Split for these alone.
_SPLIT_TYPES = (
    TensorProto.FLOAT,
    TensorProto.DOUBLE,
    TensorProto.INT32,
    TensorProto.INT64,
    TensorProto.STRING,
    TensorProto.UINT8,
)


class Pieces(Representation):
    """Pieces of a tensor along an axis."""

    keepdims = 1

    def __init__(self, prepared: Prepared, node: Node) -> None:
        self.node, self.graph = node, prepared.producers[node.outputs[0]][1]
        self.tensor = node.inputs[0]
        self.phrase = f"becomes pieces of '{self.tensor}'"
        self.element_type = prepared.element_number(self.tensor)
        shape = prepared.shape(self.tensor)
        # `Any`: where the shape is not known, nothing that needs it is asked for.
        self.rank: Any = None if shape is None else len(shape)
        self.axis = node.attribute("axis", 0)
        if shape is not None:
            self.axis = axis_from_front(self.axis, self.rank)
        self.shape: Any = shape
        self.total = None if shape is None else shape[self.axis]
        # The input of the model, and its axis, that have the length of the tensor, if its name tells that.
        self._fed = prepared.fed_axis(self.total)
        self._cut = 0  # how many there are, where a Split makes all at once
        self._made: Any = None

    def plan(self, name, prepared, read):
        # Where all that is picked is picked at constant positions, a Split makes it.
        n = self.count
        if not n or n > MOST_NUMBERS or self.rank is None or self.element_type not in _SPLIT_TYPES:
            return
        picked: set[int] = set()
        for node, _ in prepared.readers[name]:
            if node is None or node.is_op("Loop"):
                picked.update(range(n))  # see `carried`
            elif node.is_op("SequenceAt"):
                position = position_of(prepared, node.inputs[1]).value
                if position is None or not (self.is_sound() or node.outputs[0] in read):
                    return
                picked.add(position % n)
        if picked and (n <= MOST_AT_ONCE_PIECES or 2 * len(picked) >= n):
            self._cut = n

    def all_lengths(self) -> list[int] | None:
        """Return the lengths of pieces that a Split makes, None where only a run tells."""
        raise NotImplementedError

    def prepare(self, nodes):
        if self._cut:
            # A Split fails where the lengths don't add up.
            known, given = self.all_lengths(), self.node.input(1)
            lengths = nodes.constant(known) if known else nodes.op("Cast", given, to=TensorProto.INT64)
            is_whole = self._cut == 1 and (self.total in (known or ()) or not nodes.builder.has_checks)
            made = nodes.ops("Split", [self.tensor, lengths], [""] * self._cut, axis=self.axis)
            self._made = [self.tensor] if is_whole else made
        self._prepare(nodes)

    def at(self, nodes, position, out):
        if self._made is None:
            return self._pick(nodes, position, out)
        return self._take(nodes, self._made[position.value], out)

    def carried(self, nodes):
        return [self.at(nodes, Position("", k, 0), "") for k in range(self.count or 0)]

    def _prepare(self, nodes):
        raise NotImplementedError

    def _pick(self, nodes, position, out):
        raise NotImplementedError

    def _whole(self, nodes, out):
        raise NotImplementedError

    def _take(self, nodes, piece, out):
        return nodes.op("Identity", piece, out=out)

    def why_not_join(self, axis, stacks, prepared):
        if self._gives_back(axis, stacks):
            return ""
        try:
            return self.as_stack().why_not_join(axis, stacks, prepared)
        except Declined as why:
            return str(why)

    def join(self, nodes, axis, stacks, out):
        if self._gives_back(axis, stacks):
            self._whole(nodes, out)
        else:
            self.as_stack().of(self.stacked(nodes)).join(nodes, axis, stacks, out)

    def _gives_back(self, axis, stacks):
        """Return whether a join undoes the split."""
        return not stacks and self._same_axis(axis)

    def _same_axis(self, axis):
        if self.rank is None:
            return axis == self.axis
        return axis_from_front(axis, self.rank) == self.axis

    # For lists that go on packed (see `packed`)

    @property
    def kept_axis(self):
        """The axis on which the pieces have the lengths of `in_line`, None where all are of one shape."""
        return self.axis

    def stacked_evenly(self, nodes):
        """Return the pieces stacked, None where that takes more than moving axes."""
        try:
            self.as_stack()
        except Declined:
            return None
        return self.stacked(nodes)

    def in_line(self, nodes):
        """Return all numbers in one axis, one piece behind the other, and the pieces' lengths."""
        raise NotImplementedError

    def with_lengths(self, nodes):
        """Return the tensor, bound to the checks, and the lengths of the pieces on the axis."""
        raise NotImplementedError

    def piece_shape(self, nodes):
        """Return the shape of each piece, with any length on `kept_axis`."""
        return nodes.op("Shape", self.tensor)

    def _to_front(self, nodes, tensor, axis, rank):
        if axis == 0:
            return tensor
        order = [axis, *(k for k in range(rank) if k != axis)]
        return nodes.op("Transpose", tensor, perm=order)


class UnitPieces(Pieces):
    """Pieces of length 1, or without the axis. `ones` has the lengths, if the split gets these."""

    def __init__(self, prepared, node, keepdims, ones=""):
        super().__init__(prepared, node)
        self.keepdims, self._ones = keepdims, ones
        self.count = self.total if isinstance(self.total, int) else None

    def all_lengths(self):
        return [1] * self._cut

    def is_sound(self):
        return not self._ones

    def prepare(self, nodes):
        self._check(nodes)
        super().prepare(nodes)

    def _check(self, nodes):
        """Bind the tensor to a check that there are as many lengths as pieces."""
        if self._ones:
            same = nodes.op("Equal", nodes.op("Size", self._ones), nodes.length(self.tensor, self.axis))
            self.tensor = nodes.bound(self.tensor, nodes.fail_if(nodes.op("Not", same)))
            self._ones = ""

    def _prepare(self, nodes):
        if self.element_type == TensorProto.STRING:
            total = nodes.length(self.tensor, self.axis)
            self._starts = nodes.op("Range", nodes.constant(0), total, nodes.constant(1))

    def _take(self, nodes, piece, out):
        if self.keepdims:
            return nodes.op("Identity", piece, out=out)
        return nodes.squeeze(piece, self.axis, out=out)

    def _pick(self, nodes, position, out):
        if self.element_type == TensorProto.STRING:
            # onnxruntime's Gather takes one string only for each index (1.31).
            start = nodes.op("Gather", self._starts, nodes.position(position, 1), axis=0)
            end = nodes.op("Add", start, nodes.constant(1))
            piece = nodes.slice(self.tensor, start, end, self.axis, out=out if self.keepdims else "")
            return piece if self.keepdims else nodes.squeeze(piece, self.axis, out=out)
        # Positions of shape [1] leave an axis of length 1 in place of the one that they pick from.
        rank = 1 if self.keepdims else 0
        return nodes.op("Gather", self.tensor, nodes.position(position, rank), axis=self.axis, out=out)

    def length(self, nodes, out):
        return nodes.length(self.tensor, self.axis, out=out)

    def _gives_back(self, axis, stacks):
        return bool(stacks) != bool(self.keepdims) and self._same_axis(axis)

    def _whole(self, nodes, out):
        if self.count:
            nodes.op("Identity", self.tensor, out=out)
        else:
            shape = nodes.op("Shape", self.tensor)
            n = nodes.op("Gather", shape, nodes.constant(self.axis), axis=0)
            zero = nodes.unless_empty(n, 0)
            nodes.declare(out, self.element_type, self.shape)
            nodes.op("Reshape", self.tensor, nodes.op("Add", shape, zero), out=out)

    def as_stack(self):
        if self.rank is None:
            if self.axis == 0 and not self.keepdims:
                return Stack("", self.element_type, None)
            raise Declined("their rank is not known")
        shape = [length for k, length in enumerate(self.shape) if k != self.axis]
        if self.keepdims:
            shape.insert(self.axis, 1)
        return Stack("", self.element_type, tuple(shape), is_filled=bool(self.count))

    def stacked(self, nodes):
        self._check(nodes)
        stacked = self._to_front(nodes, self.tensor, self.axis, self.rank)
        return nodes.unsqueeze(stacked, self.axis + 1) if self.keepdims else stacked

    kept_axis = None

    def in_line(self, nodes):
        tensor, ones = self.with_lengths(nodes)
        stacked = self._to_front(nodes, tensor, self.axis, self.rank)
        return nodes.op("Reshape", stacked, nodes.constant([-1])), ones

    def with_lengths(self, nodes):
        self._check(nodes)
        total = nodes.unsqueeze(nodes.length(self.tensor, self.axis), 0)
        return self.tensor, nodes.op("Expand", nodes.constant([1]), total)

    def piece_shape(self, nodes):
        lengths = nodes.op("Shape", self.tensor)
        if self.keepdims:
            before, behind = cut_out(nodes, lengths, self.axis, self.rank)
            return nodes.join_axes(*before, [1], *behind)
        others = [k for k in range(self.rank) if k != self.axis]
        return nodes.op("Gather", lengths, nodes.constant(others), axis=0)


class _Cut(Pieces):
    """Pieces that start at several places, with tables of where that is."""

    _split = ""  # what it is split by
    _lengths = ""  # of all, where they are at hand
    _zero = ""  # that there is after the checks alone

    def _one_length(self) -> Any:
        raise NotImplementedError

    def _starts_and_ends(self, nodes) -> Any:
        raise NotImplementedError

    def _prepare(self, nodes):
        # Tensors of one length, split by the same lengths, share their places.
        shared, key = nodes.builder.shared, (self._split, self._fed, self.graph)
        if self._fed and key in shared:
            self._starts, self._ends, self._lengths, self._zero, *tables = shared[key]
        else:
            self._starts, self._ends = self._starts_and_ends(nodes)
            tables = self._places(nodes)
            shared[key] = self._starts, self._ends, self._lengths, self._zero, *tables
        self._tables = tables[0], tables[1]
        nodes.builder.cuts[self.tensor, *self._tables] = self._lengths

    def _places(self, nodes):
        """Return the starts and the ends as tables."""
        return [nodes.unsqueeze(one, 1) for one in (self._starts, self._ends)]

    def _pick(self, nodes, position, out):
        # The tables have rows of one number, so that a position need not become one of shape [1].
        known, at = position.value, nodes.position(position, int(position.value is not None))
        tables = self._tables if known is None else (self._starts, self._ends)
        start = nodes.op("Gather", tables[0], at, axis=0)
        end = self._known_end(nodes, known) or nodes.op("Gather", tables[1], at, axis=0)
        return nodes.slice(self.tensor, start, end, self.axis, out=out)

    def _known_end(self, nodes: Any, position: int | None) -> str:
        """Return where a piece ends, in shape [1], if its position tells that; "" if not."""
        return ""

    def _whole(self, nodes, out):
        if self.count and self.is_sound():
            nodes.op("Identity", self.tensor, out=out)
        else:
            # The starts are bound to the checks.
            nodes.declare(out, self.element_type, self.shape)
            nodes.bound(self.tensor, nodes.first_start(self._starts), out=out)

    def as_stack(self):
        length = self._one_length()
        if length is None:
            raise Declined("their shapes may differ")
        shape = list(self.shape)
        shape[self.axis] = length
        return Stack("", self.element_type, tuple(shape), is_filled=True)

    def stacked(self, nodes):
        before, behind = cut_out(nodes, nodes.op("Shape", self.tensor), self.axis, self.rank)
        parts = [*before, [self.count, self._one_length()], *behind]
        cut = nodes.reshape(self.tensor, nodes.join_axes(*parts))
        return self._to_front(nodes, cut, self.axis, self.rank + 1)

    def with_lengths(self, nodes):
        starts, ends = self._starts_and_ends(nodes)
        ends = nodes.op("Min", ends, nodes.length(self.tensor, self.axis))
        tensor, lengths = self.tensor, nodes.op("Sub", ends, starts)
        if not self.is_sound():
            # How many there are, a runtime may know without the check that the starts are bound to.
            tensor, lengths = (nodes.bound(one, self._zero) for one in (tensor, lengths))
        return tensor, lengths

    def in_line(self, nodes):
        _, lengths = self.with_lengths(nodes)
        flat = nodes.op("Reshape", self.tensor, nodes.constant([-1]))
        if self.axis:
            before, behind = cut_out(nodes, nodes.op("Shape", self.tensor), self.axis, self.rank)
            one = nodes.constant([1])
            outer, inner = (
                nodes.op("ReduceProd", part[0], keepdims=1) if part else one for part in (before, behind)
            )
            flat = nodes.op("ScatterElements", flat, flat_places(nodes, lengths, outer, inner), flat, axis=0)
        return flat, lengths


class EqualPieces(_Cut):
    """Pieces of one length; the last may be smaller. The length is a constant or known at run time."""

    def __init__(self, prepared, node, length=None):
        super().__init__(prepared, node)
        self.piece_length = length
        self._split = node.inputs[1]
        if length and isinstance(self.total, int):
            self.count = math.ceil(self.total / length)

    def all_lengths(self):
        last = self.total - self.piece_length * (self._cut - 1)
        return [self.piece_length] * (self._cut - 1) + [last]

    def _one_length(self):
        return self.piece_length if self.count and self.total % self.piece_length == 0 else None

    def is_sound(self):
        return self.piece_length is not None

    def _starts_and_ends(self, nodes):
        if self.piece_length is None:
            length = nodes.op("Cast", self._split, to=TensorProto.INT64)
            self._zero = nodes.fail_if(nodes.op("Less", length, nodes.constant(1)))
            self._step = nodes.op("Add", length, self._zero)
        else:
            self._step = nodes.constant(self.piece_length)
        total = nodes.length(self.tensor, self.axis)
        starts = nodes.op("Range", nodes.constant(0), total, self._step)
        # The last piece may end behind the axis: Slice stops there.
        return starts, nodes.op("Add", starts, self._step)

    def _places(self, nodes):
        starts = nodes.unsqueeze(self._starts, 1)
        return [starts, nodes.op("Add", starts, self._step)]  # the ends are often read nowhere else

    def _known_end(self, nodes, position):
        if self.piece_length is None or position is None or position < 0:
            return ""
        return nodes.constant([(position + 1) * self.piece_length])

    def length(self, nodes, out):
        count = nodes.length(self._starts, out=out)
        nodes.builder.starts[count] = self._starts
        return count


class ListedPieces(_Cut):
    """Pieces of lengths that are listed: as constants, or in a tensor that comes at run time."""

    def __init__(self, prepared, node, lengths=None):
        super().__init__(prepared, node)
        self.lengths = lengths
        self._split = node.inputs[1]
        self.count = prepared.type(node.outputs[0]).count if lengths is None else lengths.size

    def all_lengths(self):
        return None if self.lengths is None else self.lengths.tolist()

    def _one_length(self):
        if self.lengths is None or not self.is_sound() or self.lengths.min() == 0:
            return None
        return int(self.lengths[0]) if (self.lengths == self.lengths[0]).all() else None

    def is_sound(self):
        return self.lengths is not None and isinstance(self.total, int)

    def _starts_and_ends(self, nodes):
        self._zero = nodes.constant(0)
        if self.lengths is None:
            return self._at_run_time(nodes)
        ends = np.cumsum(self.lengths)
        starts, self._lengths = ends - self.lengths, nodes.constant(self.lengths)
        if self.is_sound():
            return nodes.constant(starts), nodes.constant(ends)
        total = nodes.length(self.tensor, self.axis)
        self._zero = nodes.zero_if_equal(total, nodes.constant(self.lengths.sum()))
        starts = nodes.op("Gather", nodes.constant([starts]), self._zero, axis=0)
        return starts, nodes.op("Add", starts, self._lengths)

    def _at_run_time(self, nodes):
        if self._split in nodes.builder.lengths:
            self._lengths = self._split
            starts = nodes.op("CumSum", self._lengths, self._zero, exclusive=1)
            return starts, nodes.op("Add", starts, self._lengths)
        total = nodes.length(*(self._fed or (self.tensor, self.axis)))
        given = nodes.op("Cast", self._split, to=TensorProto.INT64)
        self._lengths = given
        if nodes.builder.has_checks:
            # With a length that is negative, or that no tensor has, the sum is too large.
            most, modulus = nodes.constant(MOST_ROWS), nodes.constant(MOST_ROWS + 2)
            if nodes.builder.is_for_openvino:  # it computes with 32 bits
                most, modulus = (nodes.op("Add", total, nodes.constant(k)) for k in (1, 3))
            cut = nodes.op("Clip", given, nodes.constant(-1), most)
            self._lengths = nodes.op("Mod", cut, modulus)
        self._zero = nodes.zero_if_equal(nodes.sum(self._lengths), total)
        starts = nodes.op("CumSum", self._lengths, self._zero, exclusive=1)
        return starts, nodes.op("Add", starts, self._lengths)

    def length(self, nodes, out):
        # Not just the length of the starts: a runtime may know it without the check that they are bound to.
        if self.lengths is not None:
            return nodes.op("Gather", nodes.constant([self.count]), self._zero, axis=0, out=out)
        count = nodes.op("Gather", nodes.op("Shape", self._starts), self._zero, axis=0, out=out)
        nodes.builder.starts[count] = self._starts
        return count


def pieces_of(node: Node, prepared: Prepared) -> Pieces:
    """Return a split as a representation. Raise `Declined` if there is none."""
    axis, shape = node.attribute("axis", 0), prepared.shape(node.inputs[0])
    if shape is not None and axis_from_front(axis, len(shape)) is None:
        raise Declined(f"axis {axis} of '{node.name}' is out of range")
    keeps = node.attribute("keepdims", 1)
    if keeps not in (0, 1):
        raise Declined(f"keepdims of '{node.name}' is {keeps}, neither 0 nor 1")
    split = node.input(1)
    if not split:
        return UnitPieces(prepared, node, keeps)
    lengths, rank = prepared.integers(split), prepared.type(split).rank
    if lengths is None:
        if rank is None or rank > 1:
            raise Declined(f"whether '{node.name}' gets one length or a list of them is not known")
        if rank == 0 and not keeps:
            raise Declined(f"whether the pieces of '{node.name}' keep their axis depends on the split")
        if rank and _are_ones(split, prepared) and shape is not None:
            return UnitPieces(prepared, node, 1, ones=split)
        return ListedPieces(prepared, node) if rank else EqualPieces(prepared, node)
    if lengths.ndim > 1 or lengths.size == 0 or (lengths < (lengths.ndim == 0)).any():
        raise Declined(f"'{node.name}' can't split into lengths of {lengths.tolist()}")
    if lengths.ndim == 0:
        if int(lengths) == 1:
            return UnitPieces(prepared, node, keeps)
        return EqualPieces(prepared, node, int(lengths))
    pieces = ListedPieces(prepared, node, lengths)
    if isinstance(pieces.total, int) and pieces.total != lengths.sum():
        raise Declined(f"the lengths at '{node.name}' don't sum to {pieces.total}")
    return pieces


def _are_ones(lengths: str, prepared: Prepared) -> bool:
    """Return whether lengths are all 1, as those that PyTorch's `repeat_interleave` splits by."""
    node = prepared.producer(lengths)
    if node is None or not node.is_op("ConstantOfShape") or "value" not in node.attribute_names():
        return False
    return bool((from_tensor_proto(node.tensor("value")) == 1).all())
