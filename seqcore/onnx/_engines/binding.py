"""Values of onnxruntime's kinds, going into models with sequences and coming out: OrtValues and bindings."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime


def array_of(name: str, value: Any) -> Any:
    """Return what a run is fed for an OrtValue or another bound value."""
    if not isinstance(value, onnxruntime.OrtValue):
        return value
    if not value.is_tensor():
        raise TypeError(f"input '{name}' is an OrtValue of type {value.data_type()}: pass a list of arrays")
    return value.numpy()


def as_ort_values(names: list[str], results: list[Any]) -> list[Any]:
    """Return tensors as OrtValues.

    Raises
    ------
    NotImplementedError
        If one is a sequence or None: Python has no way to make such OrtValues.
    """
    for name, value in zip(names, results, strict=True):
        if not isinstance(value, np.ndarray):
            what = "an empty optional" if value is None else "a sequence"
            raise NotImplementedError(
                f"output '{name}' is {what}, which onnxruntime can't put into an OrtValue in Python: "
                "name other outputs, or call run"
            )
    return [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in results]


class Binding:
    """Inputs and outputs that are bound to a session of a model with sequences: onnxruntime's IOBinding.

    Parameters
    ----------
    run : callable
        Takes the names of outputs, a feed and options, and returns a list.
    """

    def __init__(self, run: Callable[..., list[Any]]) -> None:
        self._run = run
        self._inputs: dict[str, Any] = {}
        self._outputs: dict[str, Any] = {}
        self._results: list[Any] = []

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an array, or for a sequence a TensorSequence or a list of arrays."""
        self._inputs[name] = arr_on_cpu

    def bind_ortvalue_input(self, name: str, ortvalue: Any) -> None:
        """Bind an OrtValue."""
        self._inputs[name] = ortvalue

    def bind_input(
        self, name: str, device_type: Any, device_id: Any, element_type: Any, shape: Any, buffer_ptr: Any
    ) -> None:
        """Raise NotImplementedError: an address has no owner that could be kept."""
        raise NotImplementedError(
            f"input '{name}' can't be bound by an address, because the model has sequences: "
            "call bind_cpu_input or bind_ortvalue_input"
        )

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: Any = None,
    ) -> None:
        """Have an output made, in new memory of the CPU."""
        if buffer_ptr or device_type != "cpu":
            raise NotImplementedError(
                f"output '{name}' can only be bound to new memory of the CPU, because the model has "
                "sequences: call bind_output(name)"
            )
        self._outputs[name] = None

    def bind_ortvalue_output(self, name: str, ortvalue: Any) -> None:
        """Have an output copied into an OrtValue of its shape and type."""
        self._outputs[name] = ortvalue

    def run(self, run_options: Any = None) -> None:
        """Run the session."""
        if not self._outputs:
            raise ValueError("no output is bound: call bind_output(name)")
        feed = {name: array_of(name, value) for name, value in self._inputs.items()}
        self._results = self._run(list(self._outputs), feed, run_options)
        for (name, target), value in zip(self._outputs.items(), self._results, strict=True):
            if target is not None:
                _copy_into(target, name, value)

    def get_outputs(self) -> list[Any]:
        """Return the outputs of the last run as OrtValues."""
        names = list(self._outputs)
        if len(names) != len(self._results):
            raise ValueError("there are no outputs: call run_with_iobinding after the outputs were bound")
        made = as_ort_values(names, self._results)
        return [
            one if given is None else given for given, one in zip(self._outputs.values(), made, strict=True)
        ]

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Return the outputs of the last run, as `run` gives them."""
        return list(self._results)

    def clear_binding_inputs(self) -> None:
        """Release what is bound as inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Release what is bound as outputs, and the last results."""
        self._outputs.clear()
        self._results = []

    def synchronize_inputs(self) -> None:
        """Do nothing: all is on the CPU."""

    def synchronize_outputs(self) -> None:
        """Do nothing: all is on the CPU."""


def _copy_into(target: Any, name: str, value: Any) -> None:
    if not isinstance(value, np.ndarray):
        raise NotImplementedError(f"output '{name}' is not a tensor: bind it with bind_output(name)")
    if tuple(target.shape()) != value.shape or target.numpy().dtype != value.dtype:
        raise ValueError(
            f"output '{name}' is {value.dtype} of shape {value.shape}, "
            f"but the OrtValue bound to it is {target.data_type()} of shape {tuple(target.shape())}"
        )
    target.update_inplace(np.ascontiguousarray(value).reshape(value.shape))


def feed_of(values: Any) -> Any:
    """Return a feed of OrtValues by name as one of arrays."""
    if not isinstance(values, Mapping):
        return values
    return {name: array_of(name, value) for name, value in values.items()}
