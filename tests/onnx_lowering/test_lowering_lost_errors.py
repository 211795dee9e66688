"""Models whose only fault is in an element that nobody reads: lowered, they fail as they did.

Each list is made of `good` and of `bad`, whose making is an error where the feed says so, and only `good`, or
the number of elements, is read.
"""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models.lowering import SEQUENCE_OPS, assert_same, left_in, outcome, parse, rows, session  # noqa: E402

from seqcore.onnx import InferenceSession  # noqa: E402
from seqcore.onnx.lowering import lower_with_report  # noqa: E402

pytestmark = pytest.mark.mostly_slow(11)

HEAD = """g (float[3, 4] x, int64 k, int64[K] at, int64[L] lens, bool c, int64 n) => ({out} y)
<bool yes = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 back = {{-1}}, int64 three = {{3}}>
"""
# How `bad`, a row of x, is made, and what is fed so that it is an error.
FAULTS = {
    "a position": ("bad = Gather(x, k)", {"k": 3}),
    "a position before": ("bad0 = Gather(x, k) bad = Neg(bad0)", {"k": -4}),
    "a position in a list": (
        "parts = SplitToSequence<keepdims = 0>(x) bad = SequenceAt(parts, k)",
        {"k": 3},
    ),
    "a split": (
        "parts = SplitToSequence(x, lens) part = SequenceAt(parts, zero) "
        "bad = ReduceSum<keepdims = 0>(part, only)",
        {"lens": [1, 1]},
    ),
    "a join": (
        """some = SequenceConstruct(x, x) part = Slice(x, start, lens) both = SequenceInsert(some, part)
        all = ConcatFromSequence<axis = 1>(both) cut = Slice(all, start, four, only1)
        bad = Gather(cut, zero)""",
        {"lens": [2]},
    ),
    "a branch": (
        """bad = If(c) <then_branch = t () => (float[4] p) { p = Gather(x, k) },
                       else_branch = e () => (float[4] q) { q = Gather(x, zero) }>""",
        {"k": 3},
    ),
}
# Lists that are made of both, and what is read of them.
LISTS = {
    "the other": ("l = SequenceConstruct(good, bad)", "y = SequenceAt(l, zero)"),
    "the other, behind it": ("l = SequenceConstruct(bad, good)", "y = SequenceAt(l, back)"),
    "the other of three": ("l = SequenceConstruct(good, bad, good)", "y = SequenceAt(l, zero)"),
    "the number": ("l = SequenceConstruct(good, bad)", "y = SequenceLength(l)"),
    "what was put in front": (
        "l0 = SequenceConstruct(good, good) l = SequenceInsert(l0, bad, zero)",
        "y = SequenceAt(l, one)",
    ),
    "what was put behind": (
        "e = SequenceEmpty() l0 = SequenceInsert(e, good) l = SequenceInsert(l0, bad)",
        "y = SequenceAt(l, zero)",
    ),
    "what was taken out": (
        "l0 = SequenceConstruct(bad, good) l = SequenceErase(l0, zero)",
        "y = SequenceAt(l, zero)",
    ),
    "what was taken out behind": (
        "l0 = SequenceConstruct(good, bad) l = SequenceErase(l0)",
        "y = SequenceLength(l)",
    ),
    "where a run says": ("l = SequenceConstruct(good, bad)", "y = SequenceAt(l, n)"),
    "a list that rounds hand on": (
        """s0 = SequenceConstruct(good, bad)
        l = Loop(n, yes, s0) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) h = SequenceAt(s, zero) h2 = Neg(h) t0 = SequenceErase(s, zero)
            t = SequenceInsert(t0, h2, zero)
        }>""",
        "y = SequenceAt(l, zero)",
    ),
    "what was taken out of a list that rounds hand on": (
        """l0 = SequenceConstruct(bad, good, good) s0 = SequenceErase(l0, zero)
        l = Loop(n, yes, s0) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) h = SequenceAt(s, zero) h2 = Neg(h) t0 = SequenceErase(s, zero)
            t = SequenceInsert(t0, h2, zero)
        }>""",
        "y = SequenceAt(l, zero)",
    ),
    "a list that a branch makes": (
        """l = If(yes) <then_branch = t () => (seq(float[4]) p) { p = SequenceConstruct(good, bad) },
                       else_branch = e () => (seq(float[4]) q) { q = SequenceConstruct(good, good) }>""",
        "y = SequenceAt(l, zero)",
    ),
    "behind a loop": (
        """e = SequenceEmpty()
        l0 = Loop(three, yes, e) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) h = Gather(x, i) t = SequenceInsert(s, h)
        }>
        l = SequenceInsert(l0, bad)""",
        "y = SequenceAt(l, one)",
    ),
    "in front of a split": (
        "r = SplitToSequence<keepdims = 0>(x) l = SequenceInsert(r, bad, zero)",
        "y = SequenceAt(l, one)",
    ),
    "behind a split": (
        "r = SplitToSequence<keepdims = 0>(x) l = SequenceInsert(r, bad)",
        "y = SequenceLength(l)",
    ),
    "the number, and an element in a branch": (
        """r = SplitToSequence<keepdims = 0>(x) l = SequenceInsert(r, bad)
        v = If(c) <then_branch = t () => (float[4] u) { u = Neg(good) },
                   else_branch = e () => (float[4] w) { w = SequenceAt(l, zero) }>""",
        "m = SequenceLength(l) f = Cast<to = 1>(m) y = Add(v, f)",
    ),
    "what a loop starts with": (
        """s0 = SequenceConstruct(bad, good)
        l = Loop(three, yes, s0) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) h = Gather(x, i) t = SequenceInsert(s, h)
        }>""",
        "y = SequenceAt(l, back)",
    ),
    "in each round": (
        """y = Loop(three, yes, good) <body = b (int64 i, bool g, float[4] s) => (bool g2, float[4] t) {
            g2 = Identity(g) in_b = Gather(x, k) l = SequenceConstruct(s, in_b, bad) h = SequenceAt(l, zero)
            t = Neg(h)
        }>""",
        "",
    ),
}
# Where a round, or an element of a map, fails that nobody reads: the second of three, by `at`.
ROUNDS = {
    "a round": """e = SequenceEmpty()
        l = Loop(three, yes, e) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) p = Gather(at, i) h = Gather(x, p) t = SequenceInsert(s, h)
        }>""",
    "a round that puts in front": """e = SequenceEmpty()
        l = Loop(three, yes, e) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) p = Gather(at, i) h = Gather(x, p) t = SequenceInsert(s, h, zero)
        }>""",
    "a round of two": """e = SequenceEmpty()
        l = Loop(three, yes, e) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) p = Gather(at, i) h = Gather(x, p) o = Gather(x, i)
            t0 = SequenceInsert(s, o) t = SequenceInsert(t0, h)
        }>""",
    "a round under a condition": """e = SequenceEmpty()
        l = Loop(three, yes, e) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) p = Gather(at, i) h = Gather(x, p)
            t = If(yes) <then_branch = a () => (seq(float[4]) u) { u = SequenceInsert(s, h) },
                         else_branch = d () => (seq(float[4]) v) { v = Identity(s) }>
        }>""",
    "a map": """r = SplitToSequence<keepdims = 0>(at)
        l = SequenceMap(r) <body = b (int64 p) => (float[4] h) { h = Gather(x, p) }>""",
    "a map of two outputs": """r = SplitToSequence<keepdims = 0>(at)
        l, o = SequenceMap(r) <body = b (int64 p) => (float[4] h, int64 q) { h = Gather(x, p) q = Neg(p) }>
        z = SequenceAt(o, zero)""",
    "a list edited in rounds": """l = Loop(three, yes, first) <body = b (int64 i, bool g, seq(float[4]) s)
                                                                  => (bool g2, seq(float[4]) t) {
            g2 = Identity(g) p = Gather(at, i) h = Gather(x, i)
            t0 = SequenceInsert(s, h) t = SequenceErase(t0, p)
        }>""",
}
READS = {
    "first": ("y = SequenceAt(l, zero)", "float[A]"),
    "last": ("y = SequenceAt(l, back)", "float[A]"),
    "number": ("y = SequenceLength(l)", "int64"),
}
GOOD = {"k": 2, "at": [0, 2, 1], "lens": [1, 2], "c": True, "n": 0}


