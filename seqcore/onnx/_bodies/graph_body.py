"""GraphBody: the body of a SequenceMap, compiled."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from onnx import GraphProto, ModelProto, OperatorSetIdProto

from seqcore._shown import add_note
from seqcore._tensors import as_tensor
from seqcore.dtypes import element_type, type_name
from seqcore.onnx._bodies.flat import FlatForm
from seqcore.onnx._bodies.program import Program
from seqcore.onnx._bodies.reading import read_model
from seqcore.onnx._model.tensors import declared_dtype
from seqcore.onnx._runtimes.runners import described

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from seqcore._typing import DTypeName, Path

__all__ = ["GraphBody"]


class GraphBody:
    """An ONNX graph, compiled to be applied to the elements of a sequence.

    `sequence_map` takes graphs as they are; a body that is kept is compiled once for many maps. It is called
    with tensors, runs in onnxruntime, and never changes: several threads may call one body at once.

    Parameters
    ----------
    graph : GraphProto, ModelProto, str or os.PathLike
        The graph, a model, or the path to a model file, whose external data are loaded with it. Inputs and
        outputs are tensors. An input that has an initializer counts as a constant.
    opset_imports : mapping of str to int or sequence of OperatorSetIdProto, optional
        Versions of the operator sets, for a bare GraphProto. By default the newest that onnxruntime loads.
    captures : dict of str to array_like, optional
        Values for the names that the graph takes from a scope around it. They are copied; names that the
        graph doesn't use are passed by.

    Raises
    ------
    ValueError
        If the model is invalid, can't be run, lacks a capture, or has an input or output that is no tensor.
    TypeError
        If `graph` is nothing of the kind.
    FileNotFoundError
        If there is no file at the path.

    Notes
    -----
    Implements the body of ONNX SequenceMap-17. Compiling takes about 1 ms for a small graph, a call 5 µs
    and the operators' time. A graph may leave out its inputs' types: it is then compiled for those that it is
    called with, once for each combination. Where onnxruntime has no kernel for a type or an operator (complex
    numbers, much of bfloat16), onnx's reference evaluator runs the graph, several times slower. A model holds
    at most 2 GB, protobuf's limit.

    The methods: `check` says whether types fit, before anything runs; a call runs the body once; `run_many`
    runs it for many elements at less cost for each.

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

    def _begin(self, model: ModelProto) -> None:
        self._model = model
        # The types of a call → what runs it. It only ever grows.
        self._programs: dict[tuple[np.dtype[Any], ...], Program] = {}
        self._compiling = threading.Lock()
        self.name = model.graph.name
        self.input_names = tuple(value.name for value in model.graph.input)
        self.output_names = tuple(value.name for value in model.graph.output)
        self.input_dtypes = tuple(declared_dtype(value) for value in model.graph.input)
        self.output_dtypes = tuple(declared_dtype(value) for value in model.graph.output)
        # Not `None in`: to NumPy, None equals float64.
        self._is_typed = all(dtype is not None for dtype in self.input_dtypes)

    def check(self, dtypes: Iterable[DTypeName]) -> tuple[np.dtype[Any] | None, ...]:
        """Check that the body takes arguments of these element types, and compile it for them.

        Parameters
        ----------
        dtypes : sequence of data-type
            One for each input.

        Returns
        -------
        tuple of np.dtype
            The outputs' element types; None for one that only a run will tell.

        Raises
        ------
        TypeError
            If there are more or fewer than inputs, an input is declared with another type, or the operators
            don't take these types.

        Examples
        --------
        >>> import onnx
        >>> body = GraphBody(onnx.parser.parse_graph("same (float[N] x) => (float[N] y) { y = Identity(x) }"))
        >>> body.check(["float64"])
        Traceback (most recent call last):
        TypeError: input 'x' of the body 'same' takes float32, not float64
        """
        return self._checked(tuple(element_type(dtype) for dtype in dtypes)).output_dtypes

    # Any stands for a tuple of arrays: the graph tells which it is, so that nobody should have to ask.
    def __call__(self, *tensors: ArrayLike) -> NDArray[Any] | Any:
        """Run the body once.

        Parameters
        ----------
        *tensors : array_like
            One for each input. Arrays are of the input's type; Python numbers are converted.

        Returns
        -------
        np.ndarray or tuple of np.ndarray
            In memory of their own. A tuple where the graph has several outputs.

        Raises
        ------
        TypeError
            As from `check`, before anything runs.
        Exception
            What the runtime raises, as it is: for shapes that don't fit, for instance.
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
            Arguments of types that `check` has passed, the same in each row. An array that is one object in
            all rows is given to the runtime once for many of them.

        Returns
        -------
        list of tuple of np.ndarray
            The outputs for each row, which share no element with each other or the arguments. Results for
            small elements may be rows of one array.

        Raises
        ------
        Exception
            What the runtime raises, as it is, for the first row that fails. Its attribute `seqcore_element`
            is the row's index.

        Notes
        -----
        Small elements run many at once: see `seqcore.onnx._bodies.many`. What that needs is built once there
        have been elements enough to pay for it.

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
        """Return how the body runs on the items of many elements at once, or None where it can't.

        Parameters
        ----------
        dtypes : tuple of np.dtype
            The arguments' types, which `check` has passed.
        whole : frozenset of int
            Which arguments are the same for all elements.
        elements : int
            How many elements there are, which decides whether to build what is needed.

        Returns
        -------
        FlatForm or None
            See `seqcore.onnx._bodies.flat`.

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
        """Return the program for some types, or raise the TypeError that says why there is none."""
        program = self._programs.get(dtypes)
        if program is not None:
            return program
        if len(dtypes) != len(self.input_names):
            raise TypeError(self._miscount(len(dtypes)))
        for name, given, dtype in zip(self.input_names, dtypes, self.input_dtypes, strict=True):
            if dtype is not None and given != dtype:
                own, other = type_name(dtype), type_name(given)
                raise TypeError(f"input '{name}' of the body '{self.name}' takes {own}, not {other}")
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
        return f"the body '{self.name}' takes {inputs} ({', '.join(names)}), not {given}"

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
    """Make a body of what was pickled: one for all chunks of a map that come to a process.

    Sessions stay behind: they are made again at the first call. What was checked stays checked.
    """
    body = cls.__new__(cls)
    body._begin(ModelProto.FromString(model))
    body.output_dtypes = output_dtypes
    return body
