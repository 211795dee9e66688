"""seqcore.onnx.lower: lists that a loop goes on with, and to which a round adds several elements, or none."""

import numpy as np
import pytest
from support.models.lists_in_loops import (
    NONE,
    ONE,
    OPSETS,
    SOME,
    STACK,
    TWO,
    feeds,
    loop,
    why,
)
from support.models.lowering import (
    assert_same,
    check,
    left_in,
    lowered,
    outcome,
    parse,
    quick_report,
    rows,
    session,
)

from seqcore.onnx import InferenceSession, lower

pytestmark = pytest.mark.mostly_slow(5)


def with_state(text, state, start="a"):
    """The model with a second state, v, which iterations make as v2, and whose last value is w."""
    text = text.replace("seq(float[?]) s)", f"seq(float[?]) s, {state})")
    text = text.replace("seq(float[?]) t)", f"seq(float[?]) t, {state}2)")
    text = text.replace("l = Loop(n, yes, first)", f"l, w = Loop(n, yes, first, {start})")
    return text.replace("float[A, B] y", "float[A, B] y, float[4] w")


class TestStarts:
    """Lists that don't start empty."""

    @pytest.mark.parametrize("opset", OPSETS)
    def test_lengths_that_an_input_gives(self, opset):
        """Without a trip a scan output has them only if somebody says so."""
        start = "r = Gather(x, zero) first = SequenceConstruct(r)"
        text = loop(start=start, x="float[N, M]")
        check(text, feeds(), opset)
        from onnx.reference import ReferenceEvaluator

        found = ReferenceEvaluator(lowered(parse(text, opset))).run(None, feeds(lengths=[2])[0])
        assert found[0].shape == (3, 4)
        both = "q = Gather(x, i) e = Neg(q) t0 = SequenceInsert(s, q, zero) t = SequenceInsert(t0, e)"
        check(loop(both, start=start, x="float[N, M]"), feeds(), opset)

    @pytest.mark.parametrize("trips", ['n, ""', "n, yes", '"", yes'])
    def test_a_loop_that_its_body_ends(self, trips):
        """Without a condition too, as onnxruntime has it: so onnxscript writes a `break`."""
        step = "e = Gather(x, i) t = SequenceInsert(s, e) k = Gather(e, zero) c2 = Less(k, fifty)"
        text = loop(step).replace("c2 = Identity(c)", "").replace("n, yes", trips)
        numbers = np.arange(40, dtype=np.float32).reshape(10, 4) * 4
        check(text, [feed | {"x": numbers} for feed in feeds(lengths=[0, 2, 7])])