def ways_of(model):
    """The model as it is lowered for each kind of runtime, loops as loops, and as one operator."""
    has_loops = any(node.op_type in ("Loop", "SequenceMap") for node in model.graph.node)
    for packs, vectorises in ((False, False), (True, has_loops)):
        yield lower_with_report(model, packs=packs, vectorises=vectorises)[0]


def feed_of(**other):
    feed = {"x": rows(3), **{name: np.array(value) for name, value in {**GOOD, **other}.items()}}
    return feed


def check(model, good, bad, said=r"(?i)gather|indices|position|split|dimension|differ|shape"):
    """A model, each lowered one and our session give the same of one feed, and fail with the other."""
    used = {value.name for value in model.graph.input}
    good, bad = ({name: value for name, value in feed.items() if name in used} for feed in (good, bad))
    before = session(model)
    expected = outcome(before, good)
    assert expected is not None
    assert outcome(before, bad) is None
    for lowered in ways_of(model):
        now = session(lowered)
        assert_same(expected, outcome(now, good))
        assert outcome(now, bad) is None, left_in(lowered)
    ours = InferenceSession(model)
    for _ in range(2):
        assert_same(expected, ours.run(None, good))
        with pytest.raises(Exception, match=said):
            ours.run(None, bad)


def text_of(out, *code):
    code = " ".join(code)
    extra = ", ".join(
        f"int64[1] {name} = {{{value}}}"
        for name, value in (("only", 0), ("only1", 1), ("start", 0), ("four", 4))
        if name in code
    )
    head = HEAD.format(out=out)
    return (head.rstrip()[:-1] + ", " + extra + ">\n" if extra else head) + "{" + code + "}"


