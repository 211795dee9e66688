"""seqcore.onnx.lower: splits, and edits of their pieces."""

import re

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models.lowering import (  # noqa: E402
    OPSETS,
    assert_same,
    check,
    left_in,
    lowered,
    ops,
    outcome,
    parse,
    quick_report,
    rows,
    session,
    unchecked,
)

from seqcore import split_to_sequence  # noqa: E402

pytestmark = pytest.mark.mostly_slow(11)

LENGTHS = [0, 1, 2, 5, 6, 7]
TWO, LISTED = "int64 k = {2}", "int64[3] k = {3, 0, 4}"


def split(readers, outs, constants="int64 k = {2}", split="x, k", shape="N, 4", attributes="", inputs=""):
    """A split of x, and what reads the pieces s."""
    return f"""g (float[{shape}] x{inputs}) => ({outs}) <{constants}> {{
        s = SplitToSequence{attributes}({split})
        {readers}
    }}"""


def feeds(lengths=LENGTHS, **more):
    return [{"x": rows(n)} | more for n in lengths]


def positions(kind, lengths=LENGTHS):
    shape = () if kind == "scalar" else (1,)
    return [one | {"p": np.full(shape, p)} for one in feeds(lengths) for p in range(-5, 5)]


AT = "y = SequenceAt(s, p)"


