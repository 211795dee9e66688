"""Which engine gives a run's results, on both sides of each limit, and that none fails unnoticed."""

import numpy as np
import onnx
import pytest
from support.models.engines import Used, explained, operators, planner_of, ran
from support.models.exported import MODELS
from support.models.sessions import assert_values, by_reference, constant, f32, floats, i64, model

from seqcore.onnx import InferenceSession
from seqcore.onnx._engines import planner as planner_module
from seqcore.onnx._engines.tiers import Attempts
from seqcore.onnx._engines.whole import size_of
from seqcore.onnx._thresholds import (
    FEW,
    HEAVY,
    LONG,
    MOST_TO_CONVERT,
)


class TestExported:
    @pytest.mark.mostly_slow(61)
    @pytest.mark.parametrize("name", MODELS)
    @pytest.mark.mostly_at_night(5)
    def test_nothing_fails_unseen(self, name):
        """What is long fails in the first engine, and steps give the result, of one model alone.

        The longest sizes are on both sides of the limit, but of models that take too long for that.
        """
        one = MODELS[name]
        used = InferenceSession(one.path)
        compiled = used._engines.compiled
        sizes = [max(one.least, 2), one.sizes["middle"], one.sizes["long"], one.sizes["long"] + 1] * 2
        for seed, size in enumerate(sizes):
            used.run(None, one.example(size, seed))
        counts = ran(compiled)
        taken, failed = ({name: pair[k] for name, pair in counts.items()} for k in (0, 1))
        assert sum(taken.values()) == len(sizes)
        assert failed.pop("short", 0) <= 2 * compiled.whole.may_be_long
        assert compiled.tiers[0].failures == 0 or "check/" in compiled.tiers[0].reason
        assert failed.pop("long", 0) <= 2
        assert not any(failed.values()), (counts, compiled.tiers[0].reason)
        assert len(counts.keys() & {"steps", "given steps"}) <= 1
        if not compiled.whole.may_be_long:
            assert counts == {"tensors": (len(sizes), 0)}


class TestOrder:
    def test_a_lowered_model_of_the_same_size_comes_first(self):
        text = """g (float[4, 3] x, float[3] w, float[3] u, int64 p) => (float[3] y, float[4] z, float[3] v) {
            a = SplitToSequence <keepdims = 0> (x) y = SequenceAt (a, p)
            b = SplitToSequence <axis = 1, keepdims = 0> (x) z = SequenceAt (b, p)
            l = SequenceConstruct (u, w) v = SequenceAt (l, p)
        }"""
        used = Used(text)
        x, w = np.arange(12, dtype=np.float32).reshape(4, 3), f32(1, 2, 3)
        assert_values(used.run(x=x, w=w, u=w, p=i64(1)), [x[1], x[:, 1], w])
        given = used.engines.tier("given steps").get().planner.prepared
        assert size_of(given) == 2 * size_of(used.whole.prepared) == 12  # a node of lists counts as two
        assert used.whole.may_be_long is False
        assert ran(used.engines) == {"tensors": (1, 0)}

    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("beyond", [-2, 0, 1, 99])
    def test_more_than_few_iterations_go_as_one_operator(self, beyond):
        """By its nodes the lowered model is quicker from so many on."""
        one = MODELS["sorted_by_length"]
        used = InferenceSession(one.path)
        compiled = used._engines.compiled
        limit = compiled.whole.limit
        assert 2 < limit < FEW
        feed = one.example(limit + beyond)
        assert_values(used.run(None, feed), by_reference(onnx.load(one.path), feed))
        assert ran(compiled) == {"short" if beyond <= 0 else "tensors": (1, 0)}

    @pytest.mark.parametrize(("workers", "few"), [(1, "short"), (2, "steps")])
    def test_a_map_of_one_thread_runs_whole(self, workers, few):
        """Of few elements it is a loop over lists, of more one over tensors; in steps it stays a map."""
        one = MODELS["map_padded"]
        used = InferenceSession(one.path, max_workers=workers, compile="load")
        for n in (MOST_TO_CONVERT, MOST_TO_CONVERT + 1):
            feed = one.example(n)
            assert_values(used.run(None, feed), by_reference(onnx.load(one.path), feed))
        both = {few: (1, 0), "tensors": (1, 0)} if workers == 1 else {few: (2, 0)}
        assert ran(used._engines.compiled) == both

    def test_lists_stay_at_the_ends_whose_elements_differ_in_several_axes(self):
        one = MODELS["map_resized"]
        used = InferenceSession(one.path, compile="load")
        feed = one.example(2 * LONG)
        assert_values(used.run(None, feed), by_reference(onnx.load(one.path), feed))
        odd = {"images": [*feed["images"][:LONG], np.zeros((3, 8, 6), np.float32)]}
        assert_values(used.run(None, odd), by_reference(onnx.load(one.path), odd))
        assert ran(used._engines.compiled) == {"tensors": (1, 0), "given steps": (1, 0)}

    def test_steps_of_the_lowered_model_come_before_those_of_the_given(self):
        text = """g (float[N, 4] x, seq(float[4]) s) => (seq(float[4]) t, float[4] y) <int64 zero = {0}> {
            l = SplitToSequence <keepdims = 0> (x) y = SequenceAt (l, zero) t = SequenceInsert (s, y)
        }"""
        used = Used(text)
        x, s = np.ones((3, 4), np.float32), [np.zeros(4, np.float32)] * (LONG + 1)
        for _ in range(2):
            assert_values(used.run(x=x, s=s), [[*s, x[0]], x[0]])
        assert ran(used.engines) == {"steps": (2, 0)}
        with pytest.raises(Exception, match=r"(?i)SequenceAt|position"):
            used.run(x=x[:0], s=s)
        assert ran(used.engines) == {"steps": (2, 1), "given steps": (0, 1)}

    def test_elements_of_other_shapes_than_declared_run_in_steps_that_believe_nothing(self):
        text = "g (seq(float[4]) s, float[4] x) => (seq(float[4]) t) { t = SequenceInsert (s, x) }"
        used = Used(text)
        odd, x = floats(3), np.zeros(4, np.float32)
        used.run(s=odd, x=x)
        assert ran(used.engines) == {"given steps": (1, 0)}