# Each list with an error of a position and one of another kind in turn; with all others where time is.
TURNS = {(kind, list(FAULTS)[i]) for k, kind in enumerate(LISTS) for i in (0, 1 + k % (len(FAULTS) - 1))}
ALL = [
    pytest.param(kind, fault, marks=() if (kind, fault) in TURNS else pytest.mark.slow)
    for kind in LISTS
    for fault in FAULTS
]


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize(("kind", "fault"), ALL)
def test_an_element_that_nobody_reads(kind, fault):
    make, wrong = FAULTS[fault]
    made, read = LISTS[kind]
    out = "int64" if read.startswith("y = SequenceLength") else "float[A]"
    model = parse(text_of(out, "good = Gather(x, zero)", make, made, read))
    good = {"lens": [3]} if fault == "a join" else {}
    check(model, feed_of(**good), feed_of(**{**good, **wrong}))


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize("length", ["K", "3"])
@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ROUNDS)
def test_a_round_that_nobody_reads(kind, read, length):
    """Where all lengths are known, a runtime knows all shapes without making anything."""
    code, out = READS[read]
    first = "s1 = Gather(x, zero) first = SequenceConstruct(s1)" * ("first" in ROUNDS[kind])
    model = parse(text_of(out, first, ROUNDS[kind], code))
    model.graph.input[[value.name for value in model.graph.input].index("at")].CopyFrom(
        onnx.helper.make_tensor_value_info(
            "at", onnx.TensorProto.INT64, [int(length) if length == "3" else "K"]
        )
    )
    good = {"at": [0, 0, 1]} if "edited" in kind else {}
    check(model, feed_of(**good), feed_of(at=[0, 3, 1]))


SPLITS = {
    "first": ("y = SequenceAt(l, zero)", "float[A, B]"),
    "last": ("y = SequenceAt(l, back)", "float[A, B]"),
    "number": ("y = SequenceLength(l)", "int64"),
    "shape": ("p = SequenceAt(l, zero) y = Shape(p)", "int64[C]"),
}


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("read", SPLITS)
@pytest.mark.parametrize("lens", [[1, 1], [2, 2], [4], [-1, 4]])
def test_pieces_that_do_not_add_up(lens, read):
    """The piece that is read is there, but the split is an error."""
    code, out = SPLITS[read]
    model = parse(text_of(out, f"l = SplitToSequence(x, lens) {code}"))
    check(model, feed_of(), feed_of(lens=lens))


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("read", SPLITS)
@pytest.mark.parametrize("lens", [[1, 1], [2, 2], [4]])
def test_constant_lengths_that_do_not_add_up(lens, read):
    code, out = SPLITS[read]
    text = text_of(out, f"l = SplitToSequence(x, parts) {code}").replace("float[3, 4] x", "float[M, 4] x")
    parts = ", ".join(map(str, lens))
    model = parse(text.replace("<bool yes", f"<int64[{len(lens)}] parts = {{{parts}}}, bool yes", 1))
    good = feed_of()
    check(model, {**good, "x": rows(sum(lens))}, good)


@pytest.mark.slow
def test_the_lists_here_are_lowered_where_that_keeps_errors():
    """Else these tests would hold two times the same model against itself."""
    gone = 0
    for made, read in LISTS.values():
        out = "int64" if read.startswith("y = SequenceLength") else "float[A]"
        model = parse(text_of(out, "good = Gather(x, zero) bad = Gather(x, one)", made, read))
        gone += not SEQUENCE_OPS.intersection(left_in(lower_with_report(model)[0]))
    assert gone == len(LISTS)


def test_a_loop_of_which_only_a_shape_is_read():
    """It runs in every runtime; as one operator it would be left out where its shape is known."""
    text = """g (float[3, 4] x, int64[3] at) => (int64[2] y, int64 m)
    <bool yes = {1}, int64 three = {3}, int64[2] both = {0, 1}> {
        rows = Loop(three, yes) <body = b (int64 i, bool g) => (bool g2, float[4] h) {
            g2 = Identity(g) p = Gather(at, i) h = Gather(x, p)
        }>
        y = Shape(rows) l = SequenceConstruct(OF) m = SequenceLength(l)
    }"""
    good, bad = feed_of(at=[0, 2, 1]), feed_of(at=[0, 3, 1])
    check(parse(text.replace("OF", "yes, yes")), good, bad)
