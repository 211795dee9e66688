"""Loops whose iterations go all at once: corners that random loops don't reach."""

import numpy as np
import pytest
from support.models.lowering import all_nodes, assert_same, left_in, lowered, ops, outcome, parse, session
from support.models.vectorizing import check_same

from seqcore.onnx import InferenceSession, lower

pytestmark = pytest.mark.mostly_slow(5)


def loop(body, scan, ins="", out="float[A] y", before="", states=("", "", "", "")):
    """A model with a loop over x, and a list so that there is something to lower.

    `states` are what the loop starts with, its last ones, those in the body before and after, with types.
    """
    start, last, given, after = states
    name = out.split()[-1]
    outs = out if not last else f"{last}, {out}"
    last = last.split()[-1] + ", " if last else ""
    return f"""g (float[N, K] x, int64 n{ins}) => ({outs}, int64 m)
        <bool yes = {{1}}, int64 zero = {{0}}, int64[1] first = {{0}}> {{
        l = SequenceConstruct(x)
        m = SequenceLength(l)
        {before}
        {last}{name} = Loop(n, yes{start})
        <body = b (int64 i, bool c{given}) => (bool d{after}, {scan}) {{
            d = Identity(c)
            {body}
        }}>
    }}"""


def check(text, feeds, opset=17, gone=True):
    """Lower a model; it has to do what it did, for each feed, with no loop or with one beside."""
    model = parse(text, opset)
    result = lowered(model)
    before, after = session(model), session(result)
    assert ("Range" in ops(result) or "Loop" not in ops(result)) == gone
    for feed in feeds:
        expected, found = outcome(before, feed), outcome(after, feed)
        if expected and feed.get("n", 1) <= 0:
            # Without an iteration, an output may have any shape that has no items.
            expected, found = ([one for one in results if one.size] for results in (expected, found))
        assert_same(expected, found)
    return result


def rows(*shape):
    return np.random.default_rng(0).integers(1, 9, shape).astype("float32")


class TestPositions:
    def test_a_count_from_0(self):
        states = ", zero", "int64 k", ", int64 k0", ", int64 k1"
        body = "one = Constant<value_int = 1>() k1 = Add(k0, one) r = Gather(x, k0) z = Neg(r)"
        text = loop(body, "float[K] z", out="float[A, K] y", states=states)
        check(text, [{"x": rows(3, 4), "n": n} for n in (0, 2, 3, 4)])


class TestShapes:
    @pytest.mark.parametrize(("start", "end"), [(1, 1), (1, 9), (-9, 1), (0, -1), (5, 7)])
    def test_from_behind_the_last_axis(self, start, end):
        body = f"r = Gather(x, i) h = Neg(r) z = Shape<start = {start}, end = {end}>(h)"
        check(loop(body, "int64[S] z", out="int64[A, S] y"), [{"x": rows(3, 4), "n": 2}])


class TestWhatAnIterationAloneMinds:
    """Shapes that don't fit, where no iteration comes to them."""

    @pytest.mark.parametrize(
        "make",
        [
            "z = Add(r, b)",
            "h = Add(b, e) s = ReduceSum<keepdims = 0>(h) z = Add(r, s)",
            "z = MatMul(r, w)",
            "z = MatMul(r, u)",
            "h = Unsqueeze(r, first) g = Gemm(h, w) z = Squeeze(g, first)",
            "h = Unsqueeze(r, first) g = Concat<axis = 0>(h, w) z = ReduceSum<keepdims = 0>(g, first)",
            "z, at = TopK(r, k)",
            "h = Gather(r, p) z = Add(r, h)",
            "h = Gather(b, p) z = Add(r, h)",
            "two = Constant<value_ints = [2, 2]>() z, h = Split(r, two)",
            "h = ReduceSum(b) v = Squeeze(b, first) z = Mul(r, v)",
        ],
    )
    def test_without_an_iteration(self, make):
        ins = ", float[B] b, float[E] e, float[U, V] w, float[W, K] u, int64[1] k, int64 p"
        text = loop(f"r = Gather(x, i) {make}", "float[Z] z", ins, "float[A, Z] y")
        fitting = {"b": rows(4), "e": rows(4), "w": rows(4, 4), "u": rows(4, 4), "k": [1], "p": 3}
        other = {"b": rows(3), "e": rows(5), "w": rows(3, 3), "u": rows(3, 4), "k": [9], "p": 9}
        feeds = [
            {"x": rows(3, 4), "n": n, **fitting, **{name: other[name] for name in changed}}
            for n in (0, 2, -1)
            for changed in ([], *other, list(other))
        ]
        check(text, feeds)


