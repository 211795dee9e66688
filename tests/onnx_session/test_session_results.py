"""Results of a session: which, in what order, and in memory of their own."""

import copy

import numpy as np
import pytest
from support.models.sessions import (
    APPEND,
    APPEND_FEED,
    assert_value,
    assert_values,
    f32,
    i64,
    in_steps,
    model,
    session,
)

from seqcore import TensorSequence

APPENDED = {"longer": [f32(1), f32(2, 3), f32(4)], "n": i64(3), "joined": f32(1, 2, 3, 4)}


class TestOutputs:
    def test_a_model_that_lists_an_output_twice(self):
        given = model(APPEND)
        for k in (0, 1):
            given.graph.output.add().CopyFrom(given.graph.output[k])
        used = session(given)
        assert len(used.get_outputs()) == 5
        assert_values(used.run(None, APPEND_FEED), [APPENDED[one.name] for one in used.get_outputs()])

    def test_the_same_twice_is_not_one_object_that_changes(self):
        first, second = session(APPEND).run(["longer", "longer"], APPEND_FEED)
        first.clear()
        assert len(second) == 3

    def test_unknown(self):
        used = session(APPEND)
        for names in (["q"], ["n", "q"], ["s"]):
            with pytest.raises(Exception, match=rf"\b{names[-1]}\b"):
                used.run(names, APPEND_FEED)
            assert_values(used.run(["n"], APPEND_FEED), [i64(3)])


class TestMemory:
    TEXT = """
        g (float[N] x, seq(float[]) s, bool c) => (seq(float[]) a, float[N] y, seq(float[]) b, float[M] z,
                                                seq(float[]) d) {
            a = SequenceInsert (s, x)
            b = SplitToSequence (x)
            zero = Constant <value = int64 {0}> ()
            first = SequenceAt (a, zero)
            z = Identity (first)
            d = SequenceConstruct (first)
            y = If (c) <then_branch = t () => (p) { p = Identity (x) },
                        else_branch = e () => (q) { q = SequenceAt (a, zero) }>
        }
    """

    WAYS = pytest.mark.parametrize(
        "make", [session, lambda text: in_steps(model(text))], ids=["all", "steps"]
    )

    @WAYS
    @pytest.mark.parametrize("c", [True, False])
    def test_results_and_feeds_are_apart(self, make, c):
        x, old = f32(1, 2, 3), [f32(4, 5), f32(6)]
        s = TensorSequence(old)
        used = make(self.TEXT)
        found = used.run(None, {"x": x, "s": s, "c": np.array(c)})
        expected = [[*old, x], x if c else old[0], [f32(1), f32(2), f32(3)], old[0], [old[0]]]
        expected = copy.deepcopy(expected)
        assert_values(found, expected)
        assert len(s) == 2
        x[:] = 70
        old[0][:] = 80
        s.clear()
        assert_values(found, expected)
        for one in found:
            if isinstance(one, np.ndarray):
                one[:] = 90
                assert not np.shares_memory(one, x)
        assert_values(found[0::2], expected[0::2])
        assert_value(x, f32(70, 70, 70))
        assert_value(old[0], f32(80, 80))
        assert_values(
            used.run(["a"], {"x": f32(1), "s": (f32(2),), "c": np.array(c)}),
            [[f32(2), f32(1)]],
        )

    @WAYS
    def test_one_output_several_times(self, make):
        feed = {"x": f32(1, 2, 3), "s": [f32(4, 5)], "c": np.array(True)}
        names = ["a", "y", "a", "y", "a", "y"]
        found = make(self.TEXT).run(names, feed)
        expected = [[f32(4, 5), f32(1, 2, 3)], f32(1, 2, 3)] * 3
        while found:
            assert_values(found, expected)
            changed = found.pop()
            changed[:] = 7 if isinstance(changed, np.ndarray) else []
            expected.pop()

    @pytest.mark.parametrize(
        "text",
        [
            """g (float[3] x, seq(float[]) s) => (seq(float[]) t, seq(float[]) u) {
                zero = Constant <value_int = 0> ()
                t, u = SequenceMap (s) <body = b (float[N] e) => (float[N] p, float[M] q) {
                    p = Identity (e)
                    q = SequenceAt (s, zero)
                }>
            }""",
            """g (float[3] x, seq(float[]) s) => (seq(float[]) t) {
                last, sizes = Scan (x, x) <num_scan_inputs = 1,
                                           body = b (float[3] u, float r) => (float[3] v, int64 n) {
                    v = Identity (u)
                    one = SequenceConstruct (r)
                    n = SequenceLength (one)
                }>
                t = SequenceInsert (s, last)
            }""",
        ],
        ids=["map", "scan"],
    )
    def test_what_bodies_pass_on_is_apart(self, text):
        x, s = f32(1, 2, 3), [f32(4, 5), f32(6)]
        for result in session(text).run(None, {"x": x, "s": s}):
            assert not any(np.shares_memory(one, other) for one in result for other in (x, *s))

    def test_constants_stay(self):
        text = """g (float[2] x) => (seq(float[]) s, float[2] k) {
            k = Constant <value = float[2] {1, 2}> ()
            s = SequenceConstruct (k, x, k)
        }"""
        used = session(text)
        for _ in range(3):
            s, k = used.run(None, {"x": f32(3, 4)})
            assert_values([s, k], [[f32(1, 2), f32(3, 4), f32(1, 2)], f32(1, 2)])
            k[:] = 9
            s.clear()

    def test_results_are_writable_arrays(self):
        joined = session(APPEND).run(["joined"], {"s": [f32(1)], "x": f32(2)})[0]
        assert joined.flags.writeable
        assert joined.flags.c_contiguous
