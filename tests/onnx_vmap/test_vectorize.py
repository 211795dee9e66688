"""Loops that become one operator: what becomes of their states and branches, and which loops stay."""

import numpy as np
import onnx
import pytest
from support.models.lowering import assert_same, parse, unchecked
from support.models.vectorizing import (
    appending,
    body,
    check_at_once,
    check_same,
    check_stays,
    feeds_for,
    vectorized,
)

from seqcore.onnx._vmap import loop

pytestmark = pytest.mark.mostly_slow(5)

TRIPS = [-1, 0, 1, 2, 7, 40]


def check(code, outs, opset=17, same=assert_same, **types):
    """A loop with states is one operator, and gives the very numbers."""
    feeds = feeds_for(**types, trips=TRIPS)
    for feed in feeds:
        for name in feed:
            if feed[name].dtype.kind == "f":
                feed[name] = feed[name] * feed[name].dtype.type(0.1)
    result, outcomes = check_at_once(body(code, outs, **types), feeds, opset, same=same)
    assert None not in outcomes
    return result


def stays(code, outs, why, opset=17, **types):
    check_stays(body(code, outs, **types), why, feeds_for(**types, trips=TRIPS), opset)


class TestStates:
    def test_counts_of_a_shape(self):
        check("s2 = Add(s, #(2)) e = Neg(s)", "int64[1]", states="s: int64[1]")
        check("s2 = Sub(s, #(3)) e = Neg(s)", "int64[1]", states="s: int64[1]")

    def test_counts_of_32_bits(self):
        for step in (1, -2, (1 << 31) - 1):  # which go round
            code = f"k = Constant<value = int32 {{{step}}}>() s2 = Add(s, k) e = Identity(s)"
            check(code, "int32", states="s: int32")

    def test_a_state_that_may_change_its_shape(self):
        text = body("s2 = Identity(a) e = Size(s)", "int64", x="float[3]", states="s: float[?]")
        feeds = [f | {"s0": np.zeros(2, "f")} for f in feeds_for(x="float[3]", trips=(0, 1, 3))]
        check_stays(text, "carries 's', which may change its shape", feeds)

    def test_a_number_of_iterations_of_one_axis(self):
        text = body("s2 = Identity(a) e = Sub(a, s)", "float", x="float", states="s: float")
        text = text.replace("int64 n)", "int64[1] n)")
        feeds = feeds_for(x="float", states="s: float", trips=[0, 1, 40, 41])
        check_at_once(text, [feed | {"n": feed["n"].reshape(1)} for feed in feeds])


def branching(then, otherwise, out="float[3]", condition="b"):
    return f"""e = If({condition}) <
        then_branch = p () => ({out} yes_e) {{ {then} }},
        else_branch = q () => ({out} no_e) {{ {otherwise} }}
    >"""


class TestBranches:
    def test_types_that_it_does_not_choose_between(self):
        code = branching("yes_e = Cast<to = 10>(a)", "no_e = Cast<to = 10>(v)", "float16").replace(
            "e = If", "g = If"
        )
        why = "chooses between values of such a type at If 'g'"
        stays(f"{code} e = Cast<to = 1>(g)", "float", why, x="float", z="bool", v="float")

    def test_shapes_that_differ(self):
        code = branching("yes_g = Identity(a)", "no_g = Identity(v)", "float[?]").replace("_e", "_g")
        code = code.replace("e = If", "g = If") + " e = ReduceSum<keepdims = 0>(g)"
        why = "may get values of several shapes from If 'g'"
        stays(code, "float", why, x="float[3]", z="bool", v="float[2]")

    def test_picks_in_nested_branches(self):
        inner = """h = If(k) <
            then_branch = p () => (float yes_h) { yes_h = Gather(w, i) },
            else_branch = q () => (float no_h) { no_h = Identity(a) }
        >"""
        code = "k = Less(i, #9)" + branching(f"{inner} yes_e = Neg(h)", "no_e = Identity(a)", "float")
        types = {"x": "float", "w": "float[5]", "z": "bool"}
        feeds = feeds_for(**types, trips=[0, 1, 3, 40])
        z = np.arange(40) < 5
        feeds = [{**feed, "z": one} for feed in feeds for one in (z, ~z)]
        _, outcomes = check_at_once(body(code, "float", **types), feeds, nloops=1)
        assert [one is None for one in outcomes] == [False] * 7 + [True]

    @pytest.mark.parametrize(
        ("code", "node", "types"),
        [
            ("yes_e = GatherND(w, a)", "GatherND 'yes_e'", {"x": "int64[1]", "w": "float[2]"}),
            (
                "k = Concat<axis = 0>(w, v) g = ReduceSum<keepdims = 0>(k) yes_e = Mul(a, g)",
                "Concat 'k'",
                {"x": "float", "w": "float[2, K]", "v": "float[2, L]"},
            ),
        ],
    )
    def test_what_may_fail_where_it_is_not_taken(self, code, node, types):
        types = {**types, "z": "bool"}
        code = branching(code, "no_e = Cast<to = 1>(i)", "float")
        why = f"may fail at {node} in a branch that it doesn't take"
        fed = {name: one.replace("K", "3").replace("L", "2") for name, one in types.items()}
        check_stays(body(code, "float", **types), why, feeds_for(**fed))


