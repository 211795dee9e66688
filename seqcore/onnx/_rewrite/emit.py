"""Building the nodes that stand in for operators on sequences, in the form of opset 14 and later."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
from onnx import TensorProto, helper

from seqcore.onnx._model.graph import Model, Node, fresh_name
from seqcore.onnx._model.positions import Position
from seqcore.onnx._model.tensors import from_tensor_proto, to_tensor_proto

# In older ones Reshape takes no length of 0, Identity no sequence, and axes are attributes.
OLDEST_OPSET = 14
# An end that lies behind the last element.
AFTER_ALL = (1 << 63) - 1
# An end before the first element, wherever a Slice of step -1 starts.
_BEFORE_ALL = -(1 << 63)


class Builder:
    """Nodes to put into a model in normal form: in place of others, or after them.

    Nothing changes until `apply`: those who look at the model meanwhile see it as it was. For the target
    "portable" nothing is checked at run time, and no memory is saved (`has_checks` is False): such runtimes
    run straight models only.
    """

    def __init__(self, model: Model, prefix: str = "lowered", target: str | None = None) -> None:
        self.opset, self.has_checks = model.opset, target != "portable"
        self.is_for_openvino = target == "openvino"
        self._prefix = prefix
        self._model = model
        self._taken = model.names()
        self._node_names = {node.name for node in model.graph.all_nodes()}
        self._constants: dict[tuple[str, tuple[int, ...], bytes], str] = {}
        self._instead: dict[Node, list[Node]] = {}
        self._before: dict[Node, list[Node]] = {}
        self._after: dict[Node, list[list[Node]]] = defaultdict(list)
        self._types: dict[str, Any] = {}
        # Counts that are checked to be positive → the same unchecked, and the zero that is added.
        self.positive: dict[str, tuple[str, str]] = {}
        # Zeros that there are only after a check, and those that fail as an axis or a position alone.
        self.zeros: set[str] = set()
        self.positions: set[str] = set()
        # An unsqueezed tensor → the one before, and the axes; and the same for squeezed tensors.
        self.unsqueezed: dict[str, tuple[str, tuple[int, ...]]] = {}
        self.squeezed: dict[str, tuple[str, tuple[int, ...]]] = {}
        # A tensor, and tables of starts and ends of its pieces → the lengths; "" if the last may end behind.
        self.cuts: dict[tuple[str, str, str], str] = {}
        # A split, of what length and in which graph → what tells where its pieces are.
        self.shared: dict[tuple[Any, ...], tuple[str, ...]] = {}
        # Lengths of ours, which need no check.
        self.lengths: set[str] = set()
        # Numbers of pieces → where each starts: the first at 0.
        self.starts: dict[str, str] = {}

    def instead(self, node: Node, declares: bool = True) -> Nodes:
        """Return `Nodes` that replace a node: they have to make what it makes."""
        made = Nodes(self, node, declares=declares)
        self._instead[node] = made.nodes
        return made

    def before(self, node: Node) -> Nodes:
        """Return `Nodes` that come right before a node."""
        return Nodes(self, node, self._before.setdefault(node, []))

    def after(self, node: Node) -> Nodes:
        """Return `Nodes` that come right after a node."""
        made = Nodes(self, node)
        self._after[node].append(made.nodes)
        return made

    def constant(self, values: Any, dtype: Any = np.int64) -> str:
        """Return the name of a constant of the model."""
        array = np.asarray(values, dtype)
        key = array.dtype.str, array.shape, array.tobytes()
        if key not in self._constants:
            word = "_".join(map(str, array.reshape(-1)[:4].tolist())) or "none"
            name = self.fresh(f"{self._prefix}/{word}")
            self._model.constants[name] = to_tensor_proto(array, name)
            self._constants[key] = name
        return self._constants[key]

    def known_integer(self, name: str) -> int | None:
        """Return the integer that a constant of rank 0 is, None for other values."""
        tensor = self._model.constants.get(name)
        return None if tensor is None or tensor.dims else int(from_tensor_proto(tensor))

    def fresh(self, name: str) -> str:
        """Return a name for a value: this one, or one like it."""
        return fresh_name(name, self._taken)

    def fresh_node_name(self, name: str) -> str:
        return fresh_name(name, self._node_names)

    def declare(self, name: str, element_type: int, shape: Sequence[int | str | None] | None) -> None:
        if element_type and name:
            self._types[name] = helper.make_tensor_type_proto(element_type, shape)

    def apply(self) -> None:
        """Put the nodes into the model."""
        self.shared.clear()  # another pass may drop what nothing reads
        if not (self._before or self._instead or self._after):
            return
        for graph in list(self._model.graph.all_graphs()):
            nodes: list[Node] = []
            for node in graph.nodes:
                nodes += self._before.get(node, ())
                nodes += self._instead.get(node, [node])
                for made in self._after.get(node, ()):
                    nodes += made
            graph.nodes = nodes
            for name in (name for node in nodes for name in node.outputs):
                if name in self._types and name not in graph.outputs:
                    graph.declared.setdefault(name, self._types[name])
        self._before.clear()
        self._instead.clear()
        self._after.clear()
        self._types.clear()


class Nodes:
    """New nodes in a row.

    Parameters
    ----------
    builder : Builder
    origin : Node or str
        The node that they stand for, or its name: theirs begin with it.
    nodes : list of Node, optional
        The list that they are added to.
    declares : bool, optional
        If False, no types are declared: only a shape of what they make is read.
    """

    def __init__(
        self,
        builder: Builder,
        origin: Node | str,
        nodes: list[Node] | None = None,
        declares: bool = True,
    ) -> None:
        self.nodes: list[Node] = [] if nodes is None else nodes
        self.builder = builder
        self.constant = builder.constant
        self._declares = declares
        self.label = origin if isinstance(origin, str) else origin.name

    def apart(self) -> Nodes:
        """Return `Nodes` for a graph inside, named after the same node."""
        return Nodes(self.builder, self.label, declares=self._declares)

    def declare(self, name: str, element_type: int, shape: Sequence[int | str | None] | None) -> None:
        """Declare the type of a value: onnx infers less than is known."""
        if self._declares:
            self.builder.declare(name, element_type, shape)

    def op(self, op_type: str, *inputs: str, out: str = "", **attributes: Any) -> str:
        """Add a node, and return the name of its output: `out`, or a fresh one."""
        return self.ops(op_type, inputs, [out], **attributes)[0]

    def ops(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], **attributes: Any
    ) -> list[str]:
        """Add a node with several outputs; an empty name stands for a fresh one."""
        if op_type == "CumSum":
            # Other runtimes read it without attributes in other ways.
            attributes = {"exclusive": 0, "reverse": 0} | attributes
        fresh = self.builder.fresh
        made = [name or fresh(f"{self.label}/{op_type}_output") for name in outputs]
        name = self.builder.fresh_node_name(f"{self.label}/{op_type}")
        self.nodes.append(Node(op_type, list(inputs), made, name, **attributes))
        return made

    def like(self, node: Node, inputs: Sequence[str], **changes: Any) -> list[str]:
        """Add a node like another, with other inputs and attributes; return the names of its outputs."""
        fresh = self.builder.fresh
        made = node.copy()
        made.inputs = list(inputs)
        made.outputs = [name and fresh(f"{self.label}/{name}") for name in node.outputs]
        made.name = self.builder.fresh_node_name(f"{self.label}/{node.op_type}")
        for key, value in changes.items():
            made.set_attribute(key, value)
        self.nodes.append(made)
        return made.outputs

    def move_to(self, other: Nodes, names: Sequence[str]) -> None:
        """Move the nodes to others that are needed for values of these names."""
        makers = {name: node for node in self.nodes for name in node.outputs}
        needed: set[Node] = set()
        todo = list(names)
        while todo:
            node = makers.get(todo.pop())
            if node is not None and node not in needed:
                needed.add(node)
                todo += node.inputs
        other.nodes.extend([node for node in self.nodes if node in needed])
        self.nodes[:] = [node for node in self.nodes if node not in needed]

    def own(self, names: Sequence[str]) -> list[str]:
        """Return names for the same values that nodes here make, each for it alone."""
        made = {name for node in self.nodes for name in node.outputs}
        found: list[str] = []
        for name in names:
            found.append(self.op("Identity", name) if name not in made or name in found else name)
        return found

    def rename(self, names: Sequence[str], others: Sequence[str]) -> None:
        """Call the values of these names others."""
        called = dict(zip(self.own(names), others, strict=True))
        for node in self.nodes:
            node.inputs = [called.get(name, name) for name in node.inputs]
            node.outputs = [called.get(name, name) for name in node.outputs]
        for known in (self.builder.unsqueezed, self.builder.squeezed):
            known.update({made: (called.get(one, one), axes) for made, (one, axes) in known.items()})

    def greatest(self, integers: str) -> str:
        """Return the largest of some integers, a vector that is not empty."""
        return self._reduced("ReduceMax", integers, 0)

    def least(self, integers: str) -> str:
        """Return the smallest of some integers, a vector that is not empty."""
        return self._reduced("ReduceMin", integers, 0)

    def product(self, integers: str, axis: int = 0) -> str:
        """Return the product of integers along an axis."""
        return self._reduced("ReduceProd", integers, axis)

    def _reduced(self, op_type: str, integers: str, axis: int) -> str:
        if self.builder.opset < 18:
            return self.op(op_type, integers, axes=[axis], keepdims=0)
        return self.op(op_type, integers, self.constant([axis]), keepdims=0)

    def sum(self, integers: str) -> str:
        """Return the sum of some integers, a vector."""
        return self.op("ReduceSum", integers, self.constant([0]), keepdims=0)

    def sum_of_sizes(self, integers: str) -> str:
        """Return the sum of integers without their signs, a scalar: 0 where all are 0."""
        return self.op("ReduceL1", integers, keepdims=0)

    def clip(self, integers: str, least: str, most: str) -> str:
        """Return integers between two scalars, in onnxruntime by one node."""
        if self.builder.is_for_openvino or not self.builder.has_checks:
            return self.op("Max", self.op("Min", integers, most), least)
        return self.op("Clip", integers, least, most)

    def squeeze(self, tensor: str, *axes: int, out: str = "") -> str:
        made = self.builder.unsqueezed.get(tensor)
        if made is not None and made[1] == axes and not out:
            return made[0]
        squeezed = self.op("Squeeze", tensor, self.constant(axes), out=out)
        self.builder.squeezed[squeezed] = tensor, axes
        return squeezed

    def unsqueeze(self, tensor: str, *axes: int, out: str = "") -> str:
        given = self.builder.squeezed.get(tensor)
        if given is not None and given[1] == axes and not out:
            return given[0]
        made = self.op("Unsqueeze", tensor, self.constant(axes), out=out)
        self.builder.unsqueezed[made] = tensor, axes
        return made

    def reshape(self, tensor: str, shape: str, out: str = "") -> str:
        """Return a tensor in a shape that may hold zeros."""
        return self.op("Reshape", tensor, shape, allowzero=1, out=out)

    def of_rank(self, number: str, rank: int, own: int | None) -> str:
        """Return a tensor of one item in rank 0 or 1; `own` is the rank that it has, if that is known."""
        if own == rank:
            return number
        if {own, rank} == {0, 1}:
            return self.unsqueeze(number, 0) if rank else self.squeeze(number, 0)
        return self.op("Reshape", number, self.constant([1] * rank))

    def slice(self, tensor: str, start: str, end: str, axis: int, out: str = "") -> str:
        """Add a Slice from a start to an end, which are tensors of shape [1]."""
        return self.op("Slice", tensor, start, end, self.constant([axis]), out=out)

    def copied(self, tensor: str) -> str:
        """Return a tensor in memory of its own: onnxruntime (1.32) moves strings out of what a loop gives."""
        return self.op("Where", self.constant(True, bool), tensor, tensor)

    def reverse(self, tensor: str) -> str:
        """Return a tensor with its axis 0 backwards."""
        last, none = self.constant([-1]), self.constant([_BEFORE_ALL])
        return self.op("Slice", tensor, last, none, self.constant([0]), last)

    def merge_first_axes(self, tensor: str, rest: Sequence[int | str | None] | None) -> str:
        """Return a tensor with its first two axes as one; `rest` has what is known of the others' lengths."""
        if rest is not None and all(isinstance(length, int) and length > 0 for length in rest):
            return self.op("Reshape", tensor, self.constant([-1, *rest]))
        lengths = self.op("Shape", tensor)
        zero, one, two, most = (self.constant([k]) for k in (0, 1, 2, 1 << 30))
        both = self.op("Mul", self.slice(lengths, zero, one, 0), self.slice(lengths, one, two, 0))
        whole = self.join_axes(both, self.slice(lengths, two, most, 0))
        return self.reshape(tensor, whole)

    def length(self, tensor: str, axis: int = 0, out: str = "") -> str:
        """Return the length of a tensor's axis, as a scalar."""
        return self.op("Gather", self.op("Shape", tensor), self.constant(axis), axis=0, out=out)

    def join_axes(self, *parts: Any) -> str:
        """Return a shape that is made of shapes and constants."""
        some = [part for part in parts if len(part)] or [[]]
        names = [part if isinstance(part, str) else self.constant(part) for part in some]
        return self.op("Concat", *names, axis=0) if len(names) > 1 else names[0]

    def fail_if(self, bad: str) -> str:
        """Return a scalar that is 0 where a boolean scalar is false; where it is true, the model fails.

        What is computed from it can't be had without the check: a Gather from one element at position 1 is
        an error, in whatever runtime, and no optimizer drops it. Without checks it is a constant.
        """
        return self.require_zero(self.op("Cast", bad, to=TensorProto.INT64))

    def at_most(self, number: str, most: int) -> str:
        """Return a scalar of at least 0 as it is; where it is larger than `most`, the model fails.

        One node looks it up in a table, which is too short then.
        """
        return self.op("Gather", self.constant(range(most + 1)), number, axis=0)

    def is_at_most(self, number: str, most: int) -> str:
        """Return true; where a scalar of at least 0 is larger than `most`, the model fails."""
        return self.op("Gather", self.constant(np.ones(most + 1), bool), number, axis=0)

    def at_least_one(self, count: str) -> str:
        """Return a scalar as it is; where it is less than 1, the model fails."""
        starts = self.builder.starts.get(count)
        if starts:
            zero = self.first_start(starts)
            checked = self.op("Add", count, zero)
        elif self.builder.is_for_openvino or not self.builder.has_checks:
            zero = self.fail_if(self.op("Less", count, self.constant(1)))
            checked = self.op("Add", count, zero)
        else:
            none = self.unless_empty(count, 0)
            # Squeezed, the sum has a shape that is known, as that of the Range is not.
            checked = self.op("Squeeze", self.op("Add", count, none), self.constant([0]))
            zero = self.squeeze(none, 0)
            self.builder.zeros.add(zero)
        self.builder.positive[checked] = count, zero
        return checked

    def first_start(self, starts: str) -> str:
        """Return where the first piece starts: at 0, as a scalar; where there is none, the model fails."""
        if self.builder.is_for_openvino or not self.builder.has_checks:
            return self.fail_if(self.op("Equal", self.length(starts), self.constant(0)))
        zero = self.op("Gather", starts, self.constant(0), axis=0)
        self.builder.zeros.add(zero)
        return zero

    def require_zero(self, count: str) -> str:
        """Return a number that is 0, as a scalar; where it is another, the model fails."""
        if not self.builder.has_checks:
            return self.constant(0)
        zero = self.op("Gather", self.constant([0]), count, axis=0)
        self.builder.zeros.add(zero)
        return zero

    def unless_empty(self, count: str, number: int) -> str:
        """Return a number, in shape [1]; where a count, a scalar, is 0, the model fails.

        A Range whose step is 0 is an error, and of any other count it has this number alone. OpenVINO wants
        to know beforehand how many it has.
        """
        if not self.builder.has_checks:
            return self.constant([number])
        if self.builder.is_for_openvino:
            empty = self.op("Equal", count, self.constant(0))
            return self.op("Add", self.constant([number]), self.fail_if(empty))
        return self.op("Range", self.constant(number), self.constant(number + 1), count)

    def fail_unless_equal(self, one: str, other: str) -> str:
        return self.fail_if(self.op("Not", self.op("Equal", one, other)))

    def zero_if_equal(self, one: str, other: str) -> str:
        """Return a scalar that is 0 where two integers are equal, and otherwise out of range.

        It is for an axis of a vector, or a position in one element. There, -1 is as good as 0, so it is the
        difference twice.
        """
        if self.builder.is_for_openvino or not self.builder.has_checks:
            return self.fail_unless_equal(one, other)
        zero = self.op("Mul", self.op("Sub", one, other), self.constant(2))
        self.builder.zeros.add(zero)
        self.builder.positions.add(zero)
        return zero

    def bound(self, tensor: str, zero: str, out: str = "") -> str:
        """Return a copy of a tensor with axes, bound to a scalar of `fail_if`."""
        if not self.builder.has_checks or self.builder.known_integer(zero) == 0:
            return self.op("Identity", tensor, out=out)
        if zero in self.builder.positions:
            zero = self.require_zero(zero)
        return self.slice(tensor, self.unsqueeze(zero, 0), self.constant([AFTER_ALL]), 0, out=out)

    def bound_to(self, tensor: str, count: str) -> str:
        """Return a copy of a tensor with axes; the model fails where a number, a scalar, is not 0."""
        if not self.builder.has_checks:
            return self.op("Identity", tensor)
        start = self.op("Gather", self.constant([[0]]), count, axis=0)
        return self.slice(tensor, start, self.constant([AFTER_ALL]), 0)

    def checked(self, tensor: str, zero: str, out: str = "") -> str:
        """Return a tensor as it is, bound to a scalar of `fail_if`, without copying it.

        Of one Reshape after another, onnxruntime leaves out the first, whatever its shape comes from, if it
        knows the shape of the last. So this is for checks that a last shape would make again.
        """
        if not self.builder.has_checks:
            return self.op("Identity", tensor, out=out)
        return self.op("Reshape", tensor, self.op("Add", self.op("Shape", tensor), zero), out=out)

    def position(self, position: Position, rank: int) -> str:
        """Return a `Position` as a tensor of rank 0 or 1: in ONNX's own examples it is of either."""
        if position.value is not None:
            return self.constant(np.full((1,) * rank, position.value))
        return self.of_rank(position.name, rank, position.rank)
