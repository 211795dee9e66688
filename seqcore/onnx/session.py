"""InferenceSession: ONNX models with sequences, in time that is linear in what they do."""

import functools
import os

from onnx import ModelProto

from seqcore.onnx._models.normal import copied
from seqcore.onnx._models.reading import (
    check_model,
    folder_of,
    has_sequences,
    load_model,
    restamp,
    with_external_data,
)
from seqcore.onnx._plans.cut import CutModel
from seqcore.onnx._plans.feeds import Feed, check_is_feed
from seqcore.onnx._plans.parts import Runtime
from seqcore.onnx.lowering import lower_with_report

__all__ = ["InferenceSession"]


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
        If `model` is nothing of the kind.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    A model without sequences goes to onnxruntime whole. Of another the sequences are compiled away where
    that is possible (see `lower`). In what is left, tensor operators run in onnxruntime, in parts as large as
    they can be, while sequences, optionals and the control flow that carries them run on `TensorSequence`: a
    value at its last use is edited in place, so that an append in a loop is O(1) where onnxruntime copies
    the list. Sequences have every element type, those included for which onnxruntime has no kernel. While
    sequences are short, the model or some hundred iterations of a loop run in onnxruntime in one go: which
    is settled by lengths and the number of runs, never by the clock. Results are the same on each path, but
    for the last bits where onnxruntime fuses operators that a plan has in two parts.

    Where onnxruntime departs from ONNX's text, the text counts. So `SplitToSequence` ignores keepdims where a
    split is given, also as PyTorch's `unbind` exports it.

    Several threads may run one session at once. Loading takes some ms more than in onnxruntime. A model with
    sequences has at most 2 GB, protobuf's limit.

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

    def __init__(self, model, sess_options=None, providers=None, provider_options=None, *, max_workers=1):
        self._runtime = runtime = Runtime(sess_options, providers, provider_options)
        self._whole = self._cut = self._proto = None
        if _is_ort_format(model):
            self._whole = runtime.whole_session(model)
            return
        self._proto = proto = load_model(model)
        if not has_sequences(proto):
            self._whole = runtime.whole_session(_loadable(model, proto))
            return
        # A copy: the plan may be made later, when the caller has changed the model.
        proto = copied(proto) if proto is model else proto
        self._proto = proto = with_external_data(proto, folder_of(model))
        check_model(proto)
        # With several workers, maps are better left to them.
        lowered, _ = lower_with_report(proto, keep_maps=max_workers != 1)
        if not has_sequences(lowered):
            self._whole = _session_if_any(runtime, lowered)
            # A run that fails is run again by steps, which can name the node.
            self._cut = functools.cache(lambda: CutModel(proto, runtime, max_workers))
        if self._whole is None:
            cut = CutModel(proto, runtime, max_workers, lowered)
            self._cut = lambda: cut

    def run(self, output_names, input_feed, run_options=None):
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
        if self._whole is None:
            return self._cut().run(output_names, input_feed, run_options)
        try:
            return self._whole.run(output_names, input_feed, run_options)
        except Exception:
            self._explain(input_feed)
            if self._cut is None:
                raise
            return self._cut().run(output_names, input_feed, run_options)

    def _explain(self, feed):
        """Raise an exception that names the input, where a feed is to blame; onnxruntime's often don't."""
        check_is_feed(feed)
        kinds = {} if self._proto is None else {one.name: one.type for one in self._proto.graph.input}
        for name, value in feed.items():
            if name in kinds:
                Feed(name, kinds[name]).check(value)

    def get_inputs(self):
        """Return what the model needs to be fed: names, types and shapes."""
        return list(self._cut().inputs) if self._whole is None else self._whole.get_inputs()

    def get_outputs(self):
        """Return what the model gives: names, types and shapes."""
        return list(self._cut().outputs) if self._whole is None else self._whole.get_outputs()

    def get_overridable_initializers(self):
        """Return the inputs that have a default."""
        whole = self._whole
        return list(self._cut().overridable) if whole is None else whole.get_overridable_initializers()

    def get_modelmeta(self):
        """Return the model's metadata."""
        return ModelMetadata(self._proto) if self._whole is None else self._whole.get_modelmeta()

    def get_providers(self):
        """Return the execution providers, in the order of precedence."""
        return self._any_session().get_providers()

    def get_provider_options(self):
        """Return the execution providers' options."""
        return self._any_session().get_provider_options()

    def get_session_options(self):
        """Return the session options."""
        return self._any_session().get_session_options()

    def _any_session(self):
        return self._whole if self._whole is not None else self._runtime.probe()


class ModelMetadata:
    """What a model says of itself, as onnxruntime gives it."""

    def __init__(self, model):
        self.producer_name = model.producer_name
        self.graph_name = model.graph.name
        self.domain = model.domain
        self.description = model.doc_string
        self.graph_description = model.graph.doc_string
        # Where a model has none, onnxruntime says this.
        self.version = model.model_version if model.HasField("model_version") else (1 << 63) - 1
        self.custom_metadata_map = {one.key: one.value for one in model.metadata_props}


def _is_ort_format(model):
    """Return whether a model is in onnxruntime's own format, which only it can read."""
    if isinstance(model, str | os.PathLike):
        return os.fspath(model).endswith(".ort")
    return isinstance(model, bytes) and model[4:8] == b"ORTM"


def _session_if_any(runtime, model):
    """Return onnxruntime's session on a model, None where it has no kernels for it."""
    restamp(model)
    try:
        return runtime.session(model.SerializeToString())
    except Exception:  # the plan has another runtime for what it can't run
        return None


def _loadable(model, proto):
    """Return what onnxruntime loads of a model: itself, or its bytes with versions that onnxruntime knows."""
    restamped = ModelProto()
    restamped.CopyFrom(proto)
    if restamp(restamped):
        return with_external_data(restamped, folder_of(model)).SerializeToString()
    if isinstance(model, ModelProto):
        return proto.SerializeToString()
    return model if isinstance(model, str | os.PathLike) else bytes(model)