class TestPicking:
    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("kind", ["scalar", "int64[1] p", "int32[1] p", "int64[K] p"])
    @pytest.mark.parametrize("keepdims", [0, 1])
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_unit_pieces(self, kind, keepdims, axis):
        opset = OPSETS[axis % 2]
        attributes = f"<axis = {axis}, keepdims = {keepdims}>"
        inputs = ", " + (kind if kind != "scalar" else "int64 p")
        outs = "float[A, B] y" if keepdims else "float[A] y"
        dtype = np.int32 if "32" in kind else np.int64
        fed = [one | {"p": one["p"].astype(dtype)} for one in positions(kind)]
        check(split(AT, outs, split="x", attributes=attributes, inputs=inputs), fed, opset)

    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("constants", [TWO, "int32 k = {3}", "int64 k = {9}", "int64 k = {1}", LISTED])
    @pytest.mark.parametrize("shape", ["N, 4", "7, 4", "N, M"])
    @pytest.mark.mostly_at_night(5)
    def test_longer_pieces(self, opset, constants, shape):
        lengths = [7] if shape[0] == "7" else LENGTHS
        text = split(AT, "float[A, B] y", constants, shape=shape, inputs=", int64 p")
        check(text, positions("scalar", lengths), opset)

    @pytest.mark.parametrize("axis", [1, -1])
    def test_pieces_of_another_axis(self, axis):
        text = split(
            "y = SequenceAt(s, p) n = SequenceLength(s)",
            "float[A, B] y, int64 n",
            "int64 k = {3}",
            inputs=", int64 p",
            attributes=f"<axis = {axis}>",
        )
        check(text, positions("scalar"))

    @pytest.mark.mostly_slow(11)
    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("k", [-1, 0, 1, 2, 7, 9])
    def test_length_that_is_fed(self, opset, k):
        reads = "n = SequenceLength(s) y = SequenceAt(s, p) z = ConcatFromSequence<axis = 0>(s)"
        text = split(reads, "int64 n, float[A, B] y, float[C, D] z", "", inputs=", int64 k, int64 p")
        text = text.replace("<> ", "")
        fed = [one | {"k": np.array(k)} for one in positions("scalar")]
        check(text, fed, opset, succeeds=k > 0)

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("reads", ["n = SequenceLength(s)", AT, "y = ConcatFromSequence<axis = 0>(s)"])
    def test_lengths_that_are_fed(self, opset, reads):
        outs = "int64 n" if "Length" in reads else "float[A, B] y"
        text = split(reads, outs, "", inputs=", int64[K] k, int64 p").replace("<> ", "")
        result = lowered(parse(text, opset))
        assert left_in(result) == []
        running = session(result)
        for k in ([7], [3, 4], [3, 0, 4], [3, 3], [8, -1], [], [2**62, 2**62, 2**62, 2**62, 7]):
            for p in range(-4, 4):
                x = rows(7)
                try:
                    pieces = split_to_sequence(x, np.array(k, np.int64))
                    want = {"int64 n": len(pieces)}.get(outs)
                    if want is None:
                        want = pieces[p] if "At" in reads else x
                        if not len(pieces):
                            raise ValueError
                except (ValueError, IndexError):
                    want = None
                got = outcome(running, {"x": x, "k": np.array(k, np.int64), "p": np.array(p)})
                assert (got is None) == (want is None), (k, p)
                if got:
                    np.testing.assert_array_equal(got[0], want)

    @pytest.mark.parametrize("reads", ["n = SequenceLength(s)", AT, "y = SequenceAt(s, o)"])
    def test_lengths_that_do_not_sum_to_the_axis_fail(self, reads):
        outs = "int64 n" if "Length" in reads else "float[A, B] y"
        constants = f"{LISTED}, int64 o = {{0}}"
        text = split(reads, outs, constants, inputs=", int64 p")
        check(text, positions("scalar"))
        if outs == "float[A, B] y":
            text = text.replace("y = ", "z = ").replace("float[A, B] y", "int64[A] y")
            text = text.replace("    }", "y = Shape(z) }")
            check(text, positions("scalar"))

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize(
        ("constants", "given", "keepdims"),
        [(TWO, "x, k", 1), (LISTED, "x, k", 0), (TWO, "x", 0), (TWO, "x", 1), ("int64 k = {4}", "x, k", 1)],
    )
    def test_constant_positions_become_a_split(self, opset, keepdims, constants, given):
        constants += ", int64 a = {0}, int64[1] b = {-1}"
        text = split(
            "y = SequenceAt(s, a) z = SequenceAt(s, b)",
            "float[A, B] y, float[C, D] z" if keepdims or given == "x, k" else "float[A] y, float[B] z",
            constants,
            given,
            "7, 4",
            f"<axis = 0, keepdims = {keepdims}>",
        )
        result, _ = check(text, feeds([7]), opset)
        assert ops(result).count("Split") == 1
        assert not {"Gather", "Slice"} & set(ops(result))

    def test_keepdims_where_texts_and_onnxruntime_differ(self):
        # So PyTorch exports unbind: onnx infers rows of rank 2, onnxruntime makes them of rank 1, as does
        # what it is lowered to. Of a length that a run brings neither is known.
        text = """g (float[N, 4] x%s) => (float[A] f, float[B, C] y)
        <int64 k = {1}, int64 o = {0}, bool yes = {1}> {
            s = SplitToSequence<keepdims = 0>(x, %s)
            n = SequenceLength(s)
            none = SequenceEmpty()
            l = Loop(n, yes, none)
            <body = b (int64 i, bool c, seq(float[?]) u) => (bool c2, seq(float[?]) t) {
                c2 = Identity(c)
                e = SequenceAt(s, i)
                r = Neg(e)
                t = SequenceInsert(u, r)
            }>
            f = SequenceAt(s, o)
            y = ConcatFromSequence<axis = %d, new_axis = 1>(l)
        }"""
        for inputs, k, axis in (("", "k", 0), (", int64 j", "j", 0), ("", "k", 1), ("", "k", -1)):
            model = unchecked(text % (inputs, k, axis))
            result, notes = quick_report(model)
            assert notes[0].is_lowered is (k == "k")
            assert ("SplitToSequence" in left_in(result)) is (k == "j")
            before, after = session(model), session(result)
            for n in (0, 1, 3):
                feed = {"x": rows(n)} | ({"j": 1} if inputs else {})
                assert_same(outcome(before, feed), outcome(after, feed))
                assert outcome(after, feed) is not None or n == 0

    def test_one_of_many_is_not_worth_a_split(self):
        text = split("y = SequenceAt(s, a)", "float[A, B] y", "int64 a = {70}", "x", "100, 4")
        result, _ = check(text, feeds([100]))
        assert ops(result) == ["Gather"]

    @pytest.mark.slow
    def test_readers_in_branches_and_loops(self):
        text = split(
            """b = SequenceAt(s, k)
            y = If(w) <then_branch = f () => (float[A, B] u) { u = SequenceAt(s, p) },
                       else_branch = h () => (float[C, D] v) { v0 = SequenceAt(s, k) v = Add(v0, v0) }>
            n = SequenceLength(s)
            t = Loop(n, yes, b) <body = l (int64 i, bool c, float[E, F] r) => (bool c2, float[E2, F2] r2) {
                c2 = Identity(c)
                e = SequenceAt(s, i)
                r2 = Add(r, e)
            }>""",
            "float[A, B] y, float[C, D] t",
            "int64 k = {0}, bool yes = {1}",
            "x",
            inputs=", int64 p, bool w",
        )
        fed = [one | {"w": np.array(w)} for one in positions("scalar") for w in (True, False)]
        for opset in OPSETS:
            check(text, fed, opset)
        check(text.replace("SplitToSequence", "SplitToSequence<axis = -1>"), fed)
        check(
            text.replace("N, 4", "N, M")
            .replace("(x)", "(x, k2)")
            .replace("<int64 k =", "<int64 k2 = {2}, int64 k ="),
            fed,
        )

    @pytest.mark.parametrize("dtype", ["float", "int8", "int64", "bool", "string", "float16"])
    @pytest.mark.parametrize("given", ["x", "x, k"])
    @pytest.mark.parametrize(
        "read", ["SequenceAt(s, p)", "SequenceAt(s, k)", "ConcatFromSequence<axis = 1>(s)"]
    )
    def test_types(self, dtype, given, read):
        text = split(f"y = {read}", "float[A, B] y", TWO, given, "6, 4", inputs=", int64 p")
        result = lowered(parse(text.replace("float", dtype)))
        assert left_in(result) == []
        x = rows(6).astype({"float": "f", "double": "d"}.get(dtype, dtype if dtype != "string" else str))
        x = x.astype(object) if dtype == "string" else x
        got = outcome(session(result), {"x": x, "p": np.array(-1)})[0]
        pieces = split_to_sequence(x, 2) if given == "x, k" else split_to_sequence(x)
        want = np.concatenate(list(pieces), 1) if "Concat" in read else pieces[-1 if "p" in read else 2]
        np.testing.assert_array_equal(got, want)

    @pytest.mark.parametrize("given", ["x", "x, k"])
    def test_an_error_is_kept_where_only_the_shape_is_read(self, given):
        for read in ("SequenceAt(s, p)", "SequenceAt(s, a)", "ConcatFromSequence<axis = 0>(s)"):
            text = split(
                f"y0 = {read} y1 = Add(y0, y0) y = Shape(y1)",
                "int64[K] y",
                f"{TWO}, int64 a = {{1}}",
                given,
                inputs=", int64 p",
            )
            check(text, positions("scalar"))

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize(
        "trips",
        [
            "trips = Identity(n)",
            # PyTorch exports `enumerate` and `zip` so.
            "a = Reshape(n, one) b = Reshape(p, one) both = Concat<axis = 0>(a, b) "
            "trips = ReduceMin<keepdims = 0>(both)",
            "trips = Add(n, p)",
            "trips = Identity(p)",
        ],
    )
    def test_shapes_read_in_a_loop(self, trips, opset):
        """No number of the element is read, but a position out of range is an error."""
        readers = f"""n = SequenceLength(s) {trips}
            y = Loop(trips, yes, zero) <body = b (int64 i, bool c, int64 t) => (bool d, int64 u) {{
                d = Identity(c)
                e = SequenceAt(s, i)
                f = Neg(e)
                shape = Shape(f)
                items = Gather(shape, zero)
                m = Add(t, items)
                u = Mul(m, three)
            }}>"""
        constants = "int64[1] one = {1}, int64 three = {3}, int64 zero = {0}, bool yes = {1}"
        text = split(readers, "int64 y", constants, "x", "N, 4", "<keepdims = 0>", ", int64 p")
        check(text, positions("scalar"), opset, packs=False)


