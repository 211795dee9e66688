"""Fixed input shapes, and loops whose number of iterations is known, written out one by one.

    y = Loop (2, true, a) <(i, _, s) ⟶ t = Add (s, i)>    ──▶    b = Add (a, 0); y = Add (b, 1)

A list that such a loop makes is a list of a known number of elements.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from onnx import GraphProto

from seqcore._arguments.shown import shown
from seqcore.onnx._lowering.portable import fold_constants
from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.inference import Inference
from seqcore.onnx._model.loop_parts import LoopParts, parts_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import TENSOR, Length, Type, from_type_proto, to_type_proto
from seqcore.onnx._model.writing import Writer
from seqcore.onnx._rewrite.emit import Builder
from seqcore.onnx._rewrite.few import copied
from seqcore.onnx._rewrite.prune import prune
from seqcore.onnx._thresholds import MOST_NODES_WRITTEN_OUT, MOST_WRITTEN_OUT

# How the note on a loop that is gone begins.
WRITTEN_OUT = "is written out"
# ONNX's limit for a model, minus room for everything except nodes.
MOST_NBYTES = (1 << 31) - (1 << 24)


def fix_shapes(prepared: Prepared, shapes: Mapping[str, Sequence[int]]) -> Prepared:
    """Return what is known of a copy of a model whose inputs have fixed shapes.

    Raises
    ------
    ValueError
        If a name is not a tensor among the inputs, or a shape doesn't fit its declared type.
    """
    model = prepared.model.copy()
    for name, given in shapes.items():
        if name not in model.graph.inputs:
            names = ", ".join(map(repr, model.graph.inputs))
            raise ValueError(f"shapes has {shown(name)}, which is not an input of the model: it has {names}")
        type_ = from_type_proto(model.graph.declared[name])
        if type_.kind != TENSOR:
            what = "which is not a tensor: pass ragged_io=True, and name its tensors"
            raise ValueError(f"shapes has {name!r}, {what}")
        shape = _as_shape(name, given)
        said = type_.shape
        if said is not None and len(said) != len(shape):
            what = f"has rank {len(shape)}, got {shape}: the input has rank {len(said)}"
            raise ValueError(f"shapes[{name!r}] {what}")
        for axis, (length, own) in enumerate(zip(shape, said or (), strict=False)):
            if isinstance(own, int) and own != length:
                raise ValueError(f"shapes[{name!r}] has {length} on axis {axis}: the model fixes it to {own}")
        model.graph.declared[name] = to_type_proto(Type(TENSOR, type_.number, shape), with_shape=True)
    return prepared.again(model)


def _as_shape(name: str, given: Any) -> tuple[int, ...]:
    try:
        shape = tuple(map(operator.index, given))
    except TypeError:
        raise TypeError(f"shapes[{name!r}] must be a tuple of integers, got {shown(given)}") from None
    if not all(0 <= length < 1 << 63 for length in shape):
        raise ValueError(f"shapes[{name!r}] must have lengths from 0 to 2**63 - 1, got {shape}")
    return shape


def unroll_loops(
    prepared: Prepared, left: Iterable[str], most: int = MOST_WRITTEN_OUT
) -> tuple[Prepared, dict[str, str]]:
    """Write out loops whose number of iterations is known, each as that many copies of its body.

    Parameters
    ----------
    prepared : Prepared
        Its model is changed in place.
    left : iterable of str
        The names of the loops to write out.
    most : int, optional
        The largest number of iterations.

    Returns
    -------
    Prepared
        What is known of the model then.
    dict of str to str
        The names of loops → what became of them.

    Raises
    ------
    ValueError
        If the model would get larger than ONNX's 2 GB.
    """
    model, builder = prepared.model, Builder(prepared.model)
    names, notes, nbytes = set(left), {}, 0
    todo = [model.graph]
    while todo:
        graph = todo.pop()
        for node in graph.nodes:
            count: int | str = "" if node.name not in names else count_of(node, prepared, most)
            if isinstance(count, int):
                nbytes += count * _nbytes(node.body)
                if nbytes > MOST_NBYTES:
                    what = f"{count} iterations of {node.label()}"
                    raise ValueError(f"{what} would make the model larger than ONNX's 2 GB: lower unroll")
                notes[node.name] = f"{WRITTEN_OUT}: {count} iteration{'' if count == 1 else 's'}"
                _unroll(node, count, prepared, builder)
            else:
                if count:
                    notes[node.name] = f"stays a loop: {count}"
                todo += node.graphs.values()
    if any(note.startswith(WRITTEN_OUT) for note in notes.values()):
        builder.apply()
        prune(model)
        prepared = fold_constants(prepared.again(model))
    return prepared, notes


def short_loops(prepared: Prepared, names: Iterable[str]) -> list[str]:
    """Return those of some loops that are quicker if they are written out, whatever the inputs are."""
    found: list[str] = []
    for node in prepared.model.graph.all_nodes():
        if node.name in names and node.is_op("Loop"):
            inner = [one for one in node.body.all_nodes() if not one.is_op("Identity")]
            most = min(MOST_WRITTEN_OUT, MOST_NODES_WRITTEN_OUT // max(len(inner), 1))
            if not any(map(_may_repeat, inner)) and isinstance(count_of(node, prepared, most), int):
                found.append(node.name)
    return found


def _may_repeat(node: Node) -> bool:
    return bool(node.graphs) and record_of(node).may_repeat(node)


def count_of(loop: Node, prepared: Prepared, most: int) -> int | str:
    """Return how many iterations a loop has in every run, or why it can't be written out."""
    parts = parts_of(loop)
    if not parts.begins(prepared):
        return "whether it begins depends on data" if prepared.condition(parts.condition) is None else 0
    trips = prepared.integer(parts.trips) if parts.trips else most + 1
    if trips is None:
        return "the number of its iterations depends on data"
    if parts.passes_condition_on:
        count: int | None = max(trips, 0)
    else:
        count = _count_by_condition(loop, parts, prepared, min(trips, most + 1))
    if count is None:
        return "whether it goes on depends on data"
    return count if count <= most else f"it has more than {most} iterations"


