"""Loops that carry lists as tensors: a run fails before one of these gets larger than the limit.

How large they get in each iteration is what onnx's reference evaluator says.
"""

import numpy as np
import pytest
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_loop
from support.models.exported import MODELS
from support.models.sessions import assert_near, by_reference, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines import copied_states
from seqcore.onnx._engines.tiers import Run
from seqcore.onnx._model.loop_parts import parts_of
from seqcore.onnx._model.writing import to_message

pytestmark = pytest.mark.mostly_at_night(5)

# The exported models with such loops, without "class_detections": the evaluator refuses its threshold.
NAMES = (
    *("breadth_first", "finished_beams", "flattened", "replay_memory"),
    *("split_at_marks", "stack_machine", "stitched", "tiles"),
)
# A loop that appends `a` to one list, and `b` to another.
TWO = """
    two (float[8, 4] x, int64 n, float[K] y) => (seq({of_a}) l, seq({of_b}) m) <bool yes = {{1}}> {{
        none = SequenceEmpty ()
        second = {second}
        l, m = Loop (n, yes, none, second) <body = c (int64 i, bool go, seq({of_a}) s, seq({of_b}) t)
                                                  => (bool on, seq({of_a}) u, seq({of_b}) v) {{
            zero = Constant <value = float {{0}}> ()
            first = Constant <value = int64[1] {{0}}> ()
            row = Gather (x, i)
            large = Greater (row, zero)
            at = NonZero (large)
            k = Squeeze (at, first)
            f = Cast <to = 1> (k)
            rows = Gather (x, k)
            {body}
            on = Identity (go)
            u = SequenceInsert ({into}, a)
            v = SequenceInsert (t, b)
        }}>
    }}
"""
ALL = {"trips": "n", "going": "on = Identity (go)"}
WHILE = {
    "trips": "many",
    "going": """one = Constant <value = int64 {1}> ()
        next = Add (i, one)
        is_in = Less (next, n)
        most = ReduceMax <keepdims = 0> (sum)
        limit = Constant <value = float {99}> ()
        is_small = Less (most, limit)
        on = And (is_in, is_small)""",
}
ROWS, NUMBERS = "float[J, 4]", "float[J]"
BODIES = {
    "rows, then positions": ("a = Identity (rows) b = Add (f, zero)", ROWS, NUMBERS),
    "positions, then rows": ("a = Add (zero, f) b = Identity (rows)", NUMBERS, ROWS),
    "as many ones, then rows": ("h = Shape (k) a = ConstantOfShape (h) b = Identity (rows)", NUMBERS, ROWS),
    "ones for rows, then rows": (
        "h = Shape <start = 0, end = 1> (rows) a = ConstantOfShape (h) b = Identity (rows)",
        *(NUMBERS, ROWS),
    ),
    "rows, then one for each": (
        """a = Identity (rows)
        wide = Transpose (rows)
        lengths = Shape (wide)
        last = Constant <value = int64 {-1}> ()
        nrows = Gather (lengths, last)
        vector = Unsqueeze (nrows, first)
        b = Expand (zero, vector)""",
        *(ROWS, NUMBERS),
    ),
    "a sum of rows, then one for each": (
        """wide = Transpose (rows)
        lengths = Shape (wide)
        one = Constant <value = int64 {1}> ()
        nrows = Gather (lengths, one)
        vector = Unsqueeze (nrows, first)
        joined = Concat <axis = 0> (vector)
        ones = ConstantOfShape (joined)
        b = Add (ones, zero)
        a = Add (rows, zero)""",
        *(ROWS, NUMBERS),
    ),
    "rows, then six times as many": (
        "a = Identity (rows) b = Concat <axis = 0> (f, f, f, f, f, f)",
        ROWS,
        NUMBERS,
    ),
    "a row for one, then one for many": (
        """best = ReduceMax <keepdims = 0> (row)
        is_best = Equal (row, best)
        ats = NonZero (is_best)
        p = Squeeze (ats, first)
        a = Gather (x, p)
        q = Cast <to = 1> (p)
        many_f = Concat <axis = 0> (f, f, f, f)
        b = Add (q, many_f)""",
        *(ROWS, NUMBERS),
    ),
    "the last rows alone, then positions": (
        "again = SequenceEmpty () a = Identity (rows) b = Add (f, zero)",
        *(ROWS, NUMBERS, "again"),
    ),
}
# A loop that reads the list that it appends to, which has something at first.
SUMS = """
    sums (float[8, 4] x, int64 n, float[M, 4] y) => (seq(float[4]) l)
    <bool yes = {{1}}, int64 many = {{9223372036854775807}}> {{
        first = SplitToSequence <keepdims = 0> (y)
        l = Loop ({trips}, yes, first) <body = b (int64 i, bool go, seq(float[4]) s)
                                         => (bool on, seq(float[4]) t) {{
            two = Constant <value = int64 {{2}}> ()
            length = SequenceLength (s)
            half = Div (length, two)
            former = SequenceAt (s, half)
            row = Gather (x, i)
            sum = Add (row, former)
            {going}
            {made}
        }}>
    }}
"""
EACH = "t = SequenceInsert (s, sum)"
BRANCH = """
    zero = Constant <value = float {0}> ()
    total = ReduceSum <keepdims = 0> (row)
    c = Less (total, zero)
    t = If (c) <then_branch = d () => (seq(float[4]) w) { w = SequenceInsert (s, sum) },
                else_branch = e () => (seq(float[4]) q) {
                    p = SequenceInsert (s, sum)
                    q = SequenceInsert (p, sum)
                }>
"""
# A loop that appends to a list which another loop inside gets, most often for no iteration.
INSIDE = """
    inside (float[8, 4] x, int64 n, int64 m, float[M, 4] y) => (seq(float[J, 4]) l) <bool yes = {1}> {
        none = SequenceEmpty ()
        l = Loop (n, yes, none) <body = b (int64 i, bool go, seq(float[J, 4]) s)
                                  => (bool on, seq(float[J, 4]) t) {
            on = Identity (go)
            zero = Constant <value = int64 {0}> ()
            k = NonZero (x)
            rows = Gather (y, k)
            first = Gather (rows, zero)
            more = SequenceInsert (s, first)
            t = Loop (m, yes, more) <body = c (int64 j, bool go2, seq(float[J, 4]) u)
                                         => (bool on2, seq(float[J, 4]) v) {
                on2 = Identity (go2)
                v = SequenceInsert (u, first)
            }>
        }>
    }
"""