class TestJoiningPieces:
    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("split_axis", [0, 1, -1])
    @pytest.mark.parametrize(
        ("given", "keepdims", "new_axis", "axis"),
        [
            (given, keepdims, new_axis, axis)
            for given, keepdims in (("x", 0), ("x", 1), ("x, k", 1))
            for new_axis in (0, 1)
            for axis in (0, 1, -1)
            if -(2 + keepdims + new_axis) <= axis < 2 + keepdims + new_axis
        ],
    )
    def test_joins(self, given, split_axis, axis, new_axis, keepdims):
        opset = 14 if axis else 17
        rank = 2 + keepdims + new_axis
        outs = ", ".join("ABCD"[:rank])
        text = split(
            f"y = ConcatFromSequence<axis = {axis}, new_axis = {new_axis}>(s)",
            f"float[{outs}] y",
            TWO,
            given,
            "4, 2, 6",
            f"<axis = {split_axis}, keepdims = {keepdims}>",
        )
        check(text, [{"x": np.random.rand(4, 2, 6).astype("f")}], opset)

    @pytest.mark.parametrize("shape", [(0, 3), (3, 0), (1, 1), (4, 5)])
    @pytest.mark.parametrize("axis", [0, 1, -1])
    def test_joins_of_any_number(self, shape, axis):
        for given, new_axis in (("x", 0), ("x", 1), ("x, k", 0)):
            text = split(
                f"y = ConcatFromSequence<axis = {axis}, new_axis = {new_axis}>(s)",
                f"float[{'A, B, C' if new_axis else 'A, B'}] y",
                TWO,
                given,
                "N, M",
            )
            gone = given == "x" or axis == 0
            x = np.random.rand(*shape).astype("f")
            # onnxruntime joins empty elements of whatever lengths.
            check(text, [{"x": x}], gone=gone, succeeds=shape[0] > 0, packs=shape != (3, 0))

    @pytest.mark.parametrize("k", [-1, 0, 1, 7])
    def test_a_check_outlives_a_reshape(self, k):
        reads = (
            "z = ConcatFromSequence<axis = 0>(s) to = Constant<value = int64[2] {4, 7}>() y = Reshape(z, to)"
        )
        text = split(reads, "float[A, B] y", "float z0 = {0}", inputs=", int64 k", split="x, k", shape="7, 4")
        check(text, [one | {"k": k} for one in feeds([7])], succeeds=k > 0)
        text = text.replace("int64 k", "int64[K] k")
        check(text, [feeds([7])[0] | {"k": [k, rest]} for rest in (7 - k, 8)], succeeds=k >= 0)

    def test_a_check_is_kept_where_only_the_shape_is_read(self):
        reads = "z = ConcatFromSequence<axis = 0>(s) y = Shape(z)"
        text = split(reads, "int64[A] y", "float z0 = {0}", inputs=", int64[K] k", split="x, k", shape="7, 4")
        check(text, [feeds([7])[0] | {"k": k} for k in ([7], [3, 4], [3, 3], [8, -1])])

    def test_join_of_listed_pieces(self):
        text = split("y = ConcatFromSequence<axis = 0>(s)", "float[A, B] y", LISTED)
        check(text, feeds())
        result, _ = check(text.replace("N, 4", "7, 4"), feeds([7]))
        assert ops(result) == ["Identity"]


