"""Sequences that go in and out of a model, as tensors: values and lengths, or values and extents.

elements                     go in and out as
of rank 0                    s_values (n,)
(None, 4, 2)                 s_values (sum of the lengths, 4, 2), s_lengths (n,)
(None, None)                 s_values (all numbers,), s_extents (n, 2)
(4, 2), out of a session     s_rows (n, 4, 2)
(None, 4, 2), the same       as above, or stacked s_values (n, length, 4, 2) and s_lengths ()
"""

from __future__ import annotations

from typing import NamedTuple

from onnx import TensorProto, TypeProto, helper

from seqcore.onnx._lists.cuts import sum_of, zeros
from seqcore.onnx._lists.representations import has_no_zeros
from seqcore.onnx._model.graph import Model, Node, fresh_name
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.types import NEVER, SEQUENCE, Type, from_type_proto
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._rewrite.prune import prune

# Nodes of ours, which no lowered model has: their records stand in `_operators/ragged`.
FROM_EXTENTS, TO_TENSORS = "seqcore.FromExtents", "seqcore.ToTensors"


class Layout(NamedTuple):
    """The tensors that stand for a sequence: by the elements' type, and the known part of their shape.

    `leaves_session` is True for what a session gets of onnxruntime: it tells a stack from joined values.
    """

    number: int
    shape: tuple[int | None, ...]
    leaves_session: bool = False

    @property
    def are_rows(self) -> bool:
        """True for a single tensor of elements of one shape, one behind the other."""
        return self.leaves_session and has_no_zeros(self.shape)

    @property
    def has_lengths(self) -> bool:
        """True if the elements can differ only along axis 0."""
        return bool(self.shape) and None not in self.shape[1:]

    def words(self) -> list[str]:
        """Return what the tensors are."""
        if self.are_rows:
            return ["rows"]
        if not self.shape:
            return ["values"]
        return ["values", "lengths" if self.has_lengths else "extents"]

    def attributes(self) -> dict[str, list[int]]:
        """Return what the nodes of ours have: the shape, -1 for what isn't known."""
        shape = [-1 if length is None else length for length in self.shape]
        return ({"shape": shape} if shape else {}) | ({"session": [1]} if self.leaves_session else {})

    def types(self) -> list[tuple[int, tuple[int | None, ...] | None]]:
        """Return the element type and the shape of each, None where that depends on how they are made."""
        if self.are_rows:
            return [(self.number, (None, *self.shape))]
        if self.leaves_session and self.shape:
            return [(self.number, None), (TensorProto.INT64, None)]
        if not self.shape:
            return [(self.number, (None,))]
        if self.has_lengths:
            return [(self.number, (None, *self.shape[1:])), (TensorProto.INT64, (None,))]
        return [(self.number, (None,)), (TensorProto.INT64, (None, len(self.shape)))]


class Opened(NamedTuple):
    """A model whose sequences go in and out as tensors.

    Attributes
    ----------
    prepared : Prepared
    inputs : dict of str to list of str
        A sequence that the model took → the names of the tensors that it takes now.
    outputs : dict of str to list of str
        The same for what it returns.
    """

    prepared: Prepared
    inputs: dict[str, list[str]]
    outputs: dict[str, list[str]]

    def left_in(self, model: Model) -> set[str]:
        """Return the sequences of them that a lowered model still has."""
        left = set()
        for node in model.graph.nodes:
            left |= self.inputs.keys() & {*node.outputs}
            if node.op_type == TO_TENSORS:
                left.add(node.inputs[0])
        return left


def open_sequences(given: Prepared, kept: set[str], is_for_session: bool = False) -> Opened:
    """Let the sequences that a model takes and gives go in and out as tensors, except some that are kept.

    For a session those stay too that would go in and out as values and extents, and rows come out as such.

    parts: seq(float[M, 4])    ──▶    parts_values: float[T, 4], parts_lengths: int64[N]
                                      parts = SplitToSequence (parts_values, parts_lengths)
    """
    model = given.model.copy()
    graph, builder, taken = model.graph, Builder(model), model.names()
    inputs: dict[str, list[str]] = {}
    outputs: dict[str, list[str]] = {}
    first, last = [], []
    for name in graph.inputs:
        type_ = from_type_proto(graph.declared.get(name, TypeProto()))
        if name not in kept and (layout := _layout_of(type_, is_for_session)) is not None:
            inputs[name] = _name_tensors(model, name, layout, taken)
            first += _nodes_in(builder, name, inputs[name], layout)
    graph.nodes = [*first, *graph.nodes]
    graph.inputs = [new for name in graph.inputs for new in inputs.get(name, [name])]
    # The declared shapes of input sequences are checked now, so more is known of others.
    known = given.again(model)
    for name in graph.outputs:
        type_ = known.type(name)
        if type_.shape == NEVER:
            # There never is an element: what the model declares tells which tensors are wanted.
            fixed = from_type_proto(graph.declared.get(name, TypeProto())).shape
            type_ = type_._replace(shape=(None,) if fixed is None else fixed)
        if name not in kept and (layout := _layout_of(type_, is_for_session)) is not None:
            layout = layout._replace(leaves_session=is_for_session)
            outputs[name] = _name_tensors(model, name, layout, taken)
            nodes = Nodes(builder, Node("", [], [], name))
            nodes.ops(TO_TENSORS, [name], outputs[name], **layout.attributes())
            last += nodes.nodes
    graph.nodes += last
    graph.outputs = [new for name in graph.outputs for new in outputs.get(name, [name])]
    prune(model)  # what is fed and not read has no use for nodes
    return Opened(given.again(model), inputs, outputs)


