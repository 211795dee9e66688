"""Tensor parts: nodes cut out of a model, which run in a session of onnxruntime."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
from onnx import TensorProto, TypeProto, helper

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.schedule import Frame, Step
from seqcore.onnx._model.graph import Graph, Model, Node, reads_of
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import dtype_of, one_line, tensor_type
from seqcore.onnx._model.types import SEQUENCE, to_type_proto
from seqcore.onnx._model.weights import HEAVY, nbytes_of
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._runtimes.runners import make_runner
from seqcore.onnx._runtimes.sessions import REFUSALS, restamp


def cut_out(
    nodes: list[Node], inputs: dict[str, TypeProto], outputs: list[str], prepared: Prepared, name: str
) -> Model:
    """Return a model of some nodes.

    Parameters
    ----------
    nodes : list of Node
    inputs : dict of str to TypeProto
        The captures of the nodes, with their types.
    outputs : list of str
        The values that are read elsewhere.
    prepared : Prepared
        The model that they stand in: its constants come along.
    name : str
        A name for the graph.
    """
    graph = Graph(name, list(inputs), outputs, nodes)
    graph.declared = dict(inputs)
    model = Model(graph, prepared.model.opsets, prepared.model.ir_version)
    constants = prepared.model.constants
    model.constants = {one: constants[one] for one in graph.free_names() if one in constants}
    restamp(model)
    return model


def is_heavy(model: Model) -> bool:
    """Return whether a model holds so many weights that what it computes takes longer than any overhead."""
    return nbytes_of(model.constants.values()) >= HEAVY


def wanted_outside(nodes: list[Node], prepared: Prepared) -> list[str]:
    """Return the values that nodes make and others read, in the order in which they are made."""
    inside = set(nodes)
    for node in nodes:
        for graph in node.graphs.values():
            inside.update(graph.all_nodes())
    return [
        name
        for node in nodes
        for name in node.outputs
        if any(reader is None or reader not in inside for reader, _ in prepared.readers[name])
    ]


class TensorPart:
    """Some nodes as one step: it takes tensors from their places in a frame and puts tensors there.

    It is compiled when it is made. Only where no type is inferred for what it takes, that waits for the first
    run: types never change in a model, so they are those of all runs.

    Raises
    ------
    ValueError
        If the nodes can't be run.
    """

    def __init__(self, nodes: list[Node], planner: Any, in_loop: bool) -> None:
        self._nodes, self._in_loop = nodes, in_loop
        self._prepared, self._sessions = planner.prepared, planner.sessions
        self.outputs = wanted_outside(nodes, planner.prepared)
        made = {name for node in nodes for name in node.outputs}
        reads = {name for node in nodes for name in reads_of(node)} - made
        inputs = sorted(name for name in reads if not planner.prepared.is_constant(name))
        self._from = [(name, planner.place(name)) for name in inputs]
        self._to = [planner.place(name) for name in self.outputs]
        self._run: Any = None
        self._compiling = threading.Lock()
        self.reads = reads
        if all(planner.prepared.element_number(name) for name in inputs):
            self._run = self._compile([])
        else:
            planner.late.append(self)

    def __call__(self, frame: Frame) -> None:
        if self._run is None:
            with self._compiling:
                self._run = self._run or self._compile(frame)
        results = self._run({name: frame[i] for name, i in self._from}, frame[0])
        for i, tensor in zip(self._to, results, strict=True):
            frame[i] = tensor

    def _compile(self, frame: Frame) -> Any:
        inputs = {}
        for name, i in self._from:
            number = self._prepared.element_number(name) or tensor_type(frame[i].dtype)
            inputs[name] = helper.make_tensor_type_proto(number, None)
        model = cut_out(self._nodes, inputs, self.outputs, self._prepared, "part")
        is_large = is_heavy(model) and not self._in_loop
        options = {"spins": is_large, "arena": not self._in_loop}

        def session(message):
            return self._sessions.make(message, self._prepared.weights, **options)

        first, last = self._nodes[0].name, self._nodes[-1].name
        label = f"the node '{first}'" if first == last else f"the part from '{first}' to '{last}'"
        return make_runner(to_message(model), label, session, self._prepared.weights.filled_model).run


class ForeignNode:
    """A node that takes or gives sequences and is none of ONNX's sequence operators, run in onnxruntime.

    For example `ZipMap`, whose sequence of maps is passed on as onnxruntime gives it.
    """

    def __init__(self, node: Node, planner: Any) -> None:
        prepared = planner.prepared
        names = [name for name in dict.fromkeys(node.inputs) if name and not prepared.is_constant(name)]
        inputs = {name: to_type_proto(prepared.type(name)) for name in names if prepared.type(name).kind}
        self._names = [name for name in node.outputs if name]
        model = cut_out([node], inputs, self._names, prepared, "node")
        try:
            self._session = planner.sessions.make(to_message(model), prepared.weights, spins=False)
        except REFUSALS as error:
            raise ValueError(f"{node.label()} can't be run: {one_line(error)}") from error
        self._from = [(name, planner.place(name)) for name in inputs]
        self._to = [(planner.place(name), _sequence_dtype(name, prepared)) for name in self._names]

    def __call__(self, frame: Frame) -> None:
        feed = {name: frame[i] for name, i in self._from}
        for name, value in feed.items():
            if isinstance(value, TensorSequence):
                feed[name] = list(value)
        results = self._session.run(self._names, feed, frame[0])
        for (i, dtype), value in zip(self._to, results, strict=True):
            frame[i] = value if dtype is None else TensorSequence(value, dtype=dtype)


def _sequence_dtype(name, prepared):
    type_ = prepared.type(name)
    return dtype_of(type_.number) if type_.kind == SEQUENCE else None


# Small parts: a few integers and conditions, which NumPy computes in less time than a session's run.


# A run of a session costs as much as this many operators in NumPy, or more.
_MOST_NODES = 4
# On integers and conditions NumPy is exact, and broadcasts as ONNX does since version 7.
_TYPES = (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)


def numpy_part(nodes: list[Node], planner: Any) -> Step | None:
    """Return a step for nodes that are few and simple enough, None for others."""
    if len(nodes) > _MOST_NODES:
        return None
    calls = []
    for node in nodes:
        function = _function(node, planner)
        if function is None:
            return None
        calls.append(
            (function, [planner.place(name) for name in node.inputs], planner.place(node.outputs[0]))
        )

    def step(frame):
        for function, sources, to in calls:
            frame[to] = np.asarray(function(*[frame[i] for i in sources]))

    return step


def _function(node: Node, planner: Any) -> Any:
    if node.is_op("Identity"):
        return np.asarray  # of any type: tensors in a frame never change
    number = planner.prepared.element_number
    if not all(number(name) in _TYPES for name in (*node.inputs, *node.outputs)):
        return None
    if node.is_op("Cast"):
        dtype = dtype_of(number(node.outputs[0]))
        return lambda array: array.astype(dtype)
    return None if node.attribute_names() else record_of(node).numpy
