"""InferenceSession: run ONNX models with sequences in linear time."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, SupportsIndex

import onnxruntime
from onnx import ModelProto, TensorProto, TypeProto

import seqcore.onnx._operators  # noqa: F401  (which registers the records of all operators)
from seqcore._arguments.integers import as_count
from seqcore._arguments.shown import got, shown, shown_error
from seqcore.onnx._engines.binding import Binding, as_ort_values, feed_of
from seqcore.onnx._engines.engines import Engines, engines_of
from seqcore.onnx._engines.feeds import NodeArg, check_feed, with_safe_strings
from seqcore.onnx._model.load import operators_of, path_of, place_of
from seqcore.onnx._model.prepare import message_has_lists
from seqcore.onnx._model.repair import name_outputs, nameless_splits
from seqcore.onnx._model.weights import Weights, open_model, without_fields, without_weights
from seqcore.onnx._runtimes.errors import loading, raise_of_run
from seqcore.onnx._runtimes.sessions import Sessions, restamp_proto

__all__ = ["InferenceSession"]

# Options of onnxruntime's session that are not among its parameters.
_OPTIONS = ("enable_fallback", "disabled_optimizers", "read_config_from_model")
# The attributes that a model without sequences leaves to onnxruntime's session.
_DELEGATED = {
    *(name for name in dir(onnxruntime.InferenceSession) if not name.startswith("_")),
    "_sess",  # which onnxruntime.IOBinding reads
}

# onnxruntime has no type hints, so an import would make these unknown, not Any.
_SessionOptions = Any
_RunOptions = Any


class InferenceSession:
    """A replacement for onnxruntime's session that makes models with sequences fast.

    Parameters
    ----------
    path_or_bytes : str, os.PathLike, bytes or ModelProto
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
    compile : {"lazy", "load"}, optional
        When a model with sequences is compiled: at the third run or the first long sequence, or now, so that
        no run pauses for it.
    **options
        Further options of onnxruntime's session, such as `enable_fallback` and `disabled_optimizers`.

    Raises
    ------
    ValueError
        If the model is invalid; the message is that of onnx's checker or type inference. It is also an
        `InvalidGraph`, `InvalidProtobuf`, `InvalidArgument` and `Fail` of onnxruntime.
    TypeError
        If `path_or_bytes` has another type, or `max_workers` is not an integer.
    FileNotFoundError
        If there is no file at the path. It is also onnxruntime's `NoSuchFile`.

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
        path_or_bytes: ModelProto | bytes | bytearray | memoryview | str | os.PathLike[Any],
        sess_options: _SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        max_workers: SupportsIndex | None = 1,
        compile: str = "lazy",
        **options: Any,
    ) -> None:
        if compile not in ("lazy", "load"):
            raise ValueError(f"compile must be 'lazy' or 'load', got {shown(compile)}")
        for name in options:
            if name not in _OPTIONS:
                raise TypeError(f"InferenceSession() got an unexpected keyword argument '{name}'")
        self._max_workers = as_count("max_workers", max_workers, "uses one thread for each CPU")
        self._compiles_now = compile == "load"
        self._options = options
        self._sessions = Sessions(sess_options, providers, provider_options, options)
        self._engines: Engines | None = None
        self._whole: Any = None  # onnxruntime's session, if the model has no sequences
        self._kinds: dict[str, TypeProto] = {}  # the types of the inputs, if known
        self._strings: list[str] = []  # the names of string inputs
        with loading():
            self._load(path_or_bytes)

    def _load(self, model: Any) -> None:
        if _is_ort_format(model):
            self._whole = self._sessions.as_given(_for_onnxruntime(model))
            return
        message, data = open_model(model)
        self._metadata = ModelMetadata(message)
        if message_has_lists(message):
            weightless, weights = without_weights(message, place_of(model), data)
            del message  # that may take as much memory as the weights
            self._engines = engines_of(weightless, weights, self._sessions, self._max_workers)
            if self._compiles_now:
                self._engines.compile_all()
        else:
            self._whole = _whole_session(model, message, data, self._sessions)
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

        Notes
        -----
        Python's exceptions are also of onnxruntime's classes: `InvalidArgument`, `Fail`, `RuntimeException`.
        """
        try:
            if self._engines is not None:
                return self._engines.run(output_names, input_feed, run_options)
            input_feed = with_safe_strings(input_feed, self._strings)
            try:
                return self._whole.run(output_names, input_feed, run_options)
            except Exception:
                check_feed(input_feed, self._kinds)  # onnxruntime often doesn't name a wrong feed
                raise
        except Exception as error:
            raise_of_run(error)
            raise

    def run_async(
        self,
        output_names: list[str] | tuple[str, ...] | None,
        input_feed: Mapping[str, Any],
        callback: Callable[[list[Any], Any, str], Any],
        user_data: Any,
        run_options: _RunOptions | None = None,
    ) -> None:
        """Run the model in another thread, and call `callback(outputs, user_data, error)` there.

        Parameters
        ----------
        output_names, input_feed, run_options
            As in `run`.
        callback : callable
            Gets the outputs, `user_data`, and a text that is empty if there was no error.
        user_data : object
        """
        if self._engines is None:
            self._whole.run_async(output_names, input_feed, callback, user_data, run_options)
            return

        def run() -> None:
            results: list[Any] = []
            text = ""
            try:
                results = self.run(output_names, input_feed, run_options)
            except Exception as error:
                text = shown_error(error) or type(error).__name__
            callback(results, user_data, text)

        threading.Thread(target=run, name="seqcore run_async").start()

    def run_with_ort_values(
        self,
        output_names: list[str] | tuple[str, ...] | None,
        input_dict_ort_values: Mapping[str, Any],
        run_options: _RunOptions | None = None,
    ) -> list[Any]:
        """Run the model on OrtValues, and return OrtValues.

        Parameters
        ----------
        output_names, run_options
            As in `run`.
        input_dict_ort_values : dict of str to OrtValue
            The inputs by name; for a sequence what `run` takes.

        Raises
        ------
        NotImplementedError
            If an output is a sequence.
        """
        if self._engines is None:
            return list(self._whole.run_with_ort_values(output_names, input_dict_ort_values, run_options))
        results = self.run(output_names, feed_of(input_dict_ort_values), run_options)
        return as_ort_values(list(output_names or self._engines.interface.names), results)

    def io_binding(self) -> Any:
        """Return an object to bind inputs and outputs to, as onnxruntime's `IOBinding`.

        For a model with sequences, inputs are arrays, OrtValues or sequences, and outputs are in new memory
        of the CPU or in OrtValues of the right shape.
        """
        return self._whole.io_binding() if self._engines is None else Binding(self.run)

    def run_with_iobinding(self, iobinding: Any, run_options: _RunOptions | None = None) -> None:
        """Run the model on the inputs of a binding."""
        if self._engines is None:
            self._whole.run_with_iobinding(iobinding, run_options)
        elif isinstance(iobinding, Binding):
            iobinding.run(run_options)
        else:
            raise TypeError(f"iobinding must come from the session's io_binding(), got {got(iobinding)}")

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

    def set_providers(
        self,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Use other execution providers from now on; the model is loaded again for them."""
        if self._engines is None:
            self._whole.set_providers(providers, provider_options)
            return
        self._sessions.probe().set_providers(providers, provider_options)  # which raises for unknown ones
        sessions = Sessions(self._sessions.sess_options, providers, provider_options, self._options)
        engines = Engines(self._engines.prepared, sessions, self._max_workers)
        if self._compiles_now:
            engines.compile_all()
        self._sessions, self._engines = sessions, engines

    def enable_fallback(self) -> None:
        """Let onnxruntime fall back to other providers if one fails."""
        self._set_fallback(True)

    def disable_fallback(self) -> None:
        """Let a run fail if a provider does."""
        self._set_fallback(False)

    def _set_fallback(self, is_enabled: bool) -> None:
        self._options["enable_fallback"] = int(is_enabled)
        self._sessions.also_take(self._options)
        for one in self._made_sessions():
            if is_enabled:
                one.enable_fallback()
            else:
                one.disable_fallback()

    def end_profiling(self) -> str:
        """End profiling, and return the name of the file, "" if there is none.

        A model with sequences may run in several parts. Each has a file: the first one's name is returned.
        """
        names = [one.end_profiling() for one in self._made_sessions()]
        return next(filter(None, names), "")

    def get_profiling_start_time_ns(self) -> int:
        """Return when profiling began, in nanoseconds."""
        return next(iter(self._made_sessions())).get_profiling_start_time_ns()

    def _made_sessions(self) -> list[Any]:
        return [self._whole] if self._engines is None else self._sessions.made()

    def _any_session(self) -> Any:
        return self._whole if self._engines is None else self._sessions.probe()

    def __getattr__(self, name: str) -> Any:
        """Return another attribute of onnxruntime's session, if the model has no sequences."""
        whole = self.__dict__.get("_whole")
        if whole is not None and name in _DELEGATED:
            return getattr(whole, name)
        if name in _DELEGATED and "_whole" in self.__dict__:
            raise AttributeError(
                f"'{name}' is for one session of onnxruntime, and this model has sequences, "
                "for which there may be several"
            )
        raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")

    def __reduce__(self) -> Any:
        raise TypeError(
            "a session can't be pickled or copied: pass the path or the bytes of its model, and make another"
        )


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
    return sessions.changed(changed, Weights(place_of(model), data))


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
