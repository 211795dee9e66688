"""A normal model computes nothing twice: of nodes that are the same, those after the first go."""

import numpy as np
import pytest
from support.models.lowering import ops, outcome, session, unchecked

from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights
from seqcore.onnx._model.writing import to_message

IN_LOOP = """
    yes = Constant <value = bool {{1}}> ()
    zero = Constant <value = float {{0}}> ()
    {}
    y = Loop (n, yes, zero) <body = b (int64 i, bool go, float s) => (bool on, float e) {{
        on = Identity (go)
        r = ReduceSum <keepdims = 0> (x)
        e = Add (s, r)
    }}>
"""
IN_BRANCHES = (
    "{} {} = If (c) <then_branch = p () => (float[] u) {{{}}}, else_branch = q () => (float[] v) {{{}}}>"
)

# Nodes, and the operators that are left, in all depths.
CASES = {
    "in a graph": ("a = Abs (x) b = Abs (x) y = Add (a, b)", "Abs Add"),
    "behind each other": ("a = Abs (x) b = Abs (x) d = Neg (a) e = Neg (b) y = Add (d, e)", "Abs Neg Add"),
    "equal constants": (
        "k = Constant <value = float {2}> () l = Constant <value = float {2}> ()"
        "a = Mul (x, k) b = Mul (x, l) y = Add (a, b)",
        "Mul Add",
    ),
    "constants of two shapes": (
        "k = Constant <value = float {2}> () l = Constant <value = float[1, 1] {2}> ()"
        "a = Mul (x, k) b = Mul (x, l) y = Add (a, b)",
        "Mul Mul Add",
    ),
    "constants of two types": (
        "k = Constant <value = int64 {1}> () l = Constant <value = int32 {1}> ()"
        "a = Cast <to = 1> (k) b = Cast <to = 1> (l) d = Add (a, b) y = Mul (x, d)",
        "Cast Cast Add Mul",
    ),
    "two attributes": (
        "a = ReduceMax <keepdims = 0> (x) b = ReduceMax <keepdims = 1> (x) y = Sub (a, b)",
        "ReduceMax ReduceMax Sub",
    ),
    "attributes in two orders": (
        "a = ReduceMax <axes = [0], keepdims = 0> (x) b = ReduceMax <keepdims = 0, axes = [0]> (x)"
        "y = Sub (a, b)",
        "ReduceMax Sub",
    ),
    "inputs in two orders": ("a = Abs (x) b = Sub (x, a) d = Sub (a, x) y = Max (b, d)", "Abs Sub Sub Max"),
    "random numbers": (
        "a = RandomNormalLike (x) b = RandomNormalLike (x) y = Sub (a, b)",
        "RandomNormalLike RandomNormalLike Sub",
    ),
    "in a loop": (IN_LOOP.format("t = ReduceSum <keepdims = 0> (x)"), "ReduceSum Loop Add"),
    "in a loop alone": (IN_LOOP.format(""), "Loop ReduceSum Add"),
    "in both branches": (IN_BRANCHES.format("", "y", "u = Abs (x)", "v = Abs (x)"), "If Abs Abs"),
    "what a branch gives": (
        IN_BRANCHES.format("a = Abs (x)", "y", "u = Abs (x)", "b = Abs (x) v = Neg (b)"),
        "Abs If Abs Neg",
    ),
    "two choices by one condition": (
        IN_BRANCHES.format("", "a", "u = Abs (x)", "v = Neg (x)")
        + IN_BRANCHES.format("", "d", "u2 = Neg (x)", "v2 = Abs (x)")
        .replace("] u", "] u2")
        .replace("] v", "] v2")
        + "y = Sub (a, d)",
        "If Abs Neg If Neg Abs Sub",
    ),
    "in a branch before": (
        IN_BRANCHES.format("", "m", "a = Abs (x) u = Neg (a)", "v = Neg (x)") + " b = Abs (x) y = Add (b, m)",
        "If Abs Neg Neg Abs Add",
    ),
    "in a map": (
        """s = SequenceConstruct (x, x)
        a = Abs (x)
        m = SequenceMap (s, x) <body = f (float[] e, float[] z) => (float[] o) {b = Abs (z) o = Add (b, e)}>
        d = ConcatFromSequence <axis = 0> (m)
        h = ReduceSum <keepdims = 0> (d)
        y = Add (a, h)""",
        "SequenceConstruct Abs SequenceMap Abs Add ConcatFromSequence ReduceSum Add",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_what_is_left(name):
    nodes, left = CASES[name]
    given = unchecked(f"g (float[N] x, int64 n, bool c) => (float[] y) {{{nodes}}}")
    made = to_message(prepare(*without_weights(given, None, None)).model)
    assert sorted(one for one in ops(made) if one != "Constant") == sorted(left.split())
    if name != "random numbers":
        for x in ([1, -2, 3], []):
            feed = {"x": np.array(x, np.float32), "n": 2, "c": len(x) == 3}
            results = [outcome(session(model), feed) for model in (given, made)]
            assert results[0] is not None
            np.testing.assert_array_equal(*results)


def test_two_outputs_of_the_model_stay():
    given = unchecked("g (float[N] x) => (float[N] y, float[N] z) {y = Abs (x) z = Abs (x)}")
    made = to_message(prepare(*without_weights(given, None, None)).model)
    assert ops(made) == ["Abs", "Abs"]


def test_strings():
    given = unchecked(
        """g (string[N] x) => (bool[N] y, bool[N] z) {
            k = Constant <value = string {"a"}> ()
            l = Constant <value = string {"a"}> ()
            m = Constant <value = string {"b"}> ()
            a = Equal (x, k) b = Equal (x, l) c = Equal (x, m)
            y = And (a, b) z = Or (a, c)
        }""",
        opset=19,
    )
    made = to_message(prepare(*without_weights(given, None, None)).model)
    assert ops(made) == ["Equal", "Equal", "And", "Or"]
    found = session(made).run(None, {"x": np.array(["a", "b", "c"], object)})
    assert [one.tolist() for one in found] == [[True, False, False], [True, True, False]]
