"""Plans: how a graph runs, as steps over a frame.

A frame is a list with a place for each value of the model, whatever graph it stands in: in a normal model a
name means one value, and no graph runs inside itself, so that a body reads what it captures where it lies.
Place 0 holds the run's options. Constants are in their places from the start; a run begins with a copy of the
list.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
from onnx import TensorProto

from seqcore._arguments.shown import add_note, shown_error
from seqcore.core.sequence import TensorSequence
from seqcore.onnx._engines.executable import Executable, cut_out, is_heavy
from seqcore.onnx._engines.schedule import Entry, Frame, Schedule, Step
from seqcore.onnx._model.graph import Graph, Node, reads_of
from seqcore.onnx._model.prepare import declared_shape
from seqcore.onnx._model.prepared import Prepared
from seqcore.onnx._model.record import Declined, record_of
from seqcore.onnx._model.tensors import dtype_of, tensor_type
from seqcore.onnx._model.types import tensor, to_type_proto
from seqcore.onnx._runtimes.sessions import Sessions
from seqcore.onnx._thresholds import MOST_NUMPY_NODES


class Plan:
    """The steps of one graph."""

    def __init__(self, steps: list[Step], labels: list[str]) -> None:
        self._steps = steps
        self._labels = labels  # what to call each of them in an error

    def run(self, frame: Frame) -> None:
        """Run the steps on a frame.

        Raises
        ------
        Exception
            What a step raises; ours name the node.
        """
        step: Any = None
        try:
            for step in self._steps:
                step(frame)
        except Exception as error:
            located = _located(error, self._labels[self._steps.index(step)])
            if located is error:
                raise
            raise located from error


class Planner:
    """Makes the plans for a model.

    Parameters
    ----------
    prepared : Prepared
    sessions : Sessions
    max_workers : int or None
        For SequenceMap nodes.

    Attributes
    ----------
    own, by_numpy : set of Node
        Which nodes don't run in onnxruntime, and the first ones of parts that NumPy runs.
    """

    def __init__(self, prepared: Prepared, sessions: Sessions, max_workers: int | None) -> None:
        self.prepared = prepared
        self.sessions = sessions
        self.max_workers = max_workers
        self.places = {"": 0}
        self.frame: Frame = [None]
        self.schedule = Schedule(prepared.model.graph, prepared)
        self.takes = find_takes(self.schedule)
        self.own: set[Node] = set()
        self.by_numpy: set[Node] = set()
        self.plan = self.plan_of(self.schedule)

    def place(self, name: str) -> int:
        """Return the place of a value in a frame."""
        if name not in self.places:
            self.places[name] = len(self.frame)
            is_constant = self.prepared.is_constant(name)
            self.frame.append(self.prepared.array(name) if is_constant else None)
        return self.places[name]

    def plan_of(self, schedule: Schedule, in_loop: bool = False) -> Plan:
        """Return the plan of a schedule."""
        steps: list[Step] = []
        labels: list[str] = []
        gone = {} if in_loop else _last_readings(schedule)
        for i, entry in enumerate(schedule.entries):
            steps.append(self._step_of(entry, in_loop))
            labels.append(label_of_part(entry.nodes))
            if i in gone:
                steps.append(_forget([self.place(name) for name in gone[i]]))
                labels.append(labels[-1])
        return Plan(steps, labels)

    def _step_of(self, entry: Entry, in_loop: bool) -> Step:
        if entry.own:
            (node,) = entry.nodes
            self.own.add(node)
            step = record_of(node).step(entry, self, in_loop)
            return step or Part(entry, self, in_loop)
        step = numpy_part(entry.nodes, self)
        if step is None:
            return Part(entry, self, in_loop)
        self.by_numpy.add(entry.nodes[0])
        self.own.update(entry.nodes)
        return step

    def reader(self, reader: Node | Graph | None, name: str) -> Callable[[Frame], Any]:
        """Return a function of a frame that gives a value of its own for a reader (a node or a graph)."""
        i = self.place(name)
        if self.prepared.is_tensor(name):
            return lambda frame: frame[i]
        if (reader, name) not in self.takes:
            return lambda frame: own_copy(frame[i])

        def take(frame):
            value, frame[i] = frame[i], None
            return value

        return take

    def outputs_of(self, graph: Graph) -> list[Callable[[Frame], Any]]:
        """Return a reader for each output of a graph. The last reader of a name may take the value."""
        names = graph.outputs
        return [
            self.reader(graph if name not in names[k + 1 :] else None, name) for k, name in enumerate(names)
        ]

    def expected(self, name: str, graph: Graph) -> tuple[str, Any, Any]:
        """Return an output's name, its element type and its declared shape, each None if unknown."""
        type_ = self.prepared.type(name)
        return name, dtype_of(type_.number), declared_shape(type_, graph.declared.get(name))


