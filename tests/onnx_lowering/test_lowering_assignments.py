"""Loops that assign elements of a list: an erase and an insert at one position are one edit."""

import operator
from random import Random

import numpy as np
import pytest
from support.models.lowering import assert_same, left_in, lowered, ops, outcome, parse, rows, session
from support.models.sessions import AGAIN
from support.random_cases import seeds

from seqcore.onnx import InferenceSession, lower
from seqcore.onnx._lists.trace import terms_of
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights

# `e` is the element before, `g` the one that is assigned; MADE and AT say how and where.
LOOP = """g (float[N, 4] x, int64[K] at, int64 n) => (float[A, 4] y, int64 m)
    <bool yes = {1}, int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64[1] ones = {1},
     float[4] half = {0.5, 0.5, 0.5, 0.5}>
    {
        rows = SplitToSequence <keepdims = 0> (x)
        l = Loop (n, yes, rows) <body = b (int64 i, bool c, seq(float[4]) s) => (bool d, seq(float[4]) u) {
            d = Identity (c)
            MADE
            t = SequenceErase (s, AT)
            u = SequenceInsert (t, g, AT)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
        m = SequenceLength (l)
    }"""
OWN = "e = SequenceAt (s, AT) g = Mul (e, half)"
IN_ORDER = {
    "its element": (OWN, "i"),
    "another value": ("g0 = Cast <to = 1> (i) g = Add (g0, half)", "i"),
    "from the second": (f"j = Add (i, one) {OWN}", "j"),
    "of its length": ("e = SequenceLength (s) f = Cast <to = 1> (e) g = Add (f, half)", "i"),
    "a constant": ("g = Identity (half)", "i"),
}
OF_TWO = {"Add": operator.add, "Sub": operator.sub, "Mul": operator.mul}
# Elements that other iterations assigned, or anywhere.
ANYWHERE = {
    "the one before": ("j = Sub (i, one) e = SequenceAt (s, j) g = Mul (e, half)", "i"),
    "the last": ("j = Neg (one) e = SequenceAt (s, j) g = Add (e, half)", "i"),
    "the second again": (OWN, "one"),
    "at a position that is fed": (f"p = Gather (at, i) {OWN}", "p"),
    "at an even position": (f"p = Mul (i, two) {OWN}", "p"),
    "in each other iteration": (f"p = Mod (i, two) {OWN}", "p"),
    "twice at each": (f"p = Div (i, two) {OWN}", "p"),
    "at the largest": (f"w = SequenceAt (s, zero) p = ArgMax <keepdims = 0> (w) {OWN}", "p"),
    "at the second largest": (
        f"w = SequenceAt (s, zero) o = Reshape (two, ones) v, f = TopK (w, o) p = Gather (f, one) {OWN}",
        "p",
    ),
    "in a range": (f"r = Range (zero, two, one) o = Mod (i, two) p = Gather (r, o) {OWN}", "p"),
    "in a range from below": (f"j = Neg (one) r = Range (j, two, one) p = Gather (r, zero) {OWN}", "p"),
    "in a range to below": (f"j = Neg (two) r = Range (zero, j, j) p = Gather (r, zero) {OWN}", "p"),
    "at its length - 1": (f"m0 = SequenceLength (s) p = Sub (m0, one) {OWN}", "p"),
    "at its length - 2": (f"m0 = SequenceLength (s) p = Sub (m0, two) {OWN}", "p"),
    "from the back": (f"j = Neg (i) p = Sub (j, one) {OWN}", "p"),
    "from the back by a remainder": (f"j = Neg (two) p = Mod (i, j) {OWN}", "p"),
}
# Of those, where a run may tell that the position is from the back.
FROM_THE_BACK = {
    "at a position that is fed",
    "at its length - 2",
    "from the back",
    "from the back by a remainder",
    "in a range from below",
    "in a range to below",
}


def text_of(made, at):
    return LOOP.replace("MADE", made).replace("AT", at)


def feeds_of_rows():
    for k, n in ((4, 0), (4, 1), (4, 4), (4, 5), (1, 1), (1, 2), (0, 0), (3, 2), (530, 520)):
        positions = np.random.default_rng(k).integers(-k, max(k, 1), n + 1)
        yield {"x": rows(k), "at": positions, "n": np.array(n)}


def check(text, feeds=None):
    model = parse(text)
    before, after = session(model), session(lowered(model))
    ours = InferenceSession(model)
    inputs = [one.name for one in model.graph.input]
    for feed in feeds or feeds_of_rows():
        used = {name: feed[name] for name in inputs}
        expected = outcome(before, used)
        assert_same(expected, outcome(after, used))
        for _ in range(AGAIN):
            assert_same(expected, outcome(ours, used))


@pytest.mark.parametrize("kind", IN_ORDER)
def test_in_order(kind):
    """Then the elements are a scan output, and all of them are made at once."""
    text = text_of(*IN_ORDER[kind])
    check(text)
    assert left_in(lowered(parse(text), packs=False)) == []
    assert "Loop" not in [node.op_type for node in lower(parse(text)).graph.node]


@pytest.mark.parametrize("kind", ANYWHERE)
def test_of_rows_it_is_one_operator(kind):
    """Unless the position may be from the back: there an insert counts one element less."""
    text = text_of(*ANYWHERE[kind])
    assert ("ScatterND" in ops(lowered(parse(text)))) is (kind not in FROM_THE_BACK)
    check(text)


