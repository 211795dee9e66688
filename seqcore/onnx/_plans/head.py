"""The head of a plan: what of a model onnxruntime runs in one go, as long as its sequences stay short.

For some ten elements onnxruntime's copies cost nothing, while each part that a plan cuts costs 5 µs. So the
entries of the plan up to the first in which onnxruntime would depart from ONNX's text (see `departures`) are
one model as well, guarded against long sequences (`guards`), and tried first. Where that fails, because
something was long or because of a true error, the plan runs from the start: it copes with the one and names
the other. A session whose sequences turn out to be long soon stops trying.
"""

import threading

import onnxruntime
from onnx import TensorProto

from seqcore.core.sequence import TensorSequence
from seqcore.onnx._models.graphs import dtype_of, subgraphs
from seqcore.onnx._models.runners import native
from seqcore.onnx._plans.attempts import Attempts
from seqcore.onnx._plans.guards import LONG, guard
from seqcore.onnx._plans.parts import cut_out, is_heavy, taken_from_outside, wanted_outside

# The session is made once the model has run so often.
_PAYS = 2


class Head:
    """The first entries of a plan as one guarded model.

    Attributes
    ----------
    length : int
        How many entries of the schedule it stands for.
    is_hopeless : bool
        Whether it is never tried: nothing would be saved, sequences get long, or onnxruntime can't run it.
    """

    def __init__(self, planner):
        self._facts = facts = planner.facts
        self._runtime = planner.runtime
        entries = planner.schedule.entries
        self.length = _length(entries, planner.departures)
        self._nodes = [node for entry in entries[: self.length] for node in entry.nodes]
        self._names = wanted_outside(self._nodes, facts)
        inputs = sorted(taken_from_outside(self._nodes) - facts.constants)
        self._inputs = [(name, planner.place(name)) for name in inputs]
        self._outputs = [(planner.place(name), _dtype(name, facts)) for name in self._names]
        self._asked, self._attempts = 0, Attempts()
        self._building = threading.Lock()
        self._session = None
        passes = all(_crosses(name, facts) for name in (*inputs, *self._names))
        own = sum(entry.own for entry in entries[: self.length])
        self.is_hopeless = not (own and passes) or _inserts(self._nodes) > LONG

    def run(self, frame):
        """Run the head on a frame; return whether it did. If not, the frame is as it was."""
        if self.is_hopeless or not self._is_due():
            return False
        feed = {}
        for name, place in self._inputs:
            value = frame[place]
            if type(value) is TensorSequence:
                if len(value) > LONG:
                    return False
                value = list(value)
            feed[name] = value
        try:
            results = self._session.run(self._names, feed, frame[0] or SILENT)
            results = [_ours(value, dtype) for value, (_, dtype) in zip(results, self._outputs, strict=True)]
        except Exception:
            self._attempts.failed()
            return False
        self._attempts.succeeded()
        for value, (place, _) in zip(results, self._outputs, strict=True):
            frame[place] = value
        return True

    def _is_due(self):
        if not self._attempts.is_due():
            return False
        if self._session is not None:
            return True
        self._asked += 1
        if self._asked <= _PAYS or not self._building.acquire(blocking=False):
            return False
        try:
            if self._session is None:
                self._build()
        except Exception:  # a type without a kernel, or a loop that is always long
            self.is_hopeless = True
        finally:
            self._building.release()
        return self._session is not None

    def _build(self):
        facts = self._facts
        inputs = {name: facts.types[name] for name, _ in self._inputs}
        model = cut_out(self._nodes, inputs, self._names, facts, "head")
        if is_heavy(model):
            # What a part costs is little beside what it computes, and weights would be there twice.
            raise ValueError("the model is large")
        guard(model.graph, facts)
        session = self._runtime.busy_session(model.SerializeToString())
        self._session = getattr(session, "_sess", session)


SILENT = onnxruntime.RunOptions()
SILENT.log_severity_level = 4  # where an attempt fails, the plan will say why


def _length(entries, departures):
    return next((k for k, entry in enumerate(entries) if departures.among(entry.nodes)), len(entries))


def _inserts(nodes):
    """Return how many nodes, in all depths, make sequences longer: guards only see to loops and splits."""
    inner = sum(_inserts(graph.node) for node in nodes for graph in subgraphs(node))
    return inner + sum(node.op_type == "SequenceInsert" for node in nodes)


def _crosses(name, facts):
    """Return whether a value of this type goes into onnxruntime and comes out of it, in Python."""
    kind = facts.types.get(name)
    which = None if kind is None else kind.WhichOneof("value")
    number = facts.element_number(name)
    known = number and number != TensorProto.BFLOAT16 and dtype_of(number) is not None
    return known and which in ("tensor_type", "sequence_type")


def _dtype(name, facts):
    number = facts.element_number(name)
    return dtype_of(number) if number else None


def _ours(value, dtype):
    """Return what a step of ours would have made."""
    if isinstance(value, list):
        return TensorSequence(value, dtype=dtype)
    return native(value)
