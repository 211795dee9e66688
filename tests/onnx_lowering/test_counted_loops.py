"""Loops that go on while a counter is below a limit, drawn, beside onnxruntime with the given model."""

import itertools

import numpy as np
import onnx
import pytest
from support.models.lowering import all_nodes, assert_same
from support.models.sessions import model, reference

from seqcore.onnx import InferenceSession, lower

MIRRORED = {"Less": "Greater", "LessOrEqual": "GreaterOrEqual"}
MIRRORED |= {after: before for before, after in MIRRORED.items()}
DENIED = {"Less": "GreaterOrEqual", "LessOrEqual": "Greater"}
DENIED |= {after: before for before, after in DENIED.items()}


class Drawn:
    """A loop that compares a counter with a limit, in one of many ways to write that."""

    def __init__(self, random):
        self.pick = lambda *options: options[random.integers(len(options))]
        self.step = self.pick(-3, -1, 1, 1, 2)
        self.start = self.pick("zero", "s")
        self.number = itertools.count()

    def fresh(self):
        return f"v{next(self.number)}"

    def as_float(self, name):
        made = self.fresh()
        return made, f"{made} = Cast <to = 1> ({name})"

    def comparison(self, counter, limit, op_type):
        """Nodes of a condition, which says that a counter has not come to a limit."""
        lines, sides = [], [counter, limit]
        if self.pick(0, 1):
            made = [self.as_float(name) for name in sides]
            sides, lines = [name for name, _ in made], [line for _, line in made]
        if self.pick(0, 1):
            sides, op_type = sides[::-1], MIRRORED[op_type]
        is_denied, condition = self.pick(0, 0, 1), self.fresh()
        lines.append(f"{condition} = {DENIED[op_type] if is_denied else op_type} ({', '.join(sides)})")
        if is_denied:
            lines.append(f"{condition}n = Not ({condition})")
            condition += "n"
        return condition, lines

    def limit(self):
        """A limit, and nodes that make it in each iteration, or before."""
        made = self.fresh()
        return self.pick(
            ("n", []),
            ("m", []),
            ("five", []),
            (made, [f"{made} = Cast <to = 7> (k)"]),
            (made, [f"{made}s = Shape (x)", f"{made} = Gather ({made}s, zero)"]),
            (
                made,
                [f"{made}s = Shape (x)", f"{made}g = Gather ({made}s, zero)", f"{made} = Sub ({made}g, one)"],
            ),
        )

    def text(self):
        """A model: its loop counts by `step`, and stops at a limit of its counter, or at one of two."""
        counter, before = self.pick(("j2", self.start), ("j3", "start"))
        op_type = (
            self.pick("Less", "LessOrEqual") if self.step > 0 else self.pick("Greater", "GreaterOrEqual")
        )
        limit, inside = self.limit()
        condition, lines = self.comparison(counter, limit, op_type)
        inside += lines
        outside = []
        if limit == "m":
            first_limit = "n"
        elif limit in ("n", "five"):
            first_limit = limit
        else:
            outside, first_limit = (
                [line.replace("v", "w") for line in inside[: -len(lines)]],
                limit.replace("v", "w"),
            )
        first, lines = self.comparison(before, first_limit, op_type)
        outside += lines
        first = self.pick(first, first, "go", "yes")
        if self.pick(0, 1):
            other, lines = self.comparison("i", "n", "Less")
            inside += [*lines, f"both = And ({condition}, {other})"]
            condition = "both"
        trips = self.pick("most", "n", "", "five")
        return f"""f (float[N] x, int64 n, int32 k, int64 s, bool go) => (int64 last, int64[T] all, int64 l)
            <bool yes = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 five = {{5}},
             int64 step = {{{self.step}}}, int64 most = {{9223372036854775807}}> {{
                list = SequenceConstruct (n, s)
                width = Cast <to = 7> (k)
                start = Add ({self.start}, width)
                l = SequenceLength (list)
                {" ".join(outside)}
                last, m9, all = Loop ({trips}, {first}, {self.start}, n) <body = b
                    (int64 i, bool c, int64 j, int64 m) => (bool on, int64 j2, int64 m2, int64 row) {{
                    j2 = Add (j, step)
                    j3 = Add (width, j2)
                    {" ".join(inside)}
                    on = Identity ({condition})
                    m2 = Identity (m)
                    row = Add (j, i)
                }}>
            }}"""


