"""Run a model in onnxruntime, or in onnx's reference evaluator if it has no kernel."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

import numpy as np
import onnx
import onnxruntime

from seqcore.dtypes import type_name
from seqcore.onnx._model.tensors import declared_dtype, dtype_of_text, one_line, tensor_type
from seqcore.onnx._runtimes.sessions import REFUSALS, TWO_C_TYPES, bare_run, single_threaded_session


def _own_session(model):
    return single_threaded_session(model.SerializeToString())


def make_runner(model, label, make=_own_session, filled=lambda model: model):
    """Return what runs a typed model: a runner, whose `run(feed)` gives a list.

    `make` makes its session, and `filled` gives the model with weights that it may have outside.

    Raises
    ------
    ValueError
        If the operators don't take the types, or neither runtime knows an operator.
    """
    try:
        return SessionRunner(model, make)
    except REFUSALS as refusal:
        # It has nine kinds of exceptions, and most can mean a missing kernel; so what it says decides, and
        # what onnx says: either knows rules about types that the other doesn't.
        if "Type Error: " in str(refusal):
            raise ValueError(f"{label} is not a valid graph: {one_line(refusal)}") from refusal
        try:
            onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True)
        except onnx.shape_inference.InferenceError as error:
            raise ValueError(f"{label} is not a valid graph: {one_line(error)}") from refusal
        try:
            return ReferenceRunner(filled(model))
        except Exception:  # whatever it is, it becomes an error here
            raise ValueError(f"{label} can't be run: {one_line(refusal)}") from refusal


class SessionRunner:
    """A model in onnxruntime. Several threads may run it at once."""

    def __init__(self, model, make=_own_session):
        self.session = make(model)
        outputs = self.session.get_outputs()
        self.output_names = [output.name for output in outputs]
        self.output_types = [output.type for output in outputs]
        self.output_dtypes = [dtype_of_text(text) for text in self.output_types]
        inputs = [one.type for one in self.session.get_inputs()]
        if "tensor(bfloat16)" in [*inputs, *self.output_types]:
            if "tensor(string)" in inputs:
                raise NotImplementedError("onnxruntime makes no OrtValue of strings")
            self.run = self._run_with_values
            self.copies_well = False
        else:
            bare = bare_run(self.session)
            names = self.output_names
            self.run = lambda feed, options=None: bare(names, feed, options)
            if any(dtype in TWO_C_TYPES for dtype in self.output_dtypes if dtype is not None):
                self.run = lambda feed, options=None: list(
                    map(np.ndarray.view, bare(names, feed, options), self.output_dtypes)
                )
            self.copies_well = True

    def _run_with_values(self, feed, options=None):
        """Run with bfloat16 among the types, which onnxruntime takes and gives only in values of its own."""
        make = onnxruntime.OrtValue.ortvalue_from_numpy
        make_typed = onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type
        values = {}
        for name, array in feed.items():
            if array.dtype.name == "bfloat16":
                array = np.ascontiguousarray(array).reshape(array.shape)
                values[name] = make_typed(array, tensor_type(array.dtype))
            else:
                values[name] = make(array)
        outputs = self.session.run_with_ort_values(self.output_names, values, options)
        return [
            _bits_of(value, dtype) if dtype is not None and dtype.name == "bfloat16" else value.numpy().copy()
            for value, dtype in zip(outputs, self.output_dtypes, strict=True)
        ]


def _bits_of(value, dtype):
    array = np.empty(value.shape(), dtype)
    if array.nbytes:
        ctypes.memmove(array.ctypes.data, value.data_ptr(), array.nbytes)
    return array


class ReferenceRunner:
    """A model in onnx's reference evaluator: every type and operator, slowly."""

    copies_well = False
    output_types = None  # it knows those that are declared or can be inferred, and no others

    def __init__(self, model):
        self.evaluator = evaluator_of(model)
        inferred = onnx.shape_inference.infer_shapes(model)
        self.output_dtypes = [declared_dtype(output) for output in inferred.graph.output]

    def run(self, feed, options=None):
        outputs = self.evaluator.run(None, feed)
        # They may be views of the feed or of each other, scalars, or of a type that NumPy promoted to.
        return [_own(value, dtype) for value, dtype in zip(outputs, self.output_dtypes, strict=True)]


def _own(value, dtype):
    array = np.array(value, dtype=dtype, order="C")
    if array.dtype.kind in "UT":
        array = array.astype(object)
    return array


def described(names, dtypes):
    """Return `(x: float32, y: ?)`, the way bodies are shown."""
    types = ("?" if dtype is None else type_name(dtype) for dtype in dtypes)
    return ", ".join(f"{name}: {type_}" for name, type_ in zip(names, types, strict=True))


# onnx's reference evaluator. Importing it takes longer than all the rest, so that waits until it is needed.


@functools.cache
def _loop_of_ours() -> Any:
    """Return a Loop of our own: in onnx 1.23 scan outputs get no new axis."""
    from onnx.reference.ops import op_loop

    base: Any = op_loop.Loop

    class Loop(base):
        """Loop-1 and later, by the ONNX specification."""

        op_domain = ""

        def _run(self, trips=None, going=None, *states, context=None, body=None, **rest):
            trips = None if trips is None else np.asarray(trips).item()
            going = going is None or np.asarray(going).item()  # as in onnxruntime: see `settle_conditions`
            iteration, condition, *names = self.body.input_names
            declared = next(one.g for one in self.onnx_node.attribute if one.name == "body")
            axes = (1,) * len(declared.input[0].type.tensor_type.shape.dim)  # the number has rank 0 or 1
            iterations: list[Any] = []
            while going and (trips is None or len(iterations) < trips):
                numbers = {iteration: np.full(axes, len(iterations)), condition: np.array(True)}
                values = (context or {}) | numbers | dict(zip(names, states, strict=True))
                goes_on, *outputs = self._run_body(values, **rest)
                states, scans = outputs[: len(names)], outputs[len(names) :]
                iterations.append(scans)
                going = np.asarray(goes_on).item()
            if iterations:
                return *states, *map(np.stack, zip(*iterations, strict=True))
            return *states, *map(_nothing, declared.output[1 + len(names) :])

    return Loop


def _nothing(output):
    """A scan output without iterations. Lengths that aren't declared are 0."""
    dtype = declared_dtype(output)
    if dtype is None:
        raise ValueError(f"the scan output '{output.name}' has no values, and its type is not known")
    return np.zeros([0, *(dim.dim_value for dim in output.type.tensor_type.shape.dim)], dtype)


def evaluator_of(model):
    """Return what runs a model in NumPy, node by node."""
    from onnx.reference import ReferenceEvaluator

    return ReferenceEvaluator(model, new_ops=[_loop_of_ours()])
