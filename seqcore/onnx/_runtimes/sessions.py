"""Sessions of onnxruntime: with which options, on which weights, and how their refusals are known."""

import functools
import weakref
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import ModelProto, TensorProto, helper, parser
from onnxruntime.capi import onnxruntime_pybind11_state as _state

from seqcore.onnx._model.checks import known_opset
from seqcore.onnx._model.graph import Model
from seqcore.onnx._model.load import all_tensors
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._model.weights import Weights
from seqcore.onnx._model.writing import to_message

# onnxruntime's exceptions have no base of their own. Whatever else comes out of a call is a fault of ours.
REFUSALS: tuple[type[Exception], ...] = (
    *(
        one
        for one in vars(_state).values()
        if isinstance(one, type) and issubclass(one, Exception) and one.__module__ == _state.__name__
    ),
    *(RuntimeError, ValueError),  # for feeds, from the wrapper in Python and the conversion of arrays
)


class Refused(Exception):
    """onnxruntime refused a run that another engine can do: its own exception is the cause."""


# Users may put our session in the place of onnxruntime's: this one stays.
_Session = onnxruntime.InferenceSession

# onnxruntime's arrays of these have the type long long, which equals NumPy's own but has another repr.
TWO_C_TYPES = (np.dtype("int64"), np.dtype("uint64"))

SILENT = onnxruntime.RunOptions()
SILENT.log_severity_level = 4  # where an attempt fails, the next engine says why


