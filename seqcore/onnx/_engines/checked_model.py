"""A model for onnxruntime with checks: it fails where onnxruntime would deviate from ONNX, or get slow.

onnxruntime is quick with short sequences, and quadratic with long ones, but how long they get only a run
tells. So a checked model fails, on purpose, where a loop that carries sequences has more iterations than a
limit or a split more pieces: by a Gather whose index is then out of range. Then another engine runs instead.
Where the feed tells, no node is needed: see `bounds`.
A model for long loops counts the elements of the sequences after each iteration, and not the iterations. So
does one with a `while`, since no input tells of its iterations.
"""

from __future__ import annotations

from functools import reduce

import numpy as np
from onnx import TensorProto
from onnx.helper import make_tensor_type_proto

from seqcore.onnx._engines.bounds import Bounds, FedLimit
from seqcore.onnx._engines.filled_elements import FilledElements, keep_checks
from seqcore.onnx._model.graph import Graph, Model, Node
from seqcore.onnx._model.loop_parts import add_state, parts_of
from seqcore.onnx._model.positions import is_never_negative
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.types import Shape
from seqcore.onnx._rewrite.emit import Builder, Nodes
from seqcore.onnx._thresholds import LONG, LONG_TO_COPY, LONG_WHILE


def add_checks(model: Model, prepared: Prepared, limit: int, most_elements: int = 0) -> list[FedLimit]:
    """Put checks into a model; return those that are done on the feed instead, before each run.

    Parameters
    ----------
    model : Model
        Changed in place. Its values are those of the model that was prepared.
    prepared : Prepared
    limit : int
        The most iterations of a loop that carries sequences, and the most parts of a split.
    most_elements : int, optional
        If not 0, such a loop may have any number of iterations, and its sequences so many elements; fewer
        where they are copied.

    Raises
    ------
    Declined
        If a check would fail in every run.
    """
    checks = Checks(model, prepared, limit, most_elements)
    checks.guard(model.graph, prepared)
    checks.finish()
    return [*dict.fromkeys(checks.fed)]


def _copies_lists(prepared: Prepared) -> bool:
    """Return whether an iteration may copy a list with its data."""
    return any(
        record_of(inner).copies_lists and not prepared.is_tensor(inner.outputs[0])
        for node in prepared.model.graph.all_nodes()
        if node.is_op("Loop")
        for inner in node.body.all_nodes()
    )


def why_not_whole(graph: Graph, prepared: Prepared) -> str:
    """Return where onnxruntime deviates from the specification and no check finds it, or ""."""
    for node in graph.all_nodes():
        if why := record_of(node).deviates(node, prepared):
            return f"{node.label()} {why}"
    return ""


_NO_TRIPS = (1 << 63) - 1  # what exporters write for a `while`


