"""Packed lists: each operator on lists that stay as state, as tensors, against onnxruntime."""

import itertools
from random import Random

import numpy as np
import pytest
from support.models.lowering import (
    OPSETS,
    all_nodes,
    assert_same,
    left_in,
    lowered,
    outcome,
    parse,
    rows,
    session,
)

from seqcore.onnx import InferenceSession
from seqcore.onnx.lowering import lower_with_report

pytestmark = pytest.mark.mostly_slow(5)

LENGTHS = [0, 1, 2, 5]


def check(model, fed):
    """No sequence is left, and each run does what it did."""
    result = lowered(model)
    assert left_in(result) == []
    before, after = session(model), session(result)
    succeeded = False
    for feed in fed:
        expected = outcome(before, feed)
        succeeded |= expected is not None
        assert_same(expected, outcome(after, feed))
    assert succeeded
    return result


@pytest.mark.mostly_slow(3)
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("given", ["", ", one", ", two", ", m", ", k"])
@pytest.mark.parametrize("added", ["w = Neg(x)", "w = Transpose(x)", "e = SequenceAt(u, zero) w = Neg(e)"])
@pytest.mark.parametrize("at", ["p", "one"])
def test_splits_that_are_edited(opset, axis, given, added, at):
    """The pieces of a split, in a loop that takes the first away, with one of some of their lengths more."""
    model = parse(
        f"""g (float[N, M] x, int64 n, int64 m, int64[K] k, int64 p) => (float[A, B] y, int64 count)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}> {{
            s = SplitToSequence<axis = {axis}>(x{given})
            l = Loop(n, yes, s) <body = b (int64 i, bool c, seq(float[?, ?]) u)
                                       => (bool c2, seq(float[?, ?]) t) {{
                c2 = Identity(c)
                v = SequenceErase(u, zero)
                {added}
                t = SequenceInsert(v, w)
            }}>
            y = SequenceAt(l, {at})
            count = SequenceLength(l)
        }}""",
        opset,
    )
    fed = []
    for shape in ((4, 5), (3, 2), (1, 1)):
        length = shape[axis]
        for n in (0, 1, 2):
            for p in (0, -1, 1):
                feed = {"x": np.random.rand(*shape).astype("f"), "n": np.array(n), "p": np.array(p)}
                parts = np.array([1, 0, length - 1])
                for lengths in (parts, np.array([length])):
                    fed.append(feed | {"m": np.array(2), "k": lengths})
    check(model, fed)


@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize(("keeps", "lengths"), [(0, ""), (1, ""), (1, ", pair")])
class TestEditsOfSplits:
    """Outside of loops, where positions come at run time."""

    def model(self, opset, axis, keeps, lengths, edit, read, y):
        split = f"s = SplitToSequence<axis = {axis}, keepdims = {keeps}>(x{lengths})"
        head = f"g (float[N, M] x, int64 p, int64 q) => ({y}) <int64[2] pair = {{2, 2}}>"
        return parse(f"{head} {{ {split} {edit} {read} }}", opset)

    def feeds(self):
        for shape in ((3, 2), (2, 4), (1, 1), (4, 3), (4, 0)):
            for p in (0, 1, -1, 3, -4):
                for q in (0, -2):
                    yield {"x": np.random.rand(*shape).astype("f"), "p": np.array(p), "q": np.array(q)}

    @pytest.mark.mostly_slow(5)
    @pytest.mark.parametrize(
        "edit", ["t = SequenceErase(s, p)", "e = SequenceAt(s, q) t = SequenceInsert(s, e, p)"]
    )
    def test_picks(self, opset, axis, keeps, lengths, edit):
        y = "float[A, B] y" if keeps else "float[A] y"
        check(self.model(opset, axis, keeps, lengths, edit, "y = SequenceAt(t, q)", y), self.feeds())


@pytest.mark.mostly_slow(1)
def test_reads_of_elements_that_are_stacked_too():
    """Elements of one axis: where each is, is computed once for both reads."""
    model = parse("""g (float[N] x, int64[K] k, int64 p, int64 q, int64 r)
        => (float[M] a, float[L] b, float[A, B] y) {
            s = SplitToSequence(x, k) t = SequenceErase(s, p) a = SequenceAt(t, q) b = SequenceAt(t, r)
            y = ConcatFromSequence<axis = 0, new_axis = 1>(t)
        }""")
    x = np.arange(6, dtype="f")
    some = itertools.product(([2, 2, 2], [3, 3], [1] * 6), (0, -1), (0, 1, 3), (0, -2))
    check(model, [{"x": x, **dict(zip("kpqr", map(np.array, one), strict=True))} for one in some])


