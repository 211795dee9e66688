"""InferenceSession: ONNX models with sequences, in time that is linear in what they do."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from onnx import ModelProto, TensorProto, TypeProto

from seqcore._integers import as_count
from seqcore.onnx._engines.engines import Engines, engines_of
from seqcore.onnx._engines.feeds import NodeArg, check_feed, with_safe_strings
from seqcore.onnx._model.load import folder_of, operators_of, parse, path_of
from seqcore.onnx._model.prepare import message_has_lists
from seqcore.onnx._model.weights import Weights, without_weights
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._runtimes.versions import restamp_proto

__all__ = ["InferenceSession"]

# onnxruntime has no types, and an import of what has none would make these unknown, not Any.
_SessionOptions = Any
_RunOptions = Any


class InferenceSession:
    """A session that takes the place of onnxruntime's and makes models with sequences fast.

    Parameters
    ----------
    model : str, os.PathLike, bytes or ModelProto
        The path to a model, whose external data are loaded with it, or the model.
    sess_options : onnxruntime.SessionOptions, optional
    providers : sequence, optional
    provider_options : sequence of dict, optional
        As onnxruntime's session takes them. They hold for the session of each part; without options, parts
        have threads that don't wait busily for each other.
    max_workers : int or None, optional
        How many elements a SequenceMap node maps at once; None is one thread for each CPU.

    Raises
    ------
    ValueError
        If the model is invalid: what onnx's checker or its type inference says.
    TypeError
        If `model` is nothing of the kind, or `max_workers` is no integer.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    A model without sequences goes to onnxruntime whole. Of another the sequences are compiled away where
    that is possible (see `lower`), and onnxruntime runs the lowered model whole as long as what is left of
    sequences is short: which is settled by lengths and by how earlier runs went, never by the clock. That
    is done for the third run, or earlier if a sequence is long; until then onnxruntime runs the model as it
    is. Longer sequences run in steps: tensor operators in onnxruntime, in parts as large as they can be,
    while sequences, optionals and the control flow that carries them run on `TensorSequence`. A value at its
    last use is edited in place, so that an append in a loop is O(1) where onnxruntime copies the list.
    Sequences have every element type, those included for which onnxruntime has no kernel. Results are the
    same on each path, but for the last bits where onnxruntime fuses operators that a plan has in two parts.

    Where onnxruntime departs from ONNX's text, the text counts, but for what exporters count on: of
    `SplitToSequence` with a split of 1 and keepdims=0, as PyTorch exports `unbind`, the axis is dropped.

    Several threads may run one session at once. Loading takes about twice as long as in onnxruntime, a
    median over models that exporters made.

    Examples
    --------
    >>> import onnx, numpy as np
    >>> model = onnx.parser.parse_model('''
    ...     <ir_version: 8, opset_import: ["": 17]>
    ...     halves (float[N] x) => (seq(float[]) s) { s = SplitToSequence(x) }''')
    >>> session = InferenceSession(model)
    >>> session.run(None, {"x": np.ones(3, np.float32)})[0].shapes
    [(1,), (1,), (1,)]
    """

    def __init__(
        self,
        model: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any],
        sess_options: _SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        max_workers: SupportsIndex | None = 1,
    ) -> None:
        max_workers = as_count("max_workers", max_workers)
        self._sessions = sessions = Sessions(sess_options, providers, provider_options)
        self._engines: Engines | None = None
        self._whole: Any = None  # onnxruntime's session, where the model has no sequences
        self._kinds: dict[str, TypeProto] = {}  # of its inputs, as far as they are known
        self._strings: list[str] = []  # of these those that are strings
        if _is_ort_format(model):
            self._whole = sessions.as_given(_for_onnxruntime(model))
            return
        message = parse(model)
        self._metadata = ModelMetadata(message)
        if message_has_lists(message):
            is_path = isinstance(model, str | os.PathLike)
            weightless, weights = without_weights(
                message, folder_of(model), path_of(model) if is_path else None
            )
            del message  # that takes as much memory as the weights
            self._engines = engines_of(model, weightless, weights, sessions, max_workers)
        else:
            self._whole = sessions.as_given(_loadable(model, message))
            self._kinds = {one.name: one.type for one in message.graph.input}
            self._strings = [
                name for name, kind in self._kinds.items() if kind.tensor_type.elem_type == TensorProto.STRING
            ]

    # An array, a TensorSequence or None for each output, in a model without sequences whatever onnxruntime
    # has. The model tells which, so nobody should have to ask; feeds are as varied.
    def run(
        self,
        output_names: list[str] | tuple[str, ...] | None,
        input_feed: Mapping[str, Any],
        run_options: _RunOptions | None = None,
    ) -> list[Any]:
        """Run the model.

        Parameters
        ----------
        output_names : list of str or None
            Which outputs to return; None or an empty list for all.
        input_feed : dict of str to value
            Arrays, TensorSequences or lists of arrays, and None for an optional input that is empty.
        run_options : onnxruntime.RunOptions, optional

        Returns
        -------
        list
            An array for a tensor, a TensorSequence for a sequence, None for an empty optional. They share no
            memory with the feeds or with each other.

        Raises
        ------
        TypeError
            If a feed is of another type than the model declares.
        ValueError
            If a feed is missing, unknown or of another shape, or an output is unknown; from a node, if what
            it gets doesn't fit.
        IndexError
            If a node gets a position that is out of range. Errors name the node.
        Exception
            What onnxruntime raises, as it is.
        """
        if self._engines is not None:
            return self._engines.run(output_names, input_feed, run_options)
        input_feed = with_safe_strings(input_feed, self._strings)
        try:
            return self._whole.run(output_names, input_feed, run_options)
        except Exception:
            check_feed(input_feed, self._kinds)  # where a feed is to blame, onnxruntime often doesn't say so
            raise

    def get_inputs(self) -> list[NodeArg]:
        """Return what the model needs to be fed: names, types and shapes."""
        return self._whole.get_inputs() if self._engines is None else list(self._engines.interface.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return what the model gives: names, types and shapes."""
        return self._whole.get_outputs() if self._engines is None else list(self._engines.interface.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that have a default."""
        if self._engines is None:
            return self._whole.get_overridable_initializers()
        return list(self._engines.interface.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Return the model's metadata."""
        return self._whole.get_modelmeta() if self._engines is None else self._metadata

    def get_providers(self) -> list[str]:
        """Return the execution providers, in the order of precedence."""
        return self._any_session().get_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the execution providers' options."""
        return self._any_session().get_provider_options()

    def get_session_options(self) -> _SessionOptions:
        """Return the session options."""
        return self._any_session().get_session_options()

    def _any_session(self) -> Any:
        return self._whole if self._engines is None else self._sessions.probe()


class ModelMetadata:
    """What a model says of itself, as onnxruntime gives it."""

    def __init__(self, message: ModelProto) -> None:
        self.producer_name: str = message.producer_name
        self.graph_name: str = message.graph.name
        self.domain: str = message.domain
        self.description: str = message.doc_string
        self.graph_description: str = message.graph.doc_string
        # Where a model has none, onnxruntime says this.
        self.version: int = message.model_version if message.HasField("model_version") else (1 << 63) - 1
        self.custom_metadata_map: dict[str, str] = {one.key: one.value for one in message.metadata_props}


def _is_ort_format(model: Any) -> bool:
    """Return whether a model is in onnxruntime's own format, which only it can read."""
    if isinstance(model, str | os.PathLike):
        return path_of(model).endswith(".ort")
    return isinstance(model, bytes | bytearray | memoryview) and bytes(model[4:8]) == b"ORTM"


def _loadable(model: Any, message: ModelProto) -> Any:
    """Return what onnxruntime loads of a model: itself, or its bytes with versions that onnxruntime knows."""
    restamped = ModelProto()
    restamped.CopyFrom(message)
    if not restamp_proto(restamped, operators_of(message)):
        return message.SerializeToString() if isinstance(model, ModelProto) else _for_onnxruntime(model)
    folder = folder_of(model)
    weights = Weights(folder)
    return weights.filled_model(restamped).SerializeToString()


def _for_onnxruntime(model: Any) -> str | bytes:
    """Return a path or bytes as onnxruntime takes them: a path only where it is UTF-8."""
    if not isinstance(model, str | os.PathLike):
        return bytes(model)
    path = path_of(model)
    try:
        path.encode()
    except UnicodeEncodeError:
        with open(path, "rb") as file:
            return file.read()
    return path