class TestReads:
    """Elements that a round reads of the list that it goes on with."""

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("at", ["s, back", "s, before", "t, back", "t, before", "s, zero", "s, one"])
    def test_last_and_first(self, at, opset):
        step = f"q = Gather(x, i) h = SequenceAt({at}) e = Add(q, h) t = SequenceInsert(s, e)"
        if at.startswith("t"):
            step = f"e = Gather(x, i) t = SequenceInsert(s, e) h = SequenceAt({at}) v2 = Add(v, h)"
        text = loop(step, start=TWO)
        if at.startswith("t"):
            text = with_state(text, "float[4] v")
        check(text, feeds(), opset)

    @pytest.mark.parametrize("at", ["back, 1", "before, 1", "last, 1", "zero, 0", "one, 0"])
    def test_of_a_list_of_any_length(self, at):
        at, end = at.split(", ")
        insert = "t = SequenceInsert(s, e)" if end == "1" else "t = SequenceInsert(s, e, zero)"
        last = "count = SequenceLength(s) last = Sub(count, one)"
        step = f"q = Gather(x, i) {last} h = SequenceAt(s, {at}) e = Add(q, h) {insert}"
        text = loop(step, start="first = SplitToSequence<keepdims = 0>(y0)")
        text = text.replace("int64 n,", "float[R, 4] y0, int64 n,")
        check(text, [feed | {"y0": rows(k, 4, seed=9)} for feed in feeds() for k in (0, 1, 2, 5)])

    def test_several_at_once(self):
        step = """q = Gather(x, i) h = SequenceAt(s, back) k = SequenceAt(s, before) m = SequenceAt(s, back)
            e0 = Add(q, h) e1 = Sub(e0, k) e = Mul(e1, m) t = SequenceInsert(s, e)"""
        result, _ = check(loop(step, start=TWO), feeds(lengths=[0, 1, 2, 3]))
        body = next(node for node in result.graph.node if node.op_type == "Loop").attribute[0].g
        assert len(body.input) == 4

    @pytest.mark.parametrize("opset", OPSETS)
    def test_a_read_fails_where_there_is_none(self, opset):
        step = "e = Gather(x, i) h = SequenceAt(s, {}) t = SequenceInsert(s, e) v2 = Add(v, h)"
        for start, at in ((NONE, "back"), (ONE, "before")):
            text = loop(step.format(at), "m = SequenceLength(l)", start, "int64 m, float[4] w")
            text = with_state(text, "float[4] v")
            _, running = check(text, feeds(lengths=[0, 1, 3]), opset)
            assert outcome(running, feeds(lengths=[1])[0]) is None

    @pytest.mark.parametrize("position", ["back", "before"])
    def test_a_read_in_a_branch_fails_only_there(self, position):
        step = f"""q = Gather(x, i) m = SequenceLength(s) some = Less(m, p0)
            e = If(some) <then_branch = f () => (float[4] f1) {{ f1 = Add(q, q) }},
                else_branch = h () => (float[4] h1) {{ w = SequenceAt(s, {position}) h1 = Add(q, w) }}>
            t = SequenceInsert(s, e)"""
        text = loop(step, start=f"{NONE} p0 = Squeeze(p)")
        _, running = check(text, feeds(0, 1, 2, 3))
        for p, n in ((0, 0), (1, 0), (1, 3), (2, 3)):
            feed = feeds(p, lengths=[n])[0]
            assert (outcome(running, feed) is None) == (n == 0 or p < 1 + (position == "before"))

    @pytest.mark.parametrize(
        "position",
        [
            "m = SequenceLength(s) p1 = Sub(m, one)",
            "m = SequenceLength(s) p0 = Add(back, m) p1 = Sub(p0, one)",
            "p1 = Add(i, one)",
            "p0 = Mul(one, i) p1 = Identity(p0)",
            "t9 = SequenceInsert(s, q) m = SequenceLength(t9) p1 = Sub(m, two)",
        ],
    )
    @pytest.mark.parametrize("shape", ["", "f = Constant<value = int64[1] {0}>() p2 = Unsqueeze(p1, f)"])
    def test_counted_in_the_run(self, position, shape):
        read = f"{position} {shape} h = SequenceAt(s, {'p2' if shape else 'p1'}) e = Add(q, h)"
        insert = "t = SequenceInsert(s, e)"
        if "t9" in position:
            read, insert = read.replace("t9", "t"), "v2 = Add(h, e)"
        text = loop(f"q = Gather(x, i) {read} {insert}", start=TWO)
        if "v2" in insert:
            text = with_state(text, "float[4] v")
        check(text, feeds())

    def test_counted_from_the_back_where_there_may_be_too_few(self):
        step = """m = SequenceLength(s) p1 = Sub(m, two) q = Gather(x, i) h = SequenceAt(s, p1) e = Add(q, h)
            t = SequenceInsert(s, e)"""
        assert "reads it on the way" in why(loop(step, start=ONE))  # of one element, the last
        check(loop(step, start=TWO), feeds())

    @pytest.mark.parametrize(
        "position", ["p1 = Mod(i, two)", "p1 = Mul(i, two)", "p1 = Add(i, two)", "p1 = Add(i, p)"]
    )
    def test_elsewhere_stays(self, position):
        step = f"q = Gather(x, i) {position} h = SequenceAt(s, p1) e = Add(q, h) t = SequenceInsert(s, e)"
        assert "reads it on the way" in why(loop(step, start=TWO))

    @pytest.mark.slow
    def test_no_optimizer_drops_the_error(self):
        step = "q = Gather(x, i) h = SequenceAt(s, back) t = SequenceInsert(s, q) v2 = Shape(h)"
        text = loop(step, "m = SequenceLength(l)", NONE, "int64 m, int64[1] w")
        text = with_state(text, "int64[1] v", "p")
        given = session(parse(text))
        for level in ("DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"):
            running = session(lowered(parse(text)), level)
            for feed in feeds(lengths=[0, 1, 2]):
                assert (outcome(running, feed) is None) == (outcome(given, feed) is None)


