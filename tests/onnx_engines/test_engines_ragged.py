"""Models that run on values and lengths: lists that go in and out, and lists in nested loops."""

import numpy as np
import pytest
from support.models.engines import Used, ran
from support.models.sessions import by_reference, f32, i64, model

import seqcore as sq
from seqcore.onnx import InferenceSession
from seqcore.onnx._engines import copied_states
from seqcore.onnx._thresholds import MOST_TO_CONVERT

LONG = MOST_TO_CONVERT + 1
EACH = """
    each (seq({kind}) s, {number} k) => (seq({result}) t, int64 n) <bool yes = {{1}}> {{
        n = SequenceLength (s)
        none = SequenceEmpty <dtype = {dtype}> ()
        t = Loop (n, yes, none) <body = b (int64 i, bool go, seq({result}) a)
                                        => (bool on, seq({result}) c) {{
            on = Identity (go)
            one = SequenceAt (s, i)
            {made}
            c = SequenceInsert (a, two)
        }}>
    }}
"""


NESTED = """
    nested (float[N, 2] x, int64 n) => (float[M, 2] y) <bool yes = {1}, float zero = {0}> {
        none = SequenceEmpty ()
        l = Loop (n, yes, none) <body = b (int64 i, bool go, seq(float[2]) s) => (bool on, seq(float[2]) t) {
            on = Identity (go)
            t = Loop (n, yes, s) <body = c (int64 j, bool go2, seq(float[2]) u)
                                          => (bool on2, seq(float[2]) v) {
                on2 = Identity (go2)
                r = Gather (x, j)
                sum = ReduceSum <keepdims = 0> (r)
                c = Greater (sum, zero)
                v = If (c) <then_branch = d () => (seq(float[2]) w) { w = SequenceInsert (u, r) },
                            else_branch = e () => (seq(float[2]) q) { q = Identity (u) }>
            }>
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
    }
"""


def each(kind="float[N, 3]", made="two = Add (one, k)", number="float", dtype=1, result=None):
    return EACH.format(kind=kind, made=made, number=number, dtype=dtype, result=result or kind)


def clips(n, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.integers(0, 9, (rng.integers(0, 5), 3)).astype(dtype) for _ in range(n)]


CASES = {
    "lengths": (each(), lambda n: clips(n), np.float32(2)),
    "rank 0": (each("float"), lambda n: [np.array(k, np.float32) for k in range(n)], np.float32(2)),
    "one axis": (each("float[N]"), lambda n: [one.reshape(-1) for one in clips(n)], np.float32(2)),
    "int64": (each("int64[N, 3]", number="int64", dtype=7), lambda n: clips(n, np.int64), np.int64(2)),
    "sums": (
        each("float[N, 3]", "r = Mul (one, k) two = ReduceSum <keepdims = 0> (r)", result="float"),
        lambda n: clips(n),
        np.float32(2),
    ),
}


@pytest.mark.parametrize("kind", CASES)
def test_lists_in_and_out(kind):
    text, made, k = CASES[kind]
    given = model(text)
    used = InferenceSession(given)
    for n in (0, 1, 3, LONG, 300, 0, 1, LONG, 3):
        feed = {"s": made(n), "k": np.array(k)}
        expected = by_reference(given, feed)[0]
        for one in (feed["s"], tuple(feed["s"]), sq.TensorSequence(feed["s"], dtype=k.dtype)):
            t, count = used.run(None, {"s": one, "k": feed["k"]})
            assert (len(t), count, t.dtype) == (n, n, k.dtype)
            for a, b in zip(t, expected, strict=True):
                np.testing.assert_allclose(a, b, 1e-6)
        (count,) = used.run(["n"], feed)
        assert count == n
    assert ran(used._engines.compiled)["tensors"][0] > 0


def test_results_are_apart_from_the_feed():
    used = Used(each())
    s = clips(LONG)
    before = [one.copy() for one in s]
    for _ in range(3):
        t, _ = used.run(s=s, k=np.float32(0))
        t.extend(t)
        t[0] = np.full((1, 3), 9, np.float32)
        again, twice = used.session.run(["t", "t"], {"s": s, "k": np.float32(0)})
        assert again == twice
        again.clear()
        assert len(twice) == LONG
    for one, other in zip(s, before, strict=True):
        np.testing.assert_array_equal(one, other)


def test_elements_of_other_shapes_than_declared():
    """They run in steps, which believe nothing."""
    used = Used(each())
    used.run(s=clips(LONG), k=np.float32(0))
    odd = [np.zeros((2, 4), np.float32)] * LONG
    t, _ = used.run(s=odd, k=np.float32(1))
    assert {one.shape for one in t} == {(2, 4)}
    assert ran(used.engines)["given steps"] == (1, 0)