def test_elements_of_several_lengths():
    text = """g (float[N, 4] x, int64[K] lengths, int64 n) => (float[A, 4] y)
        <bool yes = {1}, int64 two = {2}, int64[1] one = {1}, int64[1] zero = {0}> {
            parts = SplitToSequence (x, lengths)
            l = Loop (n, yes, parts) <body = b (int64 i, bool c, seq(float[B, 4]) s)
                                           => (bool d, seq(float[D, 4]) u) {
                d = Identity (c) p = Mod (i, two) e = SequenceAt (s, p) g = Concat <axis = 0> (e, e)
                t = SequenceErase (s, p) u = SequenceInsert (t, g, p)
            }>
            y = ConcatFromSequence <axis = 0> (l)
        }"""
    lengths = np.array([1, 2, 3])
    check(text, [{"x": rows(6), "lengths": lengths, "n": np.array(n)} for n in range(5)])
    assert left_in(lowered(parse(text))) == []


@pytest.mark.parametrize("second", ["zero", "one"])
def test_two_positions(second):
    """An insert at another position isn't an assignment."""
    check(text_of(OWN, "i").replace("u = SequenceInsert (t, g, i)", f"u = SequenceInsert (t, g, {second})"))


# A condition of the position p → the branch in which p is assigned, and whether it isn't negative there.
ASKED = {
    "Less (p, zero)": ("else", True),
    "GreaterOrEqual (p, zero)": ("then", True),
    "Greater (p, minus)": ("then", True),
    "LessOrEqual (p, minus)": ("else", True),
    "Not (less)": ("then", True),
    "Cast <to = 9> (less)": ("else", True),
    "Less (p, minus)": ("else", False),
    "GreaterOrEqual (p, minus)": ("then", False),
    "Greater (zero, p)": ("else", False),
    "Less (p, one)": ("then", False),
    "Equal (p, zero)": ("else", False),
}


@pytest.mark.parametrize("asked", ASKED)
def test_positions_that_a_branch_has_asked_for(asked):
    """A search that finds nothing gives -1, and only what it finds is assigned."""
    branch, is_known = ASKED[asked]
    other = {"then": "else", "else": "then"}[branch]
    text = f"""g (float[N, 4] x, int64[M] at, int64 n) => (float[A, 4] y)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 minus = {{-1}}, int64 one = {{1}}> {{
            s0 = SplitToSequence <keepdims = 0> (x)
            l = Loop (n, yes, s0) <body = b (int64 i, bool c, seq(float[4]) s) => (bool d, seq(float[4]) v) {{
                d = Identity (c) p = Gather (at, i) less = Less (p, zero) is_so = {asked}
                v = If (is_so) <
                    {branch}_branch = k () => (seq(float[4]) u) {{
                        e = SequenceAt (s, p) f = Neg (e) t = SequenceErase (s, p)
                        u = SequenceInsert (t, f, p)
                    }},
                    {other}_branch = m () => (seq(float[4]) w) {{ w = Identity (s) }}>
            }}>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
        }}"""
    assert ("ScatterND" in ops(lowered(parse(text)))) is is_known
    check(text)


def test_a_reader_between():
    text = text_of(OWN, "i").replace("d = Identity (c)", "")
    check(text.replace("u = S", "w = SequenceLength (t) d0 = Less (w, n) d = Or (d0, c) u = S"))


@pytest.mark.parametrize(
    ("node", "n"), [("Add (p{0}, zero)", 1_200), ("Squeeze (p{0})", 1_200), ("Add (p{0}, p{0})", 40)]
)
def test_a_position_at_the_end_of_a_long_chain(node, n):
    """Longer than Python's stack, and with more ways through it than could be followed."""
    chain = " ".join(f"p{k + 1} = {node.format(k)}" for k in range(n))
    text = f"""g (float[N, 4] x, int64 p0) => (float[4] y, float[M, 4] z)
    <int64 zero = {{0}}, int64 two = {{2}}, bool yes = {{1}}> {{
        rows = SplitToSequence <keepdims = 0> (x) {chain} y = SequenceAt (rows, p{n})
        more = Loop (two, yes, rows) <body = b (int64 i, bool c, seq(float[4]) s)
                                            => (bool c, seq(float[4]) t) {{
            e = SequenceAt (s, p{n}) t = SequenceInsert (s, e, p{n})
        }}>
        z = ConcatFromSequence <axis = 0, new_axis = 1> (more)
    }}"""
    model, feed = parse(text), {"x": rows(3), "p0": np.array(0)}
    for running in (session(lower(model)), InferenceSession(model, compile="load")):
        y, z = running.run(None, feed)
        np.testing.assert_array_equal(y, rows(3)[0])
        np.testing.assert_array_equal(z, rows(3)[[0, 0, 0, 1, 2]])


@pytest.mark.parametrize("seed", seeds(20, 200))
def test_positions_are_sums(seed):
    """What a position is known to be is what it is computed to be."""
    random = Random(seed)
    values, nodes = {"n": 1_009, "m": 10_007, "none": 0, "one": 1, "two": 2}, []
    for k in range(8):
        name, (a, b) = random.choice([*OF_TWO]), random.choices([*values], k=2)
        values[f"p{k}"] = OF_TWO[name](values[a], values[b])
        nodes.append(f"p{k} = {name} ({a}, {b})")
    outputs = ", ".join(f"int64 {name}" for name in values if name not in ("n", "one", "two"))
    text = f"""g (seq(float[4]) s, int64 n) => ({outputs}) <int64 one = {{1}}, int64 two = {{2}}> {{
        m = SequenceLength (s) none = Sub (n, n) {" ".join(nodes)}
    }}"""
    prepared = prepare(*without_weights(parse(text), None, None))
    for name, value in values.items():
        if (terms := terms_of(prepared, name)) is not None:
            parts = {"": 1, "n": values["n"], "s": values["m"]}
            assert sum(factor * parts[one] for one, factor in terms.items()) == value