class TestWhatStays:
    def test_random_numbers(self):
        for op, text in (("RandomUniformLike", "(a)"), ("RandomNormalLike", "(a)"), ("Bernoulli", "(w)")):
            model = parse(body(f"e = {op}{text}", "float[3]", x="float[3]", w="float[3]"))
            _, notes = vectorized(model)
            assert [note.why_not for note in notes] == [f"has {op} 'e', which can't be vectorized"]

    def test_other_domains(self):
        text = body("g = com.microsoft.Gelu(a) e = Cast<to = 1>(g)", "float[3]", x="float[3]")
        model = unchecked(text)
        model.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
        result, notes = vectorized(model)
        assert [note.why_not for note in notes] == ["has Gelu 'g', which can't be vectorized"]
        check_same(model, result, feeds_for(x="float[3]"))

    def test_conditions(self):
        text = body("e = Neg(a)", "float", x="float")
        feeds = feeds_for(x="float")
        deciding = text.replace("c2 = Identity(c)", "j = Mul(i, i) c2 = Less(j, k)").replace(
            "<bool", "<int64 k = {20}, bool"
        )
        check_stays(deciding, "decides in each iteration whether to go on", feeds)
        given = text.replace("Loop(n, yes", "Loop(n, go").replace("int64 n)", "int64 n, bool go)")
        under = [feed | {"go": np.array(go)} for feed in feeds for go in (True, False)]
        check_stays(given, "begins under a condition", under)
        # One that never begins is written out.
        check_at_once(text.replace("bool yes = {1}", "bool yes = {0}"), feeds)
        endless = deciding.replace("Loop(n, yes", "Loop(, yes")
        check_stays(endless, "decides in each iteration whether to go on", feeds)

    def test_strings(self):
        text = body("e = Identity(a)", "string", x="string")
        feeds = [{"x": np.array(["a", "b"], object), "n": np.array(n)} for n in (0, 1, 2, 3)]
        check_stays(text, "works on strings, such as 'x'", feeds)

    def test_large_rows(self):
        why = "works on large tensors, which would gain nothing"
        for length, is_large in ((loop.LARGE, True), (loop.LARGE - 1, False)):
            type_ = f"float[{length}]"
            text, feeds = body("e = Neg(a)", type_, x=type_), feeds_for(x=type_, trips=[0, 3])
            if is_large:
                check_stays(text, why, feeds)
            else:
                check_at_once(text, feeds, nloops=1)

    @pytest.mark.parametrize(
        ("insert", "why"),
        [
            ("k = Shape(e) t = SequenceInsert(s, e, k)", ": it inserts into it elsewhere than at an end"),
            ("h = SequenceInsert(s, e) t = SequenceInsert(h, e)", ""),
        ],
    )
    def test_lists_that_are_more_than_appended_to(self, insert, why):
        after = "p = SequenceLength(l) y = SequenceAt(l, #-1)"
        types = {"x": "int64[1]", "w": "float[1]"}
        text = appending("e = Expand(w, a)", after, "int64 p, float[?] y", "float[?]", **types)
        text = text.replace("t = SequenceInsert(s, e)", insert)
        _, notes = vectorized(parse(text))
        assert [note.why_not for note in notes] == [
            f"carries the list 's' from one iteration to the next{why}"
        ]