class TestDivision:
    """Integers: by 0 is an error."""

    def test_in_a_branch_that_is_not_taken(self):
        body = """r = Gather(b, i)
            has = Equal(r, zero)
            z = If(has) <then_branch = t () => (int64 z0) { z0 = Neg(r) },
                else_branch = e () => (int64 z1) { z1 = Div(p, r) }>"""
        text = loop(body, "int64 z", ", int64[B] b, int64 p", "int64[A] y")
        check(text, [{"x": rows(3, 4), "n": 3, "b": b, "p": 9} for b in ([1, 2, 3], [1, 0, 3])], gone=False)

    def test_behind_the_end_of_a_length(self):
        body = """r = Gather(e, i)
            h = Unsqueeze(r, first)
            part = Slice(b, first, h, first)
            v = Div(p, part)
            z = ReduceSum<keepdims = 0>(v)"""
        text = loop(body, "int64 z", ", int64[B] b, int64[N] e, int64 p", "int64[A] y")
        feeds = [{"x": rows(3, 4), "n": 3, "b": [1, 2, 0], "e": e, "p": 9} for e in ([2, 1, 2], [1, 2, 3])]
        check(text, feeds, gone=False)


class TestAxesOfLength0:
    """A Reshape that joins axes and divides them again."""

    @pytest.mark.parametrize("opset", [14, 17])
    def test_no_samples(self, opset):
        ins, out = ", float[N, B, C, H, W] s", "float[A, B, C, H, W] y"
        text = loop("r = Gather(s, i) z = GlobalAveragePool(r)", "float[B, C, H, W] z", ins, out)
        shapes = [(3, 1, 2, 4, 4), (3, 0, 2, 4, 4), (3, 2, 0, 4, 4)]
        check(text, [{"x": rows(3, 4), "n": n, "s": rows(*one)} for n in (0, 2, 4) for one in shapes], opset)


class TestBranches:
    def test_a_pick_in_a_branch_in_one_that_all_take(self):
        """What is to be known before can't be seen in a branch: the loop stays, and the model is lowered."""
        body = """r = Gather(x, i)
            small = Less(i, p)
            z = If(big) <then_branch = t () => (float z0) {
                z0 = If(small) <
                    then_branch = t1 () => (float z1) { h = Gather(at, i) z1 = Gather(b, h) },
                    else_branch = e1 () => (float z2) { z2 = ReduceSum<keepdims = 0>(r) }>
            }, else_branch = e () => (float z3) { z3 = ReduceMax<keepdims = 0>(r) }>"""
        text = loop(body, "float z", ", float[B] b, int64[N] at, int64 p, bool big", "float[A] y")
        feeds = [
            {"x": rows(3, 4), "n": 3, "b": rows(4), "at": at, "p": p, "big": big}
            for at in ([0, 1, 2], [0, 7, 1])
            for p in (0, 1, 3)
            for big in (True, False)
        ]
        result = check(text, feeds, gone=False)
        assert left_in(result) == []

    def test_a_pick_from_nothing_in_a_branch(self):
        """It fails in the iterations that take the branch alone."""
        body = """r = Gather(x, i) small = Less(i, p)
            z = If(small) <then_branch = t () => (float z0) { h = Gather(at, i) z0 = Gather(b, h) },
                           else_branch = f () => (float z1) { z1 = ReduceSum<keepdims = 0>(r) }>"""
        text = loop(body, "float z", ", float[B] b, int64[N] at, int64 p", "float[A] y")
        feed = {"x": rows(20, 4), "n": 20, "at": [0, 1, 2, 3] * 5}
        check(text, [feed | {"b": rows(m), "p": p} for m in (0, 4) for p in (0, 1)])

    def test_the_largest_of_no_numbers_in_a_branch(self):
        """It is an error in the iterations that take the branch alone."""
        body = """r = Gather(e, i) small = Less(i, p)
            z = If(small) <then_branch = t () => (float z0) { z0 = ReduceMax<keepdims = 0>(r) },
                           else_branch = f () => (float z1) { z1 = ReduceSum<keepdims = 0>(r) }>"""
        text = loop(body, "float z", ", float[N, 0] e, int64 p", "float[A] y")
        check(text, [{"x": rows(3, 4), "n": 3, "e": rows(3, 0), "p": p} for p in (0, 1)], gone=False)