def own_copy(value: Any) -> Any:
    """Return a value that may be edited while the other is kept: of sequences a copy, others never change."""
    return value.copy() if type(value) is TensorSequence else value


def _last_readings(schedule: Schedule) -> dict[int, list[str]]:
    """Return which values a graph has no more use for after an entry: those that it made."""
    made = {name for entry in schedule.entries for node in entry.nodes for name in node.outputs if name}
    made -= set(schedule.graph.outputs)
    last = {name: i for i, entry in enumerate(schedule.entries) for name in entry.reads if name in made}
    gone: dict[int, list[str]] = {}
    for name, i in last.items():
        gone.setdefault(i, []).append(name)
    return gone


def _forget(places: list[int]) -> Step:
    def step(frame):
        for i in places:
            frame[i] = None

    return step


def label_of_part(nodes: list[Node]) -> str:
    """Return what errors call a part."""
    if len(nodes) == 1:
        return nodes[0].label()
    return f"the part from {nodes[0].label()} to {nodes[-1].label()}"


def _located(error: Exception, label: str) -> Exception:
    """Return an exception that names the place: a new one where ours does not yet."""
    if hasattr(error, "seqcore_node"):
        return error
    if type(error) in (IndexError, TypeError, ValueError, OverflowError, MemoryError):
        notes = getattr(error, "__notes__", ())
        error = type(error)(f"{label}: {shown_error(error)}")
        for note in notes:
            add_note(error, note)
    else:
        add_note(error, f"in {label}")
    error.seqcore_node = label  # type: ignore[attr-defined]
    return error


# Parts: nodes that onnxruntime or NumPy runs as one step.


def wanted_outside(nodes: list[Node], prepared: Prepared) -> list[str]:
    """Return the values that nodes make and others read, in the order in which they are made."""
    inside = set(nodes)
    for node in nodes:
        for graph in node.graphs.values():
            inside.update(graph.all_nodes())
    return [
        name
        for node in nodes
        for name in node.outputs
        if any(reader is None or reader not in inside for reader, _ in prepared.readers[name])
    ]


class Part:
    """Some nodes in onnxruntime as one step, which takes values from places in a frame and puts values there.

    They are tensor operators, or one node that takes or gives sequences without being a sequence operator of
    ONNX, such as `ZipMap`. A part is compiled when it is made. Only if no type is inferred for a tensor that
    it takes, that waits for the first run: types never change in a model, so they are those of all runs.

    Raises
    ------
    ValueError
        If the nodes can't be run.
    """

    def __init__(self, entry: Entry, planner: Planner, in_loop: bool) -> None:
        self._entry, self._in_loop = entry, in_loop
        self._prepared, self._sessions = planner.prepared, planner.sessions
        self._outputs = wanted_outside(entry.nodes, planner.prepared)
        made = {name for node in entry.nodes for name in node.outputs}
        reads = {name for node in entry.nodes for name in reads_of(node)} - made
        inputs = sorted(name for name in reads if not planner.prepared.is_constant(name))
        self._from = [(name, planner.place(name)) for name in inputs]
        self._to = [planner.place(name) for name in self._outputs]
        self._run: Any = None
        self._compiling = threading.Lock()
        if entry.own or all(planner.prepared.element_number(name) for name in inputs):
            self._run = self._compile([])

    def __call__(self, frame: Frame) -> None:
        if self._run is None:
            with self._compiling:
                self._run = self._run or self._compile(frame)
        results = self._run({name: frame[i] for name, i in self._from}, frame[0])
        for i, value in zip(self._to, results, strict=True):
            frame[i] = value

    def _compile(self, frame: Frame) -> Any:
        inputs = {}
        for name, i in self._from:
            type_ = self._prepared.type(name)
            if not type_.number and frame:
                type_ = tensor(tensor_type(frame[i].dtype))
            inputs[name] = to_type_proto(type_)
        region = cut_out(self._entry.nodes, inputs, self._outputs, self._prepared, "part")
        spins, label = is_heavy(region) and not self._in_loop, label_of_part(self._entry.nodes)
        what = region, self._outputs, self._prepared, self._sessions
        if not self._entry.own:
            return Executable(*what, label, spins=spins, arena=not self._in_loop).run_all
        try:
            return Executable(*what, spins=spins).run_all
        except Declined as why:
            raise ValueError(f"{label} can't be run: {why}") from why


