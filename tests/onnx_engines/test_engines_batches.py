"""Iterations of a loop in one go: taken where they pay, and left where they do not."""

from itertools import pairwise

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.engines import APPEND_ROWS, INSERT_ROWS, TURN, steps_of, turned
from support.models.sessions import assert_values, f32, floats, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines.checked_model import LONG
from seqcore.onnx._engines.loop_batches import LoopBatches

pytestmark = pytest.mark.mostly_slow(5)


@pytest.fixture
def batches(monkeypatch):
    """The batches of loops named 't': for each the first iteration, and the one after the last."""
    ran, run = [], LoopBatches.run

    def spy(self, frame, first, length):
        results = run(self, frame, first, length)
        if self._node.name == "t":
            ran.append((first, first + results[0]))
        return results

    monkeypatch.setattr(LoopBatches, "run", spy)
    return ran


class TestBatches:
    N = 1000

    def rows(self):
        return np.arange(2 * self.N, dtype=np.float32).reshape(self.N, 2)

    def check(self, text, feed, expected):
        used = InferenceSession(model(text))
        for _ in range(2):
            assert_values(used.run(None, feed), [expected])

    def test_a_loop_that_appends_stays_in_them(self, batches):
        x, s = self.rows(), floats(1)
        feed = {"x": x, "s": s, "n": i64(self.N), "position": i64(0)}
        self.check(APPEND_ROWS, feed, [*s, *(2 * x)])
        assert len(batches) > 4
        # In the second run all, as what runs them is there from the start.
        starts = [start for start, _ in batches]
        second = batches[starts.index(0) :]
        assert second[0][0] == 0
        assert second[-1][1] == self.N
        assert all(a[1] == b[0] for a, b in pairwise(second))

    def test_a_list_that_grows_leaves_them(self, batches):
        x = self.rows()
        feed = {"x": x, "s": [], "n": i64(self.N), "position": i64(0)}
        self.check(INSERT_ROWS, feed, list(2 * x[::-1]))
        assert batches
        assert max(stop for _, stop in batches) < self.N

    def test_a_window_stays_in_them(self, batches):
        s = floats(2, 2, 2)
        self.check(TURN, {"s": s, "n": i64(self.N)}, turned(s, self.N))
        assert batches[-1][1] == self.N
        assert sum(stop - start for start, stop in batches) > 1.8 * self.N

    def test_a_list_that_is_long_from_the_start_never_enters_them(self, batches):
        s = floats(*[1] * 2000)
        self.check(TURN, {"s": s, "n": i64(self.N)}, turned(s, self.N))
        assert batches == []

    def test_few_iterations_are_not_worth_them(self, batches):
        s = floats(1)
        assert_values(InferenceSession(model(TURN)).run(None, {"s": s, "n": i64(60)}), [turned(s, 60)])
        assert batches == []

    def test_an_error_in_them_is_named_by_a_step(self, batches):
        x, n = self.rows()[:700], self.N
        used = InferenceSession(model(APPEND_ROWS))
        for _ in range(2):
            with pytest.raises(Exception, match="Gather") as caught:
                used.run(None, {"x": x, "s": [], "n": i64(n), "position": i64(0)})
            assert "in iteration 700 of Loop 't'" in caught.value.__notes__
        assert max(stop for _, stop in batches) <= 700

    @pytest.mark.slow
    def test_loops_inside_are_guarded(self, batches):
        """Of more than so many iterations inside there are no batches: the iterations run as steps."""
        text = """g (float[K] x, int64 n, int64 m, int64 k) => (seq(float[]) t) {
            none = SequenceEmpty ()
            zero = Constant <value = int64 {0}> ()
            t = Loop (n, "", none) <body = b (int64 i, bool go, seq(float[]) p)
                                           => (bool go, seq(float[]) r) {
                start = SequenceConstruct (x, x)
                inner = Loop (m, "", start) <body = c (int64 j, bool g, seq(float[]) q)
                                                   => (bool g, seq(float[]) w) {
                    y = SequenceAt (q, zero)
                    e = SequenceErase (q, k)
                    z = Neg (y)
                    w = SequenceInsert (e, z)
                }>
                last = SequenceAt (inner, zero)
                r = SequenceInsert (p, last)
            }>
        }"""
        x = f32(1, 2)
        n = LONG + 1  # or else onnxruntime runs all
        for m, quick in ((3, True), (LONG + 1, False)):
            batches.clear()
            used = InferenceSession(model(text))
            found = used.run(None, {"x": x, "n": i64(n), "m": i64(m), "k": i64(0)})
            assert_values(found, [turned([x, x], m)[:1] * n])
            assert bool(batches) is quick
            (attempts,) = [
                one.attempts for node, one in steps_of(used).planner.loops.items() if node.name == "t"
            ]
            assert (attempts.taken > 0) is quick


class TestWithoutBatches:
    BODY = """g (seq(float[]) s, float[N] x, int64 n MORE) => (seq(float[]) t) {
        zero = Constant <value = int64 {0}> ()
        many = Constant <value = int64 {MANY}> ()
        t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {
            INSIDE
        }>
    }"""

    def batches_of(self, inside, more="", **options):
        text = self.BODY.replace("INSIDE", inside).replace("MANY", str(LONG + 1)).replace("MORE", more)
        used = InferenceSession(model(text), **options)
        (batches,) = [one for node, one in steps_of(used).planner.loops.items() if node.name == "t"]
        return used, batches

    def test_why_not_is_empty_where_they_are(self):
        _, batches = self.batches_of("q = SequenceInsert (p, x)")
        assert batches.why_not == ""

    def test_maps_inside(self):
        """In onnxruntime a map is slow."""
        inside = """m = SequenceMap (p) <body = c (float[] a) => (float[] z) { z = Neg (a) }>
            q = SequenceInsert (m, x)"""
        used, batches = self.batches_of(inside)
        assert batches.why_not == "SequenceMap 'm' would be slow there"
        assert "step by step: SequenceMap 'm'" in " ".join(used._engines.compiled.explain())

    def test_departures_inside(self):
        inside = """y = ConcatFromSequence <axis = 0> (p)
            q = SequenceInsert (p, y)"""
        _, batches = self.batches_of(inside)
        assert "'y' joins elements whose ranks may differ" in batches.why_not

    def test_types_that_do_not_cross(self):
        _, batches = self.batches_of("w = Cast <to = 1> (h) q = SequenceInsert (p, w)", ", bfloat16[N] h")
        assert batches.why_not == "'h' does not go into onnxruntime or out of it in Python"

    @pytest.mark.slow
    def test_loops_inside_that_are_always_long(self):
        """That shows once the model is built."""
        inside = """start = SequenceConstruct (x, x)
            inner = Loop (many, "", start) <body = c (int64 j, bool g, seq(float[]) v)
                                                   => (bool g, seq(float[]) w) {
                y = SequenceAt (v, zero)
                e = SequenceErase (v, k)
                z = Neg (y)
                w = SequenceInsert (e, z)
            }>
            last = SequenceAt (inner, zero)
            q = SequenceInsert (p, last)"""
        used, batches = self.batches_of(inside, ", int64 k")
        x = f32(1)
        for _ in range(2):
            found = used.run(None, {"s": [], "x": x, "n": i64(150), "k": i64(0)})
            assert_values(found, [turned([x, x], LONG + 1)[:1] * 150])
        assert batches.why_not == f"Loop 'inner' has more than {LONG} iterations in every run"
        assert batches.attempts.taken == batches.attempts.failures == 0
