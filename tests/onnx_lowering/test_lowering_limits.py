"""Up to which sizes lists go, and in which way: both sides of each limit of the passes."""

import numpy as np
import pytest
from support.models.lowering import assert_same, left_in, ops, outcome, parse, quick_report, rows, session

from seqcore.onnx._lists import accumulate, elements, pieces, trace


def same(model, result, *feeds):
    """A model and its lowered one give the same."""
    before, after = session(model), session(result)
    for feed in feeds:
        expected = outcome(before, feed)
        assert expected is not None
        assert_same(expected, outcome(after, feed))


def quick(text, *feeds):
    """A model as a session lowers it, without packing; it does what it did."""
    model = parse(text)
    result, notes = quick_report(model)
    same(model, result, *feeds)
    return result, [str(note) for note in notes]


class TestElements:
    """Elements by their names."""

    WINDOW = """g (float[N, 4] x, int64 n) => (float[4] y)
    <bool yes = {1}, int64 zero = {0}, float[4] a = {1, 2, 3, 4}> {
        first = SequenceConstruct(MANY)
        l = Loop(n, yes, first) <body = b (int64 i, bool c, seq(float[4]) s) => (bool c2, seq(float[4]) t) {
            c2 = Identity(c) q = Gather(x, i) t0 = SequenceErase(s, zero) t = SequenceInsert(t0, q)
        }>
        y = SequenceAt(l, zero)
    }"""

    @pytest.mark.parametrize("more", [-1, 0, 1])
    def test_lists_that_loops_hand_on(self, more):
        n = elements.MOST_CARRIED + more
        text = self.WINDOW.replace("MANY", ", ".join(["a"] * n))
        feeds = [{"x": rows(3), "n": np.array(k)} for k in (0, 1, 3)]
        result, _ = quick(text, *feeds)
        assert (left_in(result) == []) is (more <= 0)


class TestPieces:
    def cut(self, count, picked):
        reads = " ".join(f"y{k} = SequenceAt(l, p{k})" for k in range(picked))
        constants = ", ".join(f"int64 p{k} = {{{k}}}" for k in range(picked))
        outs = ", ".join(f"float[4] y{k}" for k in range(picked))
        text = f"""g (float[{count}, 4] x) => ({outs}) <{constants}> {{
            l = SplitToSequence<keepdims = 0>(x) {reads}
        }}"""
        result, _ = quick(text, {"x": rows(count)})
        assert left_in(result) == []
        return "Split" in ops(result)

    @pytest.mark.parametrize(
        ("count", "picked", "is_split"),
        [
            (16, 1, True),
            (17, 1, False),
            (17, 8, False),
            (17, 9, True),
            (18, 9, True),
            (20, 9, False),
            (20, 10, True),
        ],
    )
    def test_one_split_where_few_or_half_of_them_are_read(self, count, picked, is_split):
        assert pieces.MOST_AT_ONCE_PIECES == 16
        assert self.cut(count, picked) is is_split


class TestLoops:
    def appended(self, code):
        text = f"""g (float[N, 4] x, int64 n) => (float[A, 4] y) <bool yes = {{1}}, int64 zero = {{0}}> {{
            none = SequenceEmpty()
            l = Loop(n, yes, none) <body = b (int64 i, bool c, seq(float[4]) s)
                                       => (bool c2, seq(float[4]) t) {{
                c2 = Identity(c) q = Gather(x, i) {code}
            }}>
            y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
        }}"""
        return quick(text, {"x": rows(3), "n": np.array(2)})

    @pytest.mark.parametrize("at_front", [False, True])
    @pytest.mark.parametrize("more", [-1, 0, 1])
    def test_inserts_in_a_round(self, more, at_front):
        n, place = trace.MOST_ADDITIONS + more, ", zero" * at_front
        code = " ".join(
            f"{'t' if k == n - 1 else f't{k}'} = SequenceInsert({f't{k - 1}' if k else 's'}, q{place})"
            for k in range(n)
        )
        result, notes = self.appended(code)
        assert (left_in(result) == []) is (more <= 0)
        assert any("more than 32 times in an iteration" in note for note in notes) is (more > 0)

    def test_each_end_counts_for_itself(self):
        n = trace.MOST_ADDITIONS
        places = ["", ", zero"] * n
        code = " ".join(
            f"{'t' if k == 2 * n - 1 else f't{k}'} = SequenceInsert({f't{k - 1}' if k else 's'}, q{place})"
            for k, place in enumerate(places)
        )
        assert left_in(self.appended(code)[0]) == []

    @pytest.mark.parametrize(("back", "goes"), [(1, True), (15, True), (16, True), (17, False)])
    def test_how_far_back_a_round_reads(self, back, goes):
        """The list starts with as many elements, so that what is read is there."""
        assert accumulate.FARTHEST == 16
        start = ", ".join(["a"] * back)
        text = f"""g (float[N, 4] x, int64 n) => (float[A, 4] y)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 at = {{-{back}}}, float[4] a = {{1, 2, 3, 4}}> {{
            first = SequenceConstruct({start})
            l = Loop(n, yes, first) <body = b (int64 i, bool c, seq(float[4]) s)
                                        => (bool c2, seq(float[4]) t) {{
                c2 = Identity(c) q = Gather(x, i) h = SequenceAt(s, at) e = Add(h, q) t = SequenceInsert(s, e)
            }}>
            y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
        }}"""
        result, notes = quick(text, *({"x": rows(20), "n": np.array(n)} for n in (0, 1, 16, 17, 18)))
        assert (left_in(result) == []) is goes, notes