@pytest.mark.mostly_at_night(2)
@pytest.mark.parametrize("seed", range(60))
def test_counted_loops(seed):
    given = model(Drawn(np.random.default_rng(seed)).text())
    made = lower(given)
    for loop in (node for node in all_nodes(made) if node.op_type == "Loop"):
        body = onnx.helper.get_node_attr_value(loop, "body")
        assert body.output[0].name == body.input[1].name
    one, other, ours = reference(given), reference(made), InferenceSession(given)
    random = np.random.default_rng(seed)
    for n in (-2, 0, 1, 2, 5, 9):
        feed = {
            "x": np.ones(max(n, 0), np.float32),
            "n": np.array(n),
            "k": np.array(random.integers(-2, 7), np.int32),
            "s": np.array(random.integers(-3, 7)),
            "go": np.array(bool(random.integers(2))),
        }
        expected = one.run(None, feed)
        assert_same(other.run(None, feed), expected)
        assert_same(ours.run(None, feed), expected)


@pytest.mark.parametrize("op_type", MIRRORED)
def test_limits_as_large_as_integers_get(op_type):
    """`while i <= limit` has no limit where that is the largest integer, which counters may come near."""
    most = 2**63 - 1
    limits = (most, most - 1, -most - 1, 2**62, -(2**62), 3)
    ways = ((0, 1), (-5, 3), (0, -1), (most - 3, 1), (3 - most, -1), (2**62, 2**61))
    random = np.random.default_rng(1)
    # A limit of at least 0 is known not to be negative, and may be as large.
    for limit, (start, step), is_fed, least in itertools.product(limits, ways, (True, False), (-most - 1, 0)):
        if random.integers(8):
            continue
        given = model(f"""f ({"int64 limit" if is_fed else ""}) => (int64 last, int64[T] all)
            <bool yes = {{1}}, int64 start = {{{start}}}, int64 step = {{{step}}}, int64 seven = {{7}}
             , int64 least = {{{least}}} {"" if is_fed else f", int64 limit = {{{limit}}}"}> {{
                list = SequenceConstruct (seven)
                length = SequenceLength (list)
                top = Max (limit, least)
                last, all = Loop (seven, yes, start) <body = b (int64 i, bool c, int64 j) =>
                    (bool on, int64 j2, int64 row) {{
                    j2 = Add (j, step) on = {op_type} (j2, top) row = Add (i, length)
                }}>
            }}""")
        feed = {"limit": np.array(limit)} if is_fed else {}
        expected = reference(given).run(None, feed)
        for found in (reference(lower(given)).run(None, feed), InferenceSession(given).run(None, feed)):
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=str((limit, start, step, is_fed, least)))


def test_limits_that_may_not_be_there():
    """A limit that fails to be made fails in the first iteration, if there is one."""
    given = model("""f (int64[N] limits, int64 most) => (int64 last, int64 n)
        <bool on = {1}, int64 zero = {0}, int64 one = {1}> {
            list = SequenceConstruct (one) n = SequenceLength (list)
            last = Loop (most, on, zero) <body = b (int64 i, bool c, int64 j) => (bool go, int64 j2) {
                limit = Gather (limits, zero) j2 = Add (j, one) go = Less (j2, limit) }>
        }""")
    for limits, most in (([3], 9), ([], 0)):
        feed = {"limits": np.array(limits, np.int64), "most": np.array(most)}
        assert reference(lower(given)).run(None, feed) == reference(given).run(None, feed)


