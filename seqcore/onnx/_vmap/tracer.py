"""The body of a loop, written out for all iterations at once: each value gets a leading axis of iterations.

    row = Gather (x, i)              row: (n, 8) = Gather (x, [0 … n-1])
    y = Add (row, bias)       ──▶    y: (n, 8) = Add (row, bias)
    out = ReduceSum (y, 0)           out: (n) = ReduceSum (y, 1)

What doesn't depend on the iteration stays as it is. How an operator goes from one iteration to many, its
record's `batch_rule` says; here is only what all of them need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from onnx import TensorProto

from seqcore.onnx._model.graph import Graph, Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import tensor, to_type_proto
from seqcore.onnx._rewrite.emit import Nodes
from seqcore.onnx._vmap.shapes import LoopShapes


class Value(NamedTuple):
    """The batched value for a value of the body.

    Attributes
    ----------
    name : str
    varies : bool
        True if it has the axis of iterations.
    lengths : str
        If iterations differ in length along their first axis: the lengths, a vector. The tensor is as long
        as the longest.
    """

    name: str
    varies: bool
    lengths: str = ""


def _always(node: Node, body: Tracer) -> bool:
    return True


class BatchRule(NamedTuple):
    """A batching rule: how an operator runs for all iterations of a loop, and when it may fail.

    All at once, a node runs where no iteration would have come to it. Without an iteration, what it gets has
    an axis of length 0 in front; in a branch that an iteration doesn't take, it gets what the others do.

    Attributes
    ----------
    apply : callable
        Takes a node of the loop's body, with an input that varies, and the `Tracer`; returns the batched
        outputs.
    ragged : callable or None
        Does the same where an input has several lengths; None where that can't be.
    fits : callable
        Takes the same, and returns whether the shapes of what the node gets fit together for sure.
    minds_shapes_only : bool
        True if it fails for no values, if the shapes fit, although its record doesn't say so.
    divides : callable or None
        Takes the same, and returns whether it may divide an integer by 0.
    runs_empty : bool or callable
        True if it runs without an iteration, if the shapes fit. An operator that never fails does.
    in_branch : bool or callable or None
        True if it never fails in an iteration that skips it; None for an operator that never fails.
    adds_none : bool or callable
        True if it returns no more numbers than it gets in all; or takes a node and the `LoopShapes`.
    """

    apply: Callable[[Node, Tracer], list[Value]]
    ragged: Callable[[Node, Tracer], list[Value]] | None = None
    fits: Callable[[Node, Tracer], bool] = _always
    minds_shapes_only: bool = False
    divides: Callable[[Node, Tracer], bool] | None = None
    runs_empty: bool | Callable[[Node, Tracer], bool] = False
    in_branch: bool | Callable[[Node, Tracer], bool] | None = None
    adds_none: bool | Callable[[Node, LoopShapes], bool] = False


class Tracer:
    """The nodes of a body, for many iterations.

    Parameters
    ----------
    prepared : Prepared
        The types of the model with the loop.
    shapes : LoopShapes
        The types of values in an iteration.
    nodes : Nodes
        The emitter.
    count : str
        The trip count, as a tensor of shape [1].
    iterations : (str, str)
        The trip count, as a scalar, and the numbers of the iterations.
    is_portable : bool, optional
        If True, other runtimes than onnxruntime run it too.
    has_some : bool, optional
        If True, there is an iteration, or else it has failed before.
    has_stacks : bool, optional
        If True, the loop stacks something.

    Attributes
    ----------
    values : dict of str to Value
        Names in the body → what stands for them. Others are from outside.
    unbound : set of str
        Zeros that the trip count is bound to, where something doesn't need the count any more.
    may_fail_empty : bool
        True if it may fail without an iteration, and the loop would not.
    needs_filled : bool
        True if it goes wrong if an iteration's length is 0.
    taken : str
        Within a branch, which iterations take it; "" elsewhere.
    guards : dict of (str, int) to str
        Axes that may not be of length 0 → the conditions that they aren't, under which it does what the loop
        does.
    equal : dict of str to str
        Lengths → the condition that they are all the same, where that is asked for.
    shapes_of_several : dict of str to str
        Shapes of values of several lengths → these lengths.
    filled_ends : set of str
        Lengths behind whose ends numbers are filled in.
    repeated : list of str
        Values that are the same in all iterations, and stand there for each.
    padded : list of (str, str, str)
        Of what is padded the lengths, the longest of them, and how many numbers an item on that axis has.
    """

    def __init__(
        self,
        prepared: Prepared,
        shapes: LoopShapes,
        nodes: Nodes,
        count: str,
        iterations: tuple[str, str],
        is_portable: bool = False,
        has_some: bool = False,
        has_stacks: bool = False,
    ) -> None:
        self.prepared, self.shapes, self.types, self.nodes = prepared, shapes, shapes.types, nodes
        self.count, self.is_portable = count, is_portable
        self.has_some, self.has_stacks = has_some, has_stacks
        self.opset = prepared.model.opset
        self.trips, self.numbers = iterations
        self.unbound: set[str] = set()
        self.values: dict[str, Value] = {}
        self.may_fail_empty = False
        self.needs_filled = False
        self.taken = ""
        self.guards: dict[tuple[str, int], str] = {}
        self.padded: list[tuple[str, str, str]] = []
        self.equal: dict[str, str] = {}
        self.shapes_of_several: dict[str, str] = {}
        self.filled_ends: set[str] = set()
        self.repeated: list[str] = []
        self._of_lengths: dict[tuple[str, str], str] = {}  # what was made of lengths, in this graph

    def follow(self, body_nodes: Sequence[Node]) -> None:
        """Write out nodes of the body, in order."""
        for node in body_nodes:
            rule: BatchRule | None = record_of(node).batch_rule
            if rule is None:
                raise Declined(f"has {node.label()}, which can't be vectorized")
            if self.taken and not self._is_safe(node, rule):
                raise Declined(f"may fail at {node.label()} in a branch that it doesn't take")
            if node.graphs:
                made = rule.apply(node, self)
            elif any(self.lengths(name) for name in node.inputs):
                if rule.divides and rule.divides(node, self):
                    raise Declined(f"may divide by 0 behind an end at {node.label()}")
                if rule.ragged is None:
                    raise Declined(f"has elements of several lengths at {node.label()}")
                made = rule.ragged(node, self)
            else:
                with self._divided_by_some(node, rule):
                    made = self._made(node, rule)
            for name, value in zip(node.outputs, made, strict=False):
                if name:
                    self.values[name] = value

    def _made(self, node: Node, rule: BatchRule) -> list[Value]:
        if any(self.varies(name) for name in node.inputs):
            self.may_fail_empty |= not self._runs_empty(node, rule)
            return rule.apply(node, self)
        # It may fail on what only an iteration would look at.
        self.may_fail_empty |= not self._never_fails(node, rule)
        return [Value(name, False) for name in self.again(node, [self.name(n) for n in node.inputs])]

    @contextmanager
    def _divided_by_some(self, node: Node, rule: BatchRule) -> Iterator[None]:
        """Without an iteration, have a node divide by 1: onnxruntime refuses 0 though it divides nothing."""
        divisor = node.input(1)
        if not rule.divides or self.varies(divisor) or not rule.divides(node, self):
            yield
            return
        before, nodes = self.values.get(divisor), self.nodes
        is_some = nodes.op("Greater", nodes.squeeze(self.count, 0), nodes.constant(0))
        one = nodes.constant(1, dtype_of(self.types[node.inputs[0]].number))
        self.values[divisor] = Value(nodes.op("Where", is_some, self.name(divisor), one), False)
        yield
        if before is None:
            del self.values[divisor]
        else:
            self.values[divisor] = before

    @contextmanager
    def where(self, taken: str) -> Iterator[None]:
        """Write out a branch that iterations take where a vector of conditions holds."""
        before, self.taken = self.taken, taken
        if before:
            self.taken = self.nodes.op("And", before, taken)
        yield
        self.taken = before

    def _never_fails(self, node: Node, rule: BatchRule) -> bool:
        """Return whether a node fails in no iteration, whatever there is."""
        is_known = record_of(node).never_fails or rule.minds_shapes_only
        return is_known and rule.fits(node, self) and not (rule.divides and rule.divides(node, self))

    def _runs_empty(self, node: Node, rule: BatchRule) -> bool:
        """Return whether a node with a varying input runs without an iteration."""
        if callable(rule.runs_empty):
            return rule.runs_empty(node, self)
        return (rule.runs_empty or record_of(node).never_fails) and rule.fits(node, self)

    def _is_safe(self, node: Node, rule: BatchRule) -> bool:
        """Return whether a node fails in no iteration that would not have come to it."""
        if rule.in_branch is None:
            return self._never_fails(node, rule)
        return rule.in_branch(node, self) if callable(rule.in_branch) else rule.in_branch

    def guarded(self, indices: str, rank: int, tensor: str, axis: int) -> str:
        """Return indices that are 0 where a branch isn't taken."""
        if not self.taken:
            return indices
        nodes = self.nodes
        taken = nodes.unsqueeze(self.taken, *range(1, 1 + rank)) if rank else self.taken
        if (tensor, axis) not in self.guards and not self._has_row_for_each(tensor, axis):
            length = nodes.length(tensor, axis)
            self.guards[tensor, axis] = nodes.op("Greater", length, nodes.constant(0))
        at = nodes.op("Cast", indices, to=TensorProto.INT64)
        return nodes.op("Where", taken, at, nodes.constant(0))

    def fails_empty(self) -> None:
        """Note that something here may fail without an iteration."""
        self.may_fail_empty = True

    def wants_filled(self) -> None:
        """Note that something here goes wrong if an iteration's length is 0."""
        self.needs_filled = True

    def varies(self, name: str) -> bool:
        value = self.values.get(name)
        return value is not None and value.varies

    def name(self, name: str) -> str:
        """Return what stands for a value, whether it has the axis of iterations or not."""
        value = self.values.get(name)
        return name if value is None else value.name

    def rank(self, name: str) -> int:
        """Return the rank that a value has in an iteration."""
        rank = self.types[name].rank if name in self.types else None
        if rank is None:
            raise Declined(f"makes '{name}', whose rank is not known")
        return rank

    def rank_with_axes(self, name: str) -> int:
        """Return the rank of a value of whose axes a node names some."""
        rank = self.rank(name)
        if not rank:
            raise Declined(f"has '{name}' without axes where one is wanted")
        return rank

    def same(self, node: Node, k: int) -> str:
        """Return input k of a node, which has to be the same in all iterations; "" for none."""
        name = node.input(k)
        if self.varies(name):
            raise Declined(f"goes by another '{name}' in each iteration at {node.label()}")
        return self.name(name)

    def integers(self, node: Node, k: int) -> list[int] | None:
        """Return the integers of input k of a node, None where only a run tells."""
        name = node.input(k)
        constant = self.prepared.constant(name)
        if constant is not None:
            return [int(number) for number in constant.reshape(-1)]
        fixed = [number for number in self.prepared.numbers.get(name, (None,)) if isinstance(number, int)]
        return fixed if len(fixed) == len(self.prepared.numbers.get(name, (None,))) else None

    def rows(self, name: str, rank: int | None = None) -> str:
        """Return a value with the axis of iterations, and in each of them of a rank, by axes of length 1."""
        own = self.rank(name)
        here = self.name(name)
        if lengths := self.lengths(name):
            here = self._of_one_length(here, lengths)
        if self.varies(name):
            return self._longer(here, own, rank)
        self.repeated.append(name)
        here = self.nodes.unsqueeze(here, 0)
        here = self._longer(here, own, rank)
        ones = [1] * (own if rank is None else rank)
        return self.nodes.op("Expand", here, self.nodes.join_axes(self.count, ones))

    def _has_row_for_each(self, tensor: str, axis: int) -> bool:
        """Return whether there are as many iterations as an axis of a tensor is long."""
        return self.prepared.length_read(self._unchecked(self.trips)[0]) == (tensor, axis)

    def in_order(self, data: str, indices: str) -> str:
        """Return a tensor whose rows are those at the numbers of all iterations, "" where that isn't sure.

        It is sure where there are as many iterations as rows: of `for i in range(len(x))` it is `x`.
        """
        if self.varies(data) or self.name(indices) != self.numbers:
            return ""
        trips, zeros = self._unchecked(self.trips)
        gather = self.prepared.producer(trips)
        shape = gather and gather.is_op("Gather") and self.prepared.producer(gather.inputs[0])
        if not gather or not shape or not shape.is_op("Shape"):
            return ""
        if gather.inputs[1] in self.nodes.builder.zeros:
            zeros.add(gather.inputs[1])
        elif self.prepared.integer(gather.inputs[1]) != 0:
            return ""
        if shape.attribute("start", 0):
            return ""
        found: set[str] = set()
        if self._rows_of(shape.inputs[0], found) != self._rows_of(data, found):
            return ""
        if zeros - found and not self.has_stacks:
            return ""  # there is nothing to bind to them in its place
        self.unbound |= zeros - found
        return self.name(data)

    def _unchecked(self, count: str) -> tuple[str, set[str]]:
        """Return a count without the zeros that checks add, and these."""
        builder, zeros = self.nodes.builder, set[str]()
        while True:
            node = self.prepared.producer(count)
            if count in builder.positive:
                count, zero = builder.positive[count]
            elif node is not None and node.is_op("Add") and node.inputs[1] in builder.zeros:
                count, zero = node.inputs
            else:
                return count, zeros
            zeros.add(zero)

    def _rows_of(self, name: str, zeros: set[str], depth: int = 12) -> str:
        """Return a tensor with as many rows as another, which is made of it; add the zeros on the way."""
        node = self.prepared.producer(name)
        if node is None or not depth or not self.prepared.type(name).rank:
            return name
        if node.is_op("Cast", "CumSum", "Identity"):
            zeros |= self.nodes.builder.zeros.intersection(node.inputs[1:])
            return self._rows_of(node.inputs[0], zeros, depth - 1)
        if node.is_op("Unsqueeze") and 0 not in (self.integers(node, 1) or [0]):
            return self._rows_of(node.inputs[0], zeros, depth - 1)
        if node.is_op("Add", "Sub", "Max", "Min"):
            zeros |= {one for one in node.inputs if one in self.nodes.builder.zeros}
            parts = [one for one in node.inputs if self.prepared.type(one).rank != 0]
            found = {self._rows_of(one, zeros, depth - 1) for one in parts}
            return found.pop() if len(found) == 1 else name
        return name

    def lengths(self, name: str) -> str:
        """Return the lengths of a value that has several, else ""."""
        value = self.values.get(name)
        return "" if value is None else value.lengths

    def _once(self, what: str, lengths: str, make: Callable[[], str]) -> str:
        """Return what is made of some lengths, which is made once in a graph."""
        key = what, lengths
        if key not in self._of_lengths:
            self._of_lengths[key] = make()
        return self._of_lengths[key]

    def longest(self, lengths: str) -> str:
        """Return the largest of some lengths as a scalar, 0 if there are none."""

        def make() -> str:
            nodes = self.nodes
            some = lengths if self.has_some else nodes.op("Concat", lengths, nodes.constant([0]), axis=0)
            return nodes.greatest(some)

        return self._once("longest", lengths, make)

    def total(self, lengths: str) -> str:
        """Return the sum of some lengths."""
        return self._once("total", lengths, lambda: self.nodes.sum(lengths))

    def with_padding(self, lengths: str) -> str:
        """Return the sum of some lengths if all were as long as the longest."""
        return self._once(
            "with padding", lengths, lambda: self.nodes.op("Mul", self.number(), self.longest(lengths))
        )

    def mask(self, lengths: str) -> str:
        """Return where items are, as a tensor of shape (n, longest)."""

        def make() -> str:
            nodes = self.nodes
            places = nodes.op("Range", nodes.constant(0), self.longest(lengths), nodes.constant(1))
            return nodes.op("Less", places, nodes.unsqueeze(lengths, 1))

        return self._once("mask", lengths, make)

    def are_equal(self, lengths: str) -> str:
        """Return a condition: whether some lengths are all the same."""
        if lengths not in self.equal:
            self.equal[lengths] = self.nodes.op("Equal", self.with_padding(lengths), self.total(lengths))
        return self.equal[lengths]

    def filled(self, name: str, number: Any) -> str:
        """Return a value of several lengths with a number behind each end."""
        nodes = self.nodes
        dtype = dtype_of(self.types[name].number)
        self.filled_ends.add(self.lengths(name))
        mask, rank = self.mask(self.lengths(name)), self.rank(name)
        if rank > 1:
            mask = nodes.unsqueeze(mask, *range(2, 1 + rank))
        return nodes.op("Where", mask, self.name(name), nodes.constant(number, dtype))

    def with_filled(self, name: str, number: Any, use: Callable[[str, bool], str]) -> str:
        """Return what is made of a value with a number behind each end, where there is something behind.

        A Where takes longer than most of what follows it. `use` is told whether there was one. OpenVINO
        (2026.4) gives other numbers where there is an If in an If.
        """
        if self.is_portable:
            return use(self.filled(name, number), True)
        outer, condition = self.nodes, self.are_equal(self.lengths(name))
        graphs = []
        for is_filled in (False, True):
            self.nodes = outer.apart()
            known, self._of_lengths = self._of_lengths, dict(self._of_lengths)
            made = use(self.filled(name, number) if is_filled else self.name(name), is_filled)
            graph = Graph("filled" if is_filled else "equal", [], self.nodes.own([made]), self.nodes.nodes)
            graph.declared[graph.outputs[0]] = to_type_proto(tensor(self.types[name].number))
            graphs.append(graph)
            self.nodes, self._of_lengths = outer, known
        return outer.op("If", condition, then_branch=graphs[0], else_branch=graphs[1])

    def _of_one_length(self, tensor: str, lengths: str) -> str:
        """Return a tensor that can be had only where all lengths are the longest."""
        nodes = self.nodes
        return nodes.checked(tensor, nodes.fail_if(nodes.op("Not", self.are_equal(lengths))))

    def length(self, name: str, axis: int) -> str:
        """Return the length that an axis of a value has in an iteration, as a scalar."""
        nodes = self.nodes
        shape = self.types[name].shape if name in self.types else None
        length = None if shape is None else shape[axis]
        if isinstance(length, int):
            return nodes.constant(length)
        if isinstance(length, str) and length in self.shapes.lengths:
            return self.shapes.value(length, nodes)
        return nodes.length(self.name(name), axis + self.varies(name))

    def number(self) -> str:
        """Return how many iterations there are, as a scalar."""
        return self.nodes.squeeze(self.count, 0)

    def aligned(self, name: str, rank: int) -> str:
        """Return a value that others of a rank are broadcast with."""
        return self._longer(self.name(name), self.rank(name), rank) if self.varies(name) else self.name(name)

    def _longer(self, name: str, own: int, rank: int | None) -> str:
        more = 0 if rank is None else rank - own
        return self.nodes.unsqueeze(name, *range(1, 1 + more)) if more > 0 else name

    def again(self, node: Node, inputs: Sequence[str], **changes: Any) -> list[str]:
        """Add a node like one of the body with other inputs and attributes; return its outputs' names."""
        return self.nodes.like(node, inputs, **changes)

    def vary(self, names: Sequence[str]) -> list[Value]:
        return [Value(name, True) for name in names]
