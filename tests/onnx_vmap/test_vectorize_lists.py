"""Loops over parts of several lengths that become one operator: up to which limits, and their lists."""

import numpy as np
import pytest
from support.models.lowering import outcome, parse, session
from support.models.vectorizing import (
    BOUNDS,
    ENDS,
    PART,
    appending,
    body,
    check_at_once,
    check_list,
    feeds_of_parts,
    some,
    takes_first,
    vectorized,
)

from seqcore.onnx._vmap import loop

pytestmark = pytest.mark.mostly_slow(3)


@pytest.fixture
def small(monkeypatch):
    for name, number in (("MOST_PADDED", 100), ("MOST_EXTRA", 20), ("SMALL", 24), ("SMALL_TO_FILL", 12)):
        monkeypatch.setattr(loop, name, number)


SUM = "e = ReduceSum<keepdims = 0>(p, #(0))"


def fits(lengths, row, is_filled):
    """Whether parts of these lengths are padded, by the text of the limits."""
    n, longest = len(lengths), max(lengths, default=0)
    is_small = longest * row <= 24
    if is_filled:
        is_small = longest * row <= 12 or (is_small and len(set(lengths)) < 2)
    is_little = n * longest * row <= 100 and n * longest < 4 * sum(lengths) + 20
    return is_small and is_little and not (is_filled and 0 in lengths)


LENGTHS = [
    *([4] * 8, [4] * 9, [8], [9], [8, 8], [8, 7], [4, 3, 2], [5, 4], [0, 4], [4, 4, 0]),
    *([1] * 33, [1] * 34, [4] + [1] * 6, [4] + [0] * 5, [4] + [0] * 8, [4] + [1] * 7, [0] * 9, [1]),
]


class TestLimits:
    @pytest.mark.parametrize("is_filled", [True, False])
    def test_each(self, small, is_filled):
        """Either side of each limit the same comes out, and it goes as they say."""
        if is_filled:
            text = body(f"{PART} {SUM}", "float[3]", **ENDS, w="float[40, 3]")
        else:
            text = appending(
                f"{PART} e = Neg(p)",
                "y = Identity(l)",
                "seq(float[?, 3]) y",
                "float[?, 3]",
                **ENDS,
                w="float[40, 3]",
            )
        feeds = []
        for lengths in LENGTHS:
            starts = np.arange(len(lengths))[:, None] % 9
            ends = starts + np.array(lengths)[:, None]
            feeds.append({"x": starts, "z": ends, "w": some("float[40, 3]"), "n": np.array(len(lengths))})
        result, outcomes = check_at_once(text, feeds, nloops=1)
        assert None not in outcomes
        taken = takes_first(result, feeds)
        assert set(taken) == {True, False}
        assert taken == [fits(lengths, 3, is_filled) for lengths in LENGTHS]

    def test_what_is_made_of_parts(self):
        """100 items each are little, but 1000 numbers are made of each."""
        code = "h = Mul(p, v) e = ReduceMax<keepdims = 0>(h)"
        text = body(f"{PART} {code}", "float", **ENDS, w="float[T, 1]", v="float[1000]")
        result, _ = vectorized(parse(text))
        starts = np.zeros((1000, 1), "q")
        feed = {"x": starts, "z": starts + 100, "w": np.zeros((100, 1), "f"), "v": np.zeros(1000, "f")}
        assert takes_first(result, [feed | {"n": np.array(1000)}]) == [False]


class TestLists:
    def test_two(self):
        text = f"""g (int64[N, 1] x, int64[N, 1] z, float[T, 3] w, int64 n)
            => (float[A, 3] y, float[B, 3] u, int64 k, seq(float[?, 3]) h)
        <bool yes = {{1}}, int64 one = {{1}}, int64[1] first = {{0}}> {{
            none = SequenceEmpty() none2 = SequenceEmpty()
            l, m, all_f = Loop(n, yes, none, none2) <body = b
                (int64 i, bool c, seq(float[?, 3]) s, seq(float[?, 3]) t)
                => (bool c2, seq(float[?, 3]) s2, seq(float[?, 3]) t2, float[3] f) {{
                c2 = Identity(c) a = Gather(x, i) b = Gather(z, i)
                {PART.replace("#(0)", "first")} e = Neg(p) q = Abs(p)
                s2 = SequenceInsert(s, e) t2 = SequenceInsert(t, q) f = ReduceSum<keepdims = 0>(e, first)
            }}>
            y = ConcatFromSequence<axis = 0>(l) u = SequenceAt(m, one) k = SequenceLength(m) h = Identity(m)
        }}"""
        feeds = [feed | {"n": feed["n"]} for feed in feeds_of_parts(w="float[12, 3]")]
        _, outcomes = check_list(text, feeds)
        assert [one is None for one in outcomes] == [True, True, False, False] * len(BOUNDS)

    def test_stacked(self):
        """All have to be of one length, which onnxruntime doesn't look at."""
        after = "y = ConcatFromSequence<axis = 0, new_axis = 1>(l)"
        text = appending(
            f"{PART} e = Neg(p)", after, "float[A, B, C] y", "float[?, 3]", **ENDS, w="float[12, 3]"
        )
        result, outcomes = check_list(text, feeds_of_parts(["one length"], w="float[12, 3]"))
        assert [one is None for one in outcomes] == [True, False, False, False]
        running = session(result)
        for feed in feeds_of_parts(["several", "some empty"], (2, 5), w="float[12, 3]"):
            assert outcome(running, feed) is None


class TestPosition:
    """An insert at the number of its iteration is an append."""

    @pytest.mark.parametrize("is_small", [False, True])
    @pytest.mark.parametrize(
        ("after", "out"),
        [
            ("y = ConcatFromSequence<axis = 0>(l)", "float[A, 3] y"),
            ("y = SequenceAt(l, #1)", "float[A, 3] y"),
            ("y = SequenceLength(l)", "int64 y"),
            ("y = Identity(l)", "seq(float[?, 3]) y"),
        ],
    )
    def test_of_several_lengths(self, after, out, is_small, request):
        if is_small:
            request.getfixturevalue("small")
        text = appending(f"{PART} e = Neg(p)", after, out, "float[?, 3]", **ENDS, w="float[12, 3]")
        text = text.replace("SequenceInsert(s, e)", "SequenceInsert(s, e, i)")
        check_list(text, feeds_of_parts(w="float[12, 3]"))