@pytest.fixture
def sizes(monkeypatch):
    """How many numbers a value has at most at the end of an iteration, by its name."""
    found = {}
    make = op_loop.Loop.__init__

    def make_counting(self, *arguments):
        make(self, *arguments)
        run = self._run_body

        def run_counted(*arguments, **options):
            outputs = run(*arguments, **options)
            for name, value in zip(self.body.output_names, outputs, strict=True):
                found[name] = max(found.get(name, 0), np.size(value))
            return outputs

        self._run_body = run_counted

    monkeypatch.setattr(op_loop.Loop, "__init__", make_counting)
    return found


def attempted(given, feed):
    """Return the engines of a new session, their model of tensors, its results, and what it was fed."""
    engines = InferenceSession(given, compile="load")._engines
    tier, run = engines.compiled.tier("tensors"), Run(engines.interface, None, feed, None)
    return engines, tier, tier.attempt(run), tier.made.feed_of(run)


def check(given, feed, sizes, monkeypatch):
    """Return how large they get, having checked with lower limits, where a session runs otherwise then."""
    engines, tier, expected, tensors = attempted(given, feed)
    assert tier.made.may_be_long
    prepared = tier.made.prepared
    ReferenceEvaluator(to_message(prepared.model.copy())).run(None, tensors)
    of_given = {name for graph in engines.prepared.model.graph.all_graphs() for name in graph.inputs}
    loops = [parts_of(node) for node in prepared.model.graph.all_nodes() if node.is_op("Loop")]
    states = [one for loop in loops for one in copied_states._large_states(loop, of_given, prepared)]
    largest = max(sizes.get(one.after, 0) for one in states)
    assert largest > 1
    for most in (largest - 1, largest // 2, 1):
        monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", most)
        engines, tier, results, _ = attempted(given, feed)
        assert (results, tier.failures) == (None, 1), most
    if isinstance(given, ModelProto):
        assert_near(expected, by_reference(given, feed))
    listed = [one if isinstance(one, np.ndarray) else list(one) for one in expected]
    assert_near(engines.run(None, feed, None), listed)
    return largest


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("n", [8, 17])
def test_exported_models(name, n, sizes, monkeypatch):
    check(MODELS[name].path, MODELS[name].example(n), sizes, monkeypatch)


@pytest.mark.parametrize("kind", BODIES)
@pytest.mark.parametrize("second", ["SequenceEmpty ()", "SplitToSequence (y)"])
def test_two_lists(second, kind, sizes, monkeypatch):
    body, of_a, of_b, *into = BODIES[kind]
    if of_b == ROWS:
        second = second.replace("(y)", "(x)")
    given = model(TWO.format(body=body, of_a=of_a, of_b=of_b, into=into[0] if into else "s", second=second))
    feed = {"x": np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32), "n": i64(8)}
    check(given, feed | {"y": np.ones(99, np.float32)}, sizes, monkeypatch)


@pytest.mark.parametrize("made", [EACH, BRANCH], ids=["each", "branch"])
@pytest.mark.parametrize("words", [ALL, WHILE], ids=["all", "while"])
@pytest.mark.parametrize("nrows", [1, 40])
def test_lists_that_are_read(nrows, words, made, sizes, monkeypatch):
    x = np.random.default_rng(1).random((8, 4)).astype(np.float32)
    feed = {"x": x, "n": i64(8), "y": np.ones((nrows, 4), np.float32)}
    given = model(SUMS.format(made=made, **words))
    largest = check(given, feed, sizes, monkeypatch)
    if made is EACH:
        monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", largest)
        assert attempted(given, feed)[2] is not None


def test_a_loop_inside_without_iterations(sizes, monkeypatch):
    x = np.ones((8, 4), np.float32)
    check(
        model(INSIDE),
        {"x": x, "n": i64(8), "m": i64(0), "y": np.ones((8, 4), np.float32)},
        sizes,
        monkeypatch,
    )
