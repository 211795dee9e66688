"""InferenceSession: run ONNX models with sequences in linear time."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, SupportsIndex

from onnx import ModelProto, TensorProto, TypeProto

from seqcore._arguments.integers import as_count
from seqcore.onnx._engines.engines import Engines, engines_of
from seqcore.onnx._engines.feeds import NodeArg, check_feed, with_safe_strings
from seqcore.onnx._model.load import folder_of, operators_of, path_of
from seqcore.onnx._model.prepare import message_has_lists
from seqcore.onnx._model.repair import name_outputs, nameless_splits
from seqcore.onnx._model.weights import Weights, open_model, without_fields, without_weights
from seqcore.onnx._runtimes.sessions import Sessions, restamp_proto

__all__ = ["InferenceSession"]

# onnxruntime has no type hints, so an import would make these unknown, not Any.
_SessionOptions = Any
_RunOptions = Any


class InferenceSession:
    """A replacement for onnxruntime's session that makes models with sequences fast.

    Parameters
    ----------
    model : str, os.PathLike, bytes or ModelProto
        The path to a model, the serialized model, or the model. External data are loaded from beside a path.
    sess_options : onnxruntime.SessionOptions, optional
        The options, as in onnxruntime. They apply to the onnxruntime session of each part of the model.
        Without options, spinning is disabled in the thread pools of the parts.
    providers : sequence, optional
        The execution providers, as in onnxruntime.
    provider_options : sequence of dict, optional
        The options of the providers, as in onnxruntime.
    max_workers : int or None, optional
        The number of threads for a SequenceMap node; None uses one thread for each CPU.

    Raises
    ------
    ValueError
        If the model is invalid; the message is that of onnx's checker or type inference.
    TypeError
        If `model` has another type, or `max_workers` is not an integer.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    onnxruntime runs models without sequences unchanged. In other models, sequence operators are replaced with
    tensor operators where possible (see `lower`), for the third run, or earlier if a sequence is long; until
    then onnxruntime runs the model as it is. While the remaining sequences are short, onnxruntime runs the
    whole lowered model; the choice depends on lengths and earlier runs, not on timing. Longer sequences run
    on `TensorSequence`, and onnxruntime runs the tensor operators between them. A sequence at its last use is
    edited in place, so an append in a loop is O(1), where onnxruntime copies the list.

    All element types are supported, also those without a kernel in onnxruntime. Results are the same on each
    path, except for the last bits where onnxruntime fuses operators.

    Where onnxruntime deviates from the ONNX specification, the specification decides, except where exporters
    rely on onnxruntime: `SplitToSequence` with a split of 1 and keepdims=0, PyTorch's `unbind`, drops the
    axis.

    Several threads may run one session at once. Loading a model takes two to three times as long as in
    onnxruntime (the median over exported models).

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
        max_workers = as_count("max_workers", max_workers, "uses one thread for each CPU")
        self._sessions = sessions = Sessions(sess_options, providers, provider_options)
        self._engines: Engines | None = None
        self._whole: Any = None  # onnxruntime's session, if the model has no sequences
        self._kinds: dict[str, TypeProto] = {}  # the types of the inputs, if known
        self._strings: list[str] = []  # the names of string inputs
        if _is_ort_format(model):
            self._whole = sessions.as_given(_for_onnxruntime(model))
            return
        message, data = open_model(model)
        self._metadata = ModelMetadata(message)
        if message_has_lists(message):
            weightless, weights = without_weights(message, folder_of(model), data)
            del message  # that may take as much memory as the weights
            self._engines = engines_of(weightless, weights, sessions, max_workers)
        else:
            self._whole = _whole_session(model, message, data, sessions)
            self._kinds = {one.name: one.type for one in message.graph.input}
            self._strings = [
                name for name, kind in self._kinds.items() if kind.tensor_type.elem_type == TensorProto.STRING
            ]

    # Returns an array, a TensorSequence or None for each output; for a model without sequences any type of
    # onnxruntime. It depends on the model, so the type is Any and users need no check. The same for feeds.
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
            The names of the outputs to return; None or an empty list returns all.
        input_feed : dict of str to value
            The inputs by name: an array for a tensor, a TensorSequence or list of arrays for a sequence, None
            for an empty optional.
        run_options : onnxruntime.RunOptions, optional
            The options, as in onnxruntime.

        Returns
        -------
        list
            The outputs: an array for a tensor, a TensorSequence for a sequence, None for an empty optional.
            They share no memory with the inputs or with each other.

        Raises
        ------
        TypeError
            If an input has another type than the model declares.
        ValueError
            If an input is missing, unknown or of another shape, an output is unknown, or a node gets values
            that don't fit. Errors in nodes name the node.
        IndexError
            If a node gets a position that is out of range.
        Exception
            Any exception of onnxruntime, unchanged.
        """
        if self._engines is not None:
            return self._engines.run(output_names, input_feed, run_options)
        input_feed = with_safe_strings(input_feed, self._strings)
        try:
            return self._whole.run(output_names, input_feed, run_options)
        except Exception:
            check_feed(input_feed, self._kinds)  # onnxruntime often doesn't name a wrong feed
            raise

    def get_inputs(self) -> list[NodeArg]:
        """Return the names, types and shapes of the inputs."""
        return self._whole.get_inputs() if self._engines is None else list(self._engines.interface.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """Return the names, types and shapes of the outputs."""
        return self._whole.get_outputs() if self._engines is None else list(self._engines.interface.outputs)

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the inputs that have a default value."""
        if self._engines is None:
            return self._whole.get_overridable_initializers()
        return list(self._engines.interface.overridable)

    def get_modelmeta(self) -> ModelMetadata:
        """Return the model's metadata."""
        return self._whole.get_modelmeta() if self._engines is None else self._metadata

    def get_providers(self) -> list[str]:
        """Return the execution providers, in order of precedence."""
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
    """The metadata of a model, with onnxruntime's attributes."""

    def __init__(self, message: ModelProto) -> None:
        self.producer_name: str = message.producer_name
        self.graph_name: str = message.graph.name
        self.domain: str = message.domain
        self.description: str = message.doc_string
        self.graph_description: str = message.graph.doc_string
        # The value of onnxruntime for a model without a version.
        self.version: int = message.model_version if message.HasField("model_version") else (1 << 63) - 1
        self.custom_metadata_map: dict[str, str] = {one.key: one.value for one in message.metadata_props}


