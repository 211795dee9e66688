"""One judge of models: all ways to run one give the same values, or errors.

The ways are onnxruntime with the model as it is, the session, the session's steps, the model that `lower`
makes, also with sequences that go in and out as tensors and for the target "portable", and onnx's reference
evaluator. Onnxruntime is believed, unless it fails or differs from both the steps and the evaluator, which
agree.
"""

from functools import partial

import numpy as np
import onnx
from onnx.reference import ReferenceEvaluator
from onnx.reference.op_run import OpRun
from onnx.reference.ops.op_split_to_sequence import SplitToSequence as PlainSplit
from support.models.lowering import left_in, session
from support.models.ragged_io import kinds_of, ragged_feed, ragged_results
from support.models.sessions import in_steps

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession, lower
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._model.writing import to_message
from seqcore.onnx._rewrite.prune import prune
from seqcore.onnx.lowering import lower_with_report

TOLERANCES = {"float32": 1e-5, "float64": 1e-10, "float16": 2e-2}
PORTABLE = {"ragged_io": True, "target": "portable", "unroll": 8}
# onnxruntime's Concat, which known lists become, joins some elements that don't fit, or ends the process. It
# maps lists of several lengths, and splits by no lengths as if none were given.
EXCUSED = ("can't be concatenated", "can't be stacked", "of the map has", "the sum of split is 0")
# Of these operators errors stay errors; of others, which nothing may read, they need not.
MINDED = ("Sequence", "one value", "scan output")


def made(make):
    """What is made, or the words of the exception."""
    try:
        return make()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def outcome(running, feed):
    """Results as a list, or the words of what went wrong."""
    results = running if isinstance(running, str) else made(lambda: running.run(None, dict(feed)))
    if isinstance(results, str):
        return results
    return [[*one] if isinstance(one, TensorSequence) else one for one in results]


def difference(found, expected, bound, n=1):
    """What differs, in a word or two, or None. Without an iteration, empty outputs may have any shape."""
    if isinstance(expected, list):
        if not isinstance(found, list) or len(found) != len(expected):
            return "another number of elements"
        pairs = zip(found, expected, strict=True)
        return next(filter(None, (difference(a, b, bound) for a, b in pairs)), None)
    found, expected = np.asarray(found), np.asarray(expected)
    if found.dtype != expected.dtype:
        return f"type {found.dtype}, not {expected.dtype}"
    if found.shape != expected.shape:
        if n == 0 and found.size == expected.size == 0:
            return None
        return f"shape {found.shape}, not {expected.shape}"
    near = TOLERANCES.get(str(found.dtype))
    if near is None:
        return None if np.array_equal(found, expected) else "other numbers"
    with np.errstate(all="ignore"):
        close = np.allclose(found, expected, near, near * max(bound, 1), equal_nan=True)
    return None if close else "other numbers"


def faces(model):
    """Name, kind and element type of inputs and outputs; shapes may be known better in a lowered model."""
    return [
        (one.name, one.type.WhichOneof("value"), one.type.tensor_type.elem_type)
        for values in (model.graph.input, model.graph.output)
        for one in values
    ]


def steps_of(model):
    """The session of a model step by step, or as it is where it has no lists."""
    used = InferenceSession(model)
    return used if used._engines is None else in_steps(model)


def is_valid(model):
    return made(lambda: onnx.checker.check_model(model, full_check=True)) is None


# onnx's evaluator, with those operators rewritten in which it departs from the ONNX specification. A node
# that fails gives FAILED, and so does one that takes that: so an error is one of the results that need it.

FAILED = "failed"
# The inputs that decide what runs, and of lists those that are no element.
NEEDED = {"If": [0], "SequenceMap": [0], "Loop": [0, 1], "SequenceConstruct": [], "SequenceInsert": [0, 2]}


def has_failed(value):
    """Whether that is FAILED, which may have become an array, or has it among its elements."""
    if isinstance(value, list):
        return any(map(has_failed, value))
    return isinstance(value, str) or (isinstance(value, np.ndarray) and value.dtype.kind == "U")


class Evaluator(ReferenceEvaluator):
    def _init(self):
        super()._init()
        for node in self.rt_nodes_:
            node.run = partial(run_node, node, node.run)


def run_node(node, run, *inputs, **options):
    needed = NEEDED.get(node.op_type, range(len(inputs)))
    decide = [one for k, one in enumerate(inputs) if k in needed and not isinstance(one, list)]
    if not any(map(has_failed, decide)):
        try:
            return run(*inputs, **options)
        except Exception:
            pass
    return (FAILED,) * len(node.output)


