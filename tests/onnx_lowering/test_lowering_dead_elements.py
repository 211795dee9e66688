"""Lists with an element that nobody reads: lowered, it isn't made, as other dead nodes, and can't fail.

Each list is made of `good` and of `bad`, whose making is an error where the feed says so, and only `good`, or
the number of elements, is read. What is read stays right, and its own errors stay errors.
"""

import contextlib

import numpy as np
import pytest
from support.models.lowering import SEQUENCE_OPS, assert_same, left_in, outcome, parse, rows, session

from seqcore.onnx import InferenceSession
from seqcore.onnx.lowering import lower_with_report

HEAD = """g (float[3, 4] x, int64 k, int64[K] at, int64[L] lens, bool c, int64 n) => ({out} y)
<bool yes = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 back = {{-1}}, int64 three = {{3}}>
"""
# A list that a loop hands on, and changes in front.
HANDED_ON = """l = Loop(n, , s0) <body = b (int64 i, bool g, seq(float[4]) s) => (bool g, seq(float[4]) t) {
    h = SequenceAt(s, zero) h2 = Neg(h)
    t0 = SequenceErase(s, zero) t = SequenceInsert(t0, h2, zero)
}>"""
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
        f"s0 = SequenceConstruct(good, bad) {HANDED_ON}",
        "y = SequenceAt(l, zero)",
    ),
    "what was taken out of a list that rounds hand on": (
        f"l0 = SequenceConstruct(bad, good, good) s0 = SequenceErase(l0, zero) {HANDED_ON}",
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
    for packs, vectorizes in ((False, False), (True, has_loops)):
        yield lower_with_report(model, packs=packs, vectorizes=vectorizes)[0]


def used_of(model, **other):
    feed = {"x": rows(3), **{name: np.array(value) for name, value in {**GOOD, **other}.items()}}
    names = {value.name for value in model.graph.input}
    return {name: value for name, value in feed.items() if name in names}


def check(model, good, bad):
    """Lowered models and our session give what the model gives of one feed; of the other too, or fail."""
    expected = outcome(session(model), good)
    assert expected is not None
    assert outcome(session(model), bad) is None
    runs = [session(lowered).run for lowered in ways_of(model)] + [InferenceSession(model).run]
    for run in runs:
        assert_same(expected, run(None, good))
        with contextlib.suppress(Exception):
            assert_same(expected, run(None, bad))


def text_of(out, *code):
    return HEAD.format(out=out) + "{" + " ".join(code) + "}"


@pytest.mark.parametrize("kind", LISTS)
def test_an_element_that_nobody_reads(kind):
    made, read = LISTS[kind]
    out = "int64" if read.startswith("y = SequenceLength") else "float[A]"
    model = parse(text_of(out, "good = Gather(x, zero) bad = Gather(x, k)", made, read))
    check(model, used_of(model), used_of(model, k=3))
    assert not SEQUENCE_OPS.intersection(left_in(lower_with_report(model)[0]))


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("kind", ROUNDS)
def test_a_round_that_nobody_reads(kind, read):
    code, out = READS[read]
    first = "s1 = Gather(x, zero) first = SequenceConstruct(s1)" * ("first" in ROUNDS[kind])
    model = parse(text_of(out, first, ROUNDS[kind], code))
    good = {"at": [0, 0, 1]} if "edited" in kind else {}
    check(model, used_of(model, **good), used_of(model, at=[0, 3, 1]))


def check_errors(model, good, bad):
    """Each lowered model and our session fail where the model fails."""
    expected = outcome(session(model), good)
    assert outcome(session(model), bad) is None
    for lowered in ways_of(model):
        assert_same(expected, outcome(session(lowered), good))
        assert outcome(session(lowered), bad) is None, left_in(lowered)
    ours = InferenceSession(model)
    for _ in range(2):
        assert_same(expected, ours.run(None, good))
        with pytest.raises(Exception, match=r"(?i)gather|split|dimension"):
            ours.run(None, bad)


SPLITS = {
    "first": ("y = SequenceAt(l, zero)", "float[A, B]"),
    "last": ("y = SequenceAt(l, back)", "float[A, B]"),
    "number": ("y = SequenceLength(l)", "int64"),
    "shape": ("p = SequenceAt(l, zero) y = Shape(p)", "int64[C]"),
}


@pytest.mark.parametrize("read", SPLITS)
@pytest.mark.parametrize("lens", [[1, 1], [2, 2], [4], [-1, 4]])
def test_pieces_that_do_not_add_up(lens, read):
    """The piece that is read is there, but the split is an error."""
    code, out = SPLITS[read]
    model = parse(text_of(out, f"l = SplitToSequence(x, lens) {code}"))
    check_errors(model, used_of(model), used_of(model, lens=lens))


@pytest.mark.parametrize("read", SPLITS)
@pytest.mark.parametrize("lens", [[1, 1], [2, 2], [4]])
def test_constant_lengths_that_do_not_add_up(lens, read):
    code, out = SPLITS[read]
    text = text_of(out, f"l = SplitToSequence(x, parts) {code}").replace("float[3, 4] x", "float[M, 4] x")
    parts = ", ".join(map(str, lens))
    model = parse(text.replace("<bool yes", f"<int64[{len(lens)}] parts = {{{parts}}}, bool yes", 1))
    good = used_of(model)
    check_errors(model, {**good, "x": rows(sum(lens))}, good)
