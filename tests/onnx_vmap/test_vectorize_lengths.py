"""Loops that become one operator though each iteration has a length of its own: `_vmap/ragged.py`."""

import numpy as np
import pytest
from support.models.lowering import assert_same, outcome, parse, session
from support.models.vectorizing import (
    BOUNDS,
    ENDS,
    FILLED,
    PART,
    appending,
    assert_like,
    body,
    check_at_once,
    check_list,
    feeds_of_parts,
    some,
    takes_first,
    vectorized,
)

from seqcore.onnx import InferenceSession, lower
from seqcore.onnx.explaining import explain

pytestmark = pytest.mark.mostly_slow(11)


def reduction(op, axes, name, keepdims=0, opset=17):
    """A call that reduces a value over axes, which are an attribute or an input."""
    text = ", ".join(map(str, axes))
    if axes and (op == "Sum" or opset >= 18):
        return f"Reduce{op}<keepdims = {keepdims}>({name}, #({text}))"
    attribute = f", axes = [{text}]" * bool(axes)
    return f"Reduce{op}<keepdims = {keepdims}{attribute}>({name})"


def reduced(code, opset=17):
    """Code that reduces its q to e, over the first axis, which is gone then."""
    return f"{code} e = {reduction('Max', [0], 'q', 0, opset)}"


def check(code, out, opset=17, w="float[12, 3]", is_first=True, same=assert_like, **types):
    """A loop over parts of w becomes one operator, which takes on those that are not empty."""
    text = body(f"{PART} {code}", out, **ENDS, w=w, **types)
    feeds = feeds_of_parts(w=w, **types)
    result, outcomes = check_at_once(text, feeds, opset, 1, same)
    taken = takes_first(result, feeds_of_parts(FILLED, (1, 2, 5), w=w, **types))
    assert taken == [is_first] * 9
    assert None not in outcomes[: 4 * len(FILLED)]
    return result


def check_listed(code, element, opset=17, bounds=tuple(BOUNDS), w="float[12, 3]", **types):
    """A loop that appends parts to a list, which is joined, counted, picked from, and given out."""
    rank = element.count(",") + 1
    shape = ", ".join("ABC"[:rank])
    outs = f"float[{shape}] y, int64 p0, float[{shape.replace('A', 'D')}] q0"
    after = "y = ConcatFromSequence<axis = 0>(l) p0 = SequenceLength(l) q0 = SequenceAt(l, #-1)"
    text = appending(f"{PART} {code}", after, outs, element, **ENDS, w=w, **types)
    _, outcomes = check_list(text, feeds_of_parts(bounds, w=w, **types), opset)
    assert [one is None for one in outcomes] == [True, False, False, False] * len(bounds)
    text = appending(f"{PART} {code}", "y = Identity(l)", f"seq({element}) y", element, **ENDS, w=w, **types)
    _, outcomes = check_list(text, feeds_of_parts(bounds, w=w, **types), opset)
    assert None not in outcomes


class TestCuts:
    @pytest.mark.parametrize("opset", [14, 18, 21])
    def test_each_length(self, opset):
        check(reduced("q = Neg(p)", opset=opset), "float[3]", opset)
        check_listed("e = Identity(p)", "float[?, 3]", opset)

    @pytest.mark.parametrize(
        "part",
        [
            "p = Slice(w, a, b, #(-2))",
            "p = Slice(w, a, b, #(0), #(1))",
            """c0 = Cast<to = 6>(a) d0 = Cast<to = 6>(b) k = Constant<value = int32[1] {0}>()
            p = Slice(w, c0, d0, k)""",
            "c0 = Squeeze(a, #(0)) c1 = Unsqueeze(c0, #(0)) p = Slice(w, c1, b, #(0))",
            "f0 = Cast<to = 1>(a) h = Add(w, f0) p = Slice(h, #(0), b, #(0))",
            "f0 = Cast<to = 1>(a) h = Add(w, f0) p = Slice(h, #(1), b, #(0))",
        ],
    )
    def test_forms(self, part):
        text = body(f"{part} e = ReduceSum<keepdims = 0>(p, #(0))", "float[3]", **ENDS, w="float[12, 3]")
        check_at_once(text, feeds_of_parts(w="float[12, 3]"), nloops=1)

    @pytest.mark.parametrize(
        "w", ["float[12]", "float[12, 2, 2]", "int64[12, 3]", "bool[12]", "uint8[12, 2]"]
    )
    def test_data(self, w):
        rest = w[:-1].split("[")[1][4:]
        out = f"float[{rest}]" if rest else "float"
        text = body(f"{PART} h = Cast<to = 1>(p) e = ReduceSum<keepdims = 0>(h, #(0))", out, **ENDS, w=w)
        check_at_once(text, feeds_of_parts(w=w), nloops=1)

    def test_widths_that_a_run_tells(self):
        text = body(f"{PART} e = ReduceSum<keepdims = 0>(p, #(0))", "float[D]", **ENDS, w="float[T, D]")
        for shape in ("12, 3", "12, 0", "0, 3"):
            check_at_once(
                text, [feed | {"w": some(f"float[{shape}]")} for feed in feeds_of_parts()], nloops=1
            )

    def test_stacked(self):
        """A scan output has one shape: others are an error."""
        types = {**ENDS, "w": "float[12, 3]"}
        feeds = feeds_of_parts(["one length", "several", "some empty"], (1, 2, 5), w="float[12, 3]")
        _, outcomes = check_at_once(body(f"{PART} e = Neg(p)", "float[?, 3]", **types), feeds, nloops=1)
        assert [one is None for one in outcomes] == [False] * 3 + [False, True, True] * 2


