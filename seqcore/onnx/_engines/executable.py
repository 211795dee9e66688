"""Executables: a region of a model, cut out, in one session.

    region (a graph, a part, one node) ──▶ model, with guards if it needs any ──▶ session
    values ──▶ feed ──▶ run ──▶ values, or `Refused`

A region is a whole graph (`whole`), or a part or a foreign node of a plan (`planner`). A map's body is cut
out here too, but becomes a `GraphBody`, which has several ways to run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onnx import TypeProto

from seqcore.core.maps import outputs_of
from seqcore.core.sequence import TensorSequence
from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined
from seqcore.onnx._model.tensors import dtype_of, one_line
from seqcore.onnx._model.types import SEQUENCE, TENSOR
from seqcore.onnx._model.weights import nbytes_of
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._runtimes.runners import make_runner
from seqcore.onnx._runtimes.sessions import (
    REFUSALS,
    SILENT,
    TWO_C_TYPES,
    Refused,
    Sessions,
    bare_run,
    restamp,
)
from seqcore.onnx._thresholds import HEAVY


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
    return model


def is_heavy(model: Model) -> bool:
    """Return whether a model holds so many weights that what it computes takes longer than any overhead."""
    return nbytes_of(model.constants.values()) >= HEAVY


class Executable:
    """A region of a model in one session.

    Parameters
    ----------
    region : Model
        Cut out of a model, or a copy of it. Its versions become those that onnxruntime loads.
    outputs : list of str
        The outputs that are read: of a model with guards not all.
    prepared : Prepared
        The model that the region is of.
    sessions : Sessions
    label : str, optional
        The name for errors. With one, onnx's reference evaluator runs operators that onnxruntime lacks: all
        inputs and outputs must be tensors then.
    parts : dict of str to list of str, optional
        Sequences among the outputs that the region gives as tensors, and the names of these: stacked, or
        values and lengths.
    **options : bool
        As `Sessions.make` takes them.

    Attributes
    ----------
    run_all : callable
        Takes a feed and options, and returns a list of the outputs; exceptions of onnxruntime are unchanged.

    Raises
    ------
    Declined
        If onnxruntime refuses it, and it has no label.
    ValueError
        If it has one, and neither runs it.
    """

    def __init__(
        self,
        region: Model,
        outputs: list[str],
        prepared: Prepared,
        sessions: Sessions,
        label: str = "",
        parts: Mapping[str, list[str]] | None = None,
        **options: bool,
    ) -> None:
        restamp(region)
        message = to_message(region)

        def session(message):
            return sessions.make(message, prepared.weights, **options)

        self.run_all: Callable[[Any, Any], list[Any]]
        if label:
            self.run_all = make_runner(message, label, session, prepared.weights.fill).run
            return
        try:
            self._bare = bare_run(session(message))
        except REFUSALS as refusal:
            raise Declined(f"onnxruntime refuses it: {one_line(refusal)}") from refusal
        self.run_all = self._run_all
        parts = parts or {}
        self._parts = {name: parts.get(name, [name]) for name in outputs}
        self._hows = {name: _how(prepared, name, parts) for name in outputs}
        self._all = self._results_of(outputs)

    def _run_all(self, feed: dict[str, Any], options: Any) -> list[Any]:
        values = {name: list(one) if isinstance(one, TensorSequence) else one for name, one in feed.items()}
        try:
            return self.run(None, values, options)
        except Refused as refused:
            raise refused.__cause__ or refused from None

    def run(self, names: Any, feed: dict[str, Any], options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none: sequences are `TensorSequence`.

        Raises
        ------
        Refused
            If onnxruntime raises one of its exceptions: that is the cause.
        """
        wanted, hows = self._results_of(names) if names else self._all
        try:
            values = self._bare(wanted, feed, options or SILENT)
        except REFUSALS as refusal:
            raise Refused(str(refusal)) from refusal
        return outputs_of(values, hows)

    def _results_of(self, names: list[str]) -> tuple[list[str], list[Any]]:
        """Return the names to ask onnxruntime for, and how to make outputs of its values."""
        hows: list[Any] = []
        wanted: list[str] = []
        for k, name in enumerate(names):
            first = names.index(name)
            if first < k:  # onnxruntime would give one array for both
                hows.append(first)
            else:
                wanted += self._parts[name]
                hows.append(self._hows[name])
        return wanted, hows


def _how(prepared: Prepared, name: str, parts: Mapping[str, list[str]]) -> Any:
    """Return how to make an output of values of onnxruntime: see `outputs_of`."""
    type_ = prepared.type(name)
    dtype = dtype_of(type_.number)
    if name in parts:
        return (
            "stacked" if len(parts[name]) == 1 else "joined",
            dtype_of(prepared.type(parts[name][0]).number),
        )
    if type_.kind == SEQUENCE and dtype is not None:
        return ("list", dtype)
    return (None, dtype) if type_.kind == TENSOR and dtype in TWO_C_TYPES else None
