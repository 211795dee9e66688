"""Running a body for many elements: in copies, or singly.

A run of a session costs about 4 µs, whatever it computes. Small elements share that cost: one model holds the
body several times, and each copy takes a row. That gives the same bits as singly. Bodies with control flow,
random numbers, many nodes or large constants run singly, as do large elements: threads can share those out
more evenly. Bodies that are elementwise go another way before: see `flat`.
"""

from __future__ import annotations

from itertools import chain

from onnx import ModelProto

from seqcore.onnx._model.load import operators_of
from seqcore.onnx._model.tensors import one_line
from seqcore.onnx._once import Once
from seqcore.onnx._runtimes.runners import SessionRunner
from seqcore.onnx._runtimes.sessions import REFUSALS, Refused

# Arguments of more bytes gain nothing: copying them costs what a run costs.
_LARGE = 16384
# Fewer rows are as quick singly.
_FEW = 8
# The number of elements from which building copies pays: 0.7 ms and 0.3 ms a node.
_COPIES_PAY, _A_NODE_MORE = 300, 120
# Which arguments are whole may change from call to call: so many combinations are built for.
_MOST_BUILT = 8


def run_singly(run, rows, start=0):
    """Return `run(row)` for each row; its exception gets the row's index, counted from `start`."""
    results = []
    try:
        for arrays in rows:
            results.append(run(arrays))
    except Exception as error:
        error.seqcore_element = start + len(results)
        raise
    return results


class ManyRunner:
    """Runs a program for many rows, each by the quicker of the ways that it can go.

    Parameters
    ----------
    program : Program
        Its `run` serves one row, its `assemble` makes rows of outputs from columns.
    model : ModelProto
        As the runtime has it: typed, its outputs distinct, its inputs those that are used.
    fed : list of (str, int)
        The inputs and which argument each of them is.

    Attributes
    ----------
    ncopies, nrefused : int
        The numbers of rows that ran in copies, and of those that onnxruntime refused so.
    why_no_copies : str
        The error of onnxruntime if it refused a model of copies.
    """

    def __init__(self, program, model, fed):
        self._program = program
        self._model = model
        self._fed = fed
        self._can_copy = bool(fed) and can_copy(model)
        self._built = {}  # names of whole arguments → what runs it in copies
        self._asked = 0  # elements so far; two threads may lose a count, which only delays a decision
        self.ncopies = self.nrefused = 0
        self.why_no_copies = ""

    def run(self, rows):
        """Return the outputs for each row of arguments, as a list of tuples."""
        n = len(rows)
        self._asked += n
        if n < _FEW or not self._can_copy:
            return run_singly(self._program.run, rows)
        whole = self._whole(rows)
        varying = [i for name, i in self._fed if name not in whole]
        results = []
        while (start := len(results)) < n:
            group = rows[start : start + COPIES]
            nbytes = sum(rows[start][i].nbytes for i in varying)
            is_small = nbytes <= _LARGE and n - start >= _FEW
            copies = self._copies(whole) if is_small else None
            done = self._attempt(copies, group) if copies else None
            results += done or run_singly(self._program.run, group, start)
        return results

    def _whole(self, rows):
        """Return the names of the inputs whose argument is one object in all rows, none if all are."""
        first, last = rows[0], rows[-1]
        whole = frozenset(
            name
            for name, i in self._fed
            if last[i] is first[i] and all(arrays[i] is first[i] for arrays in rows)
        )
        return whole if len(whole) < len(self._fed) else frozenset()

    def _attempt(self, copies, rows):
        try:
            results = copies.run(rows)
        except Refused:
            self.nrefused += len(rows)
            return None  # singly they fail again: at the right row, with the message for it
        self.ncopies += len(rows)
        return self._program.assemble(rows, results)

    def _copies(self, whole):
        """Return what runs rows in copies, None if that doesn't pay yet, or another thread builds it."""
        if whole not in self._built:
            pays = _COPIES_PAY + _A_NODE_MORE * len(self._model.graph.node)
            if self._asked < pays or len(self._built) >= _MOST_BUILT:
                return None
            self._built.setdefault(whole, Once(lambda: self._build(whole)))
        return self._built[whole].get_unless_busy()

    def _build(self, whole):
        try:
            return Copies(self._model, self._fed, whole)
        except REFUSALS as refusal:  # it was only for speed
            self.why_no_copies = one_line(refusal)
            return None


