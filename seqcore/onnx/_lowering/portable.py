"""Rewrites for the runtimes that take the fewest operators: tract, IREE, onnx2torch, tinygrad and others.

Such a model has no checks at run time and no second way for large inputs (`Builder.has_checks`). Its
constants are folded, and it has the oldest opset that its operators allow.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto

from seqcore.onnx._lowering.openvino import take_known_branches
from seqcore.onnx._model.graph import STANDARD, Graph, Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import dtype_of, to_tensor_proto
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._rewrite.prune import prune
from seqcore.onnx._runtimes.sessions import REFUSALS, Sessions
from seqcore.onnx._thresholds import MOST_NUMBERS

# The meaning of these changed, or that of a string attribute.
_CHANGED = ("AveragePool", "BatchNormalization", "GridSample", "LpPool", "MaxPool", "Resize", "Upsample")
# Softmax of a matrix, Squeeze by attributes: what came before is another language.
_OLDEST = 13


def make_portable(prepared: Prepared) -> Prepared:
    """Return what is known of a lowered model that was rewritten for most runtimes; its model is changed."""
    model = prepared.model
    _replace_compress(model)
    prepared = fold_constants(prepared.again(model))
    for node in model.graph.all_nodes():
        lengths, fixed = prepared.numbers.get(node.input(1)) or (), prepared.constant(node.input(1))
        if node.is_op("Reshape") and 0 not in lengths and (fixed is None or fixed.all()):
            node.drop_attribute("allowzero")
        if node.op_type.startswith("Reduce") and node.attribute("axes") == []:
            node.drop_attribute("axes")  # these are all axes; onnx2torch (1.5) and TVM (0.27) can't read it
        if node.is_op("CumSum"):  # onnx2torch (1.5) sums from the back without them
            for name in ("exclusive", "reverse"):
                node.set_attribute(name, node.attribute(name, 0))
    model.opsets[""] = oldest_opset(model, prepared, _OLDEST)
    return prepared


def _replace_compress(model: Model) -> None:
    """Gather in the place of Compress, which tract (0.23), onnx2torch (1.5) and IREE (3.13) don't compile.

    Compress (x, mask)    ──▶    Gather (x, Reshape (NonZero (mask), [-1]))
    """
    builder = Builder(model)
    for node in model.graph.all_nodes():
        if node.is_op("Compress") and "axis" in node.attribute_names():
            nodes = builder.instead(node)
            at = nodes.op("Reshape", nodes.op("NonZero", node.inputs[1]), nodes.constant([-1]))
            nodes.op("Gather", node.inputs[0], at, axis=node.attribute("axis"), out=node.outputs[0])
    builder.apply()


# The oldest opset


def oldest_opset(model: Model, prepared: Prepared, least: int) -> int:
    """Return the oldest opset in which a model's operators mean the same, `least` at least."""
    version = model.opset
    nodes = [node for node in model.graph.all_nodes() if node.domain in STANDARD]
    while version > least and all(_allows(node, version, version - 1, prepared) for node in nodes):
        version -= 1
    return version


def _allows(node: Node, version: int, older: int, prepared: Prepared) -> bool:
    """Return whether a node means in an older opset what it means in another."""
    if not onnx.defs.has(node.op_type, older):
        return False
    now, then = (onnx.defs.get_schema(node.op_type, one) for one in (version, older))
    if now.since_version == then.since_version:
        return True
    if node.op_type in _CHANGED or len(node.inputs) > then.max_input or len(node.outputs) > then.max_output:
        return False
    for name, attribute in now.attributes.items():
        before = then.attributes.get(name)
        if name in node.attribute_names() or name in node.graphs:
            if before is None or before.type != attribute.type:
                return False
        elif before is not None and before.default_value != attribute.default_value:
            return False
    return _takes_types(then, node, prepared)


def _takes_types(schema: onnx.defs.OpSchema, node: Node, prepared: Prepared) -> bool:
    allowed = {one.type_param_str: one.allowed_type_strs for one in schema.type_constraints}
    for names, formal in ((node.inputs, schema.inputs), (node.outputs, schema.outputs)):
        for k, name in enumerate(names):
            one = formal[min(k, len(formal) - 1)]
            number = prepared.element_number(name)
            if name and number and (prepared.is_tensor(name) or prepared.is_sequence(name)):
                text = f"tensor({TensorProto.DataType.Name(number).lower()})"
                text = f"seq({text})" if prepared.is_sequence(name) else text
                if text not in allowed.get(one.type_str, [one.type_str]):
                    return False
    return True


# Constants


def fold_constants(prepared: Prepared) -> Prepared:
    """Compute what is known before the run, and replace each If by a branch that it always takes.

    Parameters
    ----------
    prepared : Prepared
        Its model is changed in place.

    Returns
    -------
    Prepared
        What is known of the model then.
    """
    model = prepared.model
    tried: set[str] = set()
    while True:
        known = _known_integers(prepared)
        known |= _evaluated(prepared, known, tried)
        has_changed = _put_constants(model, known) | take_known_branches(model, prepared) | _bypass(prepared)
        if not has_changed:
            return prepared
        prune(model)
        prepared = prepared.again(model)