class SequenceInsert(OpRun):
    op_domain = ""

    def _run(self, sequence, tensor, position=None):
        at = len(sequence) if position is None else int(position)
        return ([*sequence[:at], tensor, *sequence[at:]],)


class SplitToSequence(PlainSplit):
    op_domain = ""

    def _run(self, tensor, split=None, axis=0, keepdims=1):
        # Of one length of 1, exporters rely on it that the axis goes.
        drops = split is not None and np.ndim(split) == 0 and split == 1 and not keepdims
        return super()._run(tensor, None if drops else split, axis, keepdims)


class SequenceMap(OpRun):
    op_domain = ""

    def need_context(self):
        return True

    def _run(self, sequence, *others, context=None, body=None, **options):
        columns = [sequence, *(one if isinstance(one, list) else [one] * len(sequence) for one in others)]
        rows = [
            body.run(None, context | dict(zip(body.input_names, row, strict=True)))
            for row in zip(*columns, strict=True)
        ]
        columns = [[*column] for column in zip(*rows, strict=True)] or [[] for _ in body.output_names]
        return tuple(FAILED if any(map(has_failed, column)) else column for column in columns)


class Loop(OpRun):
    op_domain = ""

    def need_context(self):
        return True

    def _run(self, trips, condition, *states, context=None, body=None, **options):
        rows, goes_on = [], condition is None or bool(condition)
        while goes_on and len(rows) < trips:
            given = [np.array(len(rows)), np.array(True), *states]
            going, *results = body.run(None, context | dict(zip(body.input_names, given, strict=True)))
            assert not has_failed(going)
            states, goes_on = results[: len(states)], condition is None or bool(going)
            rows.append(results[len(states) :])
        columns = [*zip(*rows, strict=True)] or [[FAILED]] * (len(self.onnx_node.output) - len(states))
        return *states, *(FAILED if any(map(has_failed, row)) else np.stack(row) for row in columns)


OPERATORS = [SequenceInsert, SplitToSequence, SequenceMap, Loop]