class Checks:
    """Puts checks before, behind and into nodes; records say which, in `guard`.

    Attributes
    ----------
    fed : list of FedLimit
        The checks that are done on the feed, so that no nodes are needed.
    """

    def __init__(self, model: Model, prepared: Prepared, limit: int, most_elements: int) -> None:
        self._model, self._limit = model, limit
        self.fed: list[FedLimit] = []
        self._bounds = Bounds(prepared, limit)
        self._depth = 0  # of the graph at hand: a node inside another may not run, whatever is fed
        self._counts_elements = bool(most_elements)
        self._most_elements = most_elements or limit
        if _copies_lists(prepared):
            self._most_elements = min(self._most_elements, LONG_TO_COPY)
        self._builder = Builder(model, "check")
        self._nodes = self._fresh_nodes()  # before the node at hand
        self._graph = model.graph  # of the node at hand
        self._last_iterations: list[tuple[Graph, str, int]] = []
        self._filled: FilledElements | None = None

    def _fresh_nodes(self) -> Nodes:
        return Nodes(self._builder, "check")

    def _at_the_end_of(self, graph: Graph) -> Nodes:
        return Nodes(self._builder, "check", graph.nodes)

    def guard(self, graph: Graph, prepared: Prepared) -> None:
        """Add the checks of all nodes in a graph."""
        nodes: list[Node] = []
        for node in graph.nodes:
            self._depth += 1
            for inner in node.graphs.values():
                self.guard(inner, prepared)
            self._depth -= 1
            self._nodes, self._graph = self._fresh_nodes(), graph
            record_of(node).guard(node, prepared, self)
            nodes += [*self._nodes.nodes, node]
        graph.nodes = nodes

    def _is_checked_on_feed(self, limit: FedLimit | None) -> bool:
        """Return whether a limit on the feed takes the place of a check; then it is one."""
        if limit is None or self._depth:
            return False
        self.fed.append(limit)
        return True

    def finish(self) -> None:
        """Add the checks that depend on all nodes."""
        checks = [] if self._filled is None else [*self._filled.checks()]
        for graph, last, most in self._last_iterations:
            checks.append((graph, self._at_the_end_of(graph).at_most(last, most)))
        keep_checks(self._model, checks, self._builder, self._at_the_end_of)

    def want_one_item(self, node: Node, k: int, prepared: Prepared) -> None:
        """Let a node fail whose input k has another number of items than one."""
        name = node.inputs[k]
        if prepared.shape(name) not in ((), (1,)):
            node.inputs[k] = self._nodes.op("Reshape", name, self._nodes.constant([]))

    def want_one_output(self, graph: Graph, k: int, prepared: Prepared) -> None:
        """Let a graph fail whose output k has another number of items than one."""
        name = graph.outputs[k]
        if prepared.shape(name) not in ((), (1,)):
            nodes = self._at_the_end_of(graph)
            put_output(graph, k, nodes.op("Reshape", name, nodes.constant([])))

    def want_filled(self, name: str, prepared: Prepared) -> None:
        """Let the model fail where an element of a sequence is empty: wherever one is put into it."""
        if self._filled is None:
            self._filled = FilledElements(self._model, self._at_the_end_of)
        self._filled.want(name, prepared)

    def limit_loop(self, node: Node, prepared: Prepared) -> None:
        """Let a loop that carries sequences fail if it is long, or these are."""
        # Few iterations of nested loops make a long list.
        is_nested = any(
            inner.is_op("Loop") and carries_sequences(inner, prepared) for inner in node.body.all_nodes()
        )
        has_limit = not self._counts_elements and self._limit_trips(node, prepared)
        if self._counts_elements or is_nested:
            self._limit_elements(node, prepared)
        elif not has_limit:
            self._limit_iterations(node)

    def _limit_elements(self, node: Node, prepared: Prepared) -> None:
        """Let an iteration fail that makes sequences too long."""
        parts, nodes = parts_of(node), self._at_the_end_of(node.body)
        names = [name for name in parts.next_states if not prepared.is_tensor(name)]
        if not all(map(prepared.is_sequence, names)):
            raise Declined(f"{node.label()} carries values that may be no sequences")
        lengths = [nodes.op("SequenceLength", name) for name in names]
        count = reduce(lambda one, other: nodes.op("Add", one, other), lengths)
        go_on_with(node, nodes.is_at_most(count, self._most_elements), nodes, prepared)

    def _limit_iterations(self, node: Node) -> None:
        """Let a `while` stop after some iterations too many, and the model fail then.

        The number of the last iteration is a state: that takes no node in an iteration. In onnxruntime it is
        the counter itself, which is one larger when the loop has ended.
        """
        fresh, type_ = self._builder.fresh, make_tensor_type_proto(TensorProto.INT64, ())
        before, last = fresh(f"{node.label()}/before"), fresh(f"{node.label()}/last")
        most = self._limit if self._limit < LONG else LONG_WHILE
        node.inputs[0] = self._builder.constant(most + 2)
        add_state(node, self._builder.constant(0), before, parts_of(node).iteration, last, type_)
        self._last_iterations.append((self._graph, last, most))

    def _limit_trips(self, node: Node, prepared: Prepared) -> bool:
        """Let a loop fail that has too many iterations; return False for a `while`."""
        parts = parts_of(node)
        known = prepared.integer(parts.trips) if parts.trips else _NO_TRIPS
        if known is None:
            if self._is_checked_on_feed(self._bounds.fed_number(parts.trips)):
                return True
            trips = node.inputs[0]
            if not is_never_negative(prepared, parts.trips):
                # None is less than no trip: a negative index would count from the back.
                trips = self._nodes.op("Max", trips, self._nodes.constant(0))
            node.inputs[0] = self._nodes.at_most(trips, self._limit)
        elif known > self._limit and parts.passes_condition_on:
            raise Declined(f"{node.label()} has more than {self._limit} iterations in every run")
        return known is None or known <= self._limit

    def limit_pieces(self, node: Node, prepared: Prepared) -> None:
        """Let a split fail that makes too many pieces."""
        tensor, split = node.inputs[0], node.input(1)
        shape, axis = prepared.shape(tensor), node.attribute("axis", 0)
        total = shape[axis] if shape is not None and -len(shape) <= axis < len(shape) else None
        lengths = prepared.constant(split) if split else np.array(1)
        step = 0 if lengths is None or lengths.ndim else max(int(lengths), 1)
        if lengths is not None and lengths.ndim:
            self._want_short(node, lengths.size)
        elif step and isinstance(total, int):
            self._want_short(node, -(-total // step))
        elif not step or not self._is_checked_on_feed(
            self._bounds.fed_length(tensor, axis, step * self._limit)
        ):
            self._limit_lengths(node, prepared)

    def _want_short(self, node, n):
        if n > self._limit:
            raise Declined(f"{node.label()} makes more than {self._limit} pieces in every run")

    def _limit_lengths(self, node, prepared):
        """Of lengths that only a run tells: a list may neither be long nor empty, a number not too small."""
        tensor, split, nodes = node.inputs[0], node.input(1), self._nodes
        shape: Shape = prepared.shape(split) if split else ()
        if shape is not None and len(shape) == 1:
            if isinstance(shape[0], int) and shape[0] > 0:
                self._want_short(node, shape[0])
                return
            if self._is_checked_on_feed(self._bounds.fed_length(split, 0, self._limit, least=1)):
                return
        most = nodes.constant(self._limit)
        number = (split and prepared.element_number(split)) or TensorProto.INT64
        if split and prepared.type(split).rank == 1:
            n = nodes.op("Size", split)
            bad = nodes.op("Or", nodes.op("Greater", n, most), nodes.op("Less", n, nodes.constant(1)))
        else:
            split = split or nodes.constant(1)
            n = nodes.length(tensor, node.attribute("axis", 0))
            step = nodes.op("Cast", split, to=TensorProto.INT64)
            bad = nodes.op("Greater", n, nodes.op("Mul", step, most))
        node.inputs = [tensor, nodes.op("Add", split, nodes.op("Cast", nodes.fail_if(bad), to=number))]


def carries_sequences(loop: Node, prepared: Prepared) -> bool:
    """Return whether values that a loop carries are not tensors."""
    return not all(map(prepared.is_tensor, loop.body.inputs[2:]))


def go_on_with(loop: Node, check: str, nodes: Nodes, prepared: Prepared) -> None:
    """Let a loop go on only if a condition of its body can be had too, which is always true."""
    parts = parts_of(loop)
    if not parts.passes_condition_on:
        check = nodes.op("And", parts.going_out, check)
    elif prepared.shape(parts.going_in) == (1,):
        check = nodes.unsqueeze(check, 0)
    put_output(loop.body, 0, check)


def put_output(graph: Graph, k: int, name: str) -> None:
    if graph.outputs[k] in graph.declared:
        graph.declared[name] = graph.declared[graph.outputs[k]]
    graph.outputs[k] = name