@pytest.mark.parametrize("dtype", ["double", "int64", "uint8", "bool", "float16", "string"])
@pytest.mark.parametrize("shape", ["4", "?"])
def test_types(dtype, shape):
    opset = 14
    number = {"double": 11, "int64": 7, "int32": 6, "uint8": 2, "bool": 9, "float16": 10, "string": 8}[dtype]
    model = parse(
        f"""g ({dtype}[N, 4] x, int64 n, int64 p) => ({dtype}[A] y, {dtype}[B] z)
        <bool yes = {{1}}, int64[1] nought = {{0}}, int64[1] end = {{{shape.replace("?", "3")}}}> {{
            none = SequenceEmpty<dtype = {number}>()
            l = Loop(n, yes, none) <body = b (int64 i, bool c, seq({dtype}[?]) s)
                                          => (bool c2, seq({dtype}[?]) t) {{
                c2 = Identity(c)
                r = Gather(x, i)
                {"e = Identity(r)" if shape == "4" else "ii = Reshape(i, end0) e = Slice(r, nought, ii)"}
                t0 = SequenceInsert(s, e)
                t = SequenceInsert(t0, e, i)
            }}>
            y = SequenceAt(l, p)
            z = ConcatFromSequence<axis = 0>(l)
        }}""".replace("end0", "end").replace("int64[1] end = {3}", "int64[1] end = {1}"),
        opset,
    )
    x = rows(5).astype({"double": "f8", "string": object}.get(dtype, dtype))
    if dtype == "string":
        x = x.astype("U").astype(object)
    fed = [{"x": x, "n": np.array(n), "p": np.array(p)} for n in LENGTHS for p in (0, -1, 3)]
    check(model, fed)


@pytest.mark.parametrize("axes", ["1", "-1", "2", "2 1"])
@pytest.mark.parametrize("dtype", ["float", "string"])
@pytest.mark.mostly_slow(2)
def test_joins_along_another_axis(axes, dtype):
    """Elements of several lengths there, read, constructed, edited at any position, and of none."""
    joins = [f"y{k} = ConcatFromSequence<axis = {axis}>(l)" for k, axis in enumerate(axes.split())]
    outputs = [f"{dtype}[A{k}, B{k}, C{k}] y{k}" for k in range(len(joins))]
    model = parse(f"""g ({dtype}[N, 4, 4] x, int64 n, int64 p) => ({", ".join(outputs)}, {dtype}[D, E, F] z)
    <bool yes = {{1}}, int64 zero = {{0}}, int64 two = {{2}}, int64[1] nought = {{0}}, int64[1] one = {{1}},
     int64[1] axis = {{{axes.split()[0]}}}> {{
        f = Slice(x, nought, one)
        start = SequenceConstruct(f, f)
        l = Loop(n, yes, start) <body = b (int64 i, bool c, seq({dtype}[?, ?, ?]) s)
                                      => (bool c2, seq({dtype}[?, ?, ?]) u) {{
            c2 = Identity(c)
            w = Mod(i, two) m = Add(w, one)
            e = Slice(x, nought, one) r = Slice(e, nought, m, axis)
            t = SequenceInsert(s, r, i)
            v = SequenceErase(t, zero)
            g = SequenceAt(v, zero)
            u = SequenceInsert(v, g)
        }}>
        {" ".join(joins)}
        z = SequenceAt(l, p)
    }}""")
    x = np.arange(2 * 4 * 4).reshape(2, 4, 4).astype("f")
    x = x.astype("U").astype(object) if dtype == "string" else x
    # onnxruntime joins what is empty, whatever its other lengths.
    counts = (2, 0) if len(joins) == 1 else (2,)
    fed = [
        {"x": x[:k], "n": np.array(n), "p": np.array(p)} for k in counts for n in LENGTHS for p in (0, -1, 3)
    ]
    check(model, fed)