# A model that holds a body several times, so that one run serves several elements.


# onnxruntime looks each fed name up by walking the inputs: more copies cost more for that than they save.
COPIES = 16
# From some nodes on the 4 µs of a run are little; weights would be packed again for every copy.
_MOST_NODES, _MOST_NBYTES = 12, 1 << 16

_RANDOM = frozenset(
    (
        *("Bernoulli", "Dropout", "Multinomial"),
        *("RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
    )
)
_PURE_DOMAINS = ("", "ai.onnx.ml")


def can_copy(model):
    """Return whether copies of a model's graph in one graph do what it does: quickly, and with its bits."""
    return (
        len(model.graph.node) <= _MOST_NODES
        and not any(one.HasField("g") or one.graphs for node in model.graph.node for one in node.attribute)
        # Copies with a seed would draw the same numbers; operators of other domains may do anything.
        and all(name not in _RANDOM and domain in _PURE_DOMAINS for domain, name in operators_of(model))
        and not model.functions
        and not model.graph.sparse_initializer
        and model.ByteSize() <= _MOST_NBYTES
    )


class Copies:
    """A body in `COPIES` copies, each with arguments of its own except the broadcast ones."""

    def __init__(self, model, fed, whole):
        self._varying = [i for name, i in fed if name not in whole]
        self._whole = [(name, i) for name, i in fed if name in whole]
        self._all_vary = self._varying == list(range(len(fed)))
        copied = _copied(model, whole)
        self._names = [value.name for value in copied.graph.input][len(self._whole) :]
        self._outputs = len(model.graph.output)
        self._runner = SessionRunner(copied)

    def run(self, rows):
        """Return a list for each output, with the result for each of at most `COPIES` rows."""
        n = len(rows)
        if n < COPIES:
            # A body is pure: what it computes again for the last row is thrown away.
            rows = rows + [rows[-1]] * (COPIES - n)
        if self._all_vary:
            values = chain.from_iterable(rows)
        else:
            values = (arrays[i] for arrays in rows for i in self._varying)
        feed = dict(zip(self._names, values, strict=True))
        for name, i in self._whole:
            feed[name] = rows[0][i]
        try:
            results = self._runner.run(feed)
        except REFUSALS as refusal:
            raise Refused(str(refusal)) from refusal
        return [results[k :: self._outputs][:n] for k in range(self._outputs)]


def _copied(model, whole):
    copied = ModelProto()
    copied.CopyFrom(model)
    graph = copied.graph
    for field in ("node", "input", "output", "value_info", "quantization_annotation"):
        graph.ClearField(field)
    graph.input.extend(value for value in model.graph.input if value.name in whole)
    # Constants are one for all. Other names get the copy's number; they are short since each is looked up.
    taken = {one.name for one in graph.initializer} | whole
    own = [value.name for value in model.graph.input if value.name not in whole]
    own += [name for node in model.graph.node for name in node.output if name]
    for k in range(COPIES):
        names = {name: name for name in taken} | {"": ""}
        for i, name in enumerate(own):
            names[name] = _fresh(f"{i}.{k}", taken)
        for value in model.graph.input:
            if value.name not in whole:
                graph.input.add().CopyFrom(value)
                graph.input[-1].name = names[value.name]
                _forget_symbols(graph.input[-1])
        for node in model.graph.node:
            one = graph.node.add()
            one.CopyFrom(node)
            one.name = f"{node.name}.{k}" if node.name else ""
            one.input[:] = [names[name] for name in node.input]
            one.output[:] = [names[name] for name in node.output]
        for value in model.graph.output:
            graph.output.add().CopyFrom(value)
            graph.output[-1].name = names[value.name]
            _forget_symbols(graph.output[-1])
    return copied


def _forget_symbols(value):
    """Clear the names for lengths: another copy's row may be of other lengths, which onnxruntime refuses."""
    for dim in value.type.tensor_type.shape.dim:
        dim.ClearField("dim_param")


def _fresh(name, taken):
    while name in taken:
        name += "."
    return name
