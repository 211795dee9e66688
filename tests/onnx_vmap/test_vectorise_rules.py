"""Loops that become one operator: the rules that go number by number or along an axis."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models.vectorising import body, check_at_once, feeds_for  # noqa: E402
from support.models.vectorising import check_no_rule as no_rule  # noqa: E402
from support.models.vectorising import check_rule as check  # noqa: E402

pytestmark = pytest.mark.mostly_slow(5)

FORMS = [14, 17, 18, 21]
MATRIX = "float[2, 3]"
CUBE = "float[2, 3, 4]"
BY_NUMBER = [
    *(
        "Neg",
        "Abs",
        "Ceil",
        "Cos",
        "Erf",
        "Exp",
        "Floor",
        "LeakyRelu",
        "Log",
        "Relu",
        "Sigmoid",
        "Sin",
        "Sqrt",
    ),
    *("Tanh", "Acos", "Asinh", "Atan", "Celu", "Cosh", "Elu", "HardSigmoid", "HardSwish", "Reciprocal"),
    *("Round", "Selu", "Shrink", "Sign", "Softplus", "Softsign", "Tan", "ThresholdedRelu"),
]


class TestByNumber:
    @pytest.mark.parametrize("op", BY_NUMBER)
    def test_each(self, op):
        check(f"e = {op}(a)", MATRIX, x=MATRIX)

    @pytest.mark.parametrize("type_", ["float", "float[3]", "float[2, 3]", "float[2, 2, 3]"])
    @pytest.mark.parametrize("opset", FORMS)
    def test_ranks(self, opset, type_):
        check("e = Exp(a)", type_, opset, x=type_)
        check("e = Cast<to = 7>(a)", type_.replace("float", "int64"), opset, x=type_)

    def test_conditions(self):
        check("e = Not(a)", "bool[3]", x="bool[3]")
        check("g = Log(a) e = IsNaN(g)", "bool[3]", x="float[3]")
        check("g = Log(a) e = IsInf(g)", "bool[3]", x="float[3]")

    @pytest.mark.parametrize("opset", FORMS)
    def test_clip(self, opset):
        check("e = Clip(a, w, v)", MATRIX, opset, x=MATRIX, w="float", v="float")
        check("e = Clip(a, w)", MATRIX, opset, x=MATRIX, w="float")
        check("e = Clip(a, , w)", MATRIX, opset, x=MATRIX, w="float")

    def test_clip_by_another_bound_in_each_iteration(self):
        why = "goes by another 'b' in each iteration at Clip 'e'"
        no_rule("e = Clip(a, b)", MATRIX, why, x=MATRIX, z="float")

    def test_cast_like(self):
        check("e = CastLike(a, w)", "int64[2, 3]", x=MATRIX, w="int64")
        check("e = CastLike(a, b)", "int64[2, 3]", x=MATRIX, z="int64[4]")
        check("g = CastLike(w, a) e = Add(a, g)", "int64[3]", x="int64[3]", w="float")

    @pytest.mark.parametrize("upper", [0, 1])
    def test_trilu(self, upper):
        check(f"e = Trilu<upper = {upper}>(a)", MATRIX, x=MATRIX)
        check(f"e = Trilu<upper = {upper}>(a, #1)", CUBE, x=CUBE)


PAIRS = [("float", "float"), ("float[3]", "float"), ("float", "float[3]"), ("float[2, 3]", "float[3]")]
PAIRS += [("float[3]", "float[2, 3]"), ("float[2, 1]", "float[3]"), ("float[2, 1, 3]", "float[4, 1]")]
PAIRS += [("float[4, 1]", "float[2, 1, 3]"), ("float[2, 3]", "float[2, 3]"), ("float[1]", "float[2, 2, 3]")]


def broadcast(one, other):
    shapes = [tuple(map(int, filter(None, t[5:].strip("[]").split(",")))) for t in (one, other)]
    lengths = np.broadcast_shapes(*shapes)
    return f"float[{', '.join(map(str, lengths))}]" if lengths else "float"


class TestBroadcast:
    @pytest.mark.parametrize(("one", "other"), PAIRS)
    def test_what_varies(self, one, other):
        out = broadcast(one, other)
        check("e = Sub(a, w)", out, x=one, w=other)
        check("e = Sub(w, a)", out, x=other, w=one)
        check("e = Sub(a, b)", out, x=one, z=other)

    @pytest.mark.parametrize("op", ["Add", "Sub", "Mul", "Div", "Max", "Min", "Sum", "Mean", "PRelu", "Pow"])
    @pytest.mark.parametrize("opset", [14, 17])
    def test_arithmetic(self, op, opset):
        check(f"e = {op}(a, b)", MATRIX, opset, x=MATRIX, z="float[3]")

    def test_three(self):
        for op in ("Max", "Sum", "Mean"):
            check(f"e = {op}(w, a, b)", "float[2, 2, 3]", x="float[3]", z=MATRIX, w="float[2, 1, 1]")

    @pytest.mark.parametrize("op", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
    def test_comparisons(self, op):
        check(f"e = {op}(a, b)", "bool[2, 3]", x=MATRIX, z="float[3]")
        check(f"e = {op}(w, a)", "bool[2, 3]", x="float", w=MATRIX)

    @pytest.mark.parametrize("op", ["And", "Or", "Xor"])
    def test_logic(self, op):
        check(f"e = {op}(a, b)", "bool[2, 3]", x="bool[3]", z="bool[2, 1]")

    def test_where(self):
        check("e = Where(a, b, w)", MATRIX, x="bool", z="float[3]", w=MATRIX)
        check("e = Where(w, a, b)", MATRIX, x="float[2, 1]", z="float[3]", w="bool[3]")
        check("e = Where(a, w, v)", MATRIX, x="bool[2, 1]", w="float[3]", v="float")

    @pytest.mark.slow
    def test_integers(self):
        check("o = Add(b, #1) e = Mod(a, o)", "int64[2, 3]", x="int64[2, 3]", z="int64[3]")
        check("o = Add(b, #1) e = Div(a, o)", "int64[2, 3]", x="int64[2, 3]", z="int64[3]")
        check('e = BitShift<direction = "LEFT">(a, b)', "uint8[2, 3]", x="uint8[2, 3]", z="uint8[3]")
        check("e = BitwiseXor(a, b)", "int64[2, 3]", 18, x="int64[2, 3]", z="int64[3]")
        check("e = BitwiseNot(a)", "int64[2, 3]", 18, x="int64[2, 3]")

    @pytest.mark.parametrize("slope", ["float", "float[3]", "float[2, 1]", "float[2, 3]"])
    def test_prelu(self, slope):
        check("e = PRelu(a, w)", MATRIX, x=MATRIX, w=slope)
        check("e = PRelu(a, b)", MATRIX, x=MATRIX, z=slope)
        check("e = PRelu(w, b)", MATRIX, w=MATRIX, z=slope)


AXES = [("float[3]", axis) for axis in (0, -1)] + [("float[2, 3]", axis) for axis in (0, 1, -1, -2)]
AXES += [("float[2, 3, 4]", axis) for axis in (0, 1, 2, -1, -2, -3)]


class TestAlongAnAxis:
    @pytest.mark.parametrize(("type_", "axis"), AXES)
    @pytest.mark.parametrize("opset", [14, 17])
    def test_softmax(self, opset, type_, axis):
        check(f"e = Softmax<axis = {axis}>(a)", type_, opset, x=type_)

    @pytest.mark.parametrize("opset", [14, 17])
    @pytest.mark.parametrize("op", ["Softmax", "LogSoftmax", "Hardmax"])
    def test_softmax_by_default(self, opset, op):
        check(f"e = {op}(a)", CUBE, opset, x=CUBE)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    def test_cum_sum(self, type_, axis):
        check(f"e = CumSum(a, #{axis})", type_, x=type_)
        check(f"e = CumSum<exclusive = 1, reverse = 1>(a, #({axis}))", type_, 14, x=type_)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    @pytest.mark.parametrize("op", ["ArgMax", "ArgMin"])
    def test_arg_reduce(self, type_, axis, op):
        shape = [int(n) for n in type_[6:-1].split(",")]
        shape[axis] = 1
        check(f"e = {op}<axis = {axis}>(a)", f"int64{shape}", x=type_)
        del shape[axis]
        check(f"e = {op}<axis = {axis}, keepdims = 0>(a)", f"int64{shape or ''}", 14, x=type_)

    def test_arg_reduce_by_default(self):
        check("e = ArgMax(a)", "int64[1, 3]", x=MATRIX)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    @pytest.mark.parametrize("opset", [14, 21])
    def test_top_k(self, type_, axis, opset):
        shape = [int(n) for n in type_[6:-1].split(",")]
        shape[axis] = 2
        check(f"e, f = TopK<axis = {axis}>(a, #(2))", f"float{shape}; int64{shape}", opset, x=type_)

    def test_of_more_than_there_is(self):
        """Without an iteration nobody looks."""
        text = body("e, f = TopK(a, #(9))", "float[2, 9]; int64[2, 9]", x="float[2, ?]")
        feeds = [feed | {"x": feed["x"][:, :, :3]} for feed in feeds_for(x=MATRIX, trips=[0, 1])]
        _, outcomes = check_at_once(text, feeds, nloops=1)
        assert [one is None for one in outcomes] == [False, True]

    @pytest.mark.parametrize("axis", [0, 1, -1, -2])
    def test_layer_normalization(self, axis):
        width = "float[3]" if axis in (1, -1) else MATRIX
        check(f"e = LayerNormalization<axis = {axis}>(a, w, v)", MATRIX, x=MATRIX, w=width, v=width)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    def test_one_hot(self, type_, axis):
        shape = [int(n) for n in type_[6:-1].split(",") if n]
        shape.insert(axis if axis >= 0 else len(shape) + 1 + axis, 4)
        type_ = type_.replace("float", "int64")
        check(f"e = OneHot<axis = {axis}>(a, #4, w)", f"float{shape}", x=type_, w="float[2]")

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    def test_gather_elements(self, type_, axis):
        at = type_.replace("float", "int64")
        check(f"e = GatherElements<axis = {axis}>(a, b)", type_, x=type_, z=at)
        check(f"e = GatherElements<axis = {axis}>(a, w)", type_, 14, x=type_, w=at)
        check(f"e = GatherElements<axis = {axis}>(w, a)", type_, w=type_, x=at)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    def test_scatter_elements(self, type_, axis):
        shape = [int(n) for n in type_[6:-1].split(",")]
        shape[axis] = 1  # so that no place is written to twice
        part = f"float{shape}"
        at = part.replace("float", "int64")
        check(f"e = ScatterElements<axis = {axis}>(a, b, w)", type_, x=type_, z=at, w=part)
        check(f"e = ScatterElements<axis = {axis}>(w, a, b)", type_, 14, w=type_, x=at, z=part)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    def test_concat(self, type_, axis):
        shape = [int(n) for n in type_[6:-1].split(",")]
        shape[axis] *= 3
        check(f"e = Concat<axis = {axis}>(a, w, b)", f"float{shape}", x=type_, z=type_, w=type_)
        check(f"e = Concat<axis = {axis}>(w, a, a)", f"float{shape}", 14, x=type_, w=type_)

    @pytest.mark.parametrize("axis", [0, 1, -1, -2])
    def test_split(self, axis):
        shapes = [[4, 4], [4, 4]]
        shapes[0][axis], shapes[1][axis] = 1, 3
        outs, halves = [f"float{shape}" for shape in shapes], [4, 4]
        halves[axis] = 2
        for opset in (14, 17, 18):
            check(f"e, f = Split<axis = {axis}>(a, #(1, 3))", "; ".join(outs), opset, x="float[4, 4]")
        check(f"e, f = Split<axis = {axis}>(a)", f"float{halves}; float{halves}", 14, x="float[4, 4]")
        code = f"e, f = Split<axis = {axis}, num_outputs = 2>(a)"
        check(code, f"float{halves}; float{halves}", 18, x="float[4, 4]")

    def test_split_by_default(self):
        check("e, f = Split(a)", "float[2, 3]; float[2, 3]", x="float[4, 3]")


REDUCTIONS = [
    f"Reduce{word}"
    for word in ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare"]
]


class TestReduce:
    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize("op", REDUCTIONS)
    @pytest.mark.parametrize("opset", [14, 18])
    @pytest.mark.parametrize(("axes", "shape"), [([0], [3, 4]), ([-1, 0], [3]), ([1], [2, 4]), ([], [])])
    def test_each(self, op, opset, axes, shape):
        is_input = op == "ReduceSum" or opset >= 18
        code = "g = Abs(a)"  # of what is negative, there is no logarithm
        if not axes:
            code += f" e = {op}<keepdims = 0>(g)"
        elif is_input:
            code += f" e = {op}<keepdims = 0>(g, #({', '.join(map(str, axes))}))"
        else:
            code += f" e = {op}<keepdims = 0, axes = {axes}>(g)"
        check(code, f"float{shape or ''}", opset, x=CUBE)

    @pytest.mark.parametrize(("type_", "axis"), AXES)
    def test_keeps_axes(self, type_, axis):
        shape = [int(n) for n in type_[6:-1].split(",")]
        shape[axis] = 1
        check(f"e = ReduceSum(a, #({axis}))", f"float{shape}", x=type_)
        check(f"e = ReduceMax<axes = [{axis}]>(a)", f"float{shape}", x=type_)

    @pytest.mark.parametrize("opset", [14, 18])
    def test_all_axes(self, opset):
        check("e = ReduceSum(a)", "float[1, 1]", opset, x=MATRIX)
        check("e = ReduceMean(a)", "float[1, 1]", opset, x=MATRIX)
        check("e = ReduceSum(a, #())", "float[1, 1]", opset, x=MATRIX)

    def test_axes_that_a_run_tells(self):
        why = "reduces axes that only a run tells at ReduceSum 'e'"
        no_rule("e = ReduceSum<keepdims = 0>(a, w)", "float[3]", why, x=MATRIX, w="int64[1]")
