"""Sequences of every element type, also of those that onnxruntime refuses."""

import numpy as np
import pytest
from support.models.sessions import assert_values, i64, session, text_type
from support.strategies import OPERATOR_NAMES, filled

pytestmark = pytest.mark.mostly_slow(5)


class TestEveryType:
    """Also the types that onnxruntime refuses."""

    LOOP = """
        g (KIND[N] x, int64 n) => (seq(KIND[]) all, KIND[A] y, KIND[B, C] rows) {
            one = Constant <value = int64[1] {1}> ()
            parts = SplitToSequence (x)
            start = SequenceConstruct (x)
            all, rows = Loop (n, , start) <body = b (int64 i, bool go, seq(KIND[]) s)
                                                => (bool on, seq(KIND[]) t, KIND[1] part) {
                part = SequenceAt (parts, i)
                on = Identity (go)
                t = SequenceInsert (s, part, i)
            }>
            y = ConcatFromSequence <axis = 0> (all)
        }
    """

    @pytest.mark.parametrize("name", OPERATOR_NAMES)
    def test_loop(self, name):
        x = filled(name, 5)
        used = session(self.LOOP.replace("KIND", text_type(name)))
        for n in (5, 1, 0):
            parts = [x[i : i + 1] for i in range(n)]
            found = used.run(None, {"x": x, "n": i64(n)})
            assert_values(found[:2], [[*parts, x], np.concatenate([*parts, x])])
            assert (found[2].dtype, len(found[2])) == (x.dtype, n)
            assert found[2].ravel().tolist() == x[:n].tolist()

    def test_bfloat16(self):
        """SplitToSequence, Loop and If take it; the other operators on sequences don't."""
        text = """g (bfloat16[N] x, seq(bfloat16[]) given, bool c, int64 n)
            => (seq(bfloat16[]) parts, seq(bfloat16[]) given, bfloat16[A] y, seq(bfloat16[]) last) {
            two = Constant <value = int64 {2}> ()
            parts = SplitToSequence (x)
            chosen = If (c) <then_branch = a () => (seq(bfloat16[]) p) { p = SplitToSequence (x, two) },
                             else_branch = b () => (seq(bfloat16[]) q) { q = SplitToSequence (x) }>
            y, last = Loop (n, , x, chosen)
                <body = b (int64 i, bool go, bfloat16[A] a, seq(bfloat16[]) s)
                       => (bool go, bfloat16[B] b, seq(bfloat16[]) s) { b = Concat <axis = 0> (a, x) }>
        }"""
        used = session(text, 24)
        x, given = filled("bfloat16", 3), [filled("bfloat16", (2, 2))]
        parts = [x[i : i + 1] for i in range(3)]
        for c in (True, False):
            feed = {"x": x, "given": given, "c": np.array(c), "n": i64(2)}
            pieces = [x[:2], x[2:]] if c else parts
            assert_values(used.run(None, feed), [parts, given, np.tile(x, 3), pieces])
        (_, empty, *_) = used.run(None, {"x": x, "given": [], "c": np.array(True), "n": i64(0)})
        assert (len(empty), empty.dtype) == (0, x.dtype)


@pytest.mark.parametrize("seed", range(3))
def test_strings_of_any_length(seed):
    """Sequences of strings in and out and through a loop, whole and in steps, against Python's lists."""
    used = session("""
        g (seq(string[A]) s, string[B] x, int64 k) => (seq(string[A]) t, string[C] y, string[D] z)
        <bool yes = {1}, int64 zero = {0}> {
            t = Loop (k, yes, s) <body = b (int64 i, bool c, seq(string[A]) p) => (bool d, seq(string[A]) q) {
                d = Identity (c) a = SequenceInsert (p, x, zero) e = SequenceAt (a, zero)
                q = SequenceInsert (a, e)
            }>
            y = ConcatFromSequence <axis = 0> (t)
            u = SequenceErase (t, zero)
            z = SequenceAt (u, zero)
        }""")
    random = np.random.default_rng(seed)

    def some():
        words = ["é" * int(random.integers(0, 40)) for _ in range(random.integers(1, 4))]
        return np.array(words, object)

    for n, k in [(0, 1), (3, 2), (2, 4), (5, 1), (1, 3), (700, 2), (2, 2), (0, 600)]:
        s, x = [some() for _ in range(n)], some()
        t, y, z = used.run(None, {"s": s, "x": x, "k": i64(k)})
        expected = [x.tolist()] * k + [one.tolist() for one in s] + [x.tolist()] * k
        assert [one.tolist() for one in t] == expected
        assert y.tolist() == [word for one in expected for word in one]
        assert z.tolist() == expected[1]


@pytest.mark.parametrize("make", [list, tuple, np.array, lambda words: np.array(words, object)])
def test_strings_to_a_model_of_tensors(make):
    used = session("g (string[N] x) => (string[N] y) { y = Identity (x) }")
    (y,) = used.run(None, {"x": make(["a", "é"])})
    assert y.tolist() == ["a", "é"]
    with pytest.raises(TypeError, match="'x'"):
        used.run(None, {"x": [b"a", None]})


def test_an_output_of_a_type_that_numpy_lacks():
    """It is in the bytes that onnxruntime gives."""
    text = """g (float[N] x) => (float8e4m3fn[M] y) {
        s = SequenceConstruct (x, x) t = ConcatFromSequence <axis = 0> (s) y = Cast <to = 17> (t)
    }"""
    used = session(text, 19)
    (y,) = used.run(None, {"x": np.ones(4, np.float32)})
    assert (y.shape, y.dtype.itemsize) == ((8,), 1)


def test_items_that_are_no_strings():
    used = session("g (seq(string[A]) s, int64 i) => (string[B] y) { y = SequenceAt (s, i) }")
    for _ in range(4):
        with pytest.raises(TypeError):
            used.run(None, {"s": [np.array([1, None], object)], "i": i64(0)})
        (y,) = used.run(None, {"s": [np.array(["a"])], "i": i64(0)})
        assert y.tolist() == ["a"]