STAYS = [
    ("y = Identity(s)", "seq(float[A, B]) y", "it is returned|passes it on"),
    ("t = SequenceErase(s) y = SequenceLength(t)", "int64 y", "erases from it"),
    ("t = SequenceInsert(s, x) y = SequenceLength(t)", "int64 y", "inserts into it"),
    ("y = ConcatFromSequence<axis = 1>(s)", "float[A, B] y", "their shapes may differ"),
    ("y = ConcatFromSequence<axis = 0, new_axis = 1>(s)", "float[A, B, C] y", "their shapes may differ"),
]


@pytest.mark.parametrize(("readers", "outs", "why"), STAYS)
def test_splits_that_stay(readers, outs, why):
    model = parse(split(readers, outs))
    result, notes = quick_report(model)
    assert result == model
    assert re.search(why, str(notes[0]))


@pytest.mark.parametrize(
    ("constants", "shape", "why"),
    [
        ("int64 k = {0}", "N, 4", "can't split into lengths of 0"),
        ("int64[2] k = {3, -1}", "N, 4", r"can't split into lengths of \[3, -1\]"),
        ("int64[2] k = {3, 1}", "5, 4", "don't sum to 5"),
        ("int64 k = {2}, int64 j = {3}", "5, 4", "position 3 at 'y' is out of range for its 3 elements"),
    ],
)
def test_splits_that_always_fail_stay(constants, shape, why):
    read = "y = SequenceAt(s, j)" if "j" in constants else "y = SequenceAt(s, k)"
    constants = constants if "j" in constants or "[" not in constants else constants + ", int64 j = {0}"
    model = unchecked(
        split(read.replace("k", "j") if "j" in constants else read, "float[A, B] y", constants, shape=shape)
    )
    result, notes = quick_report(model)
    assert result == model
    with pytest.raises(AssertionError, match=why):
        raise AssertionError(str(notes[0]))