def _count_by_condition(loop: Node, parts: LoopParts, prepared: Prepared, most: int) -> int | None:
    """Return how many iterations a loop has that decides in each whether to go on, at most `most`."""
    known = Inference(prepared.model, prepared.small_constant, types=prepared.types)
    known.numbers.update(prepared.numbers)
    types: list[Type] = [known.type(name) for name in parts.initial]
    numbers: list[tuple[Length, ...] | None] = [known.numbers_of(name) for name in parts.initial]
    for i in range(most):
        known.numbers.update({parts.iteration: (i,), parts.going_in: (1,)})
        for name, type_, fixed in zip(parts.states, types, numbers, strict=True):
            known.types[name] = type_
            known.numbers.pop(name, None)
            if fixed is not None:
                known.numbers[name] = fixed
        known.follow(loop.body)
        going = known.condition(parts.going_out)
        if going is None:
            return None
        if not going:
            return i + 1
        types = [known.type(name) for name in parts.next_states]
        numbers = [known.numbers_of(name) for name in parts.next_states]
    return most


def _nbytes(body: Graph) -> int:
    proto = GraphProto()
    Writer().write_graph(body, proto)
    return int(proto.ByteSize())


def _unroll(loop: Node, count: int, prepared: Prepared, builder: Builder) -> None:
    """Put copies of a loop's body in its place."""
    parts, nodes = parts_of(loop), builder.instead(loop)
    shapes = [prepared.shape(name) or () for name in (parts.iteration, parts.going_in)]
    states = list(parts.initial)
    rows: list[list[str]] = [[] for _ in parts.scans]
    for i in range(count):
        names = {
            parts.iteration: nodes.constant(np.full(shapes[0], i)),
            parts.going_in: nodes.constant(np.full(shapes[1], True), bool),
            **dict(zip(parts.states, states, strict=True)),
        }
        made = copied(loop.body, names, builder, str(i))
        nodes.nodes += made.nodes
        states = made.outputs[1 : 1 + len(states)]
        for row, name in zip(rows, made.outputs[1 + len(states) :], strict=True):
            row.append(nodes.unsqueeze(name, 0))
    for name, out in zip(states, parts.final, strict=True):
        nodes.op("Identity", name, out=out)
    for row, scan, out in zip(rows, parts.scans, parts.stacked, strict=True):
        if row:
            nodes.op("Concat", *row, axis=0, out=out)
        else:
            lengths = [n if isinstance(n, int) else 0 for n in prepared.shape(scan) or ()]
            empty = np.zeros((0, *lengths))
            nodes.op("Identity", nodes.constant(empty, dtype_of(prepared.element_number(scan))), out=out)
