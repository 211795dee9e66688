"""The first engine: a model in onnxruntime, in one go.

For a few hundred elements onnxruntime's copies cost little, while each part that a plan cuts costs 5 µs. So a
model with sequences runs whole as well, with checks (see `checked_model`) that let it fail before they get
long. A run that fails, because a sequence was long or because of a true error, runs in steps: they cope with
the one and name the other. A session whose sequences turn out to be long soon stops trying.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from operator import methodcaller
from typing import Any

from onnx import TensorProto

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.checked_model import (
    LONG,
    add_checks,
    limit_of,
    why_not_whole,
)
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._model.graph import Graph, Model
from seqcore.onnx._model.prepare import declare_types
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.tensors import dtype_of, one_line
from seqcore.onnx._model.types import SEQUENCE, TENSOR, to_type_proto
from seqcore.onnx._model.weights import HEAVY
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._runtimes.sessions import (
    REFUSALS,
    SILENT,
    TWO_C_TYPES,
    Sessions,
    refusing_run,
    restamp,
)

# After the k-th failure in a row 2ᵏ chances go by, with k up to this.
_MOST_DOUBLINGS = 8


class Attempts:
    """Decides whether to try. Threads may lose a count, which only moves the next attempt.

    Attributes
    ----------
    taken, failures : int
        The numbers of successes and failures.
    reason : str
        Why it failed last.
    """

    def __init__(self) -> None:
        self.taken = self.failures = 0
        self.reason = ""
        self._in_a_row = 0
        self._skip = 0

    def is_due(self) -> bool:
        """Return whether to take this chance."""
        if self._skip > 0:
            self._skip -= 1
            return False
        return True

    def failed(self, reason: BaseException | None = None) -> None:
        """Let some chances go by."""
        self.failures += 1
        self.reason = "" if reason is None else one_line(reason)
        self._in_a_row = min(self._in_a_row + 1, _MOST_DOUBLINGS)
        self._skip = 1 << self._in_a_row

    def succeeded(self) -> None:
        """Forget the failures in a row."""
        self.taken += 1
        self._in_a_row = 0


class WholeModel:
    """A model as one session of onnxruntime's.

    Parameters
    ----------
    prepared : Prepared
    interface : Interface
    sessions : Sessions
    longest : int, optional
        The most elements and iterations, where another engine is quicker with more.
    copies_little : bool, optional
        If True, loops copy only short sequences, however long others get.
    counts_elements : bool, optional
        If True, loops may have any number of iterations, as long as their sequences are short.

    Attributes
    ----------
    has_lists : bool
        True if it has sequences, so that a run may fail because they are long.
    attempts : Attempts
        Decides whether to try.
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
        longest: int = LONG,
        copies_little: bool = False,
        counts_elements: bool = False,
    ) -> None:
        graph = prepared.model.graph
        self._interface = interface
        self.has_lists = has_lists(prepared)
        self.attempts = Attempts()
        if why := _why_not_across(prepared, self.has_lists) or (self.has_lists and _why_not_inside(prepared)):
            raise Declined(why)
        self.prepared = prepared
        self.limit = longest if copies_little else min(longest, limit_of(graph, prepared))
        model = prepared.model.copy()
        declare_types(model, prepared)
        for name in (*graph.inputs, *graph.outputs):
            type_ = prepared.type(name)
            if type_.number and type_.kind in (TENSOR, SEQUENCE):
                model.graph.declared[name] = to_type_proto(type_, with_shape=True)
            elif name in graph.outputs:
                model.graph.declared.pop(name, None)
        _declare_results(model, prepared)
        self._limits = add_checks(model, prepared, self.limit, counts_elements) if self.has_lists else []
        restamp(model)
        message = to_message(model)
        try:
            self.session = sessions.make(message, prepared.weights)
        except REFUSALS as refusal:
            raise Declined(f"onnxruntime refuses it: {one_line(refusal)}") from refusal
        self._run = refusing_run(self.session)
        self._names = interface.names
        self._makers = {name: make for name in interface.names if (make := _maker(prepared, name))}
        self._makes = self._made_of(self._names)

    def feed_of(self, values: dict[str, Any]) -> dict[str, Any] | None:
        """Return what onnxruntime is fed, None where that is too long, or not what was prepared for."""
        if type(values) is not dict and not isinstance(values, Mapping):
            return None
        feed = {}
        feeds, limit = self._interface.feeds, self.limit
        for name, value in values.items():
            one = feeds.get(name)
            if one is None:
                return None
            value = one.for_onnxruntime(value, limit)
            if value is None:
                return None
            feed[name] = value
        return feed

    def allows(self, feed: dict[str, Any]) -> bool:
        """Return whether loops and splits are short, as far as what onnxruntime is fed tells."""
        for limit in self._limits:
            value = feed.get(limit.name)
            if value is not None and not limit.allows(value):
                return False
        return True

    def run(self, output_names: Any, feed: dict[str, Any], options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none.

        Raises
        ------
        Refused
            Silently: what runs in steps then says why.
        """
        results: list[Any] = self._run(output_names or self._names, feed, options or SILENT)
        for k, make in self._made_of(output_names) if output_names else self._makes:
            results[k] = make(results[k])
        return results

    def _made_of(self, names: list[str]) -> list[tuple[int, Callable[[Any], Any]]]:
        """Return which of the results to make anew, and how, where outputs of these names are wanted."""
        makes = [(k, self._makers[name]) for k, name in enumerate(names) if name in self._makers]
        # onnxruntime gives one array for two outputs of one name.
        return makes + [(k, methodcaller("copy")) for k, name in enumerate(names) if name in names[:k]]


# A model with more inserts outside of loops copies too much.
MOST_INSERTS = 64
# The iterations of a loop that are counted on.
_TRIPS = 4


def size_of(prepared: Prepared) -> int:
    """Return about how many nodes a run of a model with short lists takes.

    An Identity takes nothing: onnxruntime leaves it out, or hands on the memory.
    """
    return _size_of(prepared.model.graph)


def _size_of(graph: Graph) -> int:
    size = 0
    for node in graph.nodes:
        inner = [_size_of(one) for one in node.graphs.values()]
        times = _TRIPS if record_of(node).may_repeat(node) else 1
        size += (not node.is_op("Identity")) + times * max(inner, default=0)
    return size


def has_lists(prepared: Prepared) -> bool:
    """Return whether a model has to do with sequences or optionals."""
    graph = prepared.model.graph
    names = (*graph.inputs, *graph.outputs)
    return any(record_of(node).is_of_lists for node in graph.all_nodes()) or not all(
        prepared.is_tensor(name) for name in names
    )


def carries_lists(prepared: Prepared) -> bool:
    """Return whether a loop of a model carries sequences."""
    return any(
        node.is_op("Loop") and not all(map(prepared.is_tensor, node.body.inputs[2:]))
        for node in prepared.model.graph.all_nodes()
    )


def has_lists_inside(prepared: Prepared) -> bool:
    """Return whether a graph inside a model has to do with sequences or optionals."""
    return any(
        record_of(node).is_of_lists or not all(map(prepared.is_tensor, graph.inputs))
        for graph in prepared.model.graph.all_graphs()
        if graph is not prepared.model.graph
        for node in graph.nodes
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
    graph = prepared.model.graph
    if sum(record_of(node).grows_lists for node in graph.all_nodes()) > MOST_INSERTS:
        return f"more than {MOST_INSERTS} of its nodes insert into sequences"
    if prepared.weights.nbytes >= HEAVY:
        return "its weights would be held twice"
    return why_not_whole(graph, prepared)


def _declare_results(model: Model, prepared: Prepared) -> None:
    """Declare the shapes of what loops and branches give: onnxruntime folds and plans less without them."""
    for graph in model.graph.all_graphs():
        for node in graph.nodes:
            for name in node.outputs if node.graphs else ():
                if prepared.is_tensor(name) and prepared.type(name).number and name not in graph.outputs:
                    graph.declared[name] = to_type_proto(prepared.type(name), with_shape=True)


def _maker(prepared: Prepared, name: str) -> Callable[[Any], Any] | None:
    """Return a function that makes of one of onnxruntime's values what a session gives, None for itself."""
    type_ = prepared.type(name)
    dtype = dtype_of(type_.number)
    if type_.kind == SEQUENCE:
        return partial(TensorSequence, dtype=dtype)
    return methodcaller("view", dtype) if dtype in TWO_C_TYPES else None