class TestLimits:
    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("kind", ["list", "tuple"])
    @pytest.mark.parametrize("n", [LONG - 1, LONG, LONG + 1])
    def test_fed_lists(self, n, kind):
        import seqcore as sq

        used = Used("g (seq(float[]) s, float[N] x) => (seq(float[]) t) { t = SequenceInsert (s, x) }")
        s = floats(*[1] * n)
        for given in (s, tuple(s), sq.TensorSequence(s)):
            assert_values(used.run(s=given, x=f32(1)), [[*s, f32(1)]])
        assert used.outcomes == [True if n <= LONG else None] * 3

    def test_lists_that_loops_only_read_may_be_long(self):
        """onnxruntime copies no list then; steps would call it twice in each iteration."""
        used = Used("""g (seq(float[]) s, int64 n) => (float[] sum) <float zero = {0}> {
            sum = Loop (n, "", zero) <body = b (int64 i, bool go, float[] a) => (bool go, float[] c) {
                row = SequenceAt (s, i) c = Add (a, row)
            }>
        }""")
        for n in (1, 2 * LONG):
            assert_values(used.run(s=[f32(1)] * n, n=i64(n)), [f32(n)])
        assert ran(used.engines) == {"short": (2, 0)}
        assert used.engines.tier("given steps").made is None  # nobody needs them yet

    @pytest.mark.parametrize(
        ("total", "length", "is_short"),
        [(1024, 2, True), (1025, 2, False), (1535, 3, True), (1537, 3, False)],
    )
    def test_pieces_whose_number_is_known(self, total, length, is_short):
        text = f"""g (float[{total}] x) => (seq(float[]) s) <int64 k = {{{length}}}> {{
            s = SplitToSequence (x, k)
        }}"""
        used = Used(text)
        x = np.arange(total, dtype=np.float32)
        (found,) = used.run(x=x)
        assert len(found) == -(-total // length)
        assert (used.whole is not None) is is_short
        assert is_short or f"more than {LONG} pieces" in used.engines.declined

    @pytest.mark.parametrize(("n", "is_short"), [(LONG, True), (LONG + 1, False)])
    def test_lengths_that_are_known(self, n, is_short):
        lengths = ", ".join(["1"] * n)
        text = f"""g (float[N] x) => (seq(float[]) s) <int64[{n}] k = {{{lengths}}}> {{
            s = SplitToSequence (x, k)
        }}"""
        used = Used(text)
        assert len(used.run(x=np.zeros(n, np.float32))[0]) == n
        assert (used.whole is not None) is is_short

    @pytest.mark.parametrize(("nbytes", "is_whole"), [(HEAVY - 4, True), (HEAVY, False)])
    def test_heavy_weights(self, nbytes, is_whole):
        given = model("g (seq(float[]) s, float[N] x) => (seq(float[]) t) { t = SequenceInsert (s, y) }")
        given.graph.node.insert(0, onnx.helper.make_node("Add", ["x", "w"], ["y"]))
        given.graph.initializer.append(constant("w", np.ones(nbytes // 4, np.float32)))
        used = InferenceSession(given)
        x = np.zeros(nbytes // 4, np.float32)
        assert_values(used.run(None, {"s": [], "x": x}), [[x + 1]])
        assert (used._engines.compiled.whole is not None) is is_whole
        assert is_whole or used._engines.compiled.declined == "its weights would be held twice"

    @pytest.mark.parametrize(("count", "is_numpy"), [(3, True), (4, True), (5, False)])
    def test_small_parts(self, count, is_numpy):
        assert planner_module.MOST_NUMPY_NODES == 4
        chain = " ".join(f"n{k + 1} = Add (n{k}, n0)" for k in range(count))
        text = f"""g (seq(float[]) s, int64 n0) => (seq(float[]) t) {{
            {chain} t = SequenceErase (s, n{count})
        }}"""
        planner = planner_of(text)
        assert operators(planner.schedule) == [["Add"] * count, ["SequenceErase"]]
        assert bool(planner.by_numpy) is is_numpy
        assert any(line.startswith("numpy") for line in explained(text)) is is_numpy

    def test_after_failures_it_is_tried_less_and_less(self):
        attempts, waits = Attempts(), []
        for _ in range(10):
            wait = 0
            while not attempts.is_due():
                wait += 1
            waits.append(wait)
            attempts.failed(ValueError("no"))
        assert waits == [0, 2, 4, 8, 16, 32, 64, 128, 256, 256]
        assert (attempts.taken, attempts.failures, attempts.reason) == (0, 10, "no")
        while not attempts.is_due():
            pass
        attempts.succeeded()
        attempts.failed()
        assert [attempts.is_due() for _ in range(3)] == [False, False, True]
