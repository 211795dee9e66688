"""Reading a body: a graph in any of its forms becomes a model that needs nothing from outside."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import Any

import onnx
from onnx import AttributeProto, GraphProto, ModelProto, OperatorSetIdProto, TensorProto, helper

from seqcore._arguments.integers import as_integer
from seqcore._arguments.shown import add_note, got, shown
from seqcore._arguments.tensors import as_tensor
from seqcore.onnx._model.checks import check_message
from seqcore.onnx._model.load import operators_of, path_of
from seqcore.onnx._model.tensors import declared_dtype, one_line, to_tensor_proto
from seqcore.onnx._runtimes.sessions import newest_opset, restamp_proto


def read_model(
    graph: Any,
    opset_imports: Mapping[str, int] | Iterable[OperatorSetIdProto] | None = None,
    captures: Mapping[str, Any] | None = None,
) -> ModelProto:
    """Return a checked model of a body, of its own memory, with the captures as initializers.

    Parameters
    ----------
    graph : GraphProto, ModelProto, str or os.PathLike
    opset_imports : mapping of str to int or sequence of OperatorSetIdProto, optional
    captures : mapping of str to array_like, optional

    Raises
    ------
    ValueError
        If the model is invalid, a capture is missing, or an input or output is not a tensor.
    TypeError
        If `graph` is none of these.
    """
    model = _as_model(graph, opset_imports)
    for tensor in _all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(
                f"the tensor '{tensor.name}' of the body has its data in a file: pass the path of the model"
            )
    graph = model.graph
    graph.name = graph.name or "body"
    # An input with an initializer is a default that a map never overrides: to us it is a constant. Before
    # version 4 of the IR every initializer had to be an input too.
    constants = _initializer_names(graph)
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    _capture(graph, captures or {})
    for value in (*graph.input, *graph.output):
        declared_dtype(value)
    if not graph.output:
        raise ValueError(f"the body '{graph.name}' has no outputs")
    check_message(model, f"the body '{graph.name}'")
    restamp_proto(model, operators_of(model))
    return model


def _as_model(graph, opset_imports):
    if isinstance(graph, GraphProto):
        model = ModelProto()
        model.graph.CopyFrom(graph)
        model.opset_import.extend(_opset_imports(opset_imports, model))
        model.ir_version = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
        return model
    if opset_imports is not None:
        raise ValueError("opset_imports is for a GraphProto only, because a model has its own opset imports")
    if isinstance(graph, ModelProto):
        model = ModelProto()
        model.CopyFrom(graph)
        return model
    if isinstance(graph, str | os.PathLike):
        path = path_of(graph)
        try:
            return onnx.load(path)
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{path} can't be read as an ONNX model: {one_line(error)}") from error
    raise TypeError(f"graph must be a GraphProto, a ModelProto or the path to a model, got {got(graph)}")


def _opset_imports(given, model):
    if given is None:
        given = {}
    elif not isinstance(given, Mapping):
        given = list(given)
        for one in given:
            if not isinstance(one, OperatorSetIdProto):
                raise TypeError(f"opset_imports must have OperatorSetIdProtos, got {shown(one)}")
        return given
    named = {}
    for domain, version in given.items():
        if not isinstance(domain, str):
            raise TypeError(f"opset_imports must have names of domains as keys, got {shown(domain)}")
        number = as_integer(version)
        if number is None:
            raise TypeError(f"the version of the opset '{domain}' must be an integer, got {shown(version)}")
        if not 0 < number < 1 << 63:
            raise ValueError(f"the opset '{domain}' has no version {shown(number)}")
        named["" if domain == "ai.onnx" else domain] = number
    domains = {"": None} | {"" if n == "ai.onnx" else n: None for n, _ in operators_of(model)}
    versions = {domain: named.get(domain) or newest_opset(domain) for domain in domains} | named
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _capture(graph, captures):
    missing = []
    for name in _free_names(graph):
        if name not in captures:
            missing.append(name)
            continue
        try:
            tensor = as_tensor(captures[name])
        except (TypeError, ValueError, OverflowError) as error:
            add_note(error, f"capture '{name}' of the body '{graph.name}'")
            raise
        graph.initializer.append(to_tensor_proto(tensor, name))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        them = "it" if len(missing) == 1 else "them"
        raise ValueError(
            f"the body '{graph.name}' uses {names} and doesn't define {them}: pass a value in captures"
        )


def _all_graphs(root: Any) -> list[Any]:
    """Return a graph (or a function, which has nodes too) and all graphs inside it."""
    graphs = [root]
    for graph in graphs:
        for node in graph.node:
            graphs += [one.g for one in node.attribute if one.type == AttributeProto.GRAPH]
            graphs += [g for one in node.attribute for g in one.graphs]
    return graphs


def _all_tensors(model: ModelProto) -> Iterable[TensorProto]:
    """Yield the tensors that are stored in a model: initializers and attributes."""
    for root in (model.graph, *model.functions):
        for graph in _all_graphs(root):
            if isinstance(graph, GraphProto):
                yield from graph.initializer
            for node in graph.node:
                for attribute in node.attribute:
                    if attribute.type == AttributeProto.TENSOR:
                        yield attribute.t
                    yield from attribute.tensors


def _initializer_names(graph: GraphProto) -> set[str]:
    return {one.name for one in graph.initializer} | {one.values.name for one in graph.sparse_initializer}


def _free_names(graph: GraphProto) -> list[str]:
    """Return the names that a graph or one inside it uses and none of them defines, in order of use."""
    defined = {one.name for one in graph.input} | _initializer_names(graph)
    used: dict[str, None] = {}
    for node in graph.node:
        used |= dict.fromkeys(node.input)
        for attribute in node.attribute:
            if attribute.type == AttributeProto.GRAPH:
                used |= dict.fromkeys(_free_names(attribute.g))
        defined.update(node.output)
    used |= dict.fromkeys(output.name for output in graph.output)
    return [name for name in used if name and name not in defined]
