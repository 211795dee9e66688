"""Types and shapes of all values of a model, through branches, around loops and inside of sequences.

Each operator's record infers its outputs. The states of a loop begin with the types of their initial values,
and get more general (see `types`) until the body changes nothing:

    Loop (n, c, s = [], x: (4))            round 1        round 2
        state u: elements                  never          (4)
        v = SequenceInsert(u, x)           (4)            (4)        at rest

Of what a file declares only the shapes of fed tensors are believed, since only those are checked.
"""

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

import numpy as np
import onnx
from onnx import AttributeProto, NodeProto, TensorProto, TypeProto

from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.record import record_of
from seqcore.onnx._model.tensors import to_tensor_proto
from seqcore.onnx._model.types import (
    NEVER,
    SEQUENCE,
    TENSOR,
    UNKNOWN,
    Length,
    Shape,
    Type,
    from_type_proto,
    join,
    to_type_proto,
    without_shape,
)
from seqcore.onnx._model.writing import Writer
from seqcore.onnx._thresholds import MOST_FOLLOWED, MOST_REMEMBERED


class Given(NamedTuple):
    """All that decides what is inferred for a node without graphs."""

    op_type: str
    noutputs: int
    attributes: list[AttributeProto]
    facts: list[Any]


# The types and the integers of a node's outputs.
Made = tuple[list[Type], list[tuple[Length, ...] | None]]
# Names of nodes → what was inferred for them, and from what.
Memo = dict[str, list[tuple[Given, Made]]]


class Inference:
    """The types that are known while a model is followed.

    Parameters
    ----------
    model : Model
    constant : callable
        Returns the value of a small constant.
    memo : dict, optional
        Earlier results, of this model or the one before it was rewritten. More are added.
    types : dict, optional
        The types that are known before.

    Attributes
    ----------
    types : dict of str to Type
    numbers : dict of str to tuple of (int, str or None)
        Of integers in tensors of rank 0 and 1, as far as they are known: what shapes are computed from; of
        conditions 0 and 1.
    """

    def __init__(
        self,
        model: Model,
        constant: Callable[[str], np.ndarray | None],
        memo: Memo | None = None,
        types: dict[str, Type] | None = None,
    ) -> None:
        self.model = model
        self.constant = constant
        self._memo: Memo = {} if memo is None else memo
        self.types: dict[str, Type] = {} if types is None else dict(types)
        self.numbers: dict[str, tuple[Length, ...]] = {}

    def type(self, name: str) -> Type:
        return self.types.get(name, UNKNOWN)

    def shape(self, name: str) -> Shape:
        return self.type(name).shape

    def follow(self, graph: Graph) -> None:
        """Infer what a graph's nodes make; the types of its inputs are there."""
        for node in graph.nodes:
            if node.graphs:
                self._set(node, self._infer(node), [None] * len(node.outputs))
                continue
            given = Given(node.op_type, len(node.outputs), [*node.attribute_messages()], self._facts(node))
            known = self._memo.setdefault(node.name, [])
            found = next((made for one, made in known if one == given), None)
            if found is None:
                for name in node.outputs:
                    self.numbers.pop(name, None)
                types = self._infer(node)
                found = types, [self.numbers.get(name) for name in node.outputs]
                known[MOST_REMEMBERED - 1 :] = []
                known.insert(0, (given, found))
            self._set(node, *found)

    def _facts(self, node: Node) -> list[Any]:
        """Return all that a node's outputs may depend on of its inputs."""
        types, numbers, constants = self.types, self.numbers, self.model.constants
        return [(types.get(name), numbers.get(name), constants.get(name)) for name in node.inputs]

    def _set(self, node: Node, types: list[Type], numbers: list[tuple[Length, ...] | None]) -> None:
        """Say what a node makes; nothing is known of the outputs behind the last type."""
        for name, type_, fixed in zip(
            node.outputs, types + [UNKNOWN] * (len(node.outputs) - len(types)), numbers, strict=False
        ):
            if not name:
                continue
            self.types[name] = type_
            if fixed is None:
                self.numbers.pop(name, None)
            else:
                self.numbers[name] = fixed

    def _infer(self, node: Node) -> list[Type]:
        """Return the types of a node's outputs: `NEVER` if it reads an element that never exists."""
        record = record_of(node)
        names = [name for name in node.inputs if self.type(name).is_tensor and self.shape(name) == NEVER]
        if not names or node.graphs or record.is_of_lists:
            return record.infer(node, self)
        for name in names:
            self.types[name] = without_shape(self.types[name])
        made = record.infer(node, self)
        for name in names:
            self.types[name] = self.types[name]._replace(shape=NEVER)
        return [type_._replace(shape=NEVER) if type_.is_tensor else type_ for type_ in made]

    def follow_loop(self, body: Graph, names: list[str], given: list[str], initial: list[Type]) -> None:
        """Infer what a body makes again and again: `names` are its states, `given` what it gives for them."""
        states = initial
        while True:
            self.types.update(zip(names, states, strict=True))
            self.follow(body)
            after = [join(old, self.type(name)) for old, name in zip(states, given, strict=True)]
            if after == states:
                return
            states = after

    def numbers_of(self, name: str) -> tuple[Length, ...] | None:
        """Return the integers in a tensor of rank 0 or 1, None where nothing is known of them."""
        if name in self.numbers:
            return self.numbers[name]
        constant = self.constant(name)
        if constant is None or constant.dtype not in (np.int32, np.int64, np.bool_) or constant.ndim > 1:
            return None
        return tuple(map(int, constant.reshape(-1))) if constant.size <= MOST_FOLLOWED else None

    def count_after(self, edit: Node, inserts: bool) -> int | None:
        """Return how many elements a sequence has after an edit, None if that or the place isn't known."""
        n = self.type(edit.inputs[0]).count
        if n is None:
            return None
        if position := edit.input(1 + inserts):
            fixed = self.numbers_of(position)
            if (
                not fixed
                or len(fixed) > 1
                or not isinstance(fixed[0], int)
                or not -n <= fixed[0] < n + inserts
            ):
                return None
        return n + 1 if inserts else n - 1 if n else None

    def integer(self, name: str) -> int | None:
        """Return the integer that a value is in every run, for a condition 0 or 1; None if unknown."""
        fixed = self.numbers_of(name)
        return fixed[0] if fixed and len(fixed) == 1 and isinstance(fixed[0], int) else None

    def condition(self, name: str) -> bool | None:
        """Return what a condition is, None where that isn't known."""
        fixed = self.integer(name)
        return None if fixed is None else bool(fixed)

    def by_onnx(self, node: Node) -> list[Type]:
        """Return what onnx infers for the outputs of a node without graphs; nothing where it can't."""
        unknown = [UNKNOWN] * len(node.outputs)
        version = self.model.opsets.get(node.domain, 1)
        if node.graphs or not onnx.defs.has(node.op_type, version, node.domain):
            return unknown
        # Each name once, since inputs may be left out.
        names = dict.fromkeys(filter(None, node.inputs))
        if any(not self.type(name).number or self.type(name).kind != TENSOR for name in names):
            return unknown
        proto = _message_of(node)
        types = {name: to_type_proto(self.type(name), with_shape=True) for name in names}
        data = {}
        for name in names:
            if self.constant(name) is not None:
                data[name] = self.model.constants[name]
                continue
            # A constant that is reshaped, such as the K of TopK.
            numbers, (_, number, shape, *_) = self.numbers.get(name, (None,)), self.type(name)
            is_known = all(isinstance(one, int) for one in numbers)
            if is_known and number == TensorProto.INT64 and shape is not None:
                array = np.array(numbers, np.int64).reshape([len(numbers)] * len(shape))
                data[name] = to_tensor_proto(array, name)
        schema = onnx.defs.get_schema(node.op_type, version, node.domain)
        try:
            made = onnx.shape_inference.infer_node_outputs(schema, proto, types, data)
        except (onnx.shape_inference.InferenceError, onnx.checker.ValidationError):
            return unknown  # whether that is an error, who runs the node says
        fixed = {length for name in names for length in self.shape(name) or () if isinstance(length, str)}
        return [
            _plain(from_type_proto(made[name]), fixed) if name in made else UNKNOWN for name in node.outputs
        ]