def test_lists_of_two_types_of_which_one_has_several_lengths():
    text = """g (float[N, K] x, bool[B] b, int64 n) => (bool[C] y, float[D, K] z)
        <bool yes = {1}, int64[1] first = {0}> {
        s = SequenceEmpty<dtype = 9>()
        t = SequenceEmpty()
        s3, t3 = Loop(n, yes, s, t)
        <body = e (int64 i, bool c, seq(bool[P]) s1, seq(float[N, K]) t1)
            => (bool d, seq(bool[P]) s2, seq(float[N, K]) t2) {
            d = Identity(c)
            h = Unsqueeze(i, first)
            part = Slice(b, first, h, first)
            s2 = SequenceInsert(s1, part)
            t2 = SequenceInsert(t1, x)
        }>
        y = ConcatFromSequence<axis = 0>(s3)
        z = ConcatFromSequence<axis = 0>(t3)
    }"""
    model = parse(text)
    result = lowered(model)
    assert left_in(result).count("SequenceInsert") <= 1
    b = np.array([True, False, True])
    check_same(model, result, [{"x": rows(3, 4), "b": b, "n": n} for n in (0, 1, 3)], assert_same)


class TestSizes:
    """All at once, iterations must not take much more than what comes in and out."""

    @pytest.mark.parametrize(
        "make",
        [
            "v = Expand(r, shape)",
            "v = Tile(r, p)",
            "v = Pad(r, shape)",
            "h = Reshape(r, shape) v = Mul(h, b)",
        ],
    )
    def test_who_knows_how_large(self, make):
        body = f"r = Gather(x, i) {make} z = ReduceMax<keepdims = 0>(v)"
        text = loop(body, "float z", ", float[B] b, int64[2] shape, int64[1] p", "float[A] y")
        feeds = [{"x": rows(3, 4), "n": 2, "b": rows(5), "shape": [4, 1], "p": [3]}]
        check(text, feeds, gone=False)

    @pytest.mark.parametrize("make", ["h = Unsqueeze(part, one) v = Mul(h, w)", "v = MatMul(part2, w)"])
    def test_what_is_made_of_several_lengths(self, make):
        body = f"""r = Gather(e, i)
            h0 = Unsqueeze(r, first)
            part = Slice(b, first, h0, first)
            part2 = Slice(b2, first, h0, first)
            {make}
            z = ReduceMax<keepdims = 0>(v)"""
        ins = ", float[B] b, float[B2, 1] b2, int64[N] e, float[1, W] w"
        before = "one = Constant<value_ints = [1]>()"
        text = loop(body, "float z", ins, "float[A] y", before)
        feeds = [
            {"x": rows(3, 4), "n": n, "b": rows(5), "b2": rows(5, 1), "e": [1, 3, 2], "w": rows(1, w)}
            for n in (0, 3)
            for w in (3, 3000)
        ]
        nodes = list(all_nodes(check(text, feeds)))
        makers = {name: node for node in nodes for name in node.output}
        made = [makers[node.input[0]] for node in nodes if node.op_type == "LessOrEqual"]
        # What is made is looked at too: the items, so many numbers each.
        assert any(makers[node.input[0]].op_type == node.op_type == "Mul" for node in made)

    @pytest.mark.slow
    def test_a_sum_takes_no_room(self):
        """What comes out is one number: with many iterations the loop runs."""
        body = "r = Gather(x, i) h = Mul(r, w) s = ReduceSum<keepdims = 0>(h) k1 = Add(k0, s)"
        states = ", start", "float k", ", float k0", ", float k1"
        text = loop(body, "float[0] none", ", float start, float[32] w", "float[A, 0] y", "", states)
        text = text.replace("k, y = Loop", "k = Loop").replace(", float[0] none)", ")")
        text = text.replace("float k, float[A, 0] y", "float k").replace("float[N, K] x", "float[N, 1] x")
        feeds = [{"x": rows(n, 1), "n": n, "start": 0.5, "w": rows(32)} for n in (0, 1, 9, 20000)]
        result = check(text, [{**feed, "start": np.float32(0.5)} for feed in feeds])
        assert "Loop" in ops(result)


class TestWhatOperatorsAreGiven:
    def test_an_output_without_a_name(self):
        """What is left out elsewhere is something else."""
        body = """r = Gather(x, i)
            h, "", dev = LayerNormalization(r, w)
            z = Clip(h, "", most)"""
        text = loop(body, "float[K] z", ", float[4] w, float most", "float[A, K] y")
        feeds = [{"x": rows(3, 4), "n": n, "w": rows(4), "most": np.float32(0.5)} for n in (0, 2)]
        check(text, feeds)


