"""The record of an operator: the one place where all is said about it.

Passes, engines and checks ask the record of a node (`record_of`) for what holds of any operator. What
`Operator` says is the worst that an operator could be, so that an operator on tensors without a record, or a
record that leaves something out, costs speed and nothing else. Operators on sequences need one, and those
that edit a list are also known by name where edits are followed. To add an operator is to add a file to
`_operators`: a class with the decorator, and its line in `__init__`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from itertools import product
from typing import Any, TypeAlias, TypeVar

from seqcore.onnx._model.graph import STANDARD, Graph, Node
from seqcore.onnx._model.types import Type

# They are of modules that build on this one.
Inference: TypeAlias = Any
Prepared: TypeAlias = Any
Representation: TypeAlias = Any
Nodes: TypeAlias = Any
Checks: TypeAlias = Any
Entry: TypeAlias = Any
Planner: TypeAlias = Any
Step: TypeAlias = Any
BatchRule: TypeAlias = Any


class Declined(Exception):
    """Something can't be done as it was tried: the message says why, and something else is tried."""


class Operator:
    """An unknown operator. Records override its attributes and methods.

    Attributes
    ----------
    is_of_lists : bool
        True if a model with it has sequences or optionals, whatever its types.
    only_reads : bool
        True if it only reads sequences, False if it may return or edit one.
    takes_tensors : bool
        True if it does with whatever tensors represent its sequences.
    never_fails : bool
        True if it fails for no values. It may fail for shapes and types.
    copies_lists : bool
        True if onnxruntime copies all elements of the list that it returns.
    broadcasts, elementwise : bool
        True if each number of its output depends on one number of each broadcast input; True if it is
        elementwise in its one input.
    numpy : callable or None
        The same for integers and conditions in NumPy.
    draws : bool
        True if it draws random numbers: a Dropout only in training.
    batch_rule : BatchRule or None
        Its batching rule. An operator with a rule is a pure function.
    verb : str
        A phrase for notes: what it does to a sequence.
    """

    is_of_lists = False
    only_reads = takes_tensors = False
    never_fails = False
    copies_lists = False
    broadcasts = elementwise = False
    draws = False
    numpy: Callable[..., Any] | None = None
    batch_rule: BatchRule | None = None
    verb = ""

    # Validity and types

    def fault(self, node: Node) -> str:
        """Return in which way a node doesn't fit its own graphs, "" where it does."""
        return ""

    def infer(self, node: Node, known: Inference) -> list[Type]:
        """Return what is known of the outputs."""
        return known.by_onnx(node)

    # Aliases

    def aliases(self, node: Node) -> Iterator[tuple[str, str]]:
        """Yield the pairs (from, to) of names between which it hands a value on as it is."""
        return iter(())

    def shares(self, node: Node) -> Iterator[tuple[str, str]]:
        """Yield the pairs (from, to) of names where the one's value may lie in the memory of the other."""
        names = list(node.inputs)
        for graph in node.graphs.values():
            names += graph.outputs
        outputs = list(node.outputs)
        for graph in node.graphs.values():
            outputs += graph.inputs
        return product(names, outputs)

    def may_repeat(self, node: Node) -> bool:
        """Return whether its graphs may run more than once, and then need again what they take."""
        return True

    # How it runs

    def deviates(self, node: Node, prepared: Prepared) -> str:
        """Return where onnxruntime (1.31) deviates from the specification, "" where a model may trust it.

        If `guard` can let it fail instead, that is not a deviation.
        """
        return ""

    def guard(self, node: Node, prepared: Prepared, checks: Checks) -> None:
        """Let a node of onnxruntime's fail where it would deviate from the specification, or get slow."""

    def step(self, entry: Entry, planner: Planner, in_loop: bool) -> Step | None:
        """Return a function of a frame that runs the node, None where onnxruntime has to."""
        return None

    # How it lowers

    def represent(
        self, node: Node, forms: Mapping[str, Representation], prepared: Prepared
    ) -> Representation | None:
        """Return as which tensors the sequence that it makes can go on; None where nothing can be said.

        `forms` has the representations of sequences before it.

        Raises
        ------
        Declined
            If it can't: the message says why.
        """
        return None

    def continues(self, node: Node) -> Iterator[tuple[str, str]]:
        """Yield the pairs of names where the second is the first, passed on or edited.

        Where they are lists that are packed, they have one representation.
        """
        return self.aliases(node)

    def why_not_lowered(
        self, node: Node, forms: Mapping[str, Representation], prepared: Prepared, read: set[str]
    ) -> str:
        """Return why it can't do with tensors in place of its sequences, "" where it can.

        `read` has the names of values that are read, not only their shapes. If a node with graphs can, the
        tensors take the places of its sequences.
        """
        return "" if self.takes_tensors else f"'{node.name}' {self.verb or f'({node.op_type}) reads it'}"

    def lower(
        self,
        node: Node,
        forms: Mapping[str, Representation],
        nodes: Nodes,
        prepared: Prepared,
        is_read: bool,
    ) -> None:
        """Make of representations what the node makes of its sequences: it has no graphs."""
        raise NotImplementedError(node.op_type)


class Reads(Operator):
    """An operator that makes a value of its inputs, and edits none of them."""

    is_of_lists = True
    only_reads = True

    def run(self, node: Node) -> Callable[..., Any]:
        """Return a function that takes the values of the inputs and returns that of the output."""
        raise NotImplementedError(node.op_type)

    def step(self, entry: Entry, planner: Planner, in_loop: bool) -> Step | None:
        (node,) = entry.nodes
        run, to = self.run(node), planner.place(node.outputs[0])
        places = [planner.place(name) for name in node.inputs]

        def step(frame):
            frame[to] = run(*[frame[i] for i in places])

        def step_of_one(frame):
            frame[to] = run(frame[places[0]])

        return step_of_one if len(places) == 1 else step


_RECORDS: dict[str, Operator] = {}
_WORST = Operator()

Record = TypeVar("Record", bound=type[Operator])


def register(op_type: str) -> Callable[[Record], Record]:
    """Decorate the record of an operator of ONNX."""

    def put(record: Record) -> Record:
        register_record(op_type, record())
        return record

    return put


def register_record(op_type: str, record: Operator) -> None:
    _RECORDS[op_type] = record


def record_of(node: Node) -> Operator:
    """Return the record of a node's operator, or that of an unknown operator."""
    return _RECORDS.get(node.op_type, _WORST) if node.domain in STANDARD else _WORST


def record_named(op_type: str) -> Operator:
    """Return the record of one of ONNX's operators by its name."""
    return _RECORDS.get(op_type, _WORST)


def origins_of(graph: Graph) -> dict[str, list[str]]:
    """Return for values in a graph, in all depths, those that they are, passed on or edited.

    l = Loop (n, c, s) <p ⟶ q = SequenceInsert (p, x)>    q: [p], p: [s, q], l: [s, q]
    """
    origins: dict[str, list[str]] = defaultdict(list)
    for node in graph.all_nodes():
        for one, other in record_of(node).continues(node):
            origins[other].append(one)
    return origins


def axis_from_front(axis: Any, rank: int | None) -> int | None:
    """Return an axis counted from the front, None where it is out of range or can't be known."""
    if rank is None:
        return axis if axis >= 0 else None
    return axis + rank if -rank <= axis < 0 else axis if 0 <= axis < rank else None
