"""The last engine: a model in steps, which runs everything and names the node where something fails."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.control import stop_if_told
from seqcore.onnx._engines.interface import Interface
from seqcore.onnx._engines.planner import Planner, own_copy
from seqcore.onnx._engines.schedule import Schedule
from seqcore.onnx._model.graph import Node
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import record_of
from seqcore.onnx._runtimes.sessions import Sessions


class StepsEngine:
    """A model, cut into parts that onnxruntime runs and steps of our own.

    Parameters
    ----------
    prepared : Prepared
    interface : Interface
        Of the same model, or of one with the same inputs and outputs.
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.
    """

    may_be_long = False

    def __init__(
        self, prepared: Prepared, interface: Interface, sessions: Sessions, max_workers: int | None
    ) -> None:
        self.planner = planner = Planner(prepared, sessions, max_workers)
        self._interface = interface
        self._plan = planner.plan
        self._places = {name: planner.place(name) for name in prepared.model.graph.inputs}
        names = prepared.model.graph.outputs
        self._outputs = dict(zip(names, planner.outputs_of(prepared.model.graph), strict=True))
        holders = feed_holders(prepared, planner.own)
        self._shared = {name for name in names if name in holders}
        self._fresh = {name for name in names if _is_fresh(name, prepared, planner.own)}
        self._frame = planner.frame
        self._believes_elements = prepared.believes_elements

    def feed_of(self, run: Any) -> Any:
        """Return what was fed, None where it isn't what the model declares."""
        return run.feed if run.fits() or not self._believes_elements else None

    def explain(self) -> Iterator[str]:
        """Yield lines that say what runs where, in order."""
        yield from lines_of(self.planner.schedule, self.planner, "")

    def run(self, output_names: Any, feed: Any, options: Any) -> list[Any]:
        """Return the outputs of these names, of all if there are none: tensors of their own, sequences.

        Raises
        ------
        ValueError, TypeError
            If a feed is missing, unknown, or not what the model declares.
        Exception
            What a node raises; it is named.
        """
        stop_if_told(options)
        frame = self._frame.copy()
        frame[0] = options
        for name, one in self._interface.feeds.items():
            default = self._interface.defaults.get(name)
            frame[self._places[name]] = one.check(feed[name]) if name in feed else default
        self._plan.run(frame)
        # Each is taken from the frame once, also where it is asked for twice.
        names = output_names or self._interface.names
        results = {name: self._result(name, frame) for name in dict.fromkeys(names)}
        if len(results) == len(names):
            return list(results.values())
        return [_again(results[name], name in names[:k]) for k, name in enumerate(names)]

    def _result(self, name, frame):
        value = self._outputs[name](frame)
        if isinstance(value, TensorSequence):
            if name in self._shared:
                value.compact()
            return value
        if isinstance(value, np.ndarray) and name not in self._fresh:
            return np.array(value)
        return value


def _is_fresh(name, prepared, own):
    """Return whether a tensor's array is nobody else's: it was made anew, and no own node keeps it."""
    node = prepared.producer(name)
    readers = prepared.readers[name]
    return (
        node is not None
        and (node not in own or not any(target == name for _, target in record_of(node).shares(node)))
        and sum(reader is None for reader, _ in readers) == 1
        and not any(reader in own for reader, _ in readers)
    )


def _again(value, given):
    """Return a value, or a copy if it was given before."""
    if not given:
        return value
    return np.array(value) if isinstance(value, np.ndarray) else own_copy(value)


# Which values may lie in the memory of a model's feeds.


def feed_holders(prepared: Prepared, own: set[Node]) -> set[str]:
    """Return the names of the values that may hold memory of the feeds.

    Parameters
    ----------
    prepared : Prepared
    own : set of Node
        Those that don't run in onnxruntime, where results have memory of their own.
    """
    targets = defaultdict(list)
    for node in own:
        for source, target in record_of(node).shares(node):
            targets[source].append(target)
    holding = set(prepared.model.graph.inputs)
    todo = list(holding)
    while todo:
        fresh = [name for name in targets[todo.pop()] if name not in holding]
        holding.update(fresh)
        todo += fresh
    return holding


# The text of `explain`.


def lines_of(schedule: Schedule, planner: Planner, indent: str) -> Iterator[str]:
    """Yield a line for each entry of a schedule, in order."""
    if not schedule.entries:
        yield f"{indent}nothing to run"
    for entry in schedule.entries:
        if not entry.own:
            who = "numpy      " if entry.nodes[0] in planner.by_numpy else "onnxruntime"
            yield f"{indent}{who}  {_counted(entry.nodes)}"
            continue
        (node,) = entry.nodes
        yield f"{indent}seqcore      {node.label()}{_remark(node, planner)}"
        for name, inner in entry.inner.items():
            if len(entry.inner) > 1:
                yield f"{indent}    {name}"
            yield from lines_of(inner, planner, indent + "    " * (1 + (len(entry.inner) > 1)))


def _counted(nodes: list[Node]) -> str:
    """Return `Gather x2, Mul`: operators in the order in which they first come."""
    counts = Counter(node.op_type for node in nodes)
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in counts.items())


def _remark(node: Node, planner: Planner) -> str:
    edited = node.input(0)
    if node.is_op("SequenceInsert", "SequenceErase"):
        taken = (node, edited) in planner.takes
        return ", in place" if taken else f": on a copy, since '{edited}' is needed again"
    return ""