class Judge:
    """A model in all ways. `bounds` says how large the numbers of outputs get, by name.

    Onnx's evaluator gets `in_order`, the model with its nodes in order.
    """

    def __init__(self, model, bounds, in_order):
        self.model, self.bounds = model, bounds
        self.names = [one.name for one in model.graph.output]
        self.given = made(lambda: session(model))
        self.stepwise = made(lambda: steps_of(model))
        self.session = InferenceSession(model)
        self.lowered, self.notes = lower_with_report(model)
        assert faces(self.lowered) == faces(model)
        assert is_valid(self.lowered) or not is_valid(model), "the lowered model is not valid"
        self.ways = {"session": self.session}
        if self.lowered != model:
            self.ways["lowered"] = made(lambda: session(self.lowered))
        self.packed, self.kinds = {}, kinds_of([*model.graph.input, *model.graph.output])
        # A model that stays as it is goes wrong where onnxruntime does.
        if self.kinds and (lowered := lower(model, ragged_io=True)) != model:
            self.packed["ragged_io"] = lowered
        portable = made(lambda: lower(model, **PORTABLE))
        if not isinstance(portable, str) and not left_in(portable):
            self.packed["portable"] = portable
        # What can only fail, onnxruntime may refuse to load: then each run fails.
        self.running = {name: made(lambda one=one: session(one)) for name, one in self.packed.items()}
        self.evaluator = made(lambda: Evaluator(in_order, new_ops=OPERATORS))
        self.smaller = self.fixed = self.expected = None

    def findings(self, feed, n=1):
        """Return what goes wrong with a feed: the ways, and words for each."""
        stepwise = outcome(self.stepwise, feed)
        if isinstance(stepwise, str) and any(words in stepwise for words in EXCUSED):
            return []
        given, found = outcome(self.given, feed), []
        if not isinstance(given, str) and not isinstance(stepwise, str):
            found = self.compared("steps", stepwise, given, n)
            evaluated = self.evaluated(feed) if found else []
            if (
                found
                and not any(map(has_failed, evaluated))
                and not self.compared("", stepwise, evaluated, n)
            ):
                given, found = "two against one", []
        may_fail = isinstance(given, str)
        self.expected = expected = stepwise if may_fail else given
        for name, running in self.ways.items():
            got = outcome(running, feed)
            is_excused = self.loses_an_error(feed) if not may_fail else name != "session"
            if not (isinstance(got, str) and is_excused):
                found += self.compared(name, got, expected, n, feed)
        for name, changed in self.packed.items():
            found += self.packed_findings(name, changed, self.running[name], feed, expected, may_fail, n)
        tensors = [one for value in feed.values() for one in (value if isinstance(value, list) else [value])]
        if not isinstance(expected, str) and n < 10 and len(tensors) < 20:
            got = self.evaluated(feed)
            if not any(map(has_failed, got)):
                found += self.compared("evaluator", got, expected, n)
        return found

    def refusals(self):
        """What onnxruntime, or onnx, refuses of lowered models, though it takes the given one."""
        notes = [str(one) for one in self.notes if "refuses" in str(one) or "not be valid" in str(one)]
        engines = None if isinstance(self.given, str) else self.session._engines
        all_engines = [engines, *engines._with_axes.values()] if engines else []
        tiers = [tier for one in all_engines for tier in one.compiled.tiers]
        return notes + [tier.declined for tier in tiers if "onnxruntime refuses" in tier.declined]

    def packed_findings(self, name, changed, running, feed, expected, may_fail, n):
        """The same of a model whose sequences go in and out as tensors; only "ragged_io" has checks."""
        inputs, outputs = ([one.name for one in part] for part in (changed.graph.input, changed.graph.output))
        feed_of_tensors = made(lambda: ragged_feed(feed, inputs, self.kinds))
        if isinstance(feed_of_tensors, str):  # no tensor holds elements of several ranks
            return []
        got = outcome(running, feed_of_tensors)
        if isinstance(got, str) and (may_fail or name != "ragged_io" or self.loses_an_error(feed)):
            return []
        if isinstance(expected, str):
            return self.compared(name, got, expected, n, feed) if name == "ragged_io" else []
        packed = made(lambda: ragged_results(expected, self.names, outputs, self.kinds))
        if isinstance(packed, str) or isinstance(got, str):
            return [(name, str(got))] if isinstance(packed, str) != isinstance(got, str) else []
        found, bound = [], max(self.bounds.get(one, 0) for one in self.names)
        for output, a, b in zip(outputs, got, packed, strict=True):
            # Of no element only the type is known.
            empty = isinstance(b, np.ndarray) and not b.size
            if wrong := difference(a, b, bound, 0 if empty else n):
                found.append((name, f"{output}: {wrong}\n{a!r}\nnot\n{b!r}"))
        is_whole = all(isinstance(one, np.ndarray) for one in feed_of_tensors.values())
        if name == "portable" and is_whole and not self.fixed:
            shapes = {name: np.shape(one) for name, one in feed_of_tensors.items()}
            self.fixed = made(lambda: lower(self.model, **PORTABLE, shapes=shapes))
            if not isinstance(self.fixed, str) and not left_in(self.fixed):
                running = made(lambda: session(self.fixed))
                found += self.packed_findings("fixed", self.fixed, running, feed, expected, may_fail, n)
        return found

    def evaluated(self, feed):
        """The evaluator's results, of which those that an error has left unmade are FAILED."""
        found = outcome(self.evaluator, feed)
        return [FAILED] if isinstance(found, str) else found  # it lacks an operator

    def compared(self, name, got, expected, n, feed=None):
        if isinstance(expected, str):
            if isinstance(got, str) or not any(word in expected for word in MINDED):
                return []
            return [(name, f"no error, but expected {expected}")] if self.is_read(feed) else []
        if isinstance(got, str):
            return [(name, got)]
        return [
            (name, f"{output}: {wrong}\n{a!r}\nnot\n{b!r}")
            for output, a, b in zip(self.names, got, expected, strict=True)
            if (wrong := difference(a, b, self.bounds.get(output, 0), n))
        ]

    def loses_an_error(self, feed):
        """Whether onnxruntime fails too, unless it optimizes, and reads no element whose shape it knows."""
        return isinstance(outcome(made(lambda: session(self.model, "DISABLE_ALL")), feed), str)

    def is_read(self, feed):
        """Whether a run still fails without what nobody reads: errors there need not stay."""
        if self.smaller is None:
            copy = onnx.ModelProto()
            copy.CopyFrom(self.model)
            prepared = prepare(*without_weights(copy, None))
            prune(prepared.model)
            smaller = to_message(prepared.model)
            self.smaller = made(lambda: steps_of(smaller)), made(lambda: session(smaller))
        # Of values of which only the shape is read onnxruntime loses them too.
        if not all(isinstance(outcome(one, feed), str) for one in self.smaller):
            return False
        return any(map(has_failed, self.evaluated(feed)))
