"""Loops that go on with a list, as text: what the tests of their lowering share."""

import numpy as np
from support.models.lowering import parse, quick_report, rows

OPSETS = [14, 21]
LENGTHS = [0, 1, 2, 7]
STACK = "y = ConcatFromSequence<axis = 0, new_axis = 1>(l)"
ONE = "first = SequenceConstruct(a)"
TWO = "first = SequenceConstruct(a, b)"
NONE = "first = SequenceEmpty()"
ELEMENT = "q = Gather(x, i) e = Add(q, q)"
APPEND = f"{ELEMENT} t = SequenceInsert(s, e)"
# What is appended in rounds of which the row starts with more than 50.
SOME = """q = Gather(x, i) k = Gather(q, zero) big = Greater(k, fifty)
    t = If(big) <then_branch = f () => (seq(float[?]) f1) { e = Add(q, q) f1 = SequenceInsert(s, e) },
                 else_branch = h () => (seq(float[?]) h1) { h1 = Identity(s) }>"""


def loop(body=APPEND, after=STACK, start=ONE, outs="float[A, B] y", x="float[N, 4]"):
    """A loop over the rows of x that goes on with a list, `first`; `after` reads the list l."""
    return f"""g ({x} x, float[4] a, float[4] b, int64 n, int64[K] p) => ({outs})
    <bool yes = {{1}}, int64 zero = {{0}}, int64 one = {{1}}, int64 two = {{2}}, int64 back = {{-1}},
     int64 before = {{-2}}, float fifty = {{50}}> {{
        {start}
        l = Loop(n, yes, first) <body = b (int64 i, bool c, seq(float[?]) s) => (bool c2, seq(float[?]) t) {{
            c2 = Identity(c)
            {body}
        }}>
        {after}
    }}"""


def feeds(*positions, lengths=LENGTHS, width=4):
    a, b = rows(2, width, seed=50)
    return [
        {"x": rows(max(n, 1), width), "a": a, "b": b, "n": np.int64(n), "p": np.array([p])}
        for n in lengths
        for p in positions or [0]
    ]


def feeds_of_strings(*positions):
    return [
        {key: value.astype(str).astype(object) if key in "xab" else value for key, value in feed.items()}
        for feed in feeds(*positions)
    ]


def why(text, value="l"):
    """What the report says of a list."""
    return next(note.text for note in quick_report(parse(text))[1] if note.value == value)