def _is_ort_format(model: Any) -> bool:
    """Return whether a model is in onnxruntime's own format, which only it can read."""
    if isinstance(model, str | os.PathLike):
        return path_of(model).endswith(".ort")
    return isinstance(model, bytes | bytearray | memoryview) and bytes(model[4:8]) == b"ORTM"


def _whole_session(model: Any, message: ModelProto, data: bytes | None, sessions: Sessions) -> Any:
    """Return onnxruntime's session on a model without sequences.

    Models are changed whose versions onnxruntime doesn't know, or whose names end the process.
    """
    changed = without_fields(message, ModelProto(), "graph")
    if not restamp_proto(changed, operators_of(message)) and not nameless_splits(message):
        given = message.SerializeToString() if isinstance(model, ModelProto) else _for_onnxruntime(model)
        return sessions.as_given(given)
    changed.graph.CopyFrom(message.graph)
    name_outputs(changed)
    return sessions.changed(changed, Weights(folder_of(model), data))


def _for_onnxruntime(model: Any) -> str | bytes:
    """Return a path or bytes for onnxruntime, which takes only paths in UTF-8."""
    if not isinstance(model, str | os.PathLike):
        return bytes(model)
    path = path_of(model)
    try:
        path.encode()
    except UnicodeEncodeError:
        with open(path, "rb") as file:
            return file.read()
    return path
