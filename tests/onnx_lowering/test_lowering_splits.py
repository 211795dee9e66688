"""seqcore.onnx.lower: splits, and edits of their pieces."""

import re

import numpy as np
import pytest
from support.models.lowering import (
    assert_same,
    check,
    left_in,
    lowered,
    ops,
    outcome,
    parse,
    quick_report,
    rows,
    session,
    unchecked,
)

from seqcore import split_to_sequence
from seqcore.onnx._model.checks import ONNX_DIVIDES
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._thresholds import MOST_WRITTEN_OUT

pytestmark = pytest.mark.mostly_slow(11)

LENGTHS = [0, 1, 2, 5, 6, 7]
TWO, LISTED = "int64 k = {2}", "int64[3] k = {3, 0, 4}"


def split(readers, outs, constants="int64 k = {2}", split="x, k", shape="N, 4", attributes="", inputs=""):
    """A split of x, and what reads the pieces s."""
    return f"""g (float[{shape}] x{inputs}) => ({outs}) <{constants}> {{
        s = SplitToSequence{attributes}({split})
        {readers}
    }}"""


def feeds(lengths=LENGTHS, **more):
    return [{"x": rows(n)} | more for n in lengths]


def positions(kind, lengths=LENGTHS):
    shape = () if kind == "scalar" else (1,)
    return [one | {"p": np.full(shape, p)} for one in feeds(lengths) for p in range(-5, 5)]


AT = "y = SequenceAt(s, p)"


class TestPicking:
    @pytest.mark.parametrize("reads", ["n = SequenceLength(s)", AT, "y = SequenceAt(s, o)"])
    def test_lengths_that_do_not_sum_to_the_axis_fail(self, reads):
        outs = "int64 n" if "Length" in reads else "float[A, B] y"
        constants = f"{LISTED}, int64 o = {{0}}"
        text = split(reads, outs, constants, inputs=", int64 p")
        check(text, positions("scalar"))
        if outs == "float[A, B] y":
            text = text.replace("y = ", "z = ").replace("float[A, B] y", "int64[A] y")
            text = text.replace("    }", "y = Shape(z) }")
            check(text, positions("scalar"))

    def test_keepdims_where_texts_and_onnxruntime_differ(self):
        # So PyTorch exports unbind: onnx infers rows of rank 2, onnxruntime makes them of rank 1, as does
        # what it is lowered to. Of a length that a run brings neither is known.
        text = """g (float[N, 4] x%s) => (float[A] f, float[B, C] y)
        <int64 k = {1}, int64 o = {0}, bool yes = {1}> {
            s = SplitToSequence<keepdims = 0>(x, %s)
            n = SequenceLength(s)
            none = SequenceEmpty()
            l = Loop(n, yes, none)
            <body = b (int64 i, bool c, seq(float[?]) u) => (bool c2, seq(float[?]) t) {
                c2 = Identity(c)
                e = SequenceAt(s, i)
                r = Neg(e)
                t = SequenceInsert(u, r)
            }>
            f = SequenceAt(s, o)
            y = ConcatFromSequence<axis = %d, new_axis = 1>(l)
        }"""
        for inputs, k, axis in (("", "k", 0), (", int64 j", "j", 0), ("", "k", 1), ("", "k", -1)):
            model = unchecked(text % (inputs, k, axis))
            result, notes = quick_report(model)
            assert notes[0].is_lowered is (k == "k")
            assert ("SplitToSequence" in left_in(result)) is (k == "j")
            before, after = session(model), session(result)
            for n in (0, 1, 3):
                feed = {"x": rows(n)} | ({"j": 1} if inputs else {})
                assert_same(outcome(before, feed), outcome(after, feed))
                assert outcome(after, feed) is not None or n == 0

    @pytest.mark.parametrize("dtype", ["float", "int8", "int64", "bool", "string", "float16"])
    @pytest.mark.parametrize("given", ["x", "x, k"])
    @pytest.mark.parametrize(
        "read", ["SequenceAt(s, p)", "SequenceAt(s, k)", "ConcatFromSequence<axis = 1>(s)"]
    )
    def test_types(self, dtype, given, read):
        text = split(f"y = {read}", "float[A, B] y", TWO, given, "6, 4", inputs=", int64 p")
        result = lowered(parse(text.replace("float", dtype)))
        assert left_in(result) == []
        x = rows(6).astype({"float": "f", "double": "d"}.get(dtype, dtype if dtype != "string" else str))
        x = x.astype(object) if dtype == "string" else x
        got = outcome(session(result), {"x": x, "p": np.array(-1)})[0]
        pieces = split_to_sequence(x, 2) if given == "x, k" else split_to_sequence(x)
        want = np.concatenate(list(pieces), 1) if "Concat" in read else pieces[-1 if "p" in read else 2]
        np.testing.assert_array_equal(got, want)

    @pytest.mark.parametrize("shape", ["N, 4", "5, 4"])
    def test_columns_at_constant_positions(self, shape):
        reads = (
            "a = SequenceAt(s, one) b = SequenceAt(s, two) c = SequenceAt(s, one) d = Sub(a, b) y = Mul(d, c)"
        )
        constants = "int64 one = {1}, int64 two = {2}"
        text = split(reads, "float[A] y", constants, "x", shape, "<axis = 1, keepdims = 0>")
        check(text, feeds([5] if shape == "5, 4" else LENGTHS))


