"""Plans: how a graph runs, as steps over a frame.

A frame is a list with a place for each value of the model, whatever graph it stands in: in a normal model a
name means one value, and no graph runs inside itself, so that a body reads what it captures where it lies.
Place 0 holds the run's options. Constants are in their places from the start; a run begins with a copy of the
list.
"""

from seqcore.onnx._models.departures import Departures
from seqcore.onnx._models.graphs import dtype_of, from_sparse_tensor_proto, from_tensor_proto
from seqcore.onnx._plans.control import if_step, scan_step
from seqcore.onnx._plans.lifetimes import find_takes
from seqcore.onnx._plans.loop import loop_step
from seqcore.onnx._plans.maps import map_step
from seqcore.onnx._plans.parts import ForeignNode, TensorPart
from seqcore.onnx._plans.schedule import Schedule
from seqcore.onnx._plans.small import small_part
from seqcore.onnx._plans.steps import SEQUENCE_STEPS, own_copy

CONTROL_STEPS = {"If": if_step, "Loop": loop_step, "Scan": scan_step, "SequenceMap": map_step}


class Plan:
    """The steps of one graph."""

    def __init__(self, steps, labels, starts):
        self._steps = steps  # functions of a frame
        self._labels = labels  # what to call each of them in an error
        self.starts = starts  # for each entry of the schedule its first step; at last the number of steps

    def run(self, frame, start=0):
        """Run the steps on a frame, or those from `start` on.

        Raises
        ------
        Exception
            What a step raises; ours name the node.
        """
        step = None
        try:
            for step in self._steps[start:] if start else self._steps:
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
    facts : Facts
    runtime : Runtime
    max_workers : int or None
        For SequenceMap nodes.
    """

    def __init__(self, facts, runtime, max_workers):
        self.facts = facts
        self.runtime = runtime
        self.max_workers = max_workers
        self.places = {"": 0}
        self.frame = [None]
        self.schedule = Schedule(facts.model.graph, facts)
        self.departures = Departures(facts, max_workers)
        self.takes = find_takes(self.schedule)
        # By the `id` of a node: which don't run in onnxruntime, the first ones of parts that NumPy runs, and
        # the rounds of loops.
        self.own, self.small, self.rounds = set(), set(), {}
        self.plan = self.plan_of(self.schedule)

    def place(self, name):
        """Return the place of a value in a frame."""
        if name not in self.places:
            self.places[name] = len(self.frame)
            self.frame.append(self._constant(name))
        return self.places[name]

    def _constant(self, name):
        if name in self.facts.initializers:
            return _frozen(from_tensor_proto(self.facts.initializers[name]))
        if name in self.facts.constants:
            sparse = self.facts.model.graph.sparse_initializer
            return _frozen(from_sparse_tensor_proto(next(one for one in sparse if one.values.name == name)))
        return None

    def plan_of(self, schedule, in_loop=False):
        """Return the plan of a schedule."""
        steps, labels, starts = [], [], []
        gone = {} if in_loop else _last_readings(schedule)
        for i, entry in enumerate(schedule.entries):
            starts.append(len(steps))
            if entry.own:
                self.own.add(id(entry.nodes[0]))
                step, label = self._own_step(entry, in_loop), label_of(entry.nodes[0])
            else:
                step = small_part(entry.nodes, self.facts, self.place)
                if step is None:
                    step = TensorPart(entry.nodes, self.facts, self.place, self.runtime, in_loop)
                else:
                    self.small.add(id(entry.nodes[0]))
                    self.own.update(map(id, entry.nodes))
                label = label_of_part(entry.nodes)
            steps.append(step)
            labels.append(label)
            if i in gone:
                steps.append(_forget([self.place(name) for name in gone[i]]))
                labels.append(label)
        return Plan(steps, labels, [*starts, len(steps)])

    def _own_step(self, entry, in_loop):
        (node,) = entry.nodes
        if node.domain in ("", "ai.onnx"):
            if node.op_type in SEQUENCE_STEPS:
                return SEQUENCE_STEPS[node.op_type](node, self)
            if node.op_type in CONTROL_STEPS:
                return CONTROL_STEPS[node.op_type](entry, self, in_loop)
        return ForeignNode(node, self.facts, self.place, self.runtime)

    def reader(self, reader, name):
        """Return a function of a frame that gives a value of its own for a reader (a node or a graph)."""
        i = self.place(name)
        if self.facts.is_tensor(name):
            return lambda frame: frame[i]
        if (id(reader), name) not in self.takes:
            return lambda frame: own_copy(frame[i])

        def take(frame):
            value, frame[i] = frame[i], None
            return value

        return take

    def outputs_of(self, graph):
        """Return a reader for each output of a graph. Of an output named twice the last reader may take."""
        names = [value.name for value in graph.output]
        return [
            self.reader(graph if name not in names[k + 1 :] else None, name) for k, name in enumerate(names)
        ]

    def expected(self, name):
        """Return a value's name, its element type and what is told of its shape, each None if unknown."""
        number = self.facts.element_number(name)
        return name, dtype_of(number) if number else None, self.facts.told_shape(name)


def _last_readings(schedule):
    """Return which values a graph has no more use for after an entry: those that it made."""
    made = {name for entry in schedule.entries for node in entry.nodes for name in node.output if name}
    made -= {value.name for value in schedule.graph.output}
    last = {name: i for i, entry in enumerate(schedule.entries) for name in entry.reads & made}
    gone = {}
    for name, i in last.items():
        gone.setdefault(i, []).append(name)
    return gone


def _forget(places):
    def step(frame):
        for i in places:
            frame[i] = None

    return step


def label_of_part(nodes):
    """Return what errors call a part."""
    if len(nodes) == 1:
        return label_of(nodes[0])
    return f"the part from {label_of(nodes[0])} to {label_of(nodes[-1])}"


def label_of(node):
    """Return what errors call a node."""
    return f"{node.op_type} '{node.name}'"


def _frozen(array):
    array.flags.writeable = False
    return array


def _located(error, label):
    """Return an exception that names the place: a new one where ours does not yet."""
    if hasattr(error, "seqcore_node"):
        return error
    if type(error) in (IndexError, TypeError, ValueError, OverflowError, MemoryError):
        notes = getattr(error, "__notes__", ())
        error = type(error)(f"{label}: {error}")
        for note in notes:
            error.add_note(note)
    else:
        error.add_note(f"in {label}")
    error.seqcore_node = label
    return error