class TestSeveral:
    """Several elements in a round."""

    @pytest.mark.parametrize("opset", OPSETS)
    @pytest.mark.parametrize("start", [NONE, TWO])
    @pytest.mark.parametrize(
        "inserts",
        [
            "t0 = SequenceInsert(s, e) t = SequenceInsert(t0, d)",
            "t0 = SequenceInsert(s, e, zero) t = SequenceInsert(t0, d, zero)",
            "t0 = SequenceInsert(s, e) t1 = SequenceInsert(t0, d, zero) t2 = SequenceInsert(t1, q, zero) "
            "m = SequenceLength(t2) t = SequenceInsert(t2, e, m)",
            "t0 = SequenceInsert(s, e) k = SequenceAt(t0, back) t1 = SequenceInsert(t0, k) "
            "o = SequenceAt(t1, before) o1 = Neg(o) t = SequenceInsert(t1, o1)",
        ],
    )
    def test_their_order(self, inserts, start, opset):
        after = f"{STACK} m0 = SequenceLength(l) z0 = SequenceAt(l, p)"
        text = loop(f"q = Gather(x, i) e = Add(q, q) d = Neg(q) {inserts}", after, start)
        text = text.replace("float[A, B] y", "float[A, B] y, int64 m0, float[C] z0")
        check(text, feeds(-5, -1, 0, 3), opset)

    @pytest.mark.parametrize("many", [33, 2000])
    def test_many_stay(self, many):
        chain = " ".join(f"t{k + 1} = SequenceInsert(t{k}, q)" for k in range(many))
        body = f"q = Gather(x, i) t0 = SequenceInsert(s, q) {chain} t = SequenceInsert(t{many}, q)"
        assert (
            why(loop(body)) == "stays a list: the loop 'l' inserts into it more than 32 times in an iteration"
        )

    @pytest.mark.slow
    def test_many_branches_stay(self):
        branches = " ".join(
            f"""t{k + 1} = If(big) <then_branch = f{k} () => (seq(float[?]) f1_{k})
                {{ f1_{k} = SequenceInsert(t{k}, q) }},
                else_branch = h{k} () => (seq(float[?]) h1_{k}) {{ h1_{k} = Identity(t{k}) }}>"""
            for k in range(300)
        )
        body = f"""q = Gather(x, i) k = Gather(q, zero) big = Greater(k, fifty) t0 = SequenceInsert(s, q)
            {branches} t = SequenceInsert(t300, q)"""
        assert "32 times" in why(loop(body))

    @pytest.mark.slow
    def test_counts_on_the_way(self):
        body = """q = Gather(x, i) m = SequenceLength(s) m1 = Cast<to = 1>(m) e = Mul(q, m1)
            t0 = SequenceInsert(s, e) k = SequenceLength(t0) k1 = Cast<to = 1>(k) d = Mul(q, k1)
            t = SequenceInsert(t0, d)"""
        for start in (NONE, ONE, TWO, "first = SplitToSequence<keepdims = 0>(x)"):
            check(loop(body, start=start), feeds())


