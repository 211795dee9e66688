"""Prepared: a model in normal form and all that is known of it, which every room asks."""

import functools
import math
from collections import defaultdict

import numpy as np
from onnx import TensorProto

from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.inference import Inferred, Memo, Numbers, infer
from seqcore.onnx._model.record import origins_of
from seqcore.onnx._model.signs import never_negative
from seqcore.onnx._model.tensors import from_tensor_proto
from seqcore.onnx._model.types import SEQUENCE, UNKNOWN, Length, Shape, Type
from seqcore.onnx._model.weights import Weights
from seqcore.onnx._thresholds import MOST_NUMBERS


class Prepared:
    """A model, and everything that is known of it before it runs.

    Attributes
    ----------
    model : Model
        In normal form.
    weights : Weights
        The data of its weights.
    believes_elements : bool
        If True, the elements of input sequences have the declared shapes: the caller checks that in each run.
    types : dict of str to Type
        The types of all values, constants included. Like the next four, they are computed at first use, and
        then the model may not change.
    numbers : dict of str to tuple of (int, str or None)
        The integers in vectors and scalars, as far as they are known: what shapes are computed from. Of
        conditions 0 and 1.
    producers : dict of str to (Node, Graph)
        The node that makes a value, and its graph; inputs and constants are missing.
    readers : dict of str to list of (Node or None, Graph)
        The nodes that read a value, and their graphs; None for the graph whose output it is.
    origins : dict of str to list of str
        The values that a value is, passed on or edited, in loops and branches too.
    """

    def __init__(
        self,
        model: Model,
        weights: Weights,
        believes_elements: bool = False,
        memo: Memo | None = None,
        inferred: Inferred | None = None,
    ) -> None:
        self.model, self.weights, self.believes_elements = model, weights, believes_elements
        self._arrays: dict[str, np.ndarray] = {}
        self._memo: Memo = {} if memo is None else memo
        self._known = inferred

    @property
    def _inferred(self) -> Inferred:
        if self._known is None:
            self._known = infer(self.model, self.small_constant, self.believes_elements, self._memo)
        return self._known

    @property
    def types(self) -> dict[str, Type]:
        return self._inferred.types

    @property
    def numbers(self) -> Numbers:
        return self._inferred.numbers

    def condition(self, name: str) -> bool | None:
        """Return what a condition is in every run, None where that isn't known."""
        fixed = self.integer(name)
        return None if fixed is None else bool(fixed)

    def integer(self, name: str) -> int | None:
        """Return the integer that a value is in every run, for a condition 0 or 1; None if unknown."""
        constant = self.constant(name)
        if constant is not None:
            is_one = constant.size == 1 and constant.dtype.kind in "iub"
            return int(constant.reshape(-1)[0]) if is_one else None
        fixed = self.numbers.get(name, ())
        return fixed[0] if len(fixed) == 1 and isinstance(fixed[0], int) else None

    @functools.cached_property
    def iterations(self) -> set[str]:
        """The names of the numbers of iterations, in the bodies of loops."""
        return {node.body.inputs[0] for node in self.model.graph.all_nodes() if node.is_op("Loop")}

    @functools.cached_property
    def never_negative(self) -> set[str]:
        """The names of the computed integers that are known not to be negative."""
        return never_negative(self.model.graph, self.iterations, self.element_number, self.constant)

    @functools.cached_property
    def producers(self) -> dict[str, tuple[Node, Graph]]:
        return {
            name: (node, graph)
            for graph in self.model.graph.all_graphs()
            for node in graph.nodes
            for name in node.outputs
            if name
        }

    @functools.cached_property
    def readers(self) -> dict[str, list[tuple[Node | None, Graph]]]:
        readers: dict[str, list[tuple[Node | None, Graph]]] = defaultdict(list)
        for graph in self.model.graph.all_graphs():
            for node in graph.nodes:
                for name in node.inputs:
                    if name:
                        readers[name].append((node, graph))
            for name in graph.outputs:
                readers[name].append((None, graph))
        return readers

    @functools.cached_property
    def origins(self) -> dict[str, list[str]]:
        return origins_of(self.model.graph)

    def fed_axis(self, length: Length) -> tuple[str, int] | None:
        """Return the input and the axis that a length has its name from; no other has the same."""
        for name in self.model.graph.inputs:
            shape = self.shape(name)
            if isinstance(length, str) and shape is not None and self.is_tensor(name) and length in shape:
                return name, shape.index(length)
        return None

    def length_read(self, name: str) -> tuple[str, int] | None:
        """Return the tensor and the axis whose length a Gather of a Shape reads, None for another value."""
        gather = self.producer(name)
        shape = self.producer(gather.inputs[0]) if gather and gather.is_op("Gather") else None
        if not gather or not shape or not shape.is_op("Shape") or shape.attribute_names():
            return None
        axis = self.integer(gather.inputs[1])
        return None if axis is None else (shape.inputs[0], axis)

    def ancestors(self, name: str) -> dict[str, None]:
        """Return a value, its origins, theirs and so on."""
        found, todo = {name: None}, [name]
        while todo:
            new = [one for one in self.origins.get(todo.pop(), ()) if one not in found]
            found |= dict.fromkeys(new)
            todo += new
        return found

    def again(self, model: Model, is_same: bool = False) -> "Prepared":
        """Return what is known of another model, as it came of this one, with the same beliefs.

        Of one that is the same, as a copy, nothing need be inferred anew.
        """
        inferred = self._inferred if is_same else None
        return Prepared(model, self.weights, self.believes_elements, self._memo, inferred)

    def producer(self, name: str) -> Node | None:
        """Return the node that makes a value, None for an input or a constant."""
        found = self.producers.get(name)
        return None if found is None else found[0]

    def type(self, name: str) -> Type:
        return self.types.get(name, UNKNOWN)

    def is_tensor(self, name: str) -> bool:
        """Return whether a value is a tensor, not a sequence or optional. An unknown type counts as one."""
        return self.type(name).is_tensor

    def is_sequence(self, name: str) -> bool:
        """Return whether a value is known to be a sequence of tensors."""
        return self.type(name).kind == SEQUENCE

    def shape(self, name: str) -> Shape:
        """Return what is known of a tensor's shape, or of that of a sequence's elements."""
        return self.type(name).shape

    def element_number(self, name: str) -> int:
        """Return ONNX's number of the element type of a tensor or of the tensors inside, 0 if unknown."""
        return self.type(name).number

    def is_constant(self, name: str) -> bool:
        return name in self.model.constants

    def constant(self, name: str) -> np.ndarray | None:
        """Return the small constant tensor that a value is, None if it is computed, fed or large."""
        while name not in self.model.constants:
            node = self.producer(name)
            if node is None or not node.is_op("Identity"):
                return None
            name = node.inputs[0]
        return self.small_constant(name)

    def integers(self, name: str) -> np.ndarray | None:
        """Return the integers that a value of rank 0 or 1 has in every run, None if they are not known."""
        numbers = self.numbers.get(name) if self.type(name).rank == 1 else None
        if numbers is None or not all(isinstance(n, int) for n in numbers):
            return self.constant(name)
        return np.array(numbers, np.int64)

    def small_constant(self, name: str) -> np.ndarray | None:
        """Return a constant of the model as an array, None if it isn't a constant, or is large."""
        if name not in self._arrays:
            tensor = self.model.constants.get(name)
            is_small = tensor is not None and tensor.data_location != TensorProto.EXTERNAL
            if tensor is None or not is_small or math.prod(tensor.dims) > MOST_NUMBERS:
                return None
            self._arrays[name] = from_tensor_proto(tensor)
        return self._arrays[name]

    def array(self, name: str) -> np.ndarray:
        """Return a constant of the model, however large, as an array that nobody can change."""
        array = from_tensor_proto(self.weights.filled(self.model.constants[name]))
        array.flags.writeable = False
        return array
