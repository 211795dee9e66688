"""Loading: a model in any of its forms becomes a message.

path, bytes or ModelProto ──▶ message ──▶ message without weights ──▶ checks, normal form, passes
                                     └──▶ weights: see `weights`  ──▶ sessions
"""

import os
from collections.abc import Iterator
from typing import Any

from google.protobuf.message import DecodeError
from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, TensorProto

from seqcore._arguments.shown import got
from seqcore.onnx._model.tensors import one_line


def parse(model: Any, name: str = "the bytes") -> ModelProto:
    """Return a model as a ModelProto, its external data left where they are.

    Parameters
    ----------
    model : ModelProto, bytes, str or os.PathLike
    name : str, optional
        The name of bytes in messages.

    Raises
    ------
    ValueError
        If the bytes or the file are not a model.
    TypeError
        If `model` is none of these.
    FileNotFoundError
        If there is no file at the path.
    """
    check_kind(model)
    if isinstance(model, ModelProto):
        return model
    if isinstance(model, bytes | bytearray | memoryview):
        data, what = bytes(model), name
    else:
        what = path_of(model)
        with open(what, "rb") as file:
            data = file.read()
    try:
        loaded = ModelProto.FromString(data)
    except DecodeError as error:
        raise ValueError(f"{what} can't be read as an ONNX model: {one_line(error)}") from error
    if not loaded.HasField("graph"):
        raise ValueError(f"{what} can't be read as an ONNX model: it has no graph")
    return loaded


def check_kind(model: Any) -> None:
    """Raise TypeError if it is neither a model nor bytes or a path of one."""
    if not isinstance(model, ModelProto | bytes | bytearray | memoryview | str | os.PathLike):
        raise TypeError(f"model must be a path, bytes or a ModelProto, got {got(model)}")


def path_of(model: Any) -> str:
    """Return a path as an exact str, whatever bytes it consists of."""
    return str.__str__(os.fsdecode(os.fspath(model)))


def place_of(model: Any) -> str | None:
    """Return the path of a model, to whose folder its external data are relative; None if it has none."""
    return os.path.abspath(path_of(model)) if isinstance(model, str | os.PathLike) else None


def all_graphs(model: ModelProto) -> Iterator[GraphProto | FunctionProto]:
    """Yield the graphs of a message and its functions, in all depths."""
    todo: list[Any] = [model.graph, *model.functions]
    while todo:
        graph = todo.pop()
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.GRAPH:
                    todo.append(attribute.g)
                elif attribute.type == AttributeProto.GRAPHS:
                    todo += attribute.graphs


def all_tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Yield the tensors that are stored in a message, in all depths: initializers and attributes."""
    for graph in all_graphs(model):
        if isinstance(graph, GraphProto):
            yield from graph.initializer
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.type == AttributeProto.TENSOR:
                    yield attribute.t
                yield from attribute.tensors


def operators_of(model: ModelProto) -> set[tuple[str, str]]:
    """Return the operators of a message in all depths, as pairs of domain and name."""
    return {(node.domain, node.op_type) for graph in all_graphs(model) for node in graph.node}
