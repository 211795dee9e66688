"""Runs in one go: taken where they pay, declined with a reason, and rarely tried where they fail."""

import numpy as np
import pytest
from support.models.engines import Used, operators, steps_of
from support.models.sessions import assert_values, f32, floats, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines import whole as whole_module
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._thresholds import LONG
from seqcore.onnx.explaining import explain

pytestmark = pytest.mark.mostly_slow(5)


class TestWhole:
    @pytest.mark.parametrize("length", [3, LONG + 1, 2**40])
    def test_splits_by_more_than_there_is(self, length):
        used = Used("""split (float[N] x, int64 k) => (seq(float[]) t) {
            s = SplitToSequence (x, k)
            t = SequenceInsert (s, x)
        }""")
        assert_values(used.run(x=f32(1, 2), k=i64(length)), [[f32(1, 2), f32(1, 2)]])
        assert used.outcomes == [True]

    @pytest.mark.slow
    def test_elements_that_do_not_fit_are_no_join(self):
        text = """g (float[N] x, float[M] w, bool c, seq(float[]) s) => (float[] y, seq(float[]) s2) {
            t = If (c) <then_branch = a () => (seq(float[]) u) { u = SequenceConstruct (x, w) },
                        else_branch = b () => (seq(float[]) v) { v = SequenceConstruct (w, w) }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (t)
            s2 = Identity (s)
        }"""
        used = Used(text)
        feed = {"w": f32(2), "c": np.array(True), "s": []}
        assert_values(used.run(x=f32(1), **feed), [np.float32([[1], [2]]), []])
        for x in (f32(), f32(1, 2)):
            used = Used(text)
            with pytest.raises(ValueError, match="ConcatFromSequence 'y'"):
                used.run(x=x, **feed)
            assert used.outcomes == [False]


class TestDeclined:
    """Where onnxruntime does not run all: why, and what runs then."""

    def declined(self, text, why, **feed):
        """The reason; all runs go in steps, and onnxruntime's session is not even made."""
        used = InferenceSession(model(text))
        assert used._engines.compiled.whole is None
        assert why in used._engines.compiled.declined, used._engines.compiled.declined
        assert any(why in line for line in explain(model(text)))
        results = [used.run(None, feed) for _ in range(3)]
        for other in results[1:]:
            assert_values(other, results[0])
        return results[0]

    def test_types_that_onnxruntime_lacks(self):
        text = """g (uint8[N] x) => (seq(uint8[]) t) {
            s = SplitToSequence (x)
            t = SequenceErase (s)
        }"""
        x = np.ones(3, np.uint8)
        assert_values(self.declined(text, "onnxruntime refuses it", x=x), [[x[:1], x[:1]]])

    def test_types_that_do_not_cross(self):
        text = """g (seq(float[]) s, bfloat16[N] x) => (seq(float[]) t, bfloat16[N] y) {
            t = SequenceErase (s)
            y = Identity (x)
        }"""
        used = InferenceSession(model(text))
        assert "'x' does not go into onnxruntime or out of it" in used._engines.compiled.declined

    @pytest.mark.slow
    def test_loops_that_are_always_long(self):
        text = f"""g (seq(float[]) s, float[N] x) => (seq(float[]) t) {{
            n = Constant <value = int64 {{{LONG + 1}}}> ()
            t = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p) => (bool go, seq(float[]) q) {{
                q = SequenceInsert (p, x)
            }}>
        }}"""
        found = self.declined(text, f"Loop 't' has more than {LONG} iterations in every run", s=[], x=f32(1))
        assert_values(found, [[f32(1)] * (LONG + 1)])
        used = Used(text.replace(str(LONG + 1), str(LONG)))
        assert_values(used.run(s=[], x=f32(1)), [[f32(1)] * LONG])
        assert used.outcomes == [True]

    @pytest.mark.parametrize("split", ["", ", k"])
    def test_splits_that_are_always_long(self, split):
        text = f"""g (float[{LONG + 2}] x) => (seq(float[]) t) {{
            k = Constant <value = int64 {{1}}> ()
            s = SplitToSequence (x {split})
            t = SequenceErase (s)
        }}"""
        x = np.arange(LONG + 2, dtype=np.float32)
        why = f"makes more than {LONG} pieces in every run"
        assert_values(self.declined(text, why, x=x), [list(x[:-1, None])])

    @pytest.mark.parametrize("split", ["int64 k", "int64[] k"])
    def test_splits_that_onnxruntime_reads_in_its_own_way(self, split):
        keepdims = 0 if split == "int64 k" else 1
        text = f"""g (float[N] x, {split}) => (seq(float[]) t) {{
            s = SplitToSequence <keepdims = {keepdims}> (x, k)
            t = SequenceErase (s)
        }}"""
        k = i64(1) if keepdims == 0 else i64([1, 1])
        self.declined(text, "SplitToSequence 's'", x=f32(1, 2), k=k)

    def test_scan_outputs_of_several_shapes(self):
        text = """g (seq(float[]) s, int64 n) => (seq(float[]) t, float[] y) {
            zero = Constant <value = int64 {0}> ()
            t, y = Loop (n, "", s) <body = b (int64 i, bool go, seq(float[]) p)
                                           => (bool go, seq(float[]) q, float[] x) {
                x = SequenceAt (p, zero)
                q = SequenceErase (p, zero)
            }>
        }"""
        s = floats(2, 2, 1)
        found = self.declined(text, "scan output 'x', whose values may be of several shapes", s=s, n=i64(2))
        assert_values(found, [s[2:], np.stack(s[:2])])

    def test_maps_for_several_workers(self):
        text = """g (seq(float[]) s, seq(float[]) t, float[N] x) => (seq(float[]) u, float[] y) {
            u = SequenceMap (s, t) <body = b (float[] x, float[] y) => (float[] z) { z = Add (x, y) }>
            parts = SplitToSequence (x)
            v = SequenceMap (parts) <body = c (float[] p) => (float[] q) { q = Neg (p) }>
            y = ConcatFromSequence <axis = 0> (v)
        }"""
        x, elements = f32(1, 2, 3), floats(1, 2)
        for workers, declined in ((1, ""), (2, "its maps are for several workers")):
            used = Used(text, max_workers=workers)
            assert used.engines.declined == declined
            assert_values(used.run(s=elements, t=elements, x=x), [[2 * one for one in elements], -x])
            assert used.outcomes == [None if declined else True]
            for counts in ((1, 2), (1,)):
                with pytest.raises(ValueError, match="SequenceMap 'u'"):
                    used.run(s=floats(1, 2, 3), t=floats(*counts), x=x)
        assert operators(steps_of(used.session).planner.schedule).count(["SequenceMap"]) == 2