class Sessions:
    """Makes sessions, with what the user gave, or with what suits what they run.

    Parameters
    ----------
    sess_options : onnxruntime.SessionOptions or None
    providers, provider_options : sequence or None
    options : dict, optional
        As onnxruntime's InferenceSession takes them.
    """

    def __init__(
        self,
        sess_options: Any = None,
        providers: Any = None,
        provider_options: Any = None,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.sess_options = sess_options
        self._rest = {"providers": providers, "provider_options": provider_options, **(options or {})}
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()

    def made(self) -> list[Any]:
        """Return the sessions on parts of a model that there are, or one on next to nothing."""
        return list(self._made) or [self.probe()]

    def also_take(self, options: Mapping[str, Any]) -> None:
        """Make further sessions with these options too."""
        self._rest |= options

    def as_given(self, model: Any) -> Any:
        """Return a session on the path or bytes of a whole model, just as the user asked for it."""
        return _Session(model, self.sess_options, **self._rest)

    def changed(self, model: ModelProto, weights: Weights) -> Any:
        """Return a session on a whole model that had to be changed, as the user asked for it."""
        for k, tensor in enumerate(all_tensors(model)):
            if tensor.data_location == TensorProto.EXTERNAL:
                weights.stamp(tensor)
                if k >= len(model.graph.initializer):
                    tensor.CopyFrom(weights.filled(tensor))
        options = onnxruntime.SessionOptions() if self.sess_options is None else self.sess_options
        model = self._with_weights(model, weights, options)
        return _Session(model.SerializeToString(), options, **self._rest)

    def probe(self) -> Any:
        """Return a session on next to nothing, to ask for what all sessions have in common."""
        text = '<ir_version: 8, opset_import: ["": 13]> probe (float x) => (float y) { y = Identity(x) }'
        return self.as_given(parser.parse_model(text).SerializeToString())

    def make(
        self, model: ModelProto, weights: Weights | None = None, *, spins: bool = True, arena: bool = True
    ) -> Any:
        """Return a session on a model.

        Parameters
        ----------
        model : ModelProto
        weights : Weights, optional
            The data of its external tensors.
        spins : bool, optional
            If True, its threads spin while they wait: not for sessions that take turns.
        arena : bool, optional
            If True, results come from an arena, which rounds each up to 256 bytes and never shrinks: not if
            they live long in sequences.
        """
        options = self.sess_options
        if options is None:
            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4  # what goes wrong becomes an exception
            if not spins:
                options.add_session_config_entry("session.intra_op.allow_spinning", "0")
            if not arena:
                options.enable_cpu_mem_arena = False
                options.enable_mem_pattern = False
        if weights is not None:
            model = self._with_weights(model, weights, options)
        session = _Session(model.SerializeToString(), options, **self._rest)
        self._made.add(session)
        # It has copied what it needs; both would keep the weights as long as it lives.
        session._model_bytes = b""
        if self.sess_options is None:
            session._sess_options = session._sess_options_initial = onnxruntime.SessionOptions()
        return session

    def _with_weights(self, model: ModelProto, weights: Weights, options: Any) -> ModelProto:
        """Let a session find the weights of a model; return the model, with them where it can't be told.

        The user's options can't be copied, and stay as they are.
        """
        if not any(one.external_data for one in model.graph.initializer):
            return model
        if self.sess_options is not None and weights.nbytes < _MOST_NBYTES:
            return weights.fill(model)
        folder, buffers = weights.for_onnxruntime(model)
        if folder:
            options.add_session_config_entry(_FOLDER, folder)
        if buffers:
            sizes = list(map(len, buffers.values()))
            options.add_external_initializers_from_files_in_memory([*buffers], [*buffers.values()], sizes)
        return model


# Protobuf's limit, minus room for everything except tensors.
_MOST_NBYTES = (1 << 31) - (1 << 24)
_FOLDER = "session.model_external_initializers_file_folder_path"


def single_threaded_session(model: bytes) -> Any:
    """Return a session on the bytes of a model: one thread, silent, on the CPU.

    Parallelism comes from the elements of a map, so that threads inside a session would only compete. Outputs
    live long in sequences: each gets memory of its own size from the system, none from an arena.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.execution_mode = onnxruntime.ExecutionMode.ORT_SEQUENTIAL
    options.log_severity_level = 4
    options.enable_mem_pattern = False  # a pattern is worked out anew for every combination of shapes
    options.enable_cpu_mem_arena = False
    return _Session(model, options, providers=["CPUExecutionProvider"])


def bare_run(session: Any) -> Any:
    """Return a session's run(names, feed, options) without the wrapper around it.

    The wrapper checks the feed again, in time quadratic in its length.
    """
    return getattr(session, "_sess", session).run


def refusal_of(model: Model) -> str:
    """Return why onnxruntime doesn't load a model, "" if it does. Its weights are not needed."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    copy = model.copy()
    restamp(copy)
    message = to_message(copy, weights_are_inputs=True)
    try:
        _Session(message.SerializeToString(), options, providers=["CPUExecutionProvider"])
    except REFUSALS as refusal:
        return one_line(refusal)
    return ""


# Versions of operator sets and of the IR: which of them onnx knows, and which onnxruntime loads.


@functools.cache
def newest_opset(domain: str = "") -> int:
    """Return the newest version of a domain that both onnx knows and onnxruntime loads."""
    for version in range(known_opset(domain), 1, -1):
        if _loads(helper.make_opsetid(domain, version)):
            return version
    return 1


@functools.cache
def newest_ir() -> int:
    """Return the newest version of the IR that both onnx knows and onnxruntime loads."""
    return next(ir for ir in range(onnx.IR_VERSION, 3, -1) if ir == 4 or _loads(ir_version=ir))


def _loads(opset: onnx.OperatorSetIdProto | None = None, ir_version: int = 8) -> bool:
    value = helper.make_tensor_value_info
    nodes = [helper.make_node("Identity", ["x"], ["y"])]
    graph = helper.make_graph(
        nodes, "probe", [value("x", TensorProto.FLOAT, [])], [value("y", TensorProto.FLOAT, [])]
    )
    model = ModelProto(ir_version=ir_version, graph=graph)
    model.opset_import.extend([opset] if opset else [])
    if opset is None or opset.domain:
        model.opset_import.append(helper.make_opsetid("", 13))
    try:
        single_threaded_session(model.SerializeToString())
    except REFUSALS:
        return False
    return True


def loadable_opsets(opsets: dict[str, int], operators: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return versions that onnxruntime loads, where that changes none of some operators (domain, name).

    onnx stamps new models with versions that onnxruntime doesn't know yet, although most of their operators
    are years old.
    """
    loadable = dict(opsets)
    for domain, version in opsets.items():
        newest = newest_opset(domain)
        if newest < version <= known_opset(domain) and all(
            _does_the_same(name, domain, newest, version)
            for other, name in operators
            if other == domain and onnx.defs.has(name, domain)
        ):
            loadable[domain] = newest
    return loadable


def restamp(model: Model) -> None:
    """Lower the versions of a model to what onnxruntime loads, as far as that changes no operator."""
    model.ir_version = min(model.ir_version, newest_ir())
    operators = {(node.domain, node.op_type) for node in model.graph.all_nodes()}
    model.opsets = loadable_opsets(model.opsets, operators)


def restamp_proto(model: ModelProto, operators: Iterable[tuple[str, str]]) -> bool:
    """Do the same to a message, in which some operators (domain, name) are; return whether it changed.

    Its graph is not looked at.
    """
    changed = model.ir_version > newest_ir()
    model.ir_version = min(model.ir_version, newest_ir())
    for imports in (model.opset_import, *(function.opset_import for function in model.functions)):
        versions = loadable_opsets({one.domain: one.version for one in imports}, operators)
        for one in imports:
            changed |= one.version != versions[one.domain]
            one.version = versions[one.domain]
    return changed


@functools.cache
def _does_the_same(operator: str, domain: str, old: int, new: int) -> bool:
    """Return whether an operator does in an old version, on its types, what it does in a new one."""
    now = onnx.defs.get_schema(operator, new, domain)
    if now.since_version <= old:
        return True
    try:
        before = onnx.defs.get_schema(operator, old, domain)
    except onnx.defs.SchemaError:
        return False
    # Most new versions do no more than add types.
    return (
        before.doc == now.doc
        and all(
            _signature(one) == _signature(other)
            for one, other in ((before.inputs, now.inputs), (before.outputs, now.outputs))
        )
        and before.attributes.keys() == now.attributes.keys()
    )


def _signature(parameters):
    return [(one.name, one.option) for one in parameters]
