"""The interface of `onnx.backend.base`, for onnx's test suite and other users of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx.backend.base import Backend, BackendRep, Device, DeviceType, namedtupledict

from seqcore._arguments.shown import shown
from seqcore._arguments.tensors import as_tensor
from seqcore.core.sequence import TensorSequence
from seqcore.onnx._model.graph import STANDARD
from seqcore.onnx._model.load import check_kind, operators_of
from seqcore.onnx._model.tensors import tensor_type
from seqcore.onnx._runtimes.sessions import newest_opset
from seqcore.onnx.session import InferenceSession
from seqcore.operators import as_sequence

if TYPE_CHECKING:
    from seqcore._typing import DTypeName, Source

__all__ = [
    "SeqcoreBackend",
    "SeqcoreBackendRep",
    "is_compatible",
    "prepare",
    "run_model",
    "run_node",
    "supports_device",
]

# Keywords that `prepare` passes to the session. Others are ignored: onnx's test runner passes its tolerances.
_SESSION_OPTIONS = ("sess_options", "providers", "provider_options", "max_workers")


class SeqcoreBackendRep(BackendRep):
    """A model that is ready to run, as returned by `prepare`.

    Parameters
    ----------
    session : InferenceSession
        The session that runs the model.

    Examples
    --------
    >>> import numpy as np
    >>> from onnx import parser
    >>> model = parser.parse_model('''
    ... <ir_version: 8, opset_import: ["": 17]>
    ... pair (float[N] x) => (seq(float[N]) s) { s = SequenceConstruct(x, x) }''')
    >>> prepare(model).run([np.ones(2, np.float32)])["s"]
    [array([1., 1.], dtype=float32), array([1., 1.], dtype=float32)]
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._inputs = [one.name for one in session.get_inputs()]
        names = [one.name for one in session.get_outputs()]
        self._outputs = namedtupledict("Outputs", names)

    # The options are onnxruntime's, which has no types. The result has the outputs as attributes.
    def run(self, inputs: Any, run_options: Any = None, **kwargs: Any) -> Any:
        """Run the model.

        Parameters
        ----------
        inputs : list or tuple or dict
            The inputs in the order of the graph, or by name; the last ones may be left out if the graph has
            defaults for them. A value is a tensor, a `TensorSequence` or list of tensors, or None for an
            empty optional. A model with one input also takes a single array or `TensorSequence`.
        run_options : onnxruntime.RunOptions, optional
            The options, as in onnxruntime.
        **kwargs
            Not used.

        Returns
        -------
        tuple
            The outputs, by position, attribute or `["name"]`. A sequence is a list of arrays.

        Raises
        ------
        ValueError
            If there are more values than inputs.
        """
        outputs = self._session.run(None, self._feed(inputs), run_options)
        return self._outputs(*map(_as_list, outputs))

    def _feed(self, inputs):
        if isinstance(inputs, dict):
            return inputs
        if not isinstance(inputs, list | tuple):
            inputs = [inputs]
        if len(inputs) > len(self._inputs):
            names = ", ".join(self._inputs) or "none"
            raise ValueError(f"the model takes {len(self._inputs)} inputs ({names}), got {len(inputs)}")
        return dict(zip(self._inputs, inputs, strict=False))


