"""Random bodies of loops that edit, read and count lists: lowered they do what they did in steps."""

import numpy as np
import pytest

onnx = pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")
pytest.importorskip("ml_dtypes")
pytest.importorskip("hypothesis")

from hypothesis import given, note, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from support.models.lowering import outcome, parse, session  # noqa: E402
from support.random_cases import examples  # noqa: E402

from seqcore.onnx import InferenceSession, lower  # noqa: E402
from seqcore.onnx._model.prepare import prepare  # noqa: E402
from seqcore.onnx._model.weights import without_weights  # noqa: E402
from seqcore.onnx._model.writing import to_message  # noqa: E402
from seqcore.onnx._rewrite.prune import prune  # noqa: E402

KIND = "seq(float[?])"
POSITIONS = ["zero", "one", "back", "before"]


class Body:
    """The text of a body: two states that are lists, and a tensor that all reads go into."""

    def __init__(self, draw):
        self.draw, self.n = draw, 0

    def fresh(self, word):
        self.n += 1
        return f"{word}{self.n}"

    def pick(self, *of):
        return self.draw(st.sampled_from(of))

    def tensor(self, tensors, lines):
        """The name of a tensor that is there, or of one that is made of it."""
        x = self.pick(*tensors)
        if self.pick(True, False):
            return x
        y = self.fresh("y")
        lines.append(f"{y} = Neg({x})")
        return y

    def steps(self, lists, tensors, lines, depth):
        """Edit, read and count; return the lists as they are then, and the tensors."""
        lists, tensors = list(lists), list(tensors)
        for _ in range(self.draw(st.integers(1, 3))):
            k = self.draw(st.integers(0, len(lists) - 1))
            kind = self.pick(
                *["append"] * 4, "front", "replace", "rotate", "read", "count", *["if"] * 2 * (depth < 2)
            )
            s, t = lists[k], self.fresh("t")
            if kind in ("append", "front"):
                at = ", zero" * (kind == "front")
                lines.append(f"{t} = SequenceInsert({s}, {self.tensor(tensors, lines)}{at})")
                lists[k] = t
            elif kind in ("replace", "rotate"):
                at = self.pick(*POSITIONS[:3])
                to = "" if kind == "rotate" or at == "back" else f", {at}"
                e = self.tensor(tensors, lines)
                lines.append(f"{t}e = SequenceErase({s}, {at}) {t} = SequenceInsert({t}e, {e}{to})")
                lists[k] = t
            elif kind == "read":
                x = self.fresh("x")
                at = self.pick(*POSITIONS, "i", f"{x}p")
                if at not in (*POSITIONS, "i"):
                    lines.append(f"{x}n = SequenceLength({s}) {x}p = Sub({x}n, {self.pick('one', 'two')})")
                lines.append(f"{x} = SequenceAt({s}, {at})")
                tensors.append(x)
            elif kind == "count":
                x = self.fresh("x")
                lines.append(f"{x}n = SequenceLength({s}) {x}f = Cast<to = 1>({x}n) {x} = Mul(e, {x}f)")
                tensors.append(x)
            else:
                lists, more = self.branch(lists, tensors, lines, depth)
                tensors.append(more)
        return lists, tensors

    def branch(self, lists, tensors, lines, depth):
        texts = []
        for key in ("then_branch", "else_branch"):
            inner = []
            made, others = lists, tensors
            if self.pick(True, True, False):
                made, others = self.steps(lists, tensors, inner, depth + 1)
            names = [self.fresh("r") for _ in (*lists, "x")]
            inner += [f"{one} = Identity({two})" for one, two in zip(names, (*made, others[-1]), strict=True)]
            kinds = [f"{KIND} {name}" for name in names[:-1]] + [f"float[?] {names[-1]}"]
            texts.append(f"{key} = {self.fresh('g')} () => ({', '.join(kinds)}) {{ {' '.join(inner)} }}")
        names = [self.fresh("l") for _ in lists]
        x, c = self.fresh("x"), self.fresh("c")
        condition = self.pick("big", "odd")
        lines.append(f"{c} = Identity({condition}) {', '.join((*names, x))} = If({c}) <{', '.join(texts)}>")
        return names, x

    def text(self):
        lines = []
        (s, t), tensors = self.steps(["s", "t"], ["e", "w"], lines, 0)
        starts = [
            self.pick(
                "SequenceEmpty()",
                "SequenceConstruct(a)",
                "SequenceConstruct(a, b)",
                "SequenceConstruct(b, a, b)",
            )
            for _ in range(2)
        ]
        again = ""
        if self.pick(True, False):
            # Another loop goes on with one of the lists.
            again = """m0 = Loop(n, yes, m)
            <body = d (int64 j, bool d0, seq(float[?]) u) => (bool d2, seq(float[?]) v) {
                d2 = Identity(d0) h = SequenceAt(u, back) h2 = Neg(h) v = SequenceInsert(u, h2) }>"""
        m = "m0" if again else "m"
        return f"""g (float[N, 4] x, float[4] a, float[4] b, int64 n, int64 p)
            => (float[A, B] y, float[C, D] z, int64 k, float[E] o, float[4] final)
        <bool yes = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 back = {{-1}},
         int64 before = {{-2}}, float fifty = {{50}}> {{
            f1 = {starts[0]}
            f2 = {starts[1]}
            l, m, final = Loop(n, yes, f1, f2, a)
            <body = b (int64 i, bool c, {KIND} s, {KIND} t, float[4] w)
                => (bool c2, {KIND} sn, {KIND} tn, float[4] wn) {{
                c2 = Identity(c)
                e = Gather(x, i)
                e0 = Gather(e, zero)
                big = Greater(e0, fifty)
                i2 = Mod(i, two)
                odd = Cast<to = 9>(i2)
                {" ".join(lines)}
                sn = Identity({s})
                tn = Identity({t})
                wn = Identity({tensors[-1]})
            }}>
            {again}
            y = ConcatFromSequence<axis = 0, new_axis = 1>(l)
            z = ConcatFromSequence<axis = 0, new_axis = 1>({m})
            l2 = SequenceInsert(l, final{self.pick("", ", zero")})
            k = SequenceLength({self.pick("l", "l2", m)})
            o = SequenceAt({self.pick("l", "l2", m)}, p)
        }}"""


@st.composite
def texts(draw):
    return Body(draw).text()


def without_dead_nodes(model):
    """The model without what no output needs: its errors are none."""
    prepared = prepare(*without_weights(model, ""))
    prune(prepared.model)
    return to_message(prepared.model)


@pytest.mark.slow
@settings(max_examples=examples(120))
@given(texts(), st.sampled_from([14, 17, 21]))
def test_random_bodies(text, opset):
    model = parse(text, opset)
    result = lower(model)
    if result == model:
        return
    note(onnx.printer.to_text(result))
    onnx.checker.check_model(result, full_check=True)
    before, steps, after = session(without_dead_nodes(model)), InferenceSession(model), session(result)
    for n in (0, 1, 2, 5):
        for p in (-2, 0, 1):
            x = np.random.default_rng(n).integers(0, 99, (max(n, 1), 4)).astype("f")
            feed = {"x": x, "a": x[0] + 1, "b": x[0] - 1, "n": np.array(n), "p": np.array(p)}
            wanted = outcome(before, feed)
            for running in (after, steps):
                got = outcome(running, feed)
                assert (got is None) == (wanted is None)
                if got is not None:
                    for one, other in zip(got, wanted, strict=True):
                        np.testing.assert_array_equal(one, other)