def edits_of_joined(random):
    """A loop that edits and reads a list of elements that differ in length on one axis, and its feeds."""
    rank = random.choice([1, 2, 2])
    axis = random.randrange(rank)
    x = ["N", "3"][:rank] if axis == 0 else ["3", "N"]
    element = "seq(float[" + ", ".join("?" if k == axis else "3" for k in range(rank)) + "])"
    start = random.choice(
        [
            "none = SequenceEmpty() s0 = Identity(none)",
            "h = Slice(x, first, second, axis) s0 = SequenceConstruct(h, x)",
            f"s0 = SplitToSequence<axis = {axis}>(x, cut)",
        ]
    )
    code, last = ["r = Slice(x, first, length, axis)"], "s"
    for k in range(random.randint(1, 3)):
        position = random.choice(["", ", zero", ", minus", ", i", ", p", ", q"])
        read = random.choice(["", ", zero", ", minus", ", i", ", p"])
        how = random.choice(["insert", "insert", "erase", "assign", "choose" if k == 0 else "insert"])
        one = "r"
        if read and how != "erase":
            code.append(f"a{k} = SequenceAt({last}{read}) e{k} = Neg(a{k})")
            one = f"e{k}"
        if how == "insert":
            code.append(f"t{k} = SequenceInsert({last}, {one}{position})")
        elif how == "erase":
            code.append(f"t{k} = SequenceErase({last}{position})")
        elif how == "assign":
            code.append(f"v{k} = SequenceErase({last}, i) t{k} = SequenceInsert(v{k}, {one}, i)")
        else:
            code.append(
                f"""even = Mod(i, two) is_odd = Cast<to = 9>(even)
                t{k} = If(is_odd) <
                    then_branch = y () => ({element} g{k}) {{ g{k} = SequenceInsert({last}, {one}) }},
                    else_branch = z () => ({element} f{k}) {{ f{k} = Identity({last}) }}>"""
            )
        last = f"t{k}"
    model = parse(
        f"""g (float[{", ".join(x)}] x, int64[M] lengths, int64[K] cut, int64 p, int32 q)
            => (float[{", ".join("AB"[:rank])}] y, float[{", ".join("CD"[:rank])}] z, int64 count)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 minus = {{-1}}, int64 two = {{2}},
         int64[1] first = {{0}}, int64[1] second = {{1}}, int64[1] axis = {{{axis}}}> {{
            shape = Shape(lengths)
            n = Squeeze(shape)
            {start}
            l = Loop(n, yes, s0) <body = b (int64 i, bool c, {element} s) => (bool c2, {element} t) {{
                c2 = Identity(c)
                m = Gather(lengths, i)
                length = Unsqueeze(m, first)
                {" ".join(code)}
                t = Identity({last})
            }}>
            y = ConcatFromSequence<axis = {axis}>(l)
            z = SequenceAt(l, p)
            count = SequenceLength(l)
        }}"""
    )
    fed = []
    for _ in range(12):
        n = random.randint(0, 6)
        cut = [random.randint(0, n)]
        feed = {
            "x": np.random.rand(*(n if length == "N" else 3 for length in x)).astype("f"),
            "lengths": [random.randint(0, 4) for _ in range(random.randint(0, 4))],
            "cut": random.choice([[*cut, n - cut[0]], [*cut, 0, n - cut[0]], [n + 1], [n + 2, -2], [1] * n]),
        }
        fed.append(
            {key: value if key == "x" else np.array(value, np.int64) for key, value in feed.items()}
            | {"p": np.array(random.randint(-3, 3)), "q": np.array(random.randint(-2, 2), np.int32)}
        )
    return model, fed


@pytest.mark.parametrize("seed", range(24))
def test_edits_of_elements_that_differ_on_one_axis(seed):
    model, fed = edits_of_joined(Random(seed))
    result = lowered(model)
    assert left_in(result) == []
    assert not any("extents" in name for node in all_nodes(result) for name in node.output)
    before, after = session(model), session(result)
    for feed in fed:
        assert_same(outcome(before, feed), outcome(after, feed))


@pytest.mark.mostly_slow(1)
@pytest.mark.parametrize("position", ["zero", "last", "q", "q32"])
@pytest.mark.parametrize("is_for_shape", [False, True])
def test_a_pop_fails_where_it_reads(position, is_for_shape):
    """Only if what it reads is read too: of a known shape, a runtime computes no element."""
    used = "k = Size(e) f = Cast<to = 1>(k)" if is_for_shape else "f = Identity(e)"
    model = parse(
        f"""g (float[N, 4] x, int64 pops) => (float[4] y, int64 count)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 two = {{2}}, int64 last = {{-1}}, int32 two32 = {{2}},
         float[4] none = {{0, 0, 0, 0}}> {{
            s = SplitToSequence<keepdims = 0>(x)
            l, y = Loop(pops, yes, s, none) <body = b (int64 i, bool c, seq(float[4]) u, float[4] sum)
                                              => (bool c2, seq(float[4]) t, float[4] more) {{
                c2 = Identity(c)
                q = Mod(i, two)
                i32 = Cast<to = 6>(i)
                q32 = Mod(i32, two32)
                e = SequenceAt(u, {position})
                t = SequenceErase(u, {position})
                {used}
                more = Add(sum, f)
            }}>
            count = SequenceLength(l)
        }}"""
    )
    feeds = itertools.product((0, 1, 3), range(5))
    result = check(model, [{"x": rows(n), "pops": np.array(pops)} for n, pops in feeds])
    assert any(node.op_type == "Range" for node in all_nodes(result)) == is_for_shape