def test_differences_of_large_numbers():
    """A loop over times in nanoseconds, above 2**60, runs as often as their difference says."""
    given = model("""f (int64 begin, int64 end) => (int64 last, seq(int64) times)
        <int64 step = {1000}, int64 most = {70}> {
            go = Less (begin, end)
            none = SequenceEmpty <dtype = 7> ()
            last, times = Loop (most, go, begin, none) <body = b (int64 i, bool c, int64 t, seq(int64) l) =>
                (bool on, int64 t2, seq(int64) l2) {
                t2 = Add (t, step) on = Less (t2, end) l2 = SequenceInsert (l, t)
            }>
        }""")
    now, most = 1_795_780_000_000_000_000, 2**63 - 1
    ends = [(now, now + n) for n in (-1, 0, 1, 5000, 10**6)]
    for begin, end in [*ends, (-most, 5000 - most), (-most, now), (now, -most), (3, most), (most, -most)]:
        feed = {"begin": np.array(begin), "end": np.array(end)}
        expected, whole = reference(given).run(None, feed)
        for ours in (reference(lower(given)), InferenceSession(given, compile="load")):
            last, times = ours.run(None, feed)
            assert (last, len(times)) == (expected, len(whole)), (begin, end)


def test_a_limit_at_the_end_of_a_long_chain():
    """Longer than Python's stack."""
    chain = " ".join(f"p{k + 1} = Add (p{k}, one)" for k in range(1_200))
    given = model(f"""f (int64 p0, int64 most) => (int64 last, seq(int64) times)
        <int64 one = {{1}}, int64 zero = {{0}}, bool yes = {{1}}> {{
            {chain} none = SequenceEmpty <dtype = 7> ()
            last, times = Loop (most, yes, zero, none) <body = b (int64 i, bool c, int64 t, seq(int64) l) =>
                (bool on, int64 t2, seq(int64) l2) {{
                t2 = Add (t, one) on = Less (t2, p1200) l2 = SequenceInsert (l, t)
            }}>
        }}""")
    for ours in (reference(lower(given)), InferenceSession(given, compile="load")):
        last, times = ours.run(None, {"p0": np.array(-1_190), "most": np.array(20)})
        assert (last, len(times)) == (10, 10)


@pytest.mark.parametrize(
    "limit",
    [
        "k = Identity (j2) n = Sub (more, less)",
        "k = Identity (j2) n = Sub (m, w)",
        "k = Add (j2, four) n = Add (m, four)",
        "k = Add (j2, m) n = Identity (b)",
        "k = Add (j2, j2) n = Identity (m)",
        "k = Identity (four) n = Sub (w, j2)",
    ],
)
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_sums_that_wrap_around(dtype, limit):
    """A counter and a limit that the model computes are what its own nodes make of them."""
    given = model(f"""f ({dtype} a, {dtype} b, {dtype} s) => ({dtype} last, seq({dtype}) all)
        <bool on = {{1}}, int64 most = {{9}}, {dtype} four = {{4}}, {dtype} one = {{1}}> {{
            none = SequenceEmpty <dtype = {6 if dtype == "int32" else 7}> ()
            less = Sub (a, four) more = Add (b, four)
            last, m9, w9, all = Loop (most, on, s, a, b, none) <body = g
                (int64 i, bool c, {dtype} j, {dtype} m, {dtype} w, seq({dtype}) l) =>
                (bool go, {dtype} j2, {dtype} m2, {dtype} w2, seq({dtype}) l2) {{
                m2 = Identity (m) w2 = Identity (w) j2 = Add (j, one)
                {limit} go = Less (k, n) l2 = SequenceInsert (l, j)
            }}>
        }}""")
    one, other, ours = reference(given), reference(lower(given)), InferenceSession(given, compile="load")
    assert not [node for node in lower(given).graph.node if node.op_type == "Loop"]
    least, most = np.iinfo(dtype).min, np.iinfo(dtype).max
    starts = (least, -5, 0, most - 1, most)
    ends = (least, least + 2, -4, 0, 2 + most // 2, most)
    for numbers in itertools.product(ends, (*ends, most - 1), starts):
        feed = {name: np.array(number, dtype) for name, number in zip("abs", numbers, strict=True)}
        expected, whole = one.run(None, feed)
        for run in (other.run, ours.run):
            last, found = run(None, feed)
            assert (last, len(found)) == (expected, len(whole)), numbers
