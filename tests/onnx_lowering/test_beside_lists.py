"""What lower does beside lists: known branches, oldest opsets, known shapes, and what OpenVINO needs."""

import numpy as np
import pytest
from support.models.lowering import assert_same, check, left_in, lowered, ops, outcome, parse, rows, session
from support.models.sessions import model

from seqcore.onnx import lower
from seqcore.onnx._lowering.portable import oldest_opset
from seqcore.onnx._model.prepare import prepare
from seqcore.onnx._model.weights import without_weights

pytestmark = pytest.mark.mostly_slow(5)

OPENVINO = "openvino"


def in_openvino(result):
    core = pytest.importorskip("openvino").Core()
    return core.compile_model(core.read_model(result.SerializeToString()), "CPU")


SQUEEZED = """g (float[N, 4] x, int64 n) => (float[A] y, int64 m)
    <bool yes = {1}, int64[1] one = {1}, int64[1] nought = {0}, float half = {50}> {
        none = SequenceEmpty<dtype = 7>()
        l = Loop(n, yes, none) <body = b (int64 i, bool c, seq(int64[?]) s) => (bool c2, seq(int64[?]) t) {
            c2 = Identity(c)
            row = Gather(x, i)
            is_large = Greater(row, half)
            found = NonZero(is_large)
            places = Transpose(found)
            shape = Shape(places)
            length = Gather(shape, one)
            is_one = Equal(length, one)
            e = If(CONDITION) <then_branch = a () => (int64[?] u) { u = Squeeze(places, one) },
                               else_branch = o () => (int64[?, ?] w) { w = Identity(places) }>
            t = SequenceInsert(s, e)
        }>
        all = ConcatFromSequence<axis = 0>(l)
        y = Cast<to = 1>(all)
        m = SequenceLength(l)
    }"""


@pytest.mark.parametrize("opset", [14, 17, 21])
def test_a_branch_that_is_known(opset):
    """PyTorch exports squeeze so."""
    text = SQUEEZED.replace("CONDITION", "is_one")
    check(text, [{"x": rows(5), "n": np.array(n)} for n in (0, 1, 5)], opset, gone=False)
    result = lowered(parse(text, opset))
    assert left_in(result) == []
    assert "If" not in ops(result)


def test_a_branch_that_is_not_known_stays():
    text = SQUEEZED.replace("CONDITION", "c")
    assert "SequenceInsert" in left_in(lowered(parse(text)))


@pytest.mark.parametrize("opset", [14, 17])
def test_trips_that_may_be_negative(opset):
    """OpenVINO takes a negative number for one without a limit."""
    text = """g (float[N, 4] x, int64 k) => (float[4] y, float[4] z) <int64 one = {1}, int64 zero = {0}> {
        shape = Shape(x)
        n = Gather(shape, zero)
        trips = TRIPS
        first = Gather(x, zero)
        y = Loop(trips, "", first) <body = b (int64 i, bool c, float[4] s) => (bool d, float[4] t) {
            d = Identity(c)
            t = Add(s, s)
        }>
        rows = SplitToSequence<keepdims = 0>(x)
        z = SequenceAt(rows, k)
    }"""
    for trips, is_kept in (("Sub(n, one)", False), ("Add(n, one)", True), ("Identity(k)", False)):
        model = parse(text.replace("TRIPS", trips), opset)
        result = lowered(model, target=OPENVINO)
        loop = next(node for node in result.graph.node if node.op_type == "Loop")
        assert (loop.input[0] in ("trips", "k")) == is_kept
        for n, k in ((1, -1), (3, 2), (2, -1)):
            feed = {"x": rows(n), "k": np.array(k)}
            assert_same(session(model).run(None, feed), session(result).run(None, feed))