class SeqcoreBackend(Backend):
    """The backend that runs ONNX models with seqcore, on the CPU. Its methods are also functions here.

    Examples
    --------
    >>> node = helper.make_node("SequenceLength", ["seq"], ["n"])
    >>> int(SeqcoreBackend.run_node(node, [[[1.0, 2.0], [3.0]]]).n)
    2
    """

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return True for the device `"CPU"`, the only one that is supported.

        Parameters
        ----------
        device : str
            The device, as in `onnx.backend.base`.

        Examples
        --------
        >>> supports_device("CPU"), supports_device("CUDA")
        (True, False)
        """
        try:
            return Device(device).type == DeviceType.CPU
        except (AttributeError, ValueError):
            return False

    @classmethod
    def is_compatible(cls, model: ModelProto, device: str = "CPU", **kwargs: Any) -> bool:
        """Return True if the device is supported. Only `prepare` checks the model.

        Parameters
        ----------
        model : ModelProto
            The model.
        device : str, optional
            The device, as in `onnx.backend.base`.

        Examples
        --------
        >>> is_compatible(onnx.ModelProto(), "CUDA")
        False
        """
        return cls.supports_device(device)

    @classmethod
    def prepare(cls, model: ModelProto | Source, device: str = "CPU", **kwargs: Any) -> SeqcoreBackendRep:
        """Check a model and make it ready to run.

        Parameters
        ----------
        model : ModelProto, bytes, str or os.PathLike
            The model, its bytes, or the path to it.
        device : str, optional
            The device, `"CPU"`.
        **kwargs
            The options `sess_options`, `providers`, `provider_options` and `max_workers` of the session.

        Returns
        -------
        SeqcoreBackendRep

        Raises
        ------
        onnx.checker.ValidationError
            If onnx's checker finds the model invalid.
        ValueError
            If the device is not supported.
        TypeError
            If `model` has another type.

        Examples
        --------
        >>> import numpy as np
        >>> from onnx import parser
        >>> model = parser.parse_model('''
        ... <ir_version: 8, opset_import: ["": 17]>
        ... count (seq(float[N]) s) => (int64 n) { n = SequenceLength(s) }''')
        >>> int(prepare(model).run([[np.ones(2, np.float32)]]).n)
        1
        """
        cls._check_device(device)
        check_kind(model)
        checked: Any = model
        super().prepare(checked, device, **kwargs)
        options = {name: kwargs[name] for name in _SESSION_OPTIONS if name in kwargs}
        return SeqcoreBackendRep(InferenceSession(model, **options))

    @classmethod
    def run_model(cls, model: ModelProto | Source, inputs: Any, device: str = "CPU", **kwargs: Any) -> Any:
        """Prepare a model and run it once.

        Parameters
        ----------
        model : ModelProto, bytes, str or os.PathLike
            The model, its bytes, or the path to it.
        inputs : list or tuple or dict
            The inputs, as in `SeqcoreBackendRep.run`.
        device : str, optional
            The device, `"CPU"`.
        **kwargs
            The options, as in `prepare`.

        Examples
        --------
        >>> import numpy as np
        >>> from onnx import parser
        >>> model = parser.parse_model('''
        ... <ir_version: 8, opset_import: ["": 17]>
        ... count (seq(float[N]) s) => (int64 n) { n = SequenceLength(s) }''')
        >>> int(run_model(model, [[np.ones(2, np.float32)]]).n)
        1
        """
        return cls.prepare(model, device, **kwargs).run(inputs, kwargs.get("run_options"))

    @classmethod
    def run_node(
        cls,
        node: NodeProto,
        inputs: Any,
        device: str = "CPU",
        outputs_info: Sequence[tuple[DTypeName, Sequence[int | str | None] | None]] | None = None,
        **kwargs: Any,
    ) -> Any:
        """Run a single operator.

        Parameters
        ----------
        node : NodeProto
            The operator.
        inputs : list or tuple
            The inputs that the node has. An empty list counts as a sequence of float32, None as an empty
            optional tensor of float32.
        device : str, optional
            The device, `"CPU"`.
        outputs_info : sequence of (data-type, shape), optional
            The types of the outputs, for tensors whose type onnx can't infer.
        **kwargs
            The `opset_version`, by default the newest that onnxruntime loads, and the options of `prepare`.

        Returns
        -------
        tuple
            The outputs, as from `SeqcoreBackendRep.run`.

        Raises
        ------
        onnx.checker.ValidationError
            If onnx's checker finds the node invalid.
        ValueError
            If the device is not supported, or the number of values is not that of the inputs.

        Examples
        --------
        >>> node = helper.make_node("SequenceAt", ["seq", "position"], ["tensor"])
        >>> run_node(node, [[[1.0, 2.0], [3.0]], -1])["tensor"]
        array([3.])
        """
        cls._check_device(device)
        kwargs.setdefault("opset_version", newest_opset())
        if not _domains(node):  # the checker of a node knows one domain, the checker of a model all
            checked: Any = outputs_info
            super().run_node(node, inputs, device, checked, **kwargs)
        names = [name for name in node.input if name]
        if len(inputs) != len(names):
            raise ValueError(
                f"the {node.op_type} node has {len(names)} inputs ({', '.join(names)}), got {len(inputs)}"
            )
        feed = {name: _as_value(value) for name, value in zip(names, inputs, strict=True)}
        model = _model_of(node, feed, outputs_info, kwargs["opset_version"])
        options = {name: kwargs[name] for name in _SESSION_OPTIONS if name in kwargs}
        return SeqcoreBackendRep(InferenceSession(model, **options)).run(feed, kwargs.get("run_options"))

    @classmethod
    def _check_device(cls, device):
        if not cls.supports_device(device):
            raise ValueError(f"the device {shown(device)} is not supported: expected 'CPU'")


def _as_list(output):
    return list(output) if isinstance(output, TensorSequence) else output


def _as_value(value):
    if value is None:
        return None
    return as_sequence(value) if isinstance(value, TensorSequence | list | tuple) else as_tensor(value)


def _model_of(node, feed, outputs_info, opset_version):
    """Return a model of one node, of the types that its inputs have."""
    inputs = [helper.make_value_info(name, _type_of(value)) for name, value in feed.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    for output, (dtype, shape) in zip(outputs, outputs_info or (), strict=False):
        output.CopyFrom(helper.make_tensor_value_info(output.name, tensor_type(dtype), shape))
    graph = helper.make_graph([node], node.op_type, inputs, outputs)
    versions = {domain: newest_opset(domain) for domain in sorted(_domains(node))} | {"": opset_version}
    imports = [helper.make_opsetid(domain, version) for domain, version in versions.items()]
    ir_version = helper.find_min_ir_version_for(imports, ignore_unknown=True)
    model = helper.make_model(graph, opset_imports=imports, ir_version=ir_version)
    return onnx.shape_inference.infer_shapes(model)


def _type_of(value):
    if value is None:
        return helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    if isinstance(value, TensorSequence):
        return helper.make_sequence_type_proto(helper.make_tensor_type_proto(tensor_type(value.dtype), None))
    return helper.make_tensor_type_proto(tensor_type(value.dtype), value.shape)


def _domains(node):
    return {domain for domain, _ in operators_of(onnx.ModelProto(graph=onnx.GraphProto(node=[node])))} - {
        *STANDARD
    }


is_compatible = SeqcoreBackend.is_compatible
prepare = SeqcoreBackend.prepare
run_model = SeqcoreBackend.run_model
run_node = SeqcoreBackend.run_node
supports_device = SeqcoreBackend.supports_device
