"""Each sequence operator in a model: its meaning is that of `seqcore.operators`, its errors name the node."""

import numpy as np
import pytest
from support.models.sessions import (
    assert_fails,
    assert_values,
    f32,
    floats,
    i64,
    run,
    said,
    session,
    text_type,
)
from support.strategies import OPERATOR_NAMES, dtype_of, filled

import seqcore as sq

pytestmark = pytest.mark.mostly_slow(5)


def as_position(position, shape, dtype):
    return np.array([position] if shape else position, dtype)


FORMS = [(shape, dtype) for shape in ("", "[1]") for dtype in ("int32", "int64")]


class TestPositions:
    @pytest.mark.parametrize(("shape", "dtype"), FORMS)
    def test_erase(self, shape, dtype):
        text = f"""g (seq(float[]) s, {dtype}{shape} p) => (seq(float[]) t) {{
            [the_node] t = SequenceErase (s, p)
        }}"""
        used, s = session(text), floats(1, 2, 3)
        for p in range(-3, 3):
            assert_values(
                used.run(None, {"s": s, "p": as_position(p, shape, dtype)}), [sq.sequence_erase(s, p)]
            )
        for p in (3, -4, np.iinfo(dtype).max, np.iinfo(dtype).min):
            assert_fails(used, {"s": s, "p": as_position(p, shape, dtype)}, IndexError, "the_node")
        assert_fails(used, {"s": [], "p": as_position(-1, shape, dtype)}, IndexError, "the_node")
        assert_values(used.run(None, {"s": s, "p": as_position(0, shape, dtype)}), [s[1:]])

    @pytest.mark.parametrize(("shape", "dtype"), FORMS)
    def test_insert(self, shape, dtype):
        text = f"""g (seq(float[]) s, float[N] x, {dtype}{shape} p) => (seq(float[]) t) {{
            [the_node] t = SequenceInsert (s, x, p)
        }}"""
        used, s, x = session(text), floats(1, 2, 3), f32(7, 8)
        for p in range(-3, 4):
            found = used.run(None, {"s": s, "x": x, "p": as_position(p, shape, dtype)})
            assert_values(found, [sq.sequence_insert(s, x, p)])
        for p in (4, -4, np.iinfo(dtype).max, np.iinfo(dtype).min):
            assert_fails(used, {"s": s, "x": x, "p": as_position(p, shape, dtype)}, IndexError, "the_node")
        assert_values(used.run(None, {"s": [], "x": x, "p": as_position(0, shape, dtype)}), [[x]])
        for p in (1, -1):
            assert_fails(used, {"s": [], "x": x, "p": as_position(p, shape, dtype)}, IndexError, "the_node")


class TestSplits:
    @pytest.mark.parametrize("given", ["x", "x, two"])
    @pytest.mark.parametrize("results", ["float[K, L] y", "seq(float[]) s"])
    @pytest.mark.parametrize("keepdims", [2, -1, 1 << 31])
    def test_keepdims_is_neither_0_nor_1(self, keepdims, results, given):
        text = f"""g (float[N, M] x, int64 i) => ({results}) {{
            two = Constant <value_int = 2> ()
            [the_node] s = SplitToSequence <keepdims = {keepdims}> ({given})
            y = SequenceAt (s, i)
        }}"""
        assert_fails(session(text), {"x": filled("float32", (2, 3)), "i": i64(0)}, ValueError, "the_node")

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    @pytest.mark.parametrize("keepdims", [0, 1])  # which a split overrides
    def test_one_length(self, dtype, keepdims):
        text = f"""g (float[N, M] x, {dtype} n) => (seq(float[]) s) {{
            [the_node] s = SplitToSequence <axis = 1, keepdims = {keepdims}> (x, n)
        }}"""
        used = session(text)
        for n in (1, 2, 3, 5, 7, 8, 1000, np.iinfo(dtype).max):
            x = filled("float32", (2, 7))
            pieces = np.split(x, range(n, 7, min(n, 7)), 1)
            if n == 1 and not keepdims:  # PyTorch's unbind
                pieces = [piece[:, 0] for piece in pieces]
            assert_values(used.run(None, {"x": x, "n": np.array(n, dtype)}), [pieces])
        for n in (0, -1, np.iinfo(dtype).min):
            assert_fails(used, {"x": x, "n": np.array(n, dtype)}, ValueError, "the_node")
        assert_values(used.run(None, {"x": x[:, :0], "n": np.array(2, dtype)}), [[]])

    @pytest.mark.parametrize(("shape", "axis"), [((2, 2), 2), ((2, 2), -3), ((), 0)])
    def test_axis_out_of_range(self, shape, axis):
        declared = "float[N, M]" if shape else "float"
        text = f"g ({declared} x) => (seq(float[]) s) {{ [odd_one] s = SplitToSequence <axis = {axis}> (x) }}"
        with pytest.raises(ValueError, match=r".") as caught:
            run(text, x=filled("float32", shape))
        assert "odd_one" in said(caught)


class TestConstruction:
    @pytest.mark.parametrize("name", OPERATOR_NAMES)
    def test_empty(self, name):
        numbers = {"float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7}
        numbers |= {"string": 8, "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13}
        numbers |= {"complex64": 14, "complex128": 15}
        kind = text_type(name)
        text = f"""g ({kind}[N] x) => (seq({kind}[]) none, seq({kind}[]) one, int64 n) {{
            none = SequenceEmpty <dtype = {numbers[name]}> ()
            one = SequenceInsert (none, x)
            n = SequenceLength (none)
        }}"""
        x = filled(name, 3)
        none, one, n = run(text, x=x)
        assert (type(none), len(none), none.dtype) == (sq.TensorSequence, 0, dtype_of(name))
        assert_values([one, n], [[x], i64(0)])
