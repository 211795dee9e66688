"""Loops that stay and append parts of computed lengths, as attention within windows does: `padded`."""

import numpy as np
import pytest
from support.models.lowering import assert_same, left_in, ops, outcome, parse, session
from support.models.vectorizing import takes_first

from seqcore.onnx import InferenceSession, lower

# What an iteration does with its part w: to e of as many items, in another place among the axes perhaps.
LOOPS = {
    # (x's shape, the axis that is split, the body, e's axis of that length, and whether that is padded)
    "rows": ("N, 4", 0, "t = Transpose <perm = [1, 0]> (w) s = MatMul (w, t) e = MatMul (s, w)", 0, True),
    "heads": (
        "2, N, 4",
        1,
        "t = Transpose <perm = [0, 2, 1]> (w) s = MatMul (w, t) m = MatMul (s, w) "
        "e = Transpose <perm = [1, 0, 2]> (m)",
        0,
        True,
    ),
    "columns": ("3, N", 1, "t = Transpose <perm = [1, 0]> (w) s = MatMul (w, t) e = MatMul (s, w)", 1, True),
    "repeated": (
        "N, 4",
        0,
        "k = Gather <axis = 0> (lengths, i) rows = Reshape (k, one) shape = Concat <axis = 0> (rows, four) "
        "m = ReduceSum <keepdims = 1> (w, zero) e = Expand (m, shape)",
        0,
        True,
    ),
    "squares": ("N, 4", 0, "t = Transpose <perm = [1, 0]> (w) e = MatMul (w, t)", 0, False),
    "longer": (
        "N, 4",
        0,
        "t = Transpose <perm = [1, 0]> (w) s = MatMul (w, t) m = MatMul (s, w) e = Concat <axis = 0> (m, w)",
        0,
        False,
    ),
}
TEXT = """
f (float[{shape}] x, int64[P] marks) => ({outs})
<int64[1] zero = {{0}}, int64[1] one = {{1}}, int64 first = {{0}}, int64[1] last = {{-1}}, bool yes = {{1}},
 int64[1] far = {{9223372036854775807}}, int64[0] scalar = {{}}, int64[1] four = {{4}}> {{
    lower = Slice (marks, zero, last)
    upper = Slice (marks, one, far)
    lengths = Sub (upper, lower)
    parts = SplitToSequence <axis = {axis}> (x, lengths)
    n = SequenceLength (parts)
    none = SequenceEmpty ()
    total = ConstantOfShape <value = float[1] {{0}}> (scalar)
    l, sum = Loop (n, yes, none, total) <body = b (int64 i, bool go, seq(float[{any}]) given, float before)
                                 => (bool on, seq(float[{any}]) given_on, float after) {{
        w = SequenceAt (parts, i)
        {body}
        given_on = SequenceInsert (given, e)
        more = ReduceSum <keepdims = 0> (w)
        half = Constant <value_float = 0.5> ()
        kept = Mul (before, half)
        after = Add (kept, more)
        on = Identity (go)
    }}>
    {after}
}}"""
READS = {
    "joined": ("float[{any}] y, float sum", "y = ConcatFromSequence <axis = {out}> (l)"),
    "given": ("seq(float[{any}]) y, float sum", "y = Identity (l)"),
    "counted": (
        "int64 y, float[{any}] z, float[{any}] a",
        "y = SequenceLength (l) z = ConcatFromSequence <axis = {out}> (l) a = SequenceAt (l, first)",
    ),
}


def made(name, read):
    shape, axis, code, out, _ = LOOPS[name]
    free = ", ".join("ABC"[: shape.count(",") + 1])
    outs, after = (text.format(any=free, out=out) for text in READS[read])
    return parse(TEXT.format(shape=shape, axis=axis, body=code, outs=outs, after=after, any=free))


def feed(name, lengths):
    rng = np.random.default_rng(len(lengths))
    shape = [int(n) if n.strip() != "N" else sum(lengths) for n in LOOPS[name][0].split(",")]
    x = rng.standard_normal(shape).astype(np.float32)
    return {"x": x, "marks": np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)}


def all_lengths():
    rng = np.random.default_rng(0)
    few = [[], [0], [3], [0, 0], [2, 0, 5], [1] * 17, [0, 70, 0, 1]]
    return [*few, rng.integers(0, 9, 50).tolist(), rng.integers(0, 3, 1000).tolist(), [*[1] * 200, 300]]


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("name", LOOPS)
@pytest.mark.mostly_slow(7)
@pytest.mark.mostly_at_night(3)
def test_any_lengths(name, read):
    given = made(name, read)
    result = lower(given)
    assert read == "given" or not left_in(result)
    assert ops(result).count("Pad") == 2 * LOOPS[name][4]  # the lengths that are missing, and an element
    theirs, lowered, ours = session(given), session(result), InferenceSession(given)
    for lengths in all_lengths():
        one = feed(name, lengths)
        expected = outcome(theirs, one)
        assert_same(outcome(lowered, one), expected)
        for _ in range(3):
            found = outcome(ours, one)
            assert_same(
                found and [list(y) if read == "given" else y for y in found[:1]] + found[1:], expected
            )


def test_what_is_padded_is_a_few_times_what_there_is():
    result = lower(made("rows", "joined"))
    feeds = [
        feed("rows", lengths) for lengths in ([64] * 17, [1] * 20 + [7], [*range(30)], [*[1] * 200, 300])
    ]
    assert takes_first(result, feeds) == [True, True, True, False]