# Small parts: a few integers and conditions, which NumPy computes in less time than a session's run.


# On integers and conditions NumPy is exact, and broadcasts as ONNX does since version 7.
_TYPES = (TensorProto.BOOL, TensorProto.INT32, TensorProto.INT64)


def numpy_part(nodes: list[Node], planner: Any) -> Step | None:
    """Return a step for nodes that are few and simple enough, None for others."""
    if len(nodes) > MOST_NUMPY_NODES:
        return None
    calls = []
    for node in nodes:
        function = _function(node, planner)
        if function is None:
            return None
        calls.append(
            (function, [planner.place(name) for name in node.inputs], planner.place(node.outputs[0]))
        )

    def step(frame):
        for function, sources, to in calls:
            frame[to] = np.asarray(function(*[frame[i] for i in sources]))

    return step


def _function(node: Node, planner: Any) -> Any:
    if node.is_op("Identity"):
        return np.asarray  # of any type: tensors in a frame never change
    number = planner.prepared.element_number
    if not all(number(name) in _TYPES for name in (*node.inputs, *node.outputs)):
        return None
    if node.is_op("Cast"):
        dtype = dtype_of(number(node.outputs[0]))
        return lambda array: array.astype(dtype)
    return None if node.attribute_names() else record_of(node).numpy


# Liveness: at its last use a sequence is moved and edited in place, before that it is copied.
#
# A copy shares its buffer until one of the two is edited, so a copy costs as much as the first edit after
# it. A list that a loop appends to has its last use at the append, also where that stands in the branch of
# an If: no iteration copies it.


Takes = set[tuple[Node | Graph | None, str]]


def find_takes(schedule: Schedule) -> Takes:
    """Return the pairs (reader, name) where the reader may take the value.

    A reader is a node, or a graph whose output it is. For an output that is named several times, it is the
    last that may take.
    """
    takes: Takes = set()
    _find(schedule, set(schedule.graph.inputs), takes)
    return takes


def _find(schedule: Schedule, movable: set[str], takes: Takes) -> None:
    """Add the takes of a graph: of what it makes itself, and of the `movable` names."""
    last = {name: i for i, entry in enumerate(schedule.entries) for name in entry.reads}
    outputs = set(schedule.graph.outputs)
    made = {name for entry in schedule.entries for node in entry.nodes for name in node.outputs}
    movable = movable | made
    takes.update((schedule.graph, name) for name in outputs & movable)
    for i, entry in enumerate(schedule.entries):
        if not entry.own:
            continue
        (node,) = entry.nodes
        free = {name for name in entry.reads if name in movable and name not in outputs and last[name] == i}
        deeper = {name for inner in entry.inner.values() for name in inner.graph.free_names()}
        # A node that reads a value twice would find it gone the second time.
        takes.update((node, name) for name in free - deeper if node.inputs.count(name) == 1)
        for inner in entry.inner.values():
            if record_of(node).may_repeat(node):
                # The next iteration reads the same captures.
                _find(inner, set(inner.graph.inputs), takes)
            else:
                _find(inner, free - set(node.inputs), takes)
