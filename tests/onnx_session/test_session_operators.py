"""Each sequence operator in a model: its meaning is that of `seqcore.operators`, its errors name the node."""

import numpy as np
import pytest

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

from support.models.sessions import (
    assert_fails,
    assert_value,
    assert_values,
    by_reference,
    f32,
    floats,
    i64,
    model,
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
    LENGTH = 3

    @pytest.mark.parametrize(("shape", "dtype"), FORMS)
    def test_at(self, shape, dtype):
        text = f"g (seq(float[]) s, {dtype}{shape} p) => (float[N] x) {{ [the_node] x = SequenceAt (s, p) }}"
        used, s = session(text), floats(1, 2, 3)
        for p in range(-3, 3):
            assert_values(used.run(None, {"s": s, "p": as_position(p, shape, dtype)}), [s[p]])
        for p in (3, -4, 100, -100, np.iinfo(dtype).max, np.iinfo(dtype).min):
            assert_fails(used, {"s": s, "p": as_position(p, shape, dtype)}, IndexError, "the_node")
        assert_fails(used, {"s": [], "p": as_position(0, shape, dtype)}, IndexError, "the_node")
        assert_values(used.run(None, {"s": s, "p": as_position(0, shape, dtype)}), [s[0]])

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

    def test_minus_one_inserts_before_the_last(self):
        text = """g (seq(float[]) s, float[N] x) => (seq(float[]) t, seq(float[]) u) {
            back = Constant <value = int64 {-1}> ()
            t = SequenceInsert (s, x, back)
            u = SequenceInsert (s, x)
        }"""
        assert_values(
            run(text, s=floats(1, 2), x=f32(9)),
            [[floats(1, 2)[0], f32(9), floats(1, 2)[1]], [*floats(1, 2), f32(9)]],
        )

    @pytest.mark.parametrize("left_out", ["", ", "])
    def test_no_position(self, left_out):
        text = f"""g (seq(float[]) s, float[N] x) => (seq(float[]) t, seq(float[]) u) {{
            t = SequenceInsert (s, x{left_out})
            [the_node] u = SequenceErase (s{left_out})
        }}"""
        used, s, x = session(text), floats(1, 2, 3), f32(7, 8)
        assert_values(used.run(None, {"s": s, "x": x}), [[*s, x], s[:-1]])
        assert_fails(used, {"s": [], "x": x}, IndexError, "the_node")
        assert_values(used.run(["t"], {"s": s[:1], "x": x}), [[s[0], x]])

    @pytest.mark.parametrize("p", [i64([0, 1]), i64([]), i64([[0, 0]])])
    def test_no_single_position(self, p):
        shape = ",".join(str(n) for n in p.shape)
        text = f"g (seq(float[]) s, int64[{shape}] p) => (float[N] x) {{ [the_node] x = SequenceAt (s, p) }}"
        assert_fails(session(text), {"s": floats(1, 2), "p": p}, Exception, "the_node")

    def test_computed_positions(self):
        """Positions that operators compute, from the sequence's length among others."""
        text = """g (seq(float[]) s) => (float[N] last, float[M] middle, seq(float[]) t) {
            one = Constant <value = int64 {1}> ()
            two = Constant <value = int64[1] {2}> ()
            n = SequenceLength (s)
            top = Sub (n, one)
            last = SequenceAt (s, top)
            half = Div (n, two)
            middle = SequenceAt (s, half)
            down = Neg (n)
            t = SequenceErase (s, down)
        }"""
        s = floats(1, 2, 3, 4)
        assert_values(run(text, s=s), [s[3], s[2], s[1:]])
        assert_values(run(text, s=s[:1]), [s[0], s[0], []])


class TestJoins:
    def text(self, axis, new_axis=0, rank=2):
        shape = ",".join("?" * (rank + new_axis))
        return f"""g (seq(float[]) s) => (float[{shape}] y) {{
            [the_node] y = ConcatFromSequence <axis = {axis}, new_axis = {new_axis}> (s)
        }}"""

    @pytest.mark.parametrize("axis", [-2, -1, 0, 1])
    def test_concat(self, axis):
        used = session(self.text(axis))
        shapes = [(2, 3), (5, 3)] if axis in (0, -2) else [(2, 3), (2, 1)]
        s = [filled("float32", shape, start=i) for i, shape in enumerate(shapes)]
        assert_values(used.run(None, {"s": s}), [np.concatenate(s, axis)])
        assert_values(used.run(None, {"s": s[:1]}), [s[0]])
        empty = [np.empty((0, 3) if axis in (0, -2) else (2, 0), np.float32)]
        assert_values(used.run(None, {"s": empty + s + empty}), [np.concatenate(s, axis)])
        assert_fails(used, {"s": []}, ValueError, "the_node")
        assert_fails(used, {"s": [s[0], s[0][:1, :2]]}, ValueError, "the_node")
        assert_fails(used, {"s": [s[0], s[0][0]]}, ValueError, "the_node")
        assert_values(used.run(None, {"s": s}), [np.concatenate(s, axis)])

    @pytest.mark.parametrize("axis", [-3, -2, -1, 0, 1, 2])
    def test_stack(self, axis):
        used = session(self.text(axis, 1))
        s = [filled("float32", (2, 3), start=i) for i in range(4)]
        assert_values(used.run(None, {"s": s}), [np.stack(s, axis)])
        assert_values(used.run(None, {"s": s[:1]}), [np.stack(s[:1], axis)])
        assert_fails(used, {"s": []}, ValueError, "the_node")
        assert_fails(used, {"s": [s[0], s[0][:1]]}, ValueError, "the_node")

    @pytest.mark.parametrize(("axis", "new_axis"), [(2, 0), (-3, 0), (3, 1), (-4, 1)])
    def test_axis_out_of_range(self, axis, new_axis):
        s = [filled("float32", (2, 3))] * 2
        with pytest.raises(ValueError, match=r".") as caught:  # when it is made or when it runs
            session(self.text(axis, new_axis)).run(None, {"s": s})
        assert "the_node" in said(caught)

    def test_scalars(self):
        s = [f32(i).reshape(()) for i in range(3)]
        assert_values(session(self.text(0, 1, 0)).run(None, {"s": s}), [f32(0, 1, 2)])
        assert_fails(session(self.text(0, 0, 1)), {"s": s}, ValueError, "the_node")


class TestSplits:
    @pytest.mark.parametrize("axis", [-2, -1, 0, 1])
    @pytest.mark.parametrize("keepdims", [0, 1])
    def test_no_split(self, axis, keepdims):
        text = f"""g (float[N, M] x) => (seq(float[]) s) {{
            s = SplitToSequence <axis = {axis}, keepdims = {keepdims}> (x)
        }}"""
        used = session(text)
        for shape in [(2, 3), (3, 1), (1, 1), (0, 2), (2, 0)]:
            x = filled("float32", shape)
            (found,) = used.run(None, {"x": x})
            assert_value(found, sq.split_to_sequence(x, None, axis, keepdims))
            assert len(found) == shape[axis]

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

    @pytest.mark.parametrize("dtype", ["int32", "int64"])
    @pytest.mark.parametrize("keepdims", [0, 1])
    def test_lengths(self, dtype, keepdims):
        text = f"""g (float[N, M] x, {dtype}[K] n) => (seq(float[]) s) {{
            [the_node] s = SplitToSequence <keepdims = {keepdims}> (x, n)
        }}"""
        used, x = session(text), filled("float32", (5, 2))
        for lengths in ([5], [2, 3], [0, 5, 0], [1] * 5, [0, 0, 5]):
            pieces = np.split(x, np.cumsum(lengths)[:-1])
            assert_values(used.run(None, {"x": x, "n": np.array(lengths, dtype)}), [pieces])
        assert_values(used.run(None, {"x": x[:0], "n": np.array([], dtype)}), [[]])
        for lengths in ([], [4], [6], [2, 2], [6, -1], [-5, 10], [np.iinfo(dtype).max] * 3):
            assert_fails(used, {"x": x, "n": np.array(lengths, dtype)}, ValueError, "the_node")
        assert_values(used.run(None, {"x": x, "n": np.array([5], dtype)}), [[x]])

    @pytest.mark.parametrize("split", [[3], [1, 2]])
    def test_constant_lengths(self, split):
        data = ", ".join(map(str, split))
        text = f"""g (float[N, 2] x) => (seq(float[]) s, float[A, 2] first, float[B, 2] last) {{
            n = Constant <value = int64[{len(split)}] {{ {data} }}> ()
            zero = Constant <value = int64 {{0}}> ()
            back = Constant <value = int64 {{-1}}> ()
            [the_node] s = SplitToSequence (x, n)
            first = SequenceAt (s, zero)
            last = SequenceAt (s, back)
        }}"""
        used, x = session(text), filled("float32", (3, 2))
        pieces = np.split(x, np.cumsum(split)[:-1])
        assert_values(used.run(None, {"x": x}), [pieces, pieces[0], pieces[-1]])
        for n in (0, 2, 4):
            for names in (None, ["first"], ["last"]):
                with pytest.raises(ValueError, match=r"."):
                    used.run(names, {"x": filled("float32", (n, 2))})

    @pytest.mark.parametrize("axis", [2, -3])
    def test_axis_out_of_range(self, axis):
        text = (
            f"g (float[N, M] x) => (seq(float[]) s) {{ [the_node] s = SplitToSequence <axis = {axis}> (x) }}"
        )
        with pytest.raises(ValueError, match=r".") as caught:
            run(text, x=filled("float32", (2, 2)))
        assert "the_node" in said(caught)

    def test_rank_0(self):
        text = "g (float x) => (seq(float[]) s) { [the_node] s = SplitToSequence (x) }"
        with pytest.raises(ValueError, match=r".") as caught:
            run(text, x=np.array(1, np.float32))
        assert "the_node" in said(caught)


class TestConstruction:
    @pytest.mark.parametrize("n", [1, 2, 5, 300])
    def test_construct(self, n):
        names = [f"x{i}" for i in range(n)]
        inputs = ", ".join(f"float[N{i}] {name}" for i, name in enumerate(names))
        text = f"g ({inputs}) => (seq(float[]) s) {{ s = SequenceConstruct ({', '.join(names)}) }}"
        tensors = floats(*(i % 4 for i in range(n)))
        assert_values(run(text, **dict(zip(names, tensors, strict=True))), [tensors])

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

    def test_the_default_type_is_float(self):
        (found,) = run("g () => (seq(float[]) s) { s = SequenceEmpty () }")
        assert found.dtype == np.float32

    def test_length(self):
        text = "g (seq(float[]) s) => (int64 n) { n = SequenceLength (s) }"
        used = session(text)
        for n in (0, 1, 7, 1000):
            assert_values(used.run(None, {"s": [f32(1)] * n}), [i64(n)])

    def test_identity(self):
        text = "g (seq(float[]) s) => (seq(float[]) t, int64 n) { t = Identity (s) n = SequenceLength (t) }"
        assert_values(run(text, s=floats(1, 2)), [floats(1, 2), i64(2)])
        (found, _) = run(text, s=[])
        assert found.dtype == np.float32


class TestErrors:
    def test_a_node_without_a_name(self):
        """Something of it is named: its output, input or operator."""
        text = "g (seq(float[]) s, int64 p) => (float[N] taken) { taken = SequenceAt (s, p) }"
        with pytest.raises(IndexError) as caught:
            run(text, s=floats(1), p=i64(1))
        assert "taken" in said(caught) or "SequenceAt" in said(caught)

    @pytest.mark.slow
    def test_names_of_all_kinds(self):
        for name in ("/layer.0/Sequence At", "ünï", "a:b", "7", "%s{x}", "a'b"):
            given = model("g (seq(float[]) s, int64 p) => (float[N] x) { x = SequenceAt (s, p) }")
            given.graph.node[0].name = name
            assert_fails(session(given), {"s": floats(1), "p": i64(1)}, IndexError, name)

    def test_the_right_node_is_named(self):
        text = """g (seq(float[]) s, int64 p) => (float[N] a, float[N] b, seq(float[]) t) {
            [first_one] a = SequenceAt (s, p)
            [second_one] t = SequenceErase (s)
            [third_one] b = SequenceAt (t, p)
        }"""
        used, s = session(text), floats(1, 1)
        error = assert_fails(used, {"s": s, "p": i64(1)}, IndexError, "third_one")
        assert "first_one" not in "".join([str(error), *getattr(error, "__notes__", ())])
        assert_fails(used, {"s": s, "p": i64(2)}, IndexError, "first_one")
        assert_values(used.run(None, {"s": s, "p": i64(0)}), [s[0], s[0], s[:1]])

    def test_a_failing_operator_on_tensors(self):
        text = """g (seq(float[]) s, float[N] x, int64 p) => (float[M] y) {
            taken = SequenceAt (s, p)
            [the_sum] t = Add (taken, x)
            y = Neg (t)
        }"""
        used = session(text)
        assert_fails(used, {"s": floats(2, 3), "x": f32(1, 2), "p": i64(1)}, Exception, "the_sum")
        feed = {"s": floats(2, 3), "x": f32(1, 2), "p": i64(0)}
        assert_values(used.run(None, feed), [-floats(2)[0] - f32(1, 2)])

    def test_one_of_two_outputs_fails(self):
        text = """g (seq(float[]) s) => (int64 n, float[M] y) {
            n = SequenceLength (s)
            [join] y = ConcatFromSequence <axis = 0> (s)
        }"""
        assert_fails(session(text), {"s": []}, ValueError, "join")


def test_where_onnxruntime_agrees():
    """The operators that onnxruntime has, on the same feeds."""
    text = """g (seq(float[]) s, float[N] x, int64 p)
            => (seq(float[]) t, float[M] y, int64 n, seq(float[]) u) {
        t = SequenceInsert (s, x, p)
        u = SequenceErase (t, p)
        y = ConcatFromSequence <axis = 0> (t)
        n = SequenceLength (u)
    }"""
    given = model(text)
    for p in range(-3, 4):
        feed = {"s": floats(1, 2, 0), "x": f32(5), "p": i64(p)}
        assert_values(session(given).run(None, feed)[1:3], by_reference(given, feed)[1:3])
