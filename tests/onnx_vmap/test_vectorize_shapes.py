"""Loops that become one operator: the rules for products, for picking, and for shapes."""

import numpy as np
import pytest
from support.models.vectorizing import body, check_at_once, check_stays, feeds_for
from support.models.vectorizing import check_no_rule as no_rule
from support.models.vectorizing import check_rule as check

pytestmark = pytest.mark.mostly_slow(5)

MATRIX = "float[2, 3]"
CUBE = "float[2, 3, 4]"


class TestProducts:
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


class TestPicking:
    def test_gather_from_the_back_and_out_of_range(self):
        for at, is_fine in (([0, -1, 2], True), ([-3, 1, 1], True), ([0, 3, 0], False), ([0, 0, -4], False)):
            for code, types in (("a, b", {"x": "float[3]"}), ("w, b", {"w": "float[3]"})):
                types = {**types, "z": "int64"}
                feed = {**feeds_for(**types, trips=[3])[0], "z": np.array(at)}
                _, (one,) = check_at_once(body(f"e = Gather({code})", "float", **types), [feed], 17)
                assert (one is not None) == is_fine

    @pytest.mark.parametrize(("axis", "out"), [(0, "3, 4"), (1, "2, 4"), (-1, "2, 3")])
    @pytest.mark.parametrize("own", ["", "[2]", "[1, 2]"])
    def test_gather_of_what_each_iteration_has(self, axis, out, own):
        lengths = out.split(", ")
        lengths[axis % 3 : axis % 3] = own.strip("[]").split(", ") * bool(own)
        types = {"x": CUBE, "z": f"int64{own}"}
        text = body(f"e = Gather<axis = {axis}>(a, b)", f"float[{', '.join(lengths)}]", **types)
        feeds = feeds_for(**types)
        _, outcomes = check_at_once(text, [{**feed, "z": feed["z"] % 2} for feed in feeds])
        assert None not in outcomes[:-1]

    def test_gather_nd_of_batches(self):
        check("e = GatherND<batch_dims = 1>(a, b)", "float[4]", x="float[4, 9]", z="int64[4, 1]")

    def test_squeeze_of_all_axes(self):
        check("e = Squeeze(a)", "float[2, 3]", x="float[2, 1, 3, 1]")
        why = "squeezes axes that only a run tells at Squeeze 'e'"
        no_rule(
            "g = Slice(a, w, v, #(0)) e = Squeeze(g)", "float[?]", why, x=MATRIX, w="int64[1]", v="int64[1]"
        )

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

    def test_slice_of_another_length_in_each_iteration(self):
        why = "cuts another length in each iteration at Slice 'e'"
        no_rule(
            "g = Concat<axis = 0>(b, b) e = Slice(w, #(0, 0), g)", "float[?, ?]", why, z="int64[1]", w=MATRIX
        )
        no_rule("e = Slice(w, #(0), b, #(1))", "float[2, ?]", why, z="int64[1]", w=MATRIX)


class TestShapes:
    def test_reshape_by_what_a_run_tells(self):
        text = body("e = Reshape(a, w)", "float[?, ?]", x=MATRIX, w="int64[2]")
        shapes = [(3, 2), (0, -1), (-1, 1), (4, 4)]
        feeds = [{**feed, "w": np.array(w)} for feed in feeds_for(x=MATRIX)[1:] for w in shapes]
        _, outcomes = check_at_once(text, feeds)
        assert [one is not None for one in outcomes[:4]] == [True, True, True, False]

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


class TestWhatARunTells:
    def test_of_more_than_there_is(self):
        """Without an iteration nobody looks."""
        text = body("e, f = TopK(a, #(9))", "float[2, 9]; int64[2, 9]", x="float[2, ?]")
        feeds = [feed | {"x": feed["x"][:, :, :3]} for feed in feeds_for(x=MATRIX, trips=[0, 1])]
        _, outcomes = check_at_once(text, feeds, nloops=1)
        assert [one is None for one in outcomes] == [False, True]

    def test_axes(self):
        why = "reduces axes that only a run tells at ReduceSum 'e'"
        no_rule("e = ReduceSum<keepdims = 0>(a, w)", "float[3]", why, x=MATRIX, w="int64[1]")

    def test_another_bound_in_each_iteration(self):
        why = "goes by another 'b' in each iteration at Clip 'e'"
        no_rule("e = Clip(a, b)", MATRIX, why, x=MATRIX, z="float")