def test_whole_numbers_by_a_divisor_of_0_that_no_iteration_meets():
    """In PyTorch `x[i % len(x)]` of an empty x; where the divisor is 0 and iterations meet it, both fail."""
    for op_type in ("Div", "Mod", "Pow", "Mul"):
        body = f"j = {op_type} (i, n) p = Mul (j, zero) r = Gather (x, p) z = Neg (r)"
        check(loop(body, "float[K] z", out="float[A, K] y"), [{"x": rows(3, 4), "n": n} for n in (0, 1, 3)])
    body = "p = Mod (i, k) r = Gather (x, p) z = Neg (r)"
    text = loop(body, "float[K] z", ins=", int64 k", out="float[A, K] y")
    check(text, [{"x": rows(3, 4), "n": n, "k": k} for n in (0, 3) for k in (0, 2)])


@pytest.mark.parametrize("target", [None, "portable"])
def test_lengths_by_a_divisor_of_0_that_no_iteration_meets(target):
    """PyTorch's `out.append(x[i % n :])`: all lengths are computed before one form of the loop is chosen."""
    model = parse("""f (float[N, 2] x, int64 n) => (float[A, 2] y)
        <bool yes = {1}, int64[1] first = {0}, int64[1] last = {9223372036854775807}> {
            none = SequenceEmpty ()
            l = Loop (n, yes, none) <body = b (int64 i, bool c, seq(float[K, 2]) s)
                                     => (bool d, seq(float[K, 2]) t) {
                d = Identity (c)
                rest = Mod (i, n)
                start = Unsqueeze (rest, first)
                part = Slice (x, start, last, first)
                t = SequenceInsert (s, part)
            }>
            all = SequenceInsert (l, x)
            y = ConcatFromSequence <axis = 0> (all)
        }""")
    feeds = [{"x": rows(3, 2), "n": n} for n in (0, 1, 5)]
    check_same(model, lower(model, target=target), feeds, assert_same)


@pytest.mark.parametrize("target", [None, "portable"])
def test_a_loop_of_no_iteration_whose_last_numbers_are_read(target):
    model = parse("""f (float[N] x, int64 k) => (int64 last, float[A] y, int64 m)
        <bool yes = {1}, int64 none = {0}> {
            l = SequenceConstruct (x)
            m = SequenceLength (l)
            last, y = Loop (none, yes, k) <body = b (int64 i, bool c, int64 s) => (bool d, int64 t, float z) {
                d = Identity (c)
                t = Identity (i)
                z = Gather (x, i)
            }>
        }""")
    feeds = [{"x": np.ones(n, np.float32), "k": 7} for n in (0, 3)]
    check_same(model, lower(model, target=target), feeds, assert_same)


def test_a_loop_over_a_list_that_is_empty_for_sure():
    """Nothing is known of elements that are never made."""
    model = parse("""f (float[N] x) => (seq(float[]) c, int64 m) <bool yes = {1}> {
        none = SequenceEmpty ()
        n = SequenceLength (none)
        c = Loop (n, yes, none) <body = b (int64 i, bool go, seq(float[]) s) => (bool on, seq(float[]) t) {
            on = Identity (go)
            e = SequenceAt (none, i)
            u = Add (e, x)
            t = SequenceInsert (s, u)
        }>
        m = SequenceLength (c)
    }""")
    used = InferenceSession(model, compile="load")
    for running in (used, session(lower(model))):
        elements, m = running.run(None, {"x": np.ones(2, np.float32)})
        assert (len(elements), m) == (0, 0)


def test_as_many_iterations_as_another_axis_is_long():
    """A loop over all rows of x is x in one piece; of `x[None]` there is one row, or so many as x has."""
    text = """g (float[N] x, int64[1] axes) => (float[A] y)
    <bool yes = {1}, int64 zero = {0}, int64[1] first = {0}> {
        none = SequenceEmpty ()
        u = Unsqueeze (x, axes)
        shape = Shape (u)
        n = Gather (shape, zero)
        l = Loop (n, yes, none) <body = b (int64 i, bool c, seq(float) s) => (bool d, seq(float) t) {
            d = Identity (c)
            r = Gather (x, i)
            e = Neg (r)
            t = SequenceInsert (s, e)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
    }"""
    for one in (text, text.replace("(x, axes)", "(x, first)")):
        check(one, [{"x": rows(5), "axes": [axis]} for axis in (0, 1)])


def test_rows_of_a_length_that_only_a_run_tells_are_not_flattened():
    text = loop(
        "r = Gather(x, i) f = Flatten<axis = 0>(r) e = ReduceSum<keepdims = 0>(f)",
        "float e",
        out="float[A] y",
    )
    feeds = [{"x": np.arange(2.0 * k, dtype=np.float32).reshape(2, k), "n": 2} for k in (1, 3, 0)]
    check(text, feeds, gone=False)
