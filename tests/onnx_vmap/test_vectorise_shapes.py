"""Loops that become one operator: the rules for products, for picking, and for shapes."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")

from support.models.vectorising import TRIPS, body, check_at_once, check_stays, feeds_for  # noqa: E402
from support.models.vectorising import check_no_rule as no_rule  # noqa: E402
from support.models.vectorising import check_rule as check  # noqa: E402

pytestmark = pytest.mark.mostly_slow(5)

FILLED = TRIPS[1:]
FEWER = TRIPS[:-1]  # onnxruntime leaves out a Gather that only a shape is asked of
MATRIX = "float[2, 3]"
CUBE = "float[2, 3, 4]"
AXES = [("float[3]", axis) for axis in (0, -1)] + [("float[2, 3]", axis) for axis in (0, 1, -1, -2)]
AXES += [("float[2, 3, 4]", axis) for axis in (0, 1, 2, -1, -2, -3)]


class TestProducts:
    @pytest.mark.mostly_slow(3)
    @pytest.mark.parametrize(
        ("one", "other", "out"),
        [
            ("float[3]", "float[3]", "float"),
            ("float[3]", "float[3, 4]", "float[4]"),
            ("float[2, 3]", "float[3]", "float[2]"),
            ("float[2, 3]", "float[3, 4]", "float[2, 4]"),
            ("float[3]", "float[2, 3, 4]", "float[2, 4]"),
            ("float[2, 2, 3]", "float[3]", "float[2, 2]"),
            ("float[2, 2, 3]", "float[3, 4]", "float[2, 2, 4]"),
            ("float[2, 3]", "float[2, 3, 4]", "float[2, 2, 4]"),
            ("float[2, 1, 3]", "float[2, 3, 2]", "float[2, 1, 2]"),
            ("float[1, 2, 3]", "float[2, 3, 2]", "float[2, 2, 2]"),
        ],
    )
    @pytest.mark.parametrize("opset", [14, 17])
    def test_matmul(self, opset, one, other, out):
        check("e = MatMul(a, w)", out, opset, FILLED, x=one, w=other)
        check("e = MatMul(w, a)", out, opset, FILLED, x=other, w=one)
        check("e = MatMul(a, b)", out, opset, FILLED, x=one, z=other)

    @pytest.mark.mostly_slow(7)
    @pytest.mark.parametrize("flips", [(0, 0), (0, 1), (1, 0), (1, 1)])
    @pytest.mark.parametrize("c", ["", "float[4]", "float[1, 4]", "float[2, 4]", "float"])
    def test_gemm(self, flips, c):
        a, b = ["float[2, 3]", "float[3, 2]"][flips[0]], ["float[3, 4]", "float[4, 3]"][flips[1]]
        for factors in ("", ", alpha = 0.5, beta = 2.0"):
            flags = f"<transA = {flips[0]}, transB = {flips[1]}{factors}>"
            out = "float[2, 4]"
            check(f"e = Gemm{flags}(a, w{', v' * bool(c)})", out, 17, FILLED, x=a, w=b, v=c)
            check(f"e = Gemm{flags}(w, a{', v' * bool(c)})", out, 17, FILLED, x=b, w=a, v=c)
            check(f"e = Gemm{flags}(a, b{', v' * bool(c)})", out, 17, FILLED, x=a, z=b, v=c)
            if c:
                check(f"e = Gemm{flags}(a, w, b)", out, 17, FILLED, x=a, w=b, z=c)
                check(f"e = Gemm{flags}(w, v, b)", out, 17, FILLED, w=a, v=b, z=c)

    @pytest.mark.parametrize("equation", ["ij,jk->ik", "ij,jk->", "ij , jk -> kij"])
    def test_einsum(self, equation):
        out = {"ik": "float[2, 4]", "": "float", "kij": "float[4, 2, 3]"}[equation.split("->")[1].strip()]
        check(f'e = Einsum<equation = "{equation}">(a, w)', out, x=MATRIX, w="float[3, 4]")
        check(f'e = Einsum<equation = "{equation}">(w, a)', out, x="float[3, 4]", w=MATRIX)
        check(f'e = Einsum<equation = "{equation}">(a, b)', out, x=MATRIX, z="float[3, 4]")

    @pytest.mark.parametrize("equation", ["ij,jk", "...j,jk->...k"])
    def test_einsum_that_has_no_letter_to_spare(self, equation):
        code = f'e = Einsum<equation = "{equation}">(a, w)'
        why = "has no letter to spare at Einsum 'e'"
        no_rule(code, "float[2, 4]", why, x=MATRIX, w="float[3, 4]")

    @pytest.mark.slow
    def test_convolutions(self):
        image, weights = "float[1, 2, 4]", "float[2, 2, 3]"
        check("e = Conv(a, w)", "float[1, 2, 2]", x=image, w=weights)
        check("e = Conv(a, w, v)", "float[1, 2, 2]", 14, x=image, w=weights, v="float[2]")
        check("e = ConvTranspose(a, w)", "float[1, 2, 6]", x=image, w=weights)
        check("e = AveragePool<kernel_shape = [2]>(a)", "float[1, 2, 3]", x=image)
        check("e = GlobalAveragePool(a)", "float[1, 2, 1]", x=image)
        check("e = GlobalMaxPool(a)", "float[2, 2, 1]", x="float[2, 2, 4]")
        check("e = InstanceNormalization(a, w, v)", image, x=image, w="float[2]", v="float[2]")
        check("e = DepthToSpace<blocksize = 2>(a)", "float[1, 1, 2, 4]", x="float[1, 4, 1, 2]")
        check("e = SpaceToDepth<blocksize = 2>(a)", "float[1, 4, 1, 2]", x="float[1, 1, 2, 4]")

    def test_weights_that_vary(self):
        why = "goes by another 'b' in each iteration at Conv 'e'"
        no_rule("e = Conv(a, b)", "float[1, 2, 2]", why, x="float[1, 2, 4]", z="float[2, 2, 3]")

    def test_of_nothing(self):
        check("e = MatMul(a, w)", "float[4]", x="float[3]", w="float[3, 4]")
        check("e = MatMul(a, w)", "float[2, 4]", x=MATRIX, w="float[3, 4]")
        check("e = MatMul(a, b)", "float[2, 4]", x=MATRIX, z="float[3, 4]")
        check("e = Gemm(a, w, v)", "float[2, 4]", x=MATRIX, w="float[3, 4]", v="float[4]")
        check("e = Gemm<transA = 1>(a, b, w)", "float[3, 4]", x=MATRIX, z="float[2, 4]", w="float[4]")

    @pytest.mark.parametrize(
        ("code", "out", "types"),
        [
            ("e = MatMul(w, a)", "float[2, 4]", {"w": MATRIX, "x": "float[3, 4]"}),
            ("e = MatMul(w, a)", "float[4]", {"w": "float[3]", "x": "float[3, 4]"}),
            ("e = MatMul(a, w)", "float[2]", {"x": MATRIX, "w": "float[3]"}),
            ("e = MatMul(a, w)", "float[2, 2, 4]", {"x": "float[2, 2, 3]", "w": "float[2, 3, 4]"}),
            ("e = Gemm(w, a)", "float[2, 4]", {"w": MATRIX, "x": "float[3, 4]"}),
            ("e = Gemm<transA = 1>(a, w)", "float[3, 4]", {"x": MATRIX, "w": "float[2, 4]"}),
        ],
    )
    def test_of_nothing_with_what_is_the_same_for_all(self, code, out, types):
        check(code, out, **types)


class TestPicking:
    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize(("type_", "axis"), AXES)
    @pytest.mark.parametrize("at", ["int64", "int64[2]", "int32[2, 1]"])
    def test_gather(self, type_, axis, at):
        shape = [int(n) for n in type_[6:-1].split(",")]
        own = {"int64": [], "int64[2]": [2], "int32[2, 1]": [2, 1]}[at]
        place = axis % len(shape)
        out = f"float{shape[:place] + own + shape[place + 1 :] or ''}"
        code = "e = Gather<axis = {}>({}, {})"
        check(code.format(axis, "a", "w"), out, x=type_, w=at)
        check(code.format(axis, "w", "a"), out, 14, w=type_, x=at)
        check(code.format(axis, "a", "b"), out, 14, x=type_, z=at)

    def test_gather_from_the_back_and_out_of_range(self):
        for at, is_fine in (([0, -1, 2], True), ([-3, 1, 1], True), ([0, 3, 0], False), ([0, 0, -4], False)):
            for code, types in (("a, b", {"x": "float[3]"}), ("w, b", {"w": "float[3]"})):
                types = {**types, "z": "int64"}
                feed = {**feeds_for(**types, trips=[3])[0], "z": np.array(at)}
                _, (one,) = check_at_once(body(f"e = Gather({code})", "float", **types), [feed], 17)
                assert (one is not None) == is_fine

    def test_gather_from_nothing(self):
        text = body("e = Gather(w, a)", "float[2]", x="int64", w="float[K, 2]")
        for n in (0, 1, 3):
            feed = {"x": np.zeros(3, "q"), "w": np.zeros((0, 2), "f"), "n": np.array(n)}
            _, (one,) = check_at_once(text, [feed])
            assert (one is not None) == (n == 0)

    def test_gather_along_the_iterations(self):
        for axis in (1, 2, -1):
            types = {"x": "float", "w": "float[2, 41, 41]"}
            check(f"g = Gather<axis = {axis}>(w, i) e = Add(a, g)", "float[2, 41]", **types)

    @pytest.mark.slow
    def test_gather_nd(self):
        check("e = GatherND(w, a)", "float[3]", 14, w=MATRIX, x="int64[1]")
        check("e = GatherND(w, a)", "float[4]", w=MATRIX, x="int64[4, 2]")
        check("e = GatherND(a, w)", "float[4]", 14, x=MATRIX, w="int64[4, 2]")
        check("e = GatherND(a, b)", "float[4, 3]", 14, x=MATRIX, z="int64[4, 1]")
        for names, types in (
            ("a, b", {"x": MATRIX, "z": "int64[2, 1]"}),
            ("w, a", {"w": MATRIX, "x": "int64[2, 1]"}),
        ):
            check(f"e = GatherND<batch_dims = 1>({names})", "float[2]", **types)

    @pytest.mark.parametrize(
        ("axis", "shape"), [(0, [1, 3, 4]), (1, [2, 1, 4]), (-1, [2, 3, 1]), (-3, [1, 3, 4])]
    )
    def test_slice(self, axis, shape):
        for opset in (14, 17):
            check(f"e = Slice(a, #(1), #(2), #({axis}))", f"float{shape}", opset, x=CUBE)
        check(f"e = Slice(a, #(-1), #(-9), #({axis}), #(-4))", f"float{shape}", x=CUBE)

    def test_slice_without_axes(self):
        check("e = Slice(a, #(1), #(9))", "float[1, 3, 4]", x=CUBE)
        check("e = Slice(a, #(0, 1), #(9, -1))", "float[2, 1, 4]", x=CUBE)
        check("e = Slice(a, #(-2, 2, 1), #(9, 0, 3), , #(1, -1, 2))", "float[2, 2, 1]", x=CUBE)

    def test_slice_of_more_axes_at_once(self):
        check("e = Slice(a, #(1, 0), #(2, 2), #(2, 0))", "float[2, 3, 1]", x=CUBE)
        why = "cuts another length in each iteration at Slice 'e'"
        no_rule(
            "g = Concat<axis = 0>(b, b) e = Slice(w, #(0, 0), g)", "float[?, ?]", why, z="int64[1]", w=MATRIX
        )
        no_rule("e = Slice(w, #(0), b, #(1))", "float[2, ?]", why, z="int64[1]", w=MATRIX)

    def test_slice_with_bounds_in_a_run(self):
        text = body("e = Slice(a, w, v, #(-1))", "float[2, ?]", x="float[2, 3]", w="int64[1]", v="int64[1]")
        feeds = feeds_for(x="float[2, 3]")
        bounds = [([0], [2]), ([-2], [9]), ([2], [1]), ([-9], [-1])]
        feeds = [{**feed, "w": np.array(w), "v": np.array(v)} for feed in feeds[1:] for w, v in bounds]
        check_at_once(text, feeds)


class TestShapes:
    @pytest.mark.parametrize("opset", [14, 15])
    def test_shape_and_size(self, opset):
        for type_, n in (("float", 0), ("float[3]", 1), (MATRIX, 2), (CUBE, 3)):
            check("e = Shape(a)", f"int64[{n}]", opset, FEWER, x=type_)
            check("e = Size(a)", "int64", opset, FEWER, x=type_)

    @pytest.mark.parametrize(
        ("ends", "n"), [("start = 1", 2), ("start = -1", 1), ("end = -1", 2), ("end = 9", 3)]
    )
    def test_part_of_a_shape(self, ends, n):
        check(f"e = Shape<{ends}>(a)", f"int64[{n}]", 15, FEWER, x=CUBE)

    @pytest.mark.parametrize("opset", [14, 19])
    def test_reshape(self, opset):
        check("e = Reshape(a, #(4, 6))", "float[4, 6]", opset, x=CUBE)
        check("e = Reshape(a, #(0, -1))", "float[2, 12]", opset, x=CUBE)
        check("e = Reshape(a, #(-1))", "float[24]", opset, x=CUBE)
        check("e = Reshape(a, #())", "float", opset, x="float[1]")
        check("e = Reshape(a, #(1, 1))", "float[1, 1]", opset, x="float")
        check("e = Reshape<allowzero = 1>(a, #(3, 2))", "float[3, 2]", 14, x=MATRIX)
        check("e = Reshape<allowzero = 1>(a, #(0, 2))", "float[0, 2]", 14, x="float[3, 0]")

    def test_reshape_by_what_a_run_tells(self):
        text = body("e = Reshape(a, w)", "float[?, ?]", x=MATRIX, w="int64[2]")
        shapes = [(3, 2), (0, -1), (-1, 1), (4, 4)]
        feeds = [{**feed, "w": np.array(w)} for feed in feeds_for(x=MATRIX)[1:] for w in shapes]
        _, outcomes = check_at_once(text, feeds)
        assert [one is not None for one in outcomes[:4]] == [True, True, True, False]

    @pytest.mark.parametrize("axis", [0, 1, 3, -2, -3])
    def test_flatten(self, axis):
        sizes = [2, 3, 4][:axis], [2, 3, 4][axis:]
        out = f"float[{np.prod(sizes[0], dtype=int)}, {np.prod(sizes[1], dtype=int)}]"
        if axis == -2:
            check("e = Flatten<axis = -2>(a)", "float[2, 12]", x=CUBE)
        check(f"e = Flatten<axis = {axis}>(a)", out, x=CUBE)
        check("e = Flatten(a)", "float[2, 3]", x=MATRIX)
        check("e = Flatten(a)", "float[3, 1]", x="float[3]")

    def test_flatten_in_the_middle(self):
        no_rule("e = Flatten<axis = 2>(a)", "float[6, 4]", "flattens in the middle at Flatten 'e'", x=CUBE)

    def test_transpose(self):
        check("e = Transpose(a)", "float[4, 3, 2]", x=CUBE)
        check("e = Transpose<perm = [1, 0, 2]>(a)", "float[3, 2, 4]", x=CUBE)
        check("e = Transpose(a)", "float[3]", x="float[3]")

    @pytest.mark.parametrize(
        ("axes", "shape"), [((0,), [1, 2, 3]), ((-1,), [2, 3, 1]), ((1, -1), [2, 1, 3, 1])]
    )
    def test_unsqueeze(self, axes, shape):
        axes = f"#({', '.join(map(str, axes))})"
        check(f"e = Unsqueeze(a, {axes})", f"float{shape}", 14, x=MATRIX)
        check("e = Unsqueeze(a, #(0))", "float[1]", x="float")

    @pytest.mark.parametrize("axes", [(0,), (2,), (-1,), (-3, 2)])
    def test_squeeze(self, axes):
        shape = [n for k, n in enumerate([1, 2, 1]) if k not in axes and k - 3 not in axes]
        check(f"e = Squeeze(a, #({', '.join(map(str, axes))}))", f"float{shape}", 14, x="float[1, 2, 1]")

    @pytest.mark.parametrize("opset", [14, 21])
    def test_squeeze_of_all(self, opset):
        check("e = Squeeze(a)", "float[2]", opset, x="float[1, 2, 1]")
        check("e = Squeeze(a)", "float[2]", opset, x="float[2]")

    def test_expand(self):
        check("e = Expand(a, #(2, 3))", MATRIX, x="float[3]")
        check("e = Expand(a, #(2, 3))", MATRIX, x="float")
        check("e = Expand(a, #(3))", MATRIX, x="float[2, 1]")
        check("e = Expand(a, #(4, 1, 1))", "float[4, 2, 3]", x=MATRIX)
        check("s = Shape(b) e = Expand(a, s)", MATRIX, x="float[3]", z=MATRIX)

    def test_tile(self):
        check("e = Tile(a, #(2, 1))", "float[4, 3]", 14, x=MATRIX)
        check("e = Tile(a, #(3))", "float[9]", x="float[3]")

    @pytest.mark.parametrize("mode", ["constant", "reflect", "edge"])
    @pytest.mark.parametrize("opset", [14, 18])
    def test_pad(self, mode, opset):
        check(f'e = Pad<mode = "{mode}">(a, #(1, 0, 0, 2))', "float[3, 5]", opset, x=MATRIX)
        check(f'e = Pad<mode = "{mode}">(a, #(0, -1, 0, 0))', "float[2, 2]", opset, x=MATRIX)
        check("e = Pad(a, #(1, 1), w)", "float[5]", opset, x="float[3]", w="float")

    def test_pad_of_axes(self):
        no_rule(
            "e = Pad(a, #(1, 1), , #(1))",
            "float[2, 5]",
            "names the axes that it pads at Pad 'e'",
            18,
            x=MATRIX,
        )

    @pytest.mark.parametrize(
        "code",
        [
            "e = ConstantOfShape(b)",
            "s = Squeeze(b) g = Range(#0, s, #1) e = Cast<to = 1>(g)",
            "h = NonZero(b) g = Squeeze(h) e = Cast<to = 1>(g)",
        ],
    )
    def test_another_shape_in_each_iteration(self, code):
        op = next(word for word in ("ConstantOfShape", "Range", "NonZero") if word in code)
        output = {"ConstantOfShape": "e", "Range": "g", "NonZero": "h"}[op]
        why = f"makes another shape in each iteration at {op} '{output}'"
        types = {"z": "int64[1]"}
        feeds = [{**feed, "z": np.ones((40, 1), "q")} for feed in feeds_for(**types)]
        check_stays(body(code, "float[?]", **types), why, feeds)