def test_a_split_whose_form_is_not_known_stays():
    text = """g (float[N, 4] x, int64[K] k0, int64[R] r) => (float[A, B] y) <int64 z = {0}> {
        k = Reshape(k0, r) s = SplitToSequence(x, k) y = SequenceAt(s, z)
    }"""
    _, notes = quick_report(parse(text))
    assert "one length or a list of them is not known" in str(notes[0])


class TestEditsOfKnownPieces:
    """What is erased or put in at a known place, of pieces of known lengths."""

    @pytest.mark.parametrize("axis", [0, 1, -1])
    @pytest.mark.parametrize(
        ("constants", "given"),
        [("int64[3] k = {3, 0, 4}", "x, k"), ("int64 k = {3}", "x, k"), ("int64 k = {1}", "x")],
    )
    @pytest.mark.parametrize("edit", ["SequenceErase(s, p)", "SequenceErase(s)", "SequenceInsert(s, z, p)"])
    @pytest.mark.mostly_at_night(5)
    def test_at_a_known_place(self, axis, constants, given, edit):
        for p in (0, 1, -1):
            text = f"""g (float[7, 7] x, float[7, 7] z) => (float[A, B] y, int64 n)
                <{constants}, int64 p = {{{p}}}> {{
                s = SplitToSequence <axis = {axis}> ({given})
                t = {edit}
                y = ConcatFromSequence <axis = {axis}> (t)
                n = SequenceLength (t)
            }}"""
            feed = {"x": rows(7, 7), "z": rows(7, 7, seed=1)}
            if given == "x" and "Insert" in edit:
                feed["z"] = feed["z"][:1] if axis == 0 else feed["z"][:, :1]
                text = text.replace("float[7, 7] z", "float[1, 7] z" if axis == 0 else "float[7, 1] z")
            check(text, [feed], gone=given == "x")
            assert left_in(lowered(parse(text))) == []

    def test_pieces_without_the_axis(self):
        text = """g (float[3, 4] x, float[4] z) => (float[A, B] y) <int64 p = {1}> {
            s = SplitToSequence <keepdims = 0> (x)
            t = SequenceErase (s, p) u = SequenceInsert (t, z)
            y = ConcatFromSequence <axis = 0, new_axis = 1> (u)
        }"""
        check(text, [{"x": rows(3), "z": rows(1)[0]}])

    def test_at_a_place_that_a_run_tells(self):
        text = """g (float[6, 4] x, int64 p) => (float[A, 4] y) <int64[3] k = {1, 2, 3}> {
            s = SplitToSequence (x, k)
            t = SequenceErase (s, p)
            y = ConcatFromSequence <axis = 0> (t)
        }"""
        check(text, [{"x": rows(6), "p": np.array(p)} for p in range(-4, 4)], gone=False)
        assert "Split" not in ops(lowered(parse(text)))

    @pytest.mark.parametrize("n", [4, 5, 6])
    def test_of_a_length_that_a_run_tells(self, n):
        """Where the lengths don't sum up is an error, although nobody reads the pieces."""
        text = """g (float[N, 4] x) => (int64 y) <int64[2] k = {2, 3}, int64 p = {0}> {
            s = SplitToSequence (x, k)
            t = SequenceErase (s, p)
            y = SequenceLength (t)
        }"""
        check(text, [{"x": rows(n)}], gone=False, succeeds=n == 5)

    def test_in_a_loop(self):
        text = """g (float[6, 4] x, int64 n) => (float[A, 4] y) <int64[3] k = {1, 2, 3}, int64 p = {0}> {
            s = SplitToSequence (x, k)
            first = SequenceErase (s, p)
            last = Loop (n, "", first)
                <body = b (int64 i, bool c, seq(float[]) l) => (bool d, seq(float[]) m) {
                e = SequenceAt (l, p) f = Neg (e) d = Identity (c)
                h = SequenceErase (l, p) m = SequenceInsert (h, f)
            }>
            y = ConcatFromSequence <axis = 0> (last)
        }"""
        check(text, [{"x": rows(6), "n": np.array(n)} for n in range(4)], gone=False)
        assert left_in(lowered(parse(text))) == []