@pytest.mark.slow
@pytest.mark.parametrize("opset", [14, 17])
def test_loops_of_constant_length_that_end_early(opset):
    """A scan output is as long as the iterations, in OpenVINO too, not as the number of trips."""
    text = """g (float[N, 4] x, float most) => (float[A, 4] y)
    <int64 n = {6}, bool yes = {1}, int64 zero = {0}> {
        none = SequenceEmpty()
        first = Gather(x, zero)
        l, end = Loop(n, yes, none, first) <body = b (int64 i, bool c, seq(float[4]) s, float[4] h)
                                               => (bool d, seq(float[4]) t, float[4] g) {
            g = Add(h, h)
            sum = ReduceSum<keepdims = 0>(g)
            d = Less(sum, most)
            t = SequenceInsert(s, g)
        }>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
    }"""
    model = parse(text, opset)
    result = lowered(model, target=OPENVINO)
    assert left_in(result) == []
    used, before, after = in_openvino(result), session(model), session(result)
    for most in (0, 5, 20, 1e9, 5):
        feed = {"x": np.ones((2, 4), "f"), "most": np.array(most, np.float32)}
        expected = before.run(None, feed)
        assert_same(expected, after.run(None, feed))
        np.testing.assert_array_equal(*expected, used(feed)[0])


def test_constants_without_items():
    """OpenVINO takes one for a scalar."""
    model = parse("""g (float[N, 4] x, int64 p) => (float[A, 4] y, float[4] z)
    <float[0, 4] nothing = {}, int64[0] scalar = {}> {
        y = Concat<axis = 0>(nothing, x, nothing)
        s = SplitToSequence<keepdims = 0>(x)
        t = SequenceErase(s, p)
        q = Reshape(p, scalar)
        z = SequenceAt(t, q)
    }""")
    result = lowered(model, target=OPENVINO)
    assert [one.name for one in result.graph.initializer if 0 in one.dims] == ["scalar"]
    feed = {"x": rows(3), "p": np.array(1)}
    assert_same(session(model).run(None, feed), session(result).run(None, feed))


@pytest.mark.parametrize("opset", [14, 17])
def test_empty_integers_that_are_no_shape(opset):
    """PyTorch exports `torch.zeros(0, dtype=torch.int64)` so; OpenVINO made one number of it."""
    text = """g (int64[N] x, bool c) => (int64[A] y, int64[B] z) <int64[0] nothing = {}, int64 p = {0}> {
        s = SplitToSequence(x)
        z = SequenceAt(s, p)
        y = If(c) <then_branch = a () => (int64[C] u) { u = Identity(nothing) },
                   else_branch = b () => (int64[D] v) { v = Neg(x) }>
    }"""
    feeds = [{"x": np.arange(n), "c": np.array(c)} for n in (1, 3) for c in (True, False)]
    check(text, feeds, opset)
    used = in_openvino(lowered(parse(text, opset), target=OPENVINO))
    assert [used(feed)[0].shape for feed in feeds] == [(0,), (1,), (0,), (3,)]


# Rows of a list, as often as an inner loop says.
NESTED = """g (float[N, 4] x, int64 n) => (float[A, 4] y) <bool yes = {1}> {
    none = SequenceEmpty ()
    l = Loop (n, yes, none) <body = b (int64 i, bool c, seq(float[]) s) => (bool d, seq(float[]) t) {
        d = Identity (c)
        row = Gather (x, i)
        sum = Loop (n, c, row) <body = b2 (int64 j, bool e, float[4] u) => (bool f, float[4] v) {
            f = Identity (e)
            v = Add (u, row)
        }>
        t = SequenceInsert (s, sum)
    }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
}"""
ONE_BY_ONE = """g (float[6, 4] x, float[1, 1] k, int64 p) => (float[A, 4] y) <float[1, 1] z = {0}> {
    rows = SplitToSequence (x)
    some = SequenceErase (rows, p)
    all = ConcatFromSequence <axis = 0> (some)
    c = Less (k, z)
    y = If (c) <then_branch = a () => (float[A, 4] q) { q = Neg (all) },
                else_branch = o () => (float[A, 4] r) { r = Abs (all) }>
}"""


def test_a_loop_that_begins_under_the_condition_of_the_one_around_it():
    """It holds there, so the loop begins under none: OpenVINO knows no such conditions."""
    feeds = [{"x": rows(5), "n": np.array(n)} for n in (1, 3, 5)]
    check(NESTED, feeds)
    used = in_openvino(lowered(parse(NESTED), target=OPENVINO))
    for feed in feeds:
        np.testing.assert_allclose(*used(feed).values(), *session(parse(NESTED)).run(None, feed))