RULES = [
    ("q = Exp(p)", "3", ""),
    ("h = Cast<to = 7>(p) q = Cast<to = 1>(h)", "3", ""),
    ("h = Constant<value = float {1}>() q = Clip(p, h)", "3", ""),
    ("q = Mul(p, v)", "3", "float[3]"),
    ("q = Sub(v, p)", "3", "float[1, 3]"),
    ("q = Div(p, v)", "3", "float"),
    ("h = Neg(p) q = Mul(p, h)", "3", ""),
    ("f0 = Cast<to = 1>(a) q = Mul(p, f0)", "3", ""),
    ("q = Softmax<axis = 0>(p)", "3", ""),
    ("q = Softmax<axis = 1>(p)", "3", ""),
    ("q = LogSoftmax<axis = -2>(p)", "3", ""),
    ("q = Softmax(p)", "3", ""),
    ("q = MatMul(p, v)", "4", "float[3, 4]"),
    ("q = Unsqueeze(p, #(1))", "1, 3", ""),
    ("h = Unsqueeze(p, #(-1)) q = Squeeze(h, #(2))", "3", ""),
    ("h = Unsqueeze(p, #(1)) q = Transpose<perm = [0, 2, 1]>(h)", "3, 1", ""),
    ("q = Gather<axis = 1>(p, #2)", "", ""),
    ("q = Gather<axis = -1>(p, v)", "2", "int64[2]"),
    ("q = Slice(p, #(1), #(3), #(1))", "2", ""),
    ("q = Slice(p, #(2), #(-9), #(-1), #(-2))", "2", ""),
    ("q = ReduceSum<keepdims = 0>(p, #(1))", "", ""),
]
# Those of which onnxruntime does other than the text where there is nothing.
FILLED_RULES = [
    ("q = MatMul(p, v)", "", "float[3]"),
    ("q = ReduceMean<axes = [-1]>(p)", "1", ""),
    ("q = Gemm(p, v)", "4", "float[3, 4]"),
    ("q = Gemm<transB = 1, alpha = 2.0>(p, v)", "4", "float[4, 3]"),
    ("h = Constant<value_floats = [1.0, 2.0, 3.0]>() q = Gemm(p, v, h)", "3", "float[3, 3]"),
    ("q = LayerNormalization(p, v)", "3", "float[3]"),
    ("q = Concat<axis = -1>(p, p)", "6", ""),
    ("h = Exp(p) q = Concat<axis = 1>(p, h)", "6", ""),
]