def _message_of(node: Node) -> NodeProto:
    holder = onnx.GraphProto()
    Writer().write_node(node, holder.node)
    return holder.node[0]


def _plain(type_: Type, fixed: Collection[str] = ()) -> Type:
    """Return a type without names of lengths but those that were told: onnx makes up others."""
    if type_.shape is None:
        return type_
    return type_._replace(
        shape=tuple(length if isinstance(length, int) or length in fixed else None for length in type_.shape)
    )


Numbers = dict[str, tuple[Length, ...]]


class Inferred(NamedTuple):
    """The types of the values of a model, and the integers in vectors and scalars, as far as known."""

    types: dict[str, Type]
    numbers: Numbers


def infer(
    model: Model,
    constant: Callable[[str], np.ndarray | None],
    believes_elements: bool = False,
    memo: Memo | None = None,
) -> Inferred:
    """Return what is known of a model in normal form: types, and integers and conditions in vectors.

    Parameters
    ----------
    model : Model
    constant : callable
        Returns a small constant by its name, or None.
    believes_elements : bool, optional
        If True, believe the shapes that a model declares of the elements of fed sequences.
    memo : dict, optional
        As `Inference` takes it.
    """
    inference = Inference(model, constant, memo)
    for name, tensor in model.constants.items():
        inference.types[name] = Type(TENSOR, tensor.data_type, tuple(tensor.dims))
    names = {""}
    for name in model.graph.inputs:
        declared = model.graph.declared.get(name, TypeProto())
        type_ = from_type_proto(declared)
        is_checked = type_.kind == TENSOR or (believes_elements and type_.kind == SEQUENCE)
        is_checked = is_checked and name not in model.defaults
        if type_.kind == SEQUENCE:
            type_ = _plain(type_)  # a name for their lengths need not stand for one
        inference.types[name] = _believed(type_, names) if is_checked else without_shape(type_)
    inference.follow(model.graph)
    types = {
        name: without_shape(type_) if type_.is_tensor and type_.shape == NEVER else type_
        for name, type_ in inference.types.items()
    }
    return Inferred(types, inference.numbers)


def _believed(type_: Type, names: set[str]) -> Type:
    """Return the type of a fed tensor. A name for lengths keeps the first place alone.

    No run checks that it stands for one length.
    """
    if type_.shape is None:
        return type_
    lengths: list[Length] = []
    for length in type_.shape:
        lengths.append(None if isinstance(length, str) and length in names else length)
        if isinstance(length, str):
            names.add(length)
    return type_._replace(shape=tuple(lengths))
