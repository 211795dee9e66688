"""A model in onnxruntime, in one go.

For a few hundred elements onnxruntime's copies cost little, while each part that a plan cuts costs 5 µs. So a
model with sequences runs whole as well, with guards (see `checked_model`) that let it fail before they get
long. A run that fails, because a sequence was long or because of a true error, runs in steps: they cope with
the one and name the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from onnx import TensorProto

from seqcore.onnx._engines.checked_model import add_checks, carries_sequences, why_not_whole
from seqcore.onnx._engines.executable import Executable
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._model.graph import BRANCHES, Graph, Model, Node
from seqcore.onnx._model.prepare import declare_types
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.tensors import dtype_of
from seqcore.onnx._model.types import SEQUENCE, TENSOR, to_type_proto
from seqcore.onnx._rewrite.emit import Builder
from seqcore.onnx._rewrite.few import few_of
from seqcore.onnx._rewrite.maps import write_out_maps
from seqcore.onnx._rewrite.prune import read_names
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._thresholds import AS_LARGE, FEW, HEAVY, LIST_TAKES, LONG, MOST_READ, TRIPS


class WholeModel(Executable):
    """A model whose region is all of its graph.

    Parameters
    ----------
    prepared : Prepared
    interface : Interface
    sessions : Sessions
    longest : int, optional
        The most elements and iterations, where another tier is quicker with more.
    most_elements : int, optional
        If not 0, loops may have any number of iterations, as long as their sequences have at most so many
        elements.
    outputs, parts : optional
        As an `Executable` takes them, where they are others than those of the interface.

    Attributes
    ----------
    may_be_long : bool
        True if it has sequences, so that a run may fail because they are long.
    limit : int
        The most elements and iterations.

    Raises
    ------
    Declined
        If onnxruntime can't run it, would deviate from the specification, or always be slow.
    """

    def __init__(
        self,
        prepared: Prepared,
        interface: Interface,
        sessions: Sessions,
        longest: int = MOST_READ,
        most_elements: int = 0,
        outputs: list[str] | None = None,
        parts: Mapping[str, list[str]] | None = None,
    ) -> None:
        graph = prepared.model.graph
        self._sequences = [(name, one) for name, one in interface.feeds.items() if one.is_sequence]
        self.may_be_long = has_lists(prepared)
        why = _why_not_across(prepared, self.may_be_long)
        if why := why or (_why_not_inside(prepared) if self.may_be_long else ""):
            raise Declined(why)
        self.prepared, self._has_long_loops = prepared, bool(most_elements)
        self.limit = min(longest, limit_of(prepared))
        self._longest_fed = max(self.limit, most_elements)
        model = prepared.model.copy()
        declare_types(model, prepared)
        for name in (*graph.inputs, *graph.outputs):
            type_ = prepared.type(name)
            if type_.number and type_.kind in (TENSOR, SEQUENCE):
                model.graph.declared[name] = to_type_proto(type_, with_shape=True)
            elif name in graph.outputs:
                model.graph.declared.pop(name, None)
        _declare_results(model, prepared)
        self._limits = add_checks(model, prepared, self.limit, most_elements) if self.may_be_long else []
        super().__init__(model, outputs or interface.names, prepared, sessions, parts=parts)

    def explain(self) -> Iterator[str]:
        """Yield a line that says what runs where."""
        what = "lowered model"
        if self.may_be_long:
            what = "model, while its lists are short" + ", however long its loops" * self._has_long_loops
        yield f"onnxruntime  the whole {what}"

    def feed_of(self, run: Any) -> dict[str, Any] | None:
        """Return what onnxruntime is fed, None where that is too long, or not what was prepared for."""
        return None if run.checked is None else self.feed_for(run.checked)

    def feed_for(self, checked: dict[str, Any]) -> dict[str, Any] | None:
        """Return the same for inputs that are looked at."""
        feed = checked
        for name, one in self._sequences:
            if (value := checked.get(name)) is not None:
                if len(value) > self._longest_fed or (made := one.as_list(value)) is None:
                    return None
                if made is not value:
                    feed = {**feed, name: made}
        for limit in self._limits:
            value = feed.get(limit.name)
            if value is not None and not limit.allows(value):
                return None
        return feed


def made_whole(
    prepared: Prepared, interface: Interface, sessions: Sessions, max_workers: int | None, **limits: Any
) -> WholeModel:
    """Return a model that runs whole, its maps as loops: guards can be put into these.

    Raises
    ------
    Declined
        If it can't.
    """
    if any(node.is_op("SequenceMap") for node in prepared.model.graph.all_nodes()):
        if max_workers != 1:
            raise Declined("its maps are for several workers")
        model = prepared.model.copy()
        write_out_maps(model, prepared, Builder(model), kept=set())
        prepared = prepared.again(model)
    return WholeModel(prepared, interface, sessions, **limits)


def size_of(prepared: Prepared, trips: int = TRIPS) -> int:
    """Return about how many nodes a run of a model takes whose loops have so many iterations.

    An Identity takes nothing: onnxruntime leaves it out, or hands on the memory.
    """
    return _size_of(prepared.model.graph, trips, prepared)


def _size_of(graph: Graph, trips: int, prepared: Prepared) -> int:
    size = 0
    for node in graph.nodes:
        branches = _branches_of(node, trips, prepared) if node.is_op("If") else [*node.graphs.values()]
        inner = [_size_of(one, trips, prepared) for one in branches]
        if node.is_op("SequenceMap"):  # each element is read from a list, and put into one
            inner[0] += LIST_TAKES * sum(
                not prepared.is_tensor(name) for name in (*node.inputs, *node.outputs)
            )
        times = trips if record_of(node).may_repeat(node) else 1
        own = 0 if node.is_op("Identity") else LIST_TAKES if record_of(node).is_of_lists else 1
        size += own + times * max(inner, default=0)
    return size


def _branches_of(choice: Node, trips: int, prepared: Prepared) -> list[Graph]:
    """Return the branches that an If may take where loops have so many iterations."""
    if (few := few_of(choice, prepared)) is not None:
        return [choice.graphs[BRANCHES[trips <= few]]]
    # A branch without loops beside one with: these are for iterations that are too large to go at once.
    branches = [*choice.graphs.values()]
    return [one for one in branches if not _has_loop(one)] or branches


def quick_from(lowered: Prepared, given: Prepared) -> int:
    """Return up to how many iterations the given model is quicker, or about as quick."""
    sizes = ((n, size_of(lowered, n), size_of(given, n)) for n in range(1, FEW + 1))
    return next((n - 1 for n, size, given_size in sizes if size <= AS_LARGE * given_size), FEW)


def _has_loop(graph: Graph) -> bool:
    return any(node.is_op("Loop") for node in graph.all_nodes())


def has_lists(prepared: Prepared) -> bool:
    """Return whether a model has to do with sequences or optionals."""
    graph = prepared.model.graph
    names = (*graph.inputs, *graph.outputs)
    return any(record_of(node).is_of_lists for node in graph.all_nodes()) or not all(
        prepared.is_tensor(name) for name in names
    )


def carries_lists(prepared: Prepared) -> bool:
    """Return whether a loop of a model carries sequences."""
    loops = (node for node in prepared.model.graph.all_nodes() if node.is_op("Loop"))
    return any(carries_sequences(loop, prepared) for loop in loops)


def limit_of(prepared: Prepared) -> int:
    """Return how many iterations a loop may have, or a sequence elements, for onnxruntime to be quick."""
    only_reads = has_lists_inside(prepared) and not carries_lists(prepared)
    return MOST_READ if only_reads else LONG


def has_lists_inside(prepared: Prepared) -> bool:
    """Return whether a loop or a branch of a model has to do with sequences or optionals."""
    inner = (graph for graph in prepared.model.graph.all_graphs() if graph is not prepared.model.graph)
    return any(record_of(node).is_of_lists for graph in inner for node in graph.nodes)


def has_nested_lists(prepared: Prepared) -> bool:
    """Return whether a loop that carries sequences is inside of another."""
    loops = [node for node in prepared.model.graph.all_nodes() if node.is_op("Loop")]
    return any(
        inner.is_op("Loop") and carries_sequences(inner, prepared)
        for loop in loops
        if carries_sequences(loop, prepared)
        for inner in loop.body.all_nodes()
    )


def _why_not_across(prepared: Prepared, has_lists: bool) -> str:
    """Return which value goes neither into onnxruntime nor out of it in Python, "" if all do."""
    graph = prepared.model.graph
    for name in (*graph.inputs, *graph.outputs):
        type_ = prepared.type(name)
        is_ours = type_.kind in (TENSOR, SEQUENCE) and dtype_of(type_.number) is not None
        if type_.number == TensorProto.BFLOAT16 or (has_lists and not is_ours):
            return f"'{name}' does not go into onnxruntime or out of it in Python"
    return ""


def _why_not_inside(prepared: Prepared) -> str:
    """Return why a model with sequences had better not run whole, "" if it may."""
    if prepared.weights.nbytes >= HEAVY:
        return "its weights would be held twice"
    return why_not_whole(prepared.model.graph, prepared)


def _declare_results(model: Model, prepared: Prepared) -> None:
    """Declare the shapes of what loops and branches give: onnxruntime folds and plans less without them.

    Not if only shapes of its results are read: onnxruntime would leave it out, and its errors.
    """
    computed = read_names(prepared.model)
    for graph in model.graph.all_graphs():
        for node in graph.nodes:
            if node.graphs and not computed.isdisjoint(node.outputs):
                for name in node.outputs:
                    if prepared.is_tensor(name) and prepared.type(name).number and name not in graph.outputs:
                        graph.declared[name] = to_type_proto(prepared.type(name), with_shape=True)