class TestRules:
    @pytest.mark.mostly_slow(11)
    @pytest.mark.mostly_at_night(2)
    @pytest.mark.parametrize(("code", "rest", "v"), [*RULES, *FILLED_RULES])
    def test_each(self, code, rest, v):
        text = body(
            f"{PART} {reduced(code)}", f"float[{rest}]" if rest else "float", **ENDS, w="float[12, 3]", v=v
        )
        feeds = feeds_of_parts(FILLED, w="float[12, 3]", v=v)
        result, _ = check_at_once(text, feeds, nloops=1)
        assert all(takes_first(result, feeds_of_parts(FILLED, (1, 2, 5), w="float[12, 3]", v=v)))
        element = f"float[?, {rest}]" if rest else "float[?]"
        bounds = tuple(BOUNDS) if (code, rest, v) in RULES else FILLED
        check_listed(code.replace("q = ", "e = "), element, 17, bounds, **({"v": v} if v else {}))

    @pytest.mark.mostly_slow(11)
    @pytest.mark.parametrize(
        "op", ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"]
    )
    @pytest.mark.parametrize(("opset", "keepdims"), [(14, 0), (14, 1), (18, 0)])
    def test_reductions(self, op, opset, keepdims):
        for axes, out in (([0], [3]), ([-1, 0], []), ([], [])):
            code = f"e = {reduction(op, axes, 'p', keepdims, opset)}"
            if keepdims:
                out = [1, 3] if axes == [0] else [1, 1]
            shape = f"float{out}" if out else "float"
            result, _ = check_at_once(
                body(f"{PART} {code}", shape, **ENDS, w="float[12, 3]"),
                feeds_of_parts(FILLED, w="float[12, 3]"), opset, 1)  # fmt: skip
            assert all(takes_first(result, feeds_of_parts(FILLED, (1, 2, 5), w="float[12, 3]")))

    @pytest.mark.parametrize("type_", ["int32", "int64", "double"])
    def test_reductions_of_other_types(self, type_):
        for op in ("Sum", "Max", "Min", "Prod"):
            code = f"h = Neg(p) e = {reduction(op, [0], 'h')}"
            if (op, type_) == ("Prod", "double"):
                continue  # onnxruntime has none
            text = body(f"{PART} {code}", f"{type_}[2]", **ENDS, w=f"{type_}[12, 2]")
            feeds = feeds_of_parts(FILLED, w=f"{type_}[12, 2]")
            check_at_once(text, feeds, nloops=1, same=assert_same)

    def test_reductions_of_what_is_empty(self):
        for op in ("Sum", "Mean", "Max", "Min", "Prod", "LogSumExp"):
            text = body(f"{PART} e = {reduction(op, [0], 'p')}", "float[3]", **ENDS, w="float[12, 3]")
            check_at_once(text, feeds_of_parts(w="float[12, 3]"), nloops=1)

    def test_weighted_sums(self):
        code = "r = ReduceSum<keepdims = 0>(p, #(1)) h = Softmax<axis = 0>(r) e = MatMul(h, p)"
        check(code, "float[3]")
        check("r = ReduceSum<keepdims = 0>(p, #(1)) e = MatMul(r, r)", "float")

    @pytest.mark.parametrize("ends", ["", "<start = 1>", "<end = 1>", "<start = -2>", "<end = -1>"])
    def test_shapes(self, ends):
        n = {"": 2, "<start = 1>": 1, "<end = 1>": 1, "<start = -2>": 2, "<end = -1>": 1}[ends]
        check(f"e = Shape{ends}(p)", f"int64[{n}]")
        if not ends:
            check("s0 = Shape(p) e = Gather(s0, #0)", "int64")

    def test_means_over_a_length(self):
        code = """s0 = Shape(p) n0 = Gather(s0, #0) n1 = Cast<to = 1>(n0)
            r = ReduceSum<keepdims = 0>(p, #(0)) e = Div(r, n1)"""
        check(code, "float[3]")

    def test_look_ups(self):
        code = "h = Gather(v, p) e = ReduceSum<keepdims = 0>(h, #(0))"
        check(code, "float[2]", w="int64[12]", v="float[2, 2]")
        check_listed("e = Gather(v, p)", "float[?, 2]", w="int64[12]", v="float[3, 2]")

    def test_look_ups_that_fail(self):
        text = body(f"{PART} h = Gather(v, p) e = ReduceSum<keepdims = 0>(h, #(0))", "float", **ENDS,
                    w="int64[12]", v="float[V]")  # fmt: skip
        ids = np.array([0, 1, 2, 3, 4, -1, 0, 0, 1, 1, 9, 0])
        starts, ends = np.array([0, 3, 5, 9, 10, 11])[:, None], np.array([3, 5, 9, 10, 11, 12])[:, None]
        feeds = [
            {"x": starts, "z": ends, "w": ids, "v": some(f"float[{size}]"), "n": np.array(n)}
            for size in (0, 5, 10)
            for n in range(7)
        ]
        _, outcomes = check_at_once(text, feeds, nloops=1)
        assert [one is None for one in outcomes] == [False] + [True] * 6 + [False] * 5 + [True] * 2 + [
            False
        ] * 7

    @pytest.mark.parametrize(
        ("code", "why"),
        [
            ("q = Concat<axis = 0>(p, p)", "has elements of several lengths at Concat 'q'"),
            (
                "h = Slice(w, b, a, #(0)) q = Add(p, h)",
                "puts elements of several lengths together at Add 'q'",
            ),
            ("q = Reshape(p, #(-1, 1))", "has elements of several lengths at Reshape 'q'"),
            ("q = Transpose(p)", "has elements of several lengths at Transpose 'q'"),
            ("q = CumSum(p, #0)", "has elements of several lengths at CumSum 'q'"),
            ("q = Slice(p, #(0), #(1), #(0))", "has elements of several lengths at Slice 'q'"),
            ("q = Unsqueeze(p, #(0))", "has elements of several lengths at Unsqueeze 'q'"),
            ("q = Gather(p, #0)", "has elements of several lengths at Gather 'q'"),
            ("q = MatMul(v, p)", "has elements of several lengths at MatMul 'q'"),
            ("q = Slice(w, a, b, #(0), #(2))", "cuts with a step at Slice 'q'"),
            ("q = Slice(w, a, b, #(1))", "cuts another length in each iteration at Slice 'q'"),
            ("h = Identity(i) q = Slice(p, a, b, #(0))", "has elements of several lengths at Slice 'q'"),
        ],
    )
    def test_what_has_none(self, code, why):
        types = {**ENDS, "w": "float[12, 3]", "v": "float[2, 4]"}
        text = body(f"{PART} {code} r = Shape(q) e = ReduceProd<keepdims = 0>(r)", "int64", **types)
        _, notes = vectorized(parse(text))
        assert [note.why_not for note in notes] == [why]

    def test_products_of_what_is_empty(self):
        types = {"w": "float[12, 3]", "v": "float[3, 4]"}
        code = "q = Gemm(p, v) e = ReduceSum<keepdims = 0>(q, #(0))"
        check_at_once(body(f"{PART} {code}", "float[4]", **ENDS, **types), feeds_of_parts(**types), nloops=1)
        check_listed("e = Gemm(p, v)", "float[?, 4]", **types)


