"""Rewrites for runtimes other than onnxruntime, most of them for OpenVINO."""

from __future__ import annotations

import math

from onnx import TensorProto

from seqcore.onnx._lists.cuts import make_empty
from seqcore.onnx._model.graph import Model, Node, rename
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.positions import is_never_negative
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._rewrite.emit import AFTER_ALL, Builder, Nodes

# Types of which Max makes a copy that OpenVINO leaves in.
_COPIED = (TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT64, TensorProto.INT32, TensorProto.FLOAT16)
# So many nodes may lie between an If and a Concat that joins the wrong numbers.
_NODES_TO_CONCAT = 3


def take_known_branches(model: Model, prepared: Prepared) -> bool:
    """Replace each If with the nodes of a branch, if it always takes that.

    PyTorch exports `squeeze` of an axis whose length it doesn't know as a branch:

    y = If (length is 1) <z = Squeeze (x), w = Identity (x)>    ──▶    y = Squeeze (x)

    Parameters
    ----------
    model : Model
    prepared : Prepared
        The types of this model, or of the model that it copies.

    Returns
    -------
    bool
        Whether there was one.
    """
    has_changed = False
    # Innermost first: a branch moves with its nodes.
    for graph in reversed(list(model.graph.all_graphs())):
        nodes: list[Node] = []
        for node in graph.nodes:
            if node.is_op("If") and (fixed := prepared.condition(node.inputs[0])) is not None:
                branch = node.graphs["then_branch" if fixed else "else_branch"]
                rename(branch.nodes, dict(zip(branch.outputs, node.outputs, strict=True)))
                nodes += branch.nodes
                has_changed = True
            else:
                nodes.append(node)
        graph.nodes = nodes
    return has_changed


def make_empty_constants(model: Model) -> None:
    """Let nodes make the constants without items.

    OpenVINO (2026.4) takes one for a scalar. As a shape, or part of one, it takes it as it is.
    """
    read, no_shapes = set(), set()
    for graph in model.graph.all_graphs():
        read.update(graph.outputs)
        no_shapes.update(graph.outputs)
        for node in graph.nodes:
            read.update(node.inputs)
            no_shapes.update(name for k, name in enumerate(node.inputs) if not _takes_shape(node, k))
    nodes = Nodes(Builder(model), Node("", [], [], "empty"))
    for name, tensor in list(model.constants.items()):
        is_shape = tensor.data_type == TensorProto.INT64 and name not in no_shapes
        if name in read and tensor.dims and math.prod(tensor.dims) == 0 and not is_shape:
            del model.constants[name]
            make_empty(nodes, tensor.data_type, tensor.dims, name)
    model.graph.nodes = [*nodes.nodes, *model.graph.nodes]


def _takes_shape(node: Node, k: int) -> bool:
    """Return whether input k of a node is a shape, or joined to others."""
    return node.is_op("ConstantOfShape", "Concat") or (k == 1 and node.is_op("Expand", "Reshape"))


def keep_counts_from_negative(model: Model, prepared: Prepared, builder: Builder) -> None:
    """Let Loops and Ranges that count to a negative number count to 0: OpenVINO (2026.4) doesn't.

    PyTorch exports `range(1, len(x))` as one less than the length.
    """
    for node in list(model.graph.all_nodes()):
        is_range = node.is_op("Range") and [prepared.integer(name) for name in node.inputs[::2]] == [0, 1]
        if not is_range and not (node.is_op("Loop") and node.input(0)):
            continue
        k = int(is_range)
        if not is_never_negative(prepared, node.inputs[k]):
            nodes = builder.before(node)
            zero = nodes.constant(0, dtype_of(prepared.element_number(node.inputs[k])))
            node.inputs[k] = nodes.op("Max", node.inputs[k], zero)
    builder.apply()


def give_conditions_nodes(model: Model) -> None:
    """Let a node of each loop's body make its condition, where it is handed on as it is.

    OpenVINO (2026.4) counts one state too many of a loop without, if it reads the model from a file.
    """
    builder = Builder(model)
    for node in list(model.graph.all_nodes()):
        if node.is_op("Loop") and parts_of(node).passes_condition_on:
            nodes = Nodes(builder, node)
            going = node.body.inputs[1]
            node.body.outputs[0] = nodes.op("Identity", going)
            if going in node.body.declared:
                node.body.declared[node.body.outputs[0]] = node.body.declared[going]
            node.body.nodes += nodes.nodes


def cut_stacks_of_no_iteration(model: Model, prepared: Prepared, builder: Builder) -> None:
    """Cut off what a loop without an iteration gives: in OpenVINO (2026.4) that is as long as the last run's.

    y = Loop (n, c) <x>    ──▶    z = Loop (n, c) <x>; y = Slice (z, 0, no limit where c and n > 0, else 0)
    """
    for node in list(model.graph.all_nodes()):
        if not node.is_op("Loop") or parts_of(node).runs_at_least_once(prepared):
            continue
        parts, nodes = parts_of(node), builder.after(node)
        if not parts.stacked:
            continue
        runs = []
        if parts.trips:
            runs.append(nodes.op("Greater", parts.trips, nodes.constant(0)))
        if not parts.begins(prepared):
            runs.append(parts.condition)
        is_run = nodes.op("And", *runs) if len(runs) > 1 else runs[0]
        end = nodes.op("Cast", nodes.op("Reshape", is_run, nodes.constant([1])), to=TensorProto.INT64)
        end = nodes.op("Mul", end, nodes.constant(AFTER_ALL))
        for k, name in enumerate(parts.stacked, len(parts.final)):
            node.outputs[k] = builder.fresh(f"{name}/stack")
            nodes.slice(node.outputs[k], nodes.constant([0]), end, 0, out=name)
    builder.apply()


def drop_axes_of_conditions(model: Model, prepared: Prepared, builder: Builder) -> None:
    """Let an If go by a condition of one axis at most: OpenVINO (2026.4) takes no others."""
    for node in model.graph.all_nodes():
        if node.is_op("If") and (prepared.type(node.inputs[0]).rank or 0) > 1:
            nodes = builder.before(node)
            node.inputs[0] = nodes.op("Reshape", node.inputs[0], nodes.constant([1]))
    builder.apply()


def copy_outputs_of_ifs(model: Model, prepared: Prepared, builder: Builder) -> None:
    """Copy what an If makes where a Concat takes what is made of it: OpenVINO (2026.4) joins anything there.

    y = If (c); z = CumSum (y); w = Concat (a, z)    ──▶    x = If (c); y = Max (x, x); …
    """
    reaches = {
        name for node in model.graph.all_nodes() if node.is_op("Concat") for name in node.inputs if name
    }
    for _ in range(_NODES_TO_CONCAT):
        reaches |= {
            name
            for node in model.graph.all_nodes()
            if not node.graphs and any(made in reaches for made in node.outputs)
            for name in node.inputs
        }
    for node in list(model.graph.all_nodes()):
        for k, name in enumerate(node.outputs if node.is_op("If") else ()):
            if name in reaches and prepared.element_number(name) in _COPIED:
                node.outputs[k] = builder.fresh(f"{name}/if")
                builder.after(node).op("Max", node.outputs[k], node.outputs[k], out=name)
    builder.apply()