class TestJoiningPieces:
    def test_join_of_listed_pieces(self):
        text = split("y = ConcatFromSequence<axis = 0>(s)", "float[A, B] y", LISTED)
        check(text, feeds())
        result, _ = check(text.replace("N, 4", "7, 4"), feeds([7]))
        assert ops(result) == ["Identity"]


STAYS = [
    ("y = Identity(s)", "seq(float[A, B]) y", "it is returned|passes it on"),
    ("t = SequenceErase(s) y = SequenceLength(t)", "int64 y", "erases from it"),
    ("t = SequenceInsert(s, x) y = SequenceLength(t)", "int64 y", "inserts into it"),
    ("y = ConcatFromSequence<axis = 1>(s)", "float[A, B] y", "their shapes may differ"),
    ("y = ConcatFromSequence<axis = 0, new_axis = 1>(s)", "float[A, B, C] y", "their shapes may differ"),
]


@pytest.mark.parametrize(("readers", "outs", "why"), STAYS)
def test_splits_that_stay(readers, outs, why):
    model = parse(split(readers, outs))
    result, notes = quick_report(model)
    assert result == model
    assert re.search(why, str(notes[0]))


@pytest.mark.parametrize(
    ("constants", "shape", "why"),
    [
        pytest.param(
            *("int64 k = {0}, int64 j = {0}", "N, 4", "can't split into lengths of 0"),
            marks=pytest.mark.skipif(ONNX_DIVIDES, reason="the model is not valid, says this onnx"),
        ),
        ("int64[2] k = {3, -1}, int64 j = {0}", "N, 4", r"can't split into lengths of \[3, -1\]"),
        ("int64[2] k = {3, 1}, int64 j = {0}", "5, 4", "don't sum to 5"),
        ("int64 k = {2}, int64 j = {3}", "5, 4", "position 3 at 'y' is out of range for its 3 elements"),
    ],
)
def test_splits_that_always_fail_stay(constants, shape, why):
    model = unchecked(split("y = SequenceAt(s, j)", "float[A, B] y", constants, shape=shape))
    result, notes = quick_report(model)
    assert result == model
    assert re.search(why, str(notes[0]))


def test_a_split_whose_form_is_not_known_stays():
    text = """g (float[N, 4] x, int64[K] k0, int64[R] r) => (float[A, B] y) <int64 z = {0}> {
        k = Reshape(k0, r) s = SplitToSequence(x, k) y = SequenceAt(s, z)
    }"""
    _, notes = quick_report(parse(text))
    assert "one length or a list of them is not known" in str(notes[0])


class TestEditsOfKnownPieces:
    """What is erased or put in at a known place, of pieces of known lengths."""

    def test_in_a_loop(self):
        text = """g (float[6, 4] x, int64 n) => (float[A, 4] y) <int64[3] k = {1, 2, 3}, int64 p = {0}> {
            s = SplitToSequence (x, k)
            first = SequenceErase (s, p)
            last = Loop (n, "", first)
                <body = b (int64 i, bool c, seq(float[]) l) => (bool d, seq(float[]) m) {
                e = SequenceAt (l, p) f = Neg (e) d = Identity (c)
                h = SequenceErase (l, p) m = SequenceInsert (h, f)
            }>
            y = ConcatFromSequence <axis = 0> (last)
        }"""
        check(text, [{"x": rows(6), "n": np.array(n)} for n in range(4)], gone=False)
        assert left_in(lowered(parse(text))) == []


@pytest.mark.parametrize(
    ("reads", "gone"),
    [
        ("y = SequenceAt (parts, i)", True),
        ("y = ConcatFromSequence <axis = 0> (parts)", True),
        (
            "more = SequenceInsert (parts, w) y = ConcatFromSequence <axis = 0> (more)",
            ["ConcatFromSequence", "SequenceInsert", "SplitToSequence"],
        ),
    ],
)
def test_lengths_that_are_all_one(reads, gone):
    """There have to be as many as rows: `repeat_interleave` splits by the shape of another tensor."""
    text = f"""
    f (float[N, 2] x, float[M] v, float[1, 2] w, int64 i) => (float[K, 2] y) {{
        n = Shape (v)
        ones = ConstantOfShape <value = int64[1] {{1}}> (n)
        parts = SplitToSequence <axis = 0> (x, ones)
        {reads}
    }}"""
    w = np.ones((1, 2), np.float32)
    cases = [(3, 3, 1), (3, 3, -1), (3, 3, 5), (3, 2, 0), (2, 3, 0), (1, 1, 0)]
    check(
        text,
        [{"x": rows(n, 2), "v": np.zeros(m, np.float32), "w": w, "i": i} for n, m, i in cases],
        gone=gone,
    )


