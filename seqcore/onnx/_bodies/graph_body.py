"""GraphBody: an ONNX graph compiled as the body of a SequenceMap."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from onnx import GraphProto, ModelProto, OperatorSetIdProto

from seqcore._arguments.shown import add_note
from seqcore._arguments.tensors import as_tensor
from seqcore.dtypes import element_type, type_name
from seqcore.onnx._bodies.program import FlatForm, Program
from seqcore.onnx._model.tensors import declared_dtype
from seqcore.onnx._runtimes.runners import described

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from seqcore._typing import DTypeName, Path


import os

import onnx
from onnx import TensorProto, helper

from seqcore._arguments.integers import as_integer
from seqcore._arguments.shown import got, shown
from seqcore.onnx._model.checks import check_message
from seqcore.onnx._model.graph import Graph
from seqcore.onnx._model.load import all_tensors, operators_of, path_of
from seqcore.onnx._model.repair import name_outputs
from seqcore.onnx._model.tensors import one_line, to_tensor_proto
from seqcore.onnx._runtimes.sessions import newest_opset, restamp_proto

__all__ = ["GraphBody"]


class GraphBody:
    """An ONNX graph, compiled as a function of the elements of a sequence.

    `sequence_map` also takes graphs directly; a GraphBody is compiled once for many maps. It runs in
    onnxruntime and is immutable: several threads may call one body at once.

    Parameters
    ----------
    graph : GraphProto, ModelProto, str or os.PathLike
        The graph, a model, or the path to a model file. External data are loaded from beside a path. All
        inputs and outputs must be tensors. An input with an initializer counts as a constant.
    opset_imports : mapping of str to int or sequence of OperatorSetIdProto, optional
        The versions of the operator sets, for a GraphProto. The default is the newest that onnxruntime loads.
    captures : dict of str to array_like, optional
        The values of names that the graph takes from an outer scope. They are copied; unused names are
        ignored.

    Raises
    ------
    ValueError
        If the model is invalid or can't be run, a capture is missing, or an input or output is not a tensor.
    TypeError
        If `graph` has another type.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    Implements the body of ONNX SequenceMap-17. Compiling a small graph takes about 1 ms, a call 5 µs and the
    time of the operators. If the graph doesn't declare the types of its inputs, it is compiled for the types
    of each call, once for each combination. If onnxruntime has no kernel for a type or an operator (complex
    numbers, much of bfloat16), onnx's reference evaluator runs the graph, several times slower. The limit for
    a model is 2 GB, that of protobuf.

    `check` checks types before anything runs, a call runs the body once, and `run_many` runs it for many
    elements at a lower cost for each.

    Examples
    --------
    >>> import onnx, numpy as np
    >>> graph = onnx.parser.parse_graph("add (float[N] x, float[N] y) => (float[N] z) { z = Add(x, y) }")
    >>> body = GraphBody(graph)
    >>> body
    <GraphBody 'add': (x: float32, y: float32) -> z: float32>
    >>> body(np.ones(3, np.float32), np.ones(3, np.float32))
    array([2., 2., 2.], dtype=float32)
    """

    name: str
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    # None where the graph leaves a type open.
    input_dtypes: tuple[np.dtype[Any] | None, ...]
    output_dtypes: tuple[np.dtype[Any] | None, ...]

    def __init__(
        self,
        graph: GraphProto | ModelProto | Path,
        opset_imports: Mapping[str, int] | Iterable[OperatorSetIdProto] | None = None,
        captures: Mapping[str, ArrayLike] | None = None,
    ) -> None:
        self._begin(read_model(graph, opset_imports, captures))
        if self._is_typed:
            self.output_dtypes = self._program(self.input_dtypes).output_dtypes

    @classmethod
    def _restored(cls, model: ModelProto, output_dtypes: tuple[np.dtype[Any] | None, ...]) -> Self:
        """Return a body of a checked model."""
        body = cls.__new__(cls)
        body._begin(model)
        body.output_dtypes = output_dtypes
        return body

    def _begin(self, model: ModelProto) -> None:
        self._model = model
        # types of a call → the program for them; entries are never removed
        self._programs: dict[tuple[np.dtype[Any], ...], Program] = {}
        self._compiling = threading.Lock()
        self.name = model.graph.name
        self.input_names = tuple(value.name for value in model.graph.input)
        self.output_names = tuple(value.name for value in model.graph.output)
        self.input_dtypes = tuple(declared_dtype(value) for value in model.graph.input)
        self.output_dtypes = tuple(declared_dtype(value) for value in model.graph.output)
        # Not `None in`, because for NumPy None equals float64.
        self._is_typed = all(dtype is not None for dtype in self.input_dtypes)

    def check(self, dtypes: Iterable[DTypeName]) -> tuple[np.dtype[Any] | None, ...]:
        """Check that the body takes arguments of these element types, and compile it for them.

        Parameters
        ----------
        dtypes : sequence of data-type
            The element types, one for each input.

        Returns
        -------
        tuple of np.dtype
            The element types of the outputs; None for one that is known only after a run.

        Raises
        ------
        TypeError
            If their number is not that of the inputs, an input is declared with another type, or the
            operators don't support these types.

        Examples
        --------
        >>> import onnx
        >>> body = GraphBody(onnx.parser.parse_graph("same (float[N] x) => (float[N] y) { y = Identity(x) }"))
        >>> body.check(["float64"])
        Traceback (most recent call last):
        TypeError: input 'x' of the body 'same' takes float32, got float64
        """
        return self._checked(tuple(element_type(dtype) for dtype in dtypes)).output_dtypes

    # Any stands for a tuple of arrays: which one is returned depends on the graph, and users need no check.
    def __call__(self, *tensors: ArrayLike) -> NDArray[Any] | Any:
        """Run the body once.

        Parameters
        ----------
        *tensors : array_like
            The inputs. Arrays must have the dtype of the input; Python numbers are converted.

        Returns
        -------
        np.ndarray or tuple of np.ndarray
            The output, in new memory; a tuple if the graph has several outputs.

        Raises
        ------
        TypeError
            If the number or dtypes of the inputs don't fit; before anything runs.
        Exception
            Any exception of the runtime, unchanged, for example for shapes that don't fit.
        """
        program = None
        arrays: tuple[Any, ...] = tensors
        if all(type(value) is np.ndarray for value in arrays):
            program = self._programs.get(tuple([value.dtype for value in arrays]))
        if program is None or program.takes_strings:
            arrays = self._arrays(tensors)
            program = self._checked(tuple(array.dtype for array in arrays))
        results = program.run(arrays)
        return results if len(results) > 1 else results[0]

    def run_many(self, rows: Sequence[tuple[NDArray[Any], ...]]) -> list[tuple[NDArray[Any], ...]]:
        """Run the body for each row of arguments.

        Parameters
        ----------
        rows : list of tuple of np.ndarray
            The arguments of each call, of dtypes that `check` accepted, the same in each row. An array that
            is the same object in all rows is passed to the runtime once for many of them.

        Returns
        -------
        list of tuple of np.ndarray
            The outputs for each row. Results for small elements may be rows of one array.

        Raises
        ------
        Exception
            The exception of the runtime, unchanged, for the first row that fails. Its attribute
            `seqcore_element` is the index of the row.

        Notes
        -----
        Many small elements run in one call of the runtime, once there have been enough of them to make up for
        compiling that call.

        Examples
        --------
        >>> import onnx, numpy as np
        >>> body = GraphBody(onnx.parser.parse_graph("neg (int64[N] x) => (int64[N] y) { y = Neg(x) }"))
        >>> body.run_many([(np.array([1, 2]),), (np.array([3]),)])
        [(array([-1, -2]),), (array([-3]),)]
        """
        if not rows:
            return []
        return self._checked(tuple(array.dtype for array in rows[0])).run_many(rows)

    def flat_form(
        self, dtypes: tuple[np.dtype[Any], ...], whole: frozenset[int], elements: int
    ) -> FlatForm | None:
        """Return how the body runs elementwise on the values of many elements, or None if it can't.

        Parameters
        ----------
        dtypes : tuple of np.dtype
            The element types of the arguments, which `check` accepted.
        whole : frozenset of int
            The indices of the broadcast arguments, which are the same for all elements.
        elements : int
            The number of elements, which decides whether compiling pays.

        Returns
        -------
        FlatForm or None

        Examples
        --------
        >>> import onnx, numpy as np
        >>> body = GraphBody(onnx.parser.parse_graph("neg (int64[N] x) => (int64[N] y) { y = Neg(x) }"))
        >>> body.flat_form((np.dtype("int64"),), frozenset(), 1000).run([np.array([1, 2, 3])])
        (array([-1, -2, -3]),)
        """
        return self._checked(tuple(dtypes)).flat_form(whole, elements)

    def _arrays(self, tensors):
        if len(tensors) != len(self.input_names):
            raise TypeError(self._miscount(len(tensors)))
        arrays = []
        for name, value, dtype in zip(self.input_names, tensors, self.input_dtypes, strict=True):
            try:
                if dtype is None or isinstance(value, np.ndarray | np.generic):
                    arrays.append(as_tensor(value))
                else:
                    arrays.append(as_tensor(value, dtype))
            except (TypeError, ValueError, OverflowError) as error:
                add_note(error, f"input '{name}' of the body '{self.name}'")
                raise
        return tuple(arrays)

    def _checked(self, dtypes):
        """Return the program for some types, or raise a TypeError with the reason if there is none."""
        program = self._programs.get(dtypes)
        if program is not None:
            return program
        if len(dtypes) != len(self.input_names):
            raise TypeError(self._miscount(len(dtypes)))
        for name, given, dtype in zip(self.input_names, dtypes, self.input_dtypes, strict=True):
            if dtype is not None and given != dtype:
                own, other = type_name(dtype), type_name(given)
                raise TypeError(f"input '{name}' of the body '{self.name}' takes {own}, got {other}")
        try:
            return self._program(dtypes)
        except ValueError as error:
            if self._is_typed:
                raise
            raise TypeError(
                f"the body '{self.name}' doesn't take ({described(self.input_names, dtypes)}): {error}"
            ) from error

    def _program(self, dtypes):
        with self._compiling:
            if dtypes not in self._programs:
                self._programs[dtypes] = Program(self._model, dtypes)
            return self._programs[dtypes]

    def _miscount(self, given):
        names = self.input_names
        inputs = "1 input" if len(names) == 1 else f"{len(names)} inputs"
        return f"the body '{self.name}' takes {inputs} ({', '.join(names)}), got {given}"

    def __repr__(self) -> str:
        inputs = described(self.input_names, self.input_dtypes)
        outputs = described(self.output_names, self.output_dtypes)
        if len(self.output_names) > 1:
            outputs = f"({outputs})"
        return f"<GraphBody '{self.name}': ({inputs}) -> {outputs}>"

    def __reduce__(self):
        return _unpickled, (type(self), self._model.SerializeToString(), self.output_dtypes)

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self


@functools.lru_cache(maxsize=2)
def _unpickled(cls, model, output_dtypes):
    """Make a body from a pickle, once for all chunks of a map in a process.

    Sessions are not pickled, but made again at the first call. Types are not checked again.
    """
    return cls._restored(ModelProto.FromString(model), output_dtypes)


# Reading a body: a graph in any of its forms becomes a model that needs nothing from outside.


def read_model(
    graph: Any,
    opset_imports: Mapping[str, int] | Iterable[OperatorSetIdProto] | None = None,
    captures: Mapping[str, Any] | None = None,
) -> ModelProto:
    """Return a checked model of a body, of its own memory, with the captures as initializers.

    Parameters
    ----------
    graph : GraphProto, ModelProto, str or os.PathLike
    opset_imports : mapping of str to int or sequence of OperatorSetIdProto, optional
    captures : mapping of str to array_like, optional

    Raises
    ------
    ValueError
        If the model is invalid, a capture is missing, or an input or output is not a tensor.
    TypeError
        If `graph` is none of these.
    """
    model = _as_model(graph, opset_imports)
    for tensor in all_tensors(model):
        if tensor.data_location == TensorProto.EXTERNAL:
            raise ValueError(
                f"the tensor '{tensor.name}' of the body has its data in a file: pass the path of the model"
            )
    graph = model.graph
    graph.name = graph.name or "body"
    # An input with an initializer is a default that a map never overrides: to us it is a constant. Before
    # version 4 of the IR every initializer had to be an input too.
    constants = {one.name for one in graph.initializer}
    constants |= {one.values.name for one in graph.sparse_initializer}
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    model.ir_version = max(model.ir_version, 4)
    free = [name for name in Graph.from_proto(graph).free_names() if name not in constants]
    _capture(graph, free, captures or {})
    for value in (*graph.input, *graph.output):
        declared_dtype(value)
    if not graph.output:
        raise ValueError(f"the body '{graph.name}' has no outputs")
    name_outputs(model)
    check_message(model, f"the body '{graph.name}'")
    restamp_proto(model, operators_of(model))
    return model


def _as_model(graph, opset_imports):
    if isinstance(graph, GraphProto):
        model = ModelProto()
        model.graph.CopyFrom(graph)
        model.opset_import.extend(_opset_imports(opset_imports, model))
        model.ir_version = helper.find_min_ir_version_for(model.opset_import, ignore_unknown=True)
        return model
    if opset_imports is not None:
        raise ValueError("opset_imports is for a GraphProto only, because a model has its own opset imports")
    if isinstance(graph, ModelProto):
        model = ModelProto()
        model.CopyFrom(graph)
        return model
    if isinstance(graph, str | os.PathLike):
        path = path_of(graph)
        try:
            return onnx.load(path)
        except OSError:
            raise
        except Exception as error:
            raise ValueError(f"{path} can't be read as an ONNX model: {one_line(error)}") from error
    raise TypeError(f"graph must be a GraphProto, a ModelProto or the path to a model, got {got(graph)}")


def _opset_imports(given, model):
    if given is None:
        given = {}
    elif not isinstance(given, Mapping):
        if not isinstance(given, Iterable):
            raise TypeError(f"opset_imports must be a dict such as {{'': 17}}, got {got(given)}")
        given = list(given)
        for one in given:
            if not isinstance(one, OperatorSetIdProto):
                raise TypeError(f"opset_imports must have OperatorSetIdProtos, got {shown(one)}")
        return given
    named = {}
    for domain, version in given.items():
        if not isinstance(domain, str):
            raise TypeError(f"opset_imports must have names of domains as keys, got {shown(domain)}")
        number = as_integer(version)
        if number is None:
            raise TypeError(f"the version of the opset '{domain}' must be an integer, got {shown(version)}")
        if not 0 < number < 1 << 63:
            raise ValueError(f"the opset '{domain}' has no version {shown(number)}")
        named["" if domain == "ai.onnx" else domain] = number
    domains = {"": None} | {"" if n == "ai.onnx" else n: None for n, _ in operators_of(model)}
    versions = {domain: named.get(domain) or newest_opset(domain) for domain in domains} | named
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _capture(graph, free, captures):
    missing = []
    for name in free:
        if name not in captures:
            missing.append(name)
            continue
        try:
            tensor = as_tensor(captures[name])
        except (TypeError, ValueError, OverflowError) as error:
            add_note(error, f"capture '{name}' of the body '{graph.name}'")
            raise
        graph.initializer.append(to_tensor_proto(tensor, name))
    if missing:
        names = ", ".join(f"'{name}'" for name in missing)
        them = "it" if len(missing) == 1 else "them"
        raise ValueError(
            f"the body '{graph.name}' uses {names} and doesn't define {them}: pass a value in captures"
        )