def test_errors_name_the_node():
    text = each(made="[add] two = Add (one, k)", number="float[A]")
    used = InferenceSession(model(text))
    for _ in range(3):
        used.run(None, {"s": clips(LONG), "k": f32(1, 2, 3)})
        with pytest.raises(Exception, match="'add'"):
            used.run(None, {"s": clips(LONG), "k": f32(1, 2, 3, 4)})


@pytest.mark.parametrize("most", [copied_states.MOST_COPIED_IN_LOOPS, 100])
def test_nested_loops(monkeypatch, most):
    """What gets too large for tensors runs in steps."""
    monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", most)
    given = model(NESTED)
    used = InferenceSession(given)
    for n in (2, 3, 30, 30, 2, 30, 30, 30):
        x = np.random.default_rng(n).standard_normal((n, 2)).astype(np.float32)
        x[0] = 1  # else there may be nothing to join
        feed = {"x": x, "n": i64(n)}
        np.testing.assert_array_equal(used.run(None, feed)[0], by_reference(given, feed)[0])
    counts = ran(used._engines.compiled)
    assert counts["tensors"][0 if most > 100 else 1] > 0
    assert ("given steps" in counts) == (most == 100)


@pytest.mark.parametrize(
    ("nrows", "n", "fits"), [(1, 599, True), (1, 600, False), (2, 598, True), (2, 599, False)]
)
def test_lists_that_grow_by_a_row_in_each_iteration(monkeypatch, nrows, n, fits):
    """How large they get, the trip count tells before the loop, and the list that it starts with."""
    monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", 8 * 600)
    used = Used("""grows (float[K, 8] x, int64 n) => (float[M, 8] y) <bool yes = {1}> {
        s0 = SplitToSequence <keepdims = 0> (x)
        l = Loop (n, yes, s0) <body = b (int64 i, bool go, seq(float[8]) s) => (bool on, seq(float[8]) t) {
            on = Identity (go)
            rows = ConcatFromSequence <axis = 0, new_axis = 1> (s)
            mean = ReduceMean <axes = [0], keepdims = 0> (rows)
            t = SequenceInsert (s, mean)
        }>
        y = ConcatFromSequence <axis = 0, new_axis = 1> (l)
    }""")
    x = np.ones((nrows, 8), np.float32)
    for _ in range(3):
        np.testing.assert_array_equal(used.run(x=x, n=i64(n))[0], np.ones((nrows + n, 8), np.float32))
    tensors = used.engines.tier("tensors")
    assert (tensors.taken > 0, tensors.failures > 0) == (fits, not fits)


def test_what_stays_as_it_was():
    """An edit without a loop copies nothing in steps; maps on threads stay maps."""
    text = "g (seq(float[N]) s, float[N] x) => (seq(float[N]) t) { t = SequenceInsert (s, x) }"
    assert InferenceSession(model(text))._engines.compiled.tier("tensors") is None
    text = """g (seq(float[N]) s) => (seq(float[N]) t) {
        t = SequenceMap (s) <body = b (float[N] x) => (float[N] y) { y = Neg (x) }>
    }"""
    assert InferenceSession(model(text))._engines.compiled.tier("tensors") is not None
    assert InferenceSession(model(text), max_workers=2)._engines.compiled.tier("tensors") is None


def test_rows_that_share_a_form_with_others():
    """Rows of 3 go on as numbers and extents, where a branch returns rows of 4 in their place."""
    chain = " ".join(f"f{k + 1} = Neg (f{k})" for k in range(20))
    loop = f"""Loop ({{n}}, yes, none) <body = b{{n}} (int64 i, bool go, seq(float[D]) s)
                                            => (bool on, seq(float[D]) t) {{{{
            on = Identity (go)
            f0 = Gather ({{x}}, i)
            {chain}
            t = SequenceInsert (s, f20, p)
        }}}}>"""
    text = f"""
    g (float[N, 3] x, float[M, 4] y, int64 n, int64 m, bool c, int64 p)
        => (seq(float[3]) rows, seq(float[D]) all)
    <bool yes = {{1}}> {{
        none = SequenceEmpty ()
        rows = {loop.format(n="n", x="x")}
        others = {loop.format(n="m", x="y")}
        all = If (c) <then_branch = d () => (seq(float[D]) u) {{ u = Identity (rows) }},
                      else_branch = e () => (seq(float[D]) v) {{ v = Identity (others) }}>
    }}"""
    used, given = Used(text), model(text)
    y = np.ones((2, 4), np.float32)
    for n in (400, 0, 1, 400):
        x = np.arange(3 * n, dtype=np.float32).reshape(n, 3)
        for c in (True, False):
            feed = {"x": x, "y": y, "n": i64(n), "m": i64(2), "c": np.array(c), "p": i64(0)}
            for one, other in zip(used.run(**feed), by_reference(given, feed), strict=True):
                assert len(one) == len(other)
                assert all(map(np.array_equal, one, other))
    assert ran(used.engines)["tensors"] == (4, 0)