@pytest.mark.parametrize(
    ("given", "nodes", "known"),
    [
        ("float[2, 4]", "k = Shape (w)", (2, None)),
        ("float[3, 3]", "k = Shape (w)", (2, 3)),
        ("float[N, 4]", "n = Shape <start = 1> (w) k = Expand (n, three)", (3, 4)),
    ],
)
def test_lengths_of_a_shape(given, nodes, known):
    """How many pieces there are is known, and their length. The numbers that are split are no lengths."""
    text = f"""g ({given} w, float[1, 5, 1, 4, 1, 3] v) => (seq(int64[A]) s) <int64[1] three = {{3}}> {{
        x = Shape (v) {nodes} s = SplitToSequence (x, k)
    }}"""
    pieces = prepare(*without_weights(parse(text), None, None)).type("s")
    assert (pieces.count, *pieces.shape) == known


def test_a_sum_over_the_lengths_of_a_split():
    """The loop stacks nothing; a split that doesn't add up fails still."""
    given = parse("""g (float[N] x, int64[L] lengths) => (int64 total) <bool yes = {1}, int64 zero = {0}> {
        parts = SplitToSequence <axis = 0> (x, lengths)
        n = SequenceLength (parts)
        total = Loop (n, yes, zero) <body = b (int64 i, bool c, int64 s) => (bool d, int64 t) {
            d = Identity (c)
            k = Gather (lengths, i)
            square = Mul (k, k)
            t = Add (s, square)
        }>
    }""")
    used, x = session(lowered(given)), np.ones(5, np.float32)
    assert used.run(None, {"x": x, "lengths": np.array([2, 3])})[0] == 13
    with pytest.raises(Exception, match="CumSum"):
        used.run(None, {"x": x, "lengths": np.array([2, 2])})


@pytest.mark.parametrize("dtype", ["int32", "int64"])
@pytest.mark.parametrize("n", [1, 3, 4, 5])
def test_a_loop_over_a_few_pieces_is_written_out(n, dtype):
    """How long the pieces are, a run says: a Split looks at that as SplitToSequence does."""
    model = parse(f"""g (float[N, 2] x, {dtype}[{n}] k) => (float[A, B] y, float[C, D] last)
    <bool yes = {{1}}, int64 back = {{-1}}> {{
        pieces = SplitToSequence<axis = 0>(x, k)
        count = SequenceLength(pieces)
        none = SequenceEmpty()
        l = Loop(count, yes, none) <body = b (int64 i, bool c, seq(float[?, 2]) s) =>
            (bool c2, seq(float[?, 2]) t) {{
            c2 = Identity(c)
            piece = SequenceAt(pieces, i)
            e = Neg(piece)
            t = SequenceInsert(s, e)
        }}>
        y = ConcatFromSequence<axis = 0>(l)
        last = SequenceAt(l, back)
    }}""")
    fed = [
        [5, *[0] * (n - 1)],
        [*[0] * (n - 1), 5],
        [5, *[1] * (n - 1)],
        [6, *[-1] * (n - 1)],
        [-1, *[6] * (n - 1)],
    ]
    feeds = [{"x": rows(5, 2), "k": np.array(one, dtype)} for one in fed]
    left = ["ConcatFromSequence", "SequenceAt", "SequenceEmpty", "SequenceInsert"]
    check(model, feeds, gone=True if n <= MOST_WRITTEN_OUT else left)
    assert ops(lowered(model)).count("Loop") == (n > MOST_WRITTEN_OUT)


@pytest.mark.parametrize("joined", [0, 1, 2])
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("lengths", ["", "int64 k = {2}", "int64[2] k = {3, 1}"])
def test_a_loop_begins_with_pieces_along_any_axis(lengths, axis, joined):
    """There are lengths before the axis, behind it or both."""
    text = f"""g (float[A, B, C] x, int64 n) => (float[P, Q, R] z)
        <bool yes = {{1}}, int64 zero = {{0}}, float half = {{0.5}}{lengths and ", " + lengths}> {{
            s = SplitToSequence <axis = {axis}> (x{lengths and ", k"})
            l = Loop (n, yes, s) <body = b (int64 i, bool c, seq(float[D, E, F]) u)
                                         => (bool d, seq(float[G, H, I]) v) {{
                d = Identity (c) e = SequenceAt (u, i) f = Mul (e, half) v = SequenceInsert (u, f)
            }}>
            z = ConcatFromSequence <axis = {joined}> (l)
        }}"""
    shape = [2, 3, 5]
    shape[axis] = 4
    x = rows(np.prod(shape), 1).reshape(shape)
    before, after = session(parse(text)), session(lowered(parse(text)))
    for n in range(4):
        feed = {"x": x, "n": np.array(n)}
        assert_same(outcome(before, feed), outcome(after, feed))