PIECES = """g (float[SHAPE] w, int64[K] lengths, bool[C] c) => (float[OUT] y)
    <bool yes = {1}, float half = {0.5}> {
    MADE
    none = SequenceEmpty ()
    pieces = SplitToSequence <axis = 0> (x, lengths)
    k = SequenceLength (pieces)
    l = Loop (k, yes, none) <body = b (int64 i, bool go, seq(float[OUT]) s) => (bool on, seq(float[OUT]) t) {
        on = Identity (go)
        piece = SequenceAt (pieces, i)
        a = Mul (piece, half)
        e = Exp (a)
        r = Sub (e, half)
        t = SequenceInsert (s, r)
    }>
    y = ConcatFromSequence <axis = 0> (l)
}"""


@pytest.mark.parametrize("shape", ["N, M", "N, M, 2", "N, 2, M", "N, M, L", "N, 3"])
def test_pieces_whose_other_lengths_an_input_tells(shape):
    text = PIECES.replace("SHAPE", shape).replace("MADE", "x = Identity (w)")
    given = parse(text.replace("OUT", ", ".join("PQR"[: shape.count(",") + 1])))
    assert "all iterations of 1 loop at once" in explain(given)[0]
    used, before, after = InferenceSession(given), session(given), session(lower(given))
    for lengths in ([], [3], [2, 0, 1], [1] * 50):
        for m in (0, 1, 3):
            dims = {"N": sum(lengths), "M": m, "L": 2}
            dims = [dims[one] if one in dims else int(one) for one in shape.split(", ")]
            w = np.arange(np.prod(dims), dtype=np.float32).reshape(dims) / 8
            feed = {"w": w, "lengths": np.array(lengths, np.int64), "c": np.ones(m, bool)}
            expected = outcome(before, feed)
            assert_like(expected, outcome(after, feed))
            for _ in range(3):
                assert_like(expected, outcome(used, feed))


def test_pieces_whose_other_lengths_only_a_run_tells_stay_one_by_one():
    text = PIECES.replace("SHAPE", "N, M").replace("OUT", "P, Q")
    lines = explain(parse(text.replace("MADE", "x = Compress <axis = 1> (w, c)")))
    assert any(line.endswith("it gives elements of several lengths and unknown shapes") for line in lines)
