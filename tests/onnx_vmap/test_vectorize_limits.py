"""Loops as one operator: what there is beside all iterations at once, on both sides of each limit."""

import numpy as np
import pytest
from support.models.lowering import ops, parse
from support.models.vectorizing import body, check_same, check_stays, feeds_for, takes_first, vectorized

from seqcore.onnx._vmap import loop, rules
from seqcore.onnx.explaining import explain

FEW = (1, 2, 3)


def way_of(code, outs="float", trips=FEW, changes=(), **types):
    """What there is beside all iterations at once, where a loop is one operator and gives what it gave."""
    text = body(code, outs, **types)
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    result, (note,) = vectorized(parse(text))
    assert note.is_vectorized, note
    check_same(parse(text), result, feeds_for(**types, trips=trips))
    loops = sum(op == "Loop" for op in ops(result))
    assert loops == (note.otherwise == "loop")
    assert ("If" in ops(result)) == bool(note.otherwise)
    return note.otherwise


class TestWays:
    @pytest.mark.parametrize(("width", "way"), [(2048, ""), (2049, "loop")])
    def test_small_iterations_go_at_once(self, width, way):
        row = f"float[{width}]"
        assert way_of("e = Neg(a)", row, x=row) == way

    @pytest.mark.parametrize(("width", "way"), [(64, "nothing"), (65, "loop")])
    def test_what_is_made_on_the_way_to_an_output(self, width, way):
        assert way_of(f"h = Expand(a, #({width})) e = ReduceMax<keepdims = 0>(h)", x="float") == way

    @pytest.mark.parametrize(("width", "way"), [(8, "nothing"), (9, "loop")])
    def test_what_is_made_on_the_way_to_a_state(self, width, way):
        code = f"h = Expand(a, #({width})) s2 = ReduceMax<keepdims = 0>(h)"
        assert way_of(code, "", x="float", states="s: float") == way

    @pytest.mark.parametrize(("times", "way"), [(4, ""), (5, "loop")])
    def test_four_times_as_much_as_comes_in(self, times, way):
        many = ", ".join("a" * times)
        assert way_of(f"h = Concat<axis = 0>({many}) e = ReduceMax<keepdims = 0>(h)", x="float[100]") == way

    @pytest.mark.parametrize("trips", [(-1, 0, 1, 3)])
    def test_nothing_without_an_iteration(self, trips):
        code = "s2 = Neg(a) e = Sub(a, s)"
        assert way_of(code, "float[3]", trips, x="float[3]", states="s: float[3]") == "nothing"


class TestLimits:
    @pytest.mark.parametrize(("width", "most"), [(4, 4), (5, 2), (8, 1), (9, 0)])
    def test_iterations_at_once_where_sizes_are_known(self, monkeypatch, width, most):
        """64 numbers, of which an iteration makes so many by so many."""
        for name, number in (("MOST_AT_ONCE", 64), ("SMALL", 8)):
            monkeypatch.setattr(loop, name, number)
        types = {"x": f"float[{width}]", "w": f"float[{width}]"}
        code = "c0 = Unsqueeze(a, #(1)) r = Unsqueeze(w, #(0)) g = Mul(c0, r) e = ReduceMax<keepdims = 0>(g)"
        model = parse(body(code, "float", **types))
        result, _ = vectorized(model)
        feeds = feeds_for(**types, trips=range(1, 7))
        check_same(model, result, feeds)
        assert takes_first(result, feeds) == [n <= most for n in range(1, 7)]

    @pytest.mark.parametrize(("n", "is_constant"), [(4096, True), (4097, False)])
    def test_numbers_of_iterations_as_a_constant(self, n, is_constant):
        text = (
            body("e = Neg(i)", "int64")
            .replace("Loop(n", "Loop(many")
            .replace("<bool", f"<int64 many = {{{n}}}, bool")
        )
        result, (note,) = vectorized(parse(text))
        assert note.is_vectorized
        assert ("Range" in ops(result)) is not is_constant
        check_same(parse(text), result, [{"n": np.array(1)}])

    @pytest.mark.parametrize(("count", "goes"), [(24, True), (25, False)])
    def test_nodes_in_branches(self, count, goes):
        assert rules.LONGEST_BRANCHES == 24
        then = " ".join(f"p{k + 1} = Neg({'a' if not k else f'p{k}'})" for k in range(count - 1))
        code = f"""z = Constant<value = float {{0.5}}>() k = Greater(a, z)
            e = If(k) <then_branch = t () => (float p{count - 1}) {{ {then} }},
                       else_branch = f () => (float q) {{ q = Exp(a) }}>"""
        if goes:
            assert way_of(code, x="float") == ""
        else:
            check_stays(body(code, "float", x="float"), "has long branches at If 'e'", feeds_for(x="float"))

    def test_an_integer_that_divides_may_be_0(self):
        """Without an iteration, and in a branch that none takes."""
        for type_, way in (("int64", "nothing"), ("float", "")):
            text = body("h = Div(w, v) e = Add(a, h)", type_, x=type_, w=type_, v=type_)
            assert vectorized(parse(text))[1][0].otherwise == way
        divided = """k = Greater(a, #0)
            e = If(k) <then_branch = t () => (int64 p) { p = Div(#7, a) },
                       else_branch = f () => (int64 q) { q = Neg(a) }>"""
        _, (note,) = vectorized(parse(body(divided, "int64", x="int64")))
        assert "runs iteration by iteration" in str(note)


@pytest.mark.slow
def test_explain_says_what_a_run_may_choose():
    cases = {
        "float[5]": "runs all iterations at once",
        "float[3000]": "runs all iterations at once, or one by one where that is too much",
    }
    for row, said in cases.items():
        lines = explain(parse(body("e = Neg(a)", row, x=row)))
        (line,) = (one for one in lines if "' runs all iterations" in one)
        assert line.endswith(said)
    lines = explain(parse(body("h = Expand(a, #(900)) e = ReduceMax<keepdims = 0>(h)", "float", x="float")))
    assert any(line.endswith("at once, or one by one where that is too much") for line in lines)