def _known_integers(prepared: Prepared) -> dict[str, np.ndarray[Any, Any]]:
    """Return the integers and conditions that nodes make, and that are known from shapes."""
    known: dict[str, np.ndarray[Any, Any]] = {}
    for name, numbers in prepared.numbers.items():
        type_, node = prepared.type(name), prepared.producer(name)
        dtype = dtype_of(type_.number)
        is_made = node is not None and not node.graphs and not node.is_op("Identity")
        if not is_made or dtype is None or dtype.kind not in "ib":
            continue
        if all(isinstance(one, int) for one in numbers) and type_.shape in ((), (len(numbers),)):
            array = np.array(numbers, dtype)
            known[name] = array if type_.rank else array.reshape(())
    # onnxruntime (1.32) drops an Expand to no items.
    for node in prepared.model.graph.all_nodes():
        type_ = prepared.type(node.outputs[0])
        dtype, shape = dtype_of(type_.number), [n for n in type_.shape or () if isinstance(n, int)]
        if node.is_op("Expand") and dtype is not None and len(shape) == type_.rank and 0 in shape:
            known[node.outputs[0]] = np.empty(shape, dtype)
    return known


def _evaluated(prepared: Prepared, known: dict[str, np.ndarray], tried: set[str]) -> dict[str, np.ndarray]:
    """Return what nodes make of constants, computed in onnxruntime; `tried` has the nodes that it refused."""
    model = prepared.model
    part = Model(Graph("constants", [], []), dict(model.opsets), model.ir_version)
    part.constants = {name: to_tensor_proto(array, name) for name, array in known.items()}
    made: dict[str, Node] = {}
    for node in model.graph.all_nodes():
        names = list(filter(None, node.inputs))
        is_pure = names and not node.graphs and not record_of(node).draws and not record_of(node).is_of_lists
        if not is_pure or node.is_op("Identity") or node.name in tried or node.outputs[0] in known:
            continue
        for name in names:
            if name not in part.constants and prepared.small_constant(name) is not None:
                part.constants[name] = model.constants[name]
        sizes = [prepared.shape(name) or () for name in node.outputs]
        is_large = any(math.prod(n for n in one if isinstance(n, int)) > MOST_NUMBERS for one in sizes)
        if not is_large and all(name in part.constants or name in made for name in names):
            part.graph.nodes.append(node)
            made |= dict.fromkeys(filter(None, node.outputs), node)
    part.graph.outputs = list(made)
    try:
        values = Sessions().make(to_message(part)).run(None, {}) if made else []
    except REFUSALS:  # one fails in every run, or has no kernel
        values = _values_of_each(part)
    tried.update(node.name for node in part.graph.nodes)
    return {
        name: value
        for name, value in zip(made, values, strict=True)
        if isinstance(value, np.ndarray) and value.size <= MOST_NUMBERS
    }


def _values_of_each(part: Model) -> list[Any]:
    """Return what nodes make, one after the other, None for what onnxruntime refuses."""
    values: dict[str, Any] = {}
    for node in part.graph.nodes:
        graph = Graph("constant", [], list(filter(None, node.outputs)), [node])
        alone = Model(graph, part.opsets, part.ir_version)
        alone.constants = part.constants | {
            name: to_tensor_proto(value, name) for name, value in values.items() if name in node.inputs
        }
        try:
            values |= zip(alone.graph.outputs, Sessions().make(to_message(alone)).run(None, {}), strict=True)
        except REFUSALS:
            continue
    return [values.get(name) for name in part.graph.outputs]


def _put_constants(model: Model, known: dict[str, np.ndarray]) -> bool:
    """Make constants of what nodes make; return whether there was one.

    An output of a graph is made by a node still.
    """
    has_changed = False
    for graph in model.graph.all_graphs():
        nodes = Nodes(Builder(model), "")
        for node in graph.nodes:
            if not all(name in known for name in filter(None, node.outputs)):
                nodes.nodes.append(node)
                continue
            has_changed = True
            for name in filter(None, node.outputs):
                if name in graph.outputs:
                    nodes.op("Identity", nodes.constant(known[name], known[name].dtype), out=name)
                else:
                    model.constants[name] = to_tensor_proto(known[name], name)
        graph.nodes = nodes.nodes
    return has_changed


def _bypass(prepared: Prepared) -> bool:
    """Let the readers of x + 0, x - 0, x * 1 and of copies of x read x itself."""
    instead: dict[str, str] = {}
    for graph in prepared.model.graph.all_graphs():
        for node in graph.nodes:
            out = node.outputs[0]
            if out not in graph.outputs and (source := _source_of(node, prepared)):
                instead[out] = instead.get(source, source)
    for node in prepared.model.graph.all_nodes() if instead else ():
        node.inputs = [instead.get(name, name) for name in node.inputs]
    return bool(instead)


def _source_of(node: Node, prepared: Prepared) -> str:
    """Return the input that a node passes on as it is, "" for none."""
    if node.is_op("Identity"):
        return node.inputs[0] if prepared.is_tensor(node.inputs[0]) else ""
    neutral = {"Add": 0, "Sub": 0, "Mul": 1}.get(node.op_type)
    if neutral is None or not node.is_op("Add", "Sub", "Mul"):
        return ""
    shape = prepared.shape(node.outputs[0])
    for one, other in (node.inputs, node.inputs[:: -1 if node.op_type != "Sub" else 1]):
        constant = prepared.constant(other)
        if constant is None or constant.dtype.kind not in "iu" or not (constant == neutral).all():
            continue
        is_single = constant.ndim <= 1 and constant.size == 1 and prepared.type(one).rank == 1
        if is_single or (shape is not None and None not in shape and prepared.shape(one) == shape):
            return one
    return ""