def _layout_of(type_: Type, is_for_session: bool) -> Layout | None:
    if type_.kind != SEQUENCE or not type_.number or type_.shape is None:
        return None
    layout = Layout(type_.number, tuple(n if isinstance(n, int) else None for n in type_.shape))
    return layout if not is_for_session or layout.has_lengths or not layout.shape else None


def _name_tensors(model: Model, name: str, layout: Layout, taken: set[str]) -> list[str]:
    """Return names for the tensors of a sequence, and declare what they are."""
    names = []
    for word, (number, shape) in zip(layout.words(), layout.types(), strict=True):
        names.append(fresh_name(f"{name}_{word}", taken))
        model.graph.declared[names[-1]] = helper.make_tensor_type_proto(number, shape)
    return names


def _nodes_in(builder: Builder, name: str, tensors: list[str], layout: Layout) -> list[Node]:
    """Return the nodes that make a sequence of the tensors that the model takes for it."""
    nodes = Nodes(builder, Node("", [], [], name))
    if not layout.shape:
        nodes.op("SplitToSequence", *tensors, keepdims=0, out=name)
    elif not layout.has_lengths:
        nodes.op(FROM_EXTENTS, *tensors, out=name, **layout.attributes())
    elif not has_no_zeros(layout.shape):
        nodes.op("SplitToSequence", *tensors, axis=0, out=name)
    else:
        # Elements of one shape are rows, where the lengths say so.
        values, lengths = tensors
        differing = nodes.op("Not", nodes.op("Equal", lengths, nodes.constant(layout.shape[0])))
        count = nodes.op("ReduceSum", nodes.op("Cast", differing, to=TensorProto.INT64), keepdims=0)
        wanted = nodes.op("ReduceSum", lengths, keepdims=0)
        missing = nodes.op("Abs", nodes.op("Sub", nodes.length(values), wanted))
        zero = nodes.require_zero(nodes.op("Add", count, missing))
        rows = nodes.op("Reshape", nodes.bound(values, zero), nodes.constant([-1, *layout.shape]))
        nodes.op("SplitToSequence", rows, axis=0, keepdims=0, out=name)
    return nodes.nodes


def give_nothing(nodes: Nodes, count: str, layout: Layout, outs: list[str]) -> None:
    """Make the tensors of a sequence that has no element, ever, if it can be made: `count` is then 0."""
    joined = layout._replace(leaves_session=layout.are_rows)
    for (number, shape), out in zip(joined.types(), outs, strict=True):
        behind = [length or 0 for length in (shape or ())[1:]]
        zeros(nodes, number, nodes.join_axes(count, behind), out)


def give_rows(nodes: Nodes, rows: str, layout: Layout, outs: list[str]) -> None:
    """Make the tensors of a sequence of elements that are stacked."""
    if layout.leaves_session or not layout.shape:
        nodes.op("Identity", rows, out=outs[0])
        for lengths in outs[1:]:
            nodes.op("Identity", nodes.constant(0), out=lengths)  # not one for each element: they are stacked
        return
    shape = nodes.op("Shape", rows)
    n = nodes.slice(shape, nodes.constant([0]), nodes.constant([1]), 0)
    if layout.has_lengths:
        length = nodes.slice(shape, nodes.constant([1]), nodes.constant([2]), 0)
        total = nodes.op("Mul", n, length)
        flat = rows if has_no_zeros(layout.shape[1:]) else nodes.op("Reshape", rows, nodes.constant([-1]))
        _shape_values(nodes, flat, total, layout, outs[0])
        nodes.op("Expand", length, n, out=outs[1])
        return
    rank = len(layout.shape)
    extent = nodes.slice(shape, nodes.constant([1]), nodes.constant([1 + rank]), 0)
    nodes.op("Reshape", rows, nodes.constant([-1]), out=outs[0])
    nodes.op("Expand", extent, nodes.join_axes(n, [rank]), out=outs[1])


def give_numbers(nodes: Nodes, values: str, extents: str, layout: Layout, outs: list[str]) -> None:
    """Make the tensors of a sequence of its numbers and extents."""
    if layout.are_rows:
        nodes.op("Reshape", values, nodes.constant([-1, *layout.shape]), out=outs[0])
        return
    if not layout.has_lengths:
        nodes.op("Identity", values, out=outs[0])
        nodes.op("Identity", extents, out=outs[1])
        return
    first = nodes.slice(extents, nodes.constant([0]), nodes.constant([1]), 1)
    nodes.squeeze(first, 1, out=outs[1])
    if len(layout.shape) == 1:
        nodes.op("Identity", values, out=outs[0])
    else:
        _shape_values(nodes, values, sum_of(nodes, outs[1]), layout, outs[0])


def _shape_values(nodes: Nodes, tensor: str, total: str, layout: Layout, out: str) -> None:
    """Make the values of elements that can differ on axis 0 alone: there they are `total` long."""
    behind = list(layout.shape[1:])
    if has_no_zeros(layout.shape[1:]):
        # The total is in it for the checks that it may be bound to.
        none = nodes.op("Sub", total, total)
        nodes.op("Reshape", tensor, nodes.op("Add", nodes.constant([-1, *behind]), none), out=out)
    else:
        nodes.reshape(tensor, nodes.join_axes(total, behind), out)