ASSIGN = """assign (float[{n}, 8] x{also}) => (seq(float[8]) l)
    <int64 zero = {{0}}, int64 two = {{2}}, bool yes = {{1}}> {{
    e = SplitToSequence <keepdims = 0> (x)
    xs = Shape (x)
    n = Gather (xs, zero)
    l = Loop (n, {first}, e) <body = b (int64 i, bool go, seq(float[8]) a) => (bool on, seq(float[8]) c) {{
        on = Identity (go)
        half = Div (i, two)
        row = SequenceAt (a, half)
        next = Neg (row)
        z = SequenceErase (a, i)
        c = SequenceInsert (z, next, i)
    }}>
}}"""


def assigned(x, goes=True):
    rows = [*x]
    for i in range(len(rows) * goes):
        rows[i] = -rows[i // 2]
    return rows


@pytest.mark.parametrize("first", ["yes", "goes"])
@pytest.mark.parametrize(("nrows", "fits"), [(300, True), (301, False)])
def test_lists_that_keep_their_length(monkeypatch, first, nrows, fits):
    """A named length says nothing of how large they are. One check before the loop is enough."""
    monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", 8 * 300)
    also = ", bool goes" if first == "goes" else ""
    used = Used(ASSIGN.format(n="N", first=first, also=also))
    x = np.arange(nrows * 8, dtype=np.float32).reshape(nrows, 8)
    for goes in (True, True, False, True):
        feed = {"x": x} | ({"goes": np.array(goes)} if also else {})
        (found,) = used.run(**feed)
        assert all(map(np.array_equal, found, assigned(x, goes or not also)))
    tensors = used.engines.tier("tensors")
    assert (tensors.taken > 0, tensors.failures > 0) == (fits, not fits)
    (loop,) = [node for node in tensors.made.prepared.model.graph.all_nodes() if node.is_op("Loop")]
    assert not [node for node in loop.body.nodes if node.is_op("Size")]


@pytest.mark.parametrize(("nrows", "fits"), [(300, True), (301, False)])
def test_lists_of_a_known_size(monkeypatch, nrows, fits):
    monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", 8 * 300)
    used = Used(ASSIGN.format(n=nrows, first="yes", also=""))
    x = np.ones((nrows, 8), np.float32)
    assert all(map(np.array_equal, used.run(x=x)[0], assigned(x)))
    assert (used.engines.tier("tensors") is not None) == fits


def test_few_large_elements(monkeypatch):
    """onnxruntime copies pointers to them: steps would take a session's run for each iteration."""
    monkeypatch.setattr(copied_states, "MOST_COPIED_IN_LOOPS", 8 * 40)
    used = Used(ASSIGN.format(n="N", first="yes", also=""))
    x = np.ones((100, 8), np.float32)
    for _ in range(5):
        assert all(map(np.array_equal, used.run(x=x)[0], assigned(x)))
    counts = ran(used.engines)
    assert counts["large"][0] > 0
    assert "given steps" not in counts


def test_strings_stay_in_lists():
    """A copied string costs as much as many numbers, and onnxruntime's lists copy pointers."""
    used = Used("""<ir_version: 8, opset_import: ["": 19]>
    matches (string[N] x, string[V] all) => (seq(string[]) l) <bool yes = {1}> {
        n = Size (x)
        e = SequenceEmpty <dtype = 8> ()
        l = Loop (n, yes, e) <body = b (int64 i, bool go, seq(string[]) a) => (bool on, seq(string[]) c) {
            on = Identity (go)
            s = Gather (x, i)
            same = Equal (all, s)
            found = Compress (all, same)
            c = SequenceInsert (a, found)
        }>
    }""")
    x = np.array([str(k % 7) for k in range(600)], object)
    for _ in range(4):
        (found,) = used.run(x=x, all=x[:50])
        assert all(list(one) == [s for s in x[:50] if s == k] for one, k in zip(found, x, strict=True))
    assert used.engines.tier("tensors") is None
    assert ran(used.engines)["long"] == (4, 0)