def test_scans_go_in_one():
    """The rank of what they stack is known, so a join of it may be trusted to onnxruntime."""
    text = """
        f (float[N, 4] x, int64 k) => (float[M, 4] y) <float[4] zero = {0, 0, 0, 0}> {
            last, sums = Scan <num_scan_inputs = 1,
                body = b (float[4] s, float[4] r) => (float[4] t, float[4] u) {
                t = Add (s, r)
                u = Neg (t)
            }> (zero, x)
            rows = SplitToSequence (sums)
            some = SequenceErase (rows, k)
            y = ConcatFromSequence <axis = 0> (some)
        }"""
    used = Used(text)
    assert used.whole is not None, used.engines.declined
    for n in (2, 5, 2000):
        x = np.random.default_rng(n).random((n, 4), np.float32)
        (found,) = used.run(x=x, k=np.array(1))
        np.testing.assert_allclose(found, np.delete(-np.cumsum(x, 0), 1, 0), rtol=1e-3)


def test_results_of_loops_and_branches_have_declared_shapes():
    """Of a state that a loop leaves onnxruntime infers none, and then folds nothing that depends on it."""
    text = """g (float[N, 4] x, int64 n, bool c) => (float[] y, int64[] z) {
        zero = Constant <value = int64 {0}> () first = Constant <value = int64[1] {0}> ()
        e = SequenceEmpty ()
        last, l = Loop (n, "", zero, e) <body = b (int64 i, bool go, int64 m, seq(float[]) p)
                                              => (bool go, int64 k, seq(float[]) q) {
            row = If (c) <then_branch = d () => (float[] u) { u = Gather (x, i) },
                          else_branch = f () => (float[] v) { w = Gather (x, m) v = Neg (w) }>
            q = SequenceInsert (p, row)
            k = Identity (i)
        }>
        z = Unsqueeze (last, first)
        y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
    }"""
    prepared = prepare(*without_weights(model(text), None, None))
    copy = prepared.model.copy()
    whole_module._declare_results(copy, prepared)
    shapes = {
        name: [dim.dim_value for dim in kind.tensor_type.shape.dim]
        for graph in copy.graph.all_graphs()
        for name, kind in graph.declared.items()
        if kind.tensor_type.HasField("shape")
    }
    assert shapes["last"] == []
    assert shapes["row"] == [4]
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    used = Used(text)
    assert_values(used.run(x=x, n=i64(2), c=np.array(True)), [x, np.array([1])])
    assert used.outcomes == [True]