class TestConditions:
    """Elements that only some rounds have."""

    @pytest.mark.parametrize("start", [NONE, TWO])
    @pytest.mark.parametrize(
        "other",
        [
            "d = Neg(q) h0 = SequenceInsert(s, d) h1 = SequenceInsert(h0, q)",
            "d = Neg(q) h0 = SequenceInsert(s, d, zero) h1 = SequenceInsert(h0, q)",
            "two0 = Constant<value = float {80}>() huge = Greater(k, two0) "
            "h1 = If(huge) <then_branch = v () => (seq(float[?]) v1) { v1 = Identity(s) }, "
            "else_branch = w () => (seq(float[?]) w1) "
            "{ r = Neg(q) w0 = SequenceInsert(s, r) w1 = SequenceInsert(w0, q) }>",
        ],
    )
    def test_branches_that_append_several(self, other, start):
        text = loop(SOME.replace("h1 = Identity(s)", other), start=start)
        check(text, feeds(lengths=[0, 1, 2, 7, 20]))

    @pytest.mark.parametrize("start", [NONE, ONE, TWO])
    def test_reads_and_counts(self, start):
        body = """q = Gather(x, i) m = SequenceLength(s) m1 = Cast<to = 1>(m) k = Gather(q, zero)
            big = Greater(k, fifty) none = Less(m1, p1) new = Or(big, none)
            t = If(new) <
                then_branch = f () => (seq(float[?]) f1) { d = Mul(q, m1) f1 = SequenceInsert(s, d) },
                else_branch = h () => (seq(float[?]) h1) {
                    w = SequenceAt(s, back) w0 = SequenceLength(s) w1 = Cast<to = 1>(w0)
                    w2 = Add(w, w1) h0 = SequenceInsert(s, w2) h1 = SequenceInsert(h0, w) }>"""
        text = loop(body, start=f"{start} p0 = Squeeze(p) p1 = Cast<to = 1>(p0)")
        check(text, feeds(0, 1, 2, lengths=[0, 1, 2, 7, 20]))

    def test_a_condition_of_one_axis(self):
        text = loop(
            SOME.replace(
                "big = Greater(k, fifty)",
                "k1 = Greater(k, fifty) o = Shape(q) o1 = Shape(o) big = Reshape(k1, o1)",
            ),
            start=NONE,
        )
        check(text, feeds())

    @pytest.mark.parametrize("dtype", ["double", "int8", "uint8", "int64", "bool", "float16", "string"])
    def test_types(self, dtype):
        import onnx

        number = onnx.TensorProto.DataType.Value(dtype.upper())
        body = f"""q0 = Gather(f0, i) q = Cast<to = {number}>(q0) k = Gather(q0, zero) big = Greater(k, fifty)
            t = If(big) <then_branch = f () => (seq({dtype}[?]) f1) {{
                    e = Cast<to = {number}>(q0) f1 = SequenceInsert(s, e) }},
                else_branch = h () => (seq({dtype}[?]) h1) {{ h1 = Identity(s) }}>"""
        start = f"f0 = Add(x, x) first = SequenceEmpty<dtype = {number}>()"
        text = loop(body, start=start, outs=f"{dtype}[A, B] y").replace("seq(float[?])", f"seq({dtype}[?])")
        result = lowered(parse(text))
        assert left_in(result) == []
        for feed in feeds(lengths=[1, 7]):
            kept = [2 * row for row in feed["x"] if 2 * row[0] > 50]
            got = outcome(session(result), feed)
            if not kept:
                assert got is None
            elif dtype != "string":
                np.testing.assert_array_equal(got[0], np.array(kept).astype(got[0].dtype))
            else:
                np.testing.assert_array_equal(got[0].astype(float), kept)


class TestTensorArrays:
    """TensorFlow's TensorArray, as tf2onnx exports it: an insert at the iteration's number is at the end."""

    LOOP = """g (float[N, 4] x, int64 n) => (float[M, 4] y)
    <bool yes = {{1}}, int64 one = {{1}}, int64 two = {{2}}, float[4] a = {{1, 2, 3, 4}}> {{
        start = {start}
        l = Loop (n, yes, start) <body = b (int64 i, bool c, seq(float[4]) s) => (bool c2, seq(float[4]) t) {{
            c2 = Identity (c) q = Gather (x, i) {code}
        }}>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
    }}"""
    EMPTY, FULL = "SequenceEmpty ()", "SequenceConstruct (a)"

    @pytest.mark.parametrize(
        ("start", "code", "goes"),
        [
            (EMPTY, "t = SequenceInsert (s, q, i)", True),
            (FULL, "k = Add (i, one) t = SequenceInsert (s, q, k)", True),
            (
                FULL,
                "p = SequenceAt (s, i) e = Add (p, q) k = Add (i, one) t = SequenceInsert (s, e, k)",
                True,
            ),
            (
                EMPTY,
                "k = Mul (i, two) m = Add (k, one) u = SequenceInsert (s, q, k) t = SequenceInsert (u, q, m)",
                True,
            ),
            # One before the end, and farther and farther from it.
            (FULL, "t = SequenceInsert (s, q, i)", False),
            (EMPTY, "u = SequenceInsert (s, q, i) t = SequenceInsert (u, q, i)", False),
        ],
    )
    def test_an_insert_at_the_iteration(self, start, code, goes):
        model = parse(self.LOOP.format(start=start, code=code))
        result, notes = quick_report(model)
        assert (left_in(result) == []) is goes, notes
        before, after = session(model), session(result)
        for n in (1, 2, 5):
            feed = {"x": rows(5), "n": np.array(n)}
            assert_same(outcome(before, feed), outcome(after, feed))