FIRST, ROWS = "SequenceConstruct(first)", "SplitToSequence<keepdims = 0>(x)"


@pytest.mark.parametrize("where", ["", ", zero"])
@pytest.mark.parametrize(
    ("start", "more"),
    [
        *itertools.product(["SequenceEmpty()", FIRST, ROWS], ["t = Identity(r)", "t = SequenceInsert(r, q)"]),
        *itertools.product([FIRST, ROWS], ["t = SequenceErase(r, zero)"]),
    ],
)
def test_a_loop_within_a_loop_appends_at_once(start, where, more):
    """Its rows are put behind those of the loop around it, or in front, in one copy."""
    model = parse(f"""g (float[N, 4] x, int64 n) => (float[A, 4] y, int64 m)
    <bool yes = {{1}}, int64 zero = {{0}}> {{
        first = Gather(x, zero)
        start = {start}
        l = Loop(n, yes, start) <body = b (int64 i, bool c, seq(float[4]) s) => (bool c2, seq(float[4]) t) {{
            c2 = Identity(c)
            q = Gather(x, i)
            r = Loop(i, yes, s) <body = d (int64 j, bool f, seq(float[4]) u) => (bool f2, seq(float[4]) v) {{
                f2 = Identity(f)
                w = Gather(x, j)
                sum = Sub(w, q)
                v = SequenceInsert(u, sum{where})
            }}>
            {more}
        }}>
        y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
        m = SequenceLength(l)
    }}""")
    made = check(model, [{"x": rows(5), "n": np.array(n)} for n in LENGTHS])
    assert sum(node.op_type == "Loop" for node in all_nodes(made)) == 1


def test_the_session_packs_nothing():
    """An edit of a packed list copies it."""
    model = parse("""g (float[N, 4] x, int64 n, int64 p) => (int64 y) <bool yes = {1}> {
        none = SequenceEmpty()
        l = Loop(n, yes, none) <body = b (int64 i, bool c, seq(float[4]) s) => (bool c2, seq(float[4]) t) {
            c2 = Identity(c) e = Gather(x, i) m = SequenceLength(s) u = Mul(m, p)
            t0 = SequenceInsert(s, e, u) t = SequenceInsert(t0, e, m)
        }>
        y = SequenceLength(l)
    }""")
    assert InferenceSession(model)._engines.compiled.has_lists


# A loop edits two lists in the middle.
SHARED = """ (float[N, 4] x, int64 n, int64 p) => ({}, int64 y) <bool yes = {{1}}> {{
    r = SplitToSequence(x) q = SplitToSequence(x)
    [l_loop] l, m = Loop(n, yes, r, q) <body = b (int64 i, bool c, seq(float[?, ?]) s, seq(float[?, ?]) u) =>
                              (bool c2, seq(float[?, ?]) s2, seq(float[?, ?]) u2) {{
        c2 = Identity(c) s2 = SequenceInsert(s, x, p) u2 = SequenceInsert(u, x, p)
    }}>
    y = SequenceLength(m)
}}"""


def test_no_list_stays_beside_tensors_if_none_goes_out():
    model = parse("g" + SHARED.format("int64 z").replace("}>\n", "}> z = SequenceLength(l)\n"))
    check(model, [{"x": rows(3), "n": np.array(n), "p": np.array(1)} for n in (0, 3)])


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "g (seq(float[4]) s, float[4] x) => (int64 y) { t = SequenceInsert(s, x) y = SequenceLength(t) }",
            "it is an input of the model",
        ),
        ("g (float[4] x) => (seq(float[4]) y) { y = SequenceConstruct(x, x) }", "the model returns it"),
        (
            "g (float[A] x, int64[B] v, int64 n) => (int64 y) { r = Reshape(x, v) "
            "s = SequenceConstruct(r) t = SequenceInsert(s, r, n) y = SequenceLength(t) }",
            "the rank of its elements is not known",
        ),
        ("g" + SHARED.format("seq(float[?, ?]) l"), "'l_loop' carries 'l' as a list"),
    ],
)
def test_what_stays(text, why):
    model = parse(text)
    result, notes = lower_with_report(model)
    assert result == model
    assert any(why in note.text for note in notes), list(map(str, notes))