@pytest.mark.slow
def test_a_condition_of_two_axes():
    feeds = [
        {"x": rows(6), "k": np.full((1, 1), k, np.float32), "p": np.array(p)} for k in (-1, 1) for p in (0, 4)
    ]
    check(ONE_BY_ONE, feeds)
    used = in_openvino(lowered(parse(ONE_BY_ONE), target=OPENVINO))
    for feed in feeds:
        np.testing.assert_allclose(*used(feed).values(), *session(parse(ONE_BY_ONE)).run(None, feed))


def test_the_oldest_opset_has_each_attribute():
    expected = {
        "y = Add (x, x)": 13,
        "s = Shape (x) y = Cast <to = 1> (s)": 13,
        "s = Shape <start = 1> (x) y = Cast <to = 1> (s)": 15,
        "y = ScatterElements (x, i, x)": 13,
        'y = ScatterElements <reduction = "add"> (x, i, x)': 16,
        "y, z = Split <num_outputs = 2> (x)": 18,
    }
    found = {}
    for line in expected:
        made = model(f"g (float[N, M] x, int64[N, M] i) => (float[] a) {{ {line} a = Neg (y) }}", 18)
        given = prepare(*without_weights(made, None, None))
        found[line] = oldest_opset(given.model, given, 13)
    assert found == expected


def test_a_portable_loop_without_iterations_gives_no_rows():
    """A scan output of the state as each iteration finds it: the initial value and all but the last."""
    given = parse("""g (float[N, 4] x, int64 n, float[4] start) => (float[R, 4] before, float[S, 4] all)
        <bool yes = {1}> {
            none = SequenceEmpty()
            last, l, before = Loop(n, yes, start, none) <body = b
                (int64 i, bool c, float[4] s, seq(float[4]) u) =>
                (bool c2, float[4] row, seq(float[4]) v, float[4] s2) {
                c2 = Identity(c) row = Gather(x, i) s2 = Identity(s) v = SequenceInsert(u, row)
            }>
            some = SequenceInsert(l, start)
            all = ConcatFromSequence<axis = 0, new_axis = 1>(some)
        }""")
    one, other = session(given), session(lower(given, target="portable"))
    for n in (0, 1, 3):
        feed = {"x": rows(3), "n": np.array(n), "start": np.ones(4, np.float32)}
        assert_same(one.run(None, feed), other.run(None, feed))


def test_what_fails_in_every_run_keeps_no_other_from_being_computed():
    given = parse("""g (float[N] x, bool c) => (float[N] y)
        <float[2] table = {1, 2}, int64 nine = {9}, float half = {0.5}> {
            y = If(c) <then_branch = t () => (float[N] p) { b = Gather(table, nine) p = Sub(x, b) },
                       else_branch = e () => (float[N] q) { h = Add(half, half) q = Mul(x, h) }>
        }""")
    result = lower(given, target="portable")
    assert sorted(ops(result)) == ["Gather", "If", "Mul", "Sub"]
    for c in (False, True):
        feed = {"x": np.ones(3, "f"), "c": np.array(c)}
        assert_same(outcome(session(given), feed), outcome(session(result), feed))


def test_what_is_known_of_shapes_is_computed():
    """Before it stands a number that no node makes, and one that is not known."""
    given = model("""g (float[N, 4] x, float[2, 3] v, int64[1] i) => (int64[1] y, int64[1] z, int64 m) {
        n = Shape <end = 1> (x) k = Shape <start = 1> (x) same = Identity (k) l = SequenceConstruct (x)
        m = SequenceLength (l) one = Shape <end = 1> (v) z = Add (i, one) y = Add (n, same)
    }""")
    result = lower(given, target="portable")
    assert sorted(ops(result)) == ["Add", "Add", "Identity", "Shape"]
    feed = {"x": rows(5), "v": np.ones((2, 3), np.float32), "i": np.array([7])}
    assert_same(outcome(session(given), feed), outcome(session(result), feed))