def check_in_every_way(text, feeds, opset=17):
    """Lowered and in a session, the model gives what it gives in onnxruntime."""
    model = parse(text, opset)
    given, ways = session(model), [session(lower(model)), InferenceSession(model, compile="load")]
    for feed in feeds:
        expected = given.run(None, feed)
        for way in ways:
            for found, wanted in zip(way.run(None, feed), expected, strict=True):
                np.testing.assert_array_equal(found, wanted)


MADE_ELSEWHERE = {
    "before": "e = SequenceInsert(s, v)",
    "before, by another name": "u = Identity(v) e = SequenceInsert(s, u)",
    "in the list": "u = SequenceAt(s, back) e = SequenceInsert(s, u)",
    "before, and put to both ends": "f = SequenceInsert(s, v) e = SequenceInsert(f, v, zero)",
    "before, and assigned": "f = SequenceErase(s, i) e = SequenceInsert(f, v, i)",
    "by a loop around": """e = Loop(n, yes, s) <body = inner (int64 j, bool c2, seq(string[2]) p) =>
        (bool c2, seq(string[2]) q) { q = SequenceInsert(p, v) }>""",
}


@pytest.mark.parametrize("made", MADE_ELSEWHERE)
def test_strings_that_an_iteration_does_not_make(made):
    """onnxruntime moves strings out of what an iteration gives, so that this needs memory of its own."""
    start = "SplitToSequence<keepdims = 0>(x)" if "assigned" in made else "SequenceConstruct(w)"
    text = f"""g (string[2] w, string[N, 2] x, int64 n) => (string[K, 2] y, string[2] same, string[L, 2] z)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 back = {{-1}}> {{
        v = Identity(w) s0 = {start}
        l = Loop(n, yes, s0) <body = b (int64 i, bool c, seq(string[2]) s) => (bool c, seq(string[2]) e)
            {{ {MADE_ELSEWHERE[made]} }}>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(l) same = Identity(v)
        m = SequenceMap(l, v) <body = o (string[2] a, string[2] b) => (string[2] d) {{ d = Identity(b) }}>
        z = ConcatFromSequence<axis = 0, new_axis = 1>(m) }}"""
    x = np.array([[f"x{k}", f"y{k}"] for k in range(12)], object)
    feeds = [{"w": np.array(["a", "b"], object), "x": x, "n": np.array(n)} for n in (1, 3, 12)]
    check_in_every_way(text, feeds)


@pytest.mark.parametrize(
    ("code", "type_"),
    [
        ("e = ReduceMean<noop_with_empty_axes = 1>(p)", "float"),
        ("h = Shape(p) e = Gather(h, twice)", "int64"),
    ],
)
def test_of_parts_of_several_lengths(code, type_):
    text = f"""g (float[N, 4] x, int64[K] starts, int64[K] ends) => ({type_}[?, ?] y)
        <bool yes = {{1}}, int64 z = {{0}}, int64[1] zero = {{0}}, int64[1, 1] twice = {{0}}> {{
        none = SequenceEmpty<dtype = {1 if type_ == "float" else 7}>() sh = Shape(ends) n = Gather(sh, z)
        l = Loop(n, yes, none) <body = b (int64 i, bool c, seq({type_}[]) s) => (bool c, seq({type_}[]) t) {{
            b0 = Gather(starts, i) b1 = Unsqueeze(b0, zero) e0 = Gather(ends, i) e1 = Unsqueeze(e0, zero)
            p = Slice(x, b1, e1, zero) {code} t = SequenceInsert(s, e)
        }}>
        y = ConcatFromSequence<axis = 0>(l) }}"""
    feeds = []
    for n in (1, 3, 16, 50):
        ends = np.cumsum(np.arange(n) % 3 + 1)
        feeds.append({"x": rows(ends[-1], 4), "starts": np.r_[0, ends[:-1]], "ends": ends})
    check_in_every_way(text, feeds, 18)
