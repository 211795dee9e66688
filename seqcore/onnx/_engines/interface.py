"""The inputs and outputs of a model: names, types, shapes and defaults."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from onnx import TypeProto

from seqcore._arguments.shown import got, shown
from seqcore.onnx._engines.feeds import Feed, NodeArg
from seqcore.onnx._model.prepare import declared_shape
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import from_tensor_proto
from seqcore.onnx._model.types import OPTIONAL, SEQUENCE, TENSOR, to_type_proto


class Interface:
    """The inputs and outputs of a model.

    Attributes
    ----------
    inputs, outputs, overridable : list of NodeArg
        As onnxruntime's sessions give them.
    feeds : dict of str to Feed
        In the order of the model.
    types : dict of str to TensorType, class or None
        Their `type`.
    names : list of str
        Of the outputs; one may be there twice.
    declares_elements : bool
        True if the model declares element shapes for an input sequence.
    has_sequences : bool
        True if one goes in or out.
    unranked : list of str
        The inputs whose rank isn't known, or that of their elements.
    """

    def __init__(self, prepared: Prepared) -> None:
        model = prepared.model
        declared = model.graph.declared
        self.feeds = {name: Feed(name, declared.get(name, TypeProto())) for name in model.graph.inputs}
        self.types = {name: one.type for name, one in self.feeds.items()}
        self.defaults: dict[str, Any] = {}
        self._required = []
        for name in model.graph.inputs:
            if name in model.defaults:
                self.defaults[name] = from_tensor_proto(prepared.weights.filled(model.defaults[name]))
            elif prepared.type(name).kind != OPTIONAL:
                self._required.append(name)
        self.names = list(model.graph.outputs)
        self._sequences = [(name, feed) for name, feed in self.feeds.items() if feed.declares_elements]
        self.declares_elements = bool(self._sequences)
        outside = (*model.graph.inputs, *model.graph.outputs)
        self.has_sequences = any(prepared.is_sequence(name) for name in outside)
        self.unranked = [
            name
            for name in model.graph.inputs
            if prepared.type(name).kind in (TENSOR, SEQUENCE) and prepared.type(name).rank is None
        ]
        args = [NodeArg(feed.name, feed.kind) for feed in self.feeds.values()]
        self.inputs = [one for one in args if one.name not in model.defaults]
        self.overridable = [one for one in args if one.name in model.defaults]
        # The shapes that onnxruntime gives: those that the model declares, with the lengths that it infers.
        self.outputs = []
        for name in self.names:
            kind, type_ = declared.get(name, TypeProto()), prepared.type(name)
            if kind.WhichOneof("value") is None:
                kind = to_type_proto(type_, with_shape=True)
            elif type_.number and _is_of_tensors(name, prepared):
                kind = to_type_proto(type_._replace(shape=declared_shape(type_, kind)), with_shape=True)
            self.outputs.append(NodeArg(name, kind))

    def fits(self, feed: Mapping[str, Any]) -> bool:
        """Return whether the elements of fed sequences have shapes as the model declares them."""
        return all(one.has_fitting_elements(feed.get(name)) for name, one in self._sequences)

    def check_names(self, output_names: Any, feed: Any) -> None:
        """Raise TypeError or ValueError where these aren't names of outputs and values by names of inputs."""
        if isinstance(output_names, str):
            raise TypeError(f"output_names must be a list of names, got the str {shown(output_names)}")
        if output_names is not None and not isinstance(output_names, list | tuple):
            raise TypeError(f"output_names must be a list of names, got {got(output_names)}")
        for name in output_names or ():
            if not isinstance(name, str):
                raise TypeError(f"output_names must be a list of names, but one of them is {got(name)}")
        if not isinstance(feed, Mapping):
            raise TypeError(f"input_feed must be a dict of the inputs by name, got {got(feed)}")
        missing = [name for name in self._required if name not in feed]
        if missing:
            raise ValueError(
                f"input_feed lacks {_quoted(missing)}: the model's inputs are {_quoted(self.feeds)}"
            )
        for name in feed:
            if name not in self.feeds:
                raise ValueError(
                    f"the model has no input {shown(name)}: its inputs are {_quoted(self.feeds)}"
                )
        for name in output_names or ():
            if name not in self.names:
                raise ValueError(
                    f"the model has no output {shown(name)}: its outputs are {_quoted(self.names)}"
                )


def _quoted(names: Iterable[str]) -> str:
    return ", ".join(f"'{name}'" for name in names) or "none"


def _is_of_tensors(name: str, prepared: Prepared) -> bool:
    """Return whether tensor operators alone compute a value, so that onnxruntime infers its shape."""
    seen: set[str] = set()
    todo = [name]
    while todo:
        name = todo.pop()
        node = prepared.producer(name)
        if name in seen or node is None:
            continue
        seen.add(name)
        if node.graphs or record_of(node).is_of_lists:
            return False
        todo += filter(None, node.inputs)
    return prepared.is_tensor(name)
