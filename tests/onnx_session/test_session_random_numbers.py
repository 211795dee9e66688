"""Models that draw random numbers: a session draws one stream, whatever runs it, as onnxruntime's does."""

import numpy as np
import onnxruntime as ort
import pytest
from support.models.sessions import model, reference

from seqcore.onnx import InferenceSession, lower

ROWS = "rows = SplitToSequence <keepdims = 0> (x)"
# What draws from tensors of two numbers called `r`.
DRAWS = {
    "RandomUniformLike": "d = RandomUniformLike (r)",
    "RandomNormalLike": "d = RandomNormalLike (r)",
    "RandomUniform": "d = RandomUniform <shape = [2]> ()",
    "RandomNormal": "d = RandomNormal <shape = [2]> ()",
    "with a seed": "d = RandomUniform <shape = [2], seed = 3.0> ()",
    "Bernoulli": "many = Expand (half, wide) kept = Bernoulli (many) d = ReduceSum (kept)",
    "Multinomial": "logits = Expand (half, nine) d = Multinomial <sample_size = 40> (logits)",
}
CONSTANTS = (
    "int64 zero = {0}, int64 last = {-1}, bool yes = {1}, float half = {0.5}, int64[1] wide = {4000}, "
    "int64[2] nine = {1, 9}"
)
# Short and long, so that engines would change.
SIZES = (3, 3, 3, 3, 700, 3, 700, 700, 3, 3)


def beside_a_list(kind, number):
    return f"""
        f (float[N, 2] x) => ({number}[] d, float[2] y) <{CONSTANTS}> {{
            {ROWS}
            r = SequenceAt (rows, zero)
            {DRAWS[kind]}
            y = SequenceAt (rows, last)
        }}"""


def in_a_loop(kind, number):
    dtype = 6 if number == "int32" else 1
    return f"""
        f (float[N, 2] x) => ({number}[] e) <{CONSTANTS}> {{
            {ROWS}
            n = SequenceLength (rows)
            none = SequenceEmpty <dtype = {dtype}> ()
            all = Loop (n, yes, none) <body = b (int64 i, bool go, seq({number}[]) s)
                                         => (bool on, seq({number}[]) t) {{
                on = Identity (go)
                r = SequenceAt (rows, i)
                {DRAWS[kind]}
                t = SequenceInsert (s, d)
            }}>
            e = ConcatFromSequence <axis = 0, new_axis = 1> (all)
        }}"""


def in_a_map(kind, number):
    return f"""
        f (seq(float[2]) x) => (seq({number}[]) t) <{CONSTANTS}> {{
            t = SequenceMap (x) <body = b (float[2] r) => ({number}[] d) {{ {DRAWS[kind]} }}>
        }}"""


@pytest.mark.parametrize("place", [beside_a_list, in_a_loop, in_a_map])
@pytest.mark.parametrize("kind", DRAWS)
def test_no_run_repeats_another(kind, place):
    given = model(place(kind, "int32" if kind == "Multinomial" else "float"), 18)

    def feed_of(n):
        x = np.ones((n, 2), np.float32)
        return {"x": list(x) if place is in_a_map else x}

    runs = {"ours": InferenceSession(given)}
    if (place, kind) != (in_a_map, "Bernoulli"):  # which onnxruntime doesn't load
        runs |= {"theirs": reference(given), "lowered": reference(lower(given))}
    for used in runs.values():
        drawn = [np.asarray(used.run(None, feed_of(n))[0][0]).reshape(-1)[:40].tolist() for n in SIZES]
        assert len({str(one) for one in drawn}) > len(SIZES) / 2  # sums may be the same by chance


def test_nodes_draw_different_numbers():
    """Also where they are the first of their parts of a model."""
    given = model(f"""
        f (float[N, 2] x, int64 i) => (float[2] a, float[2] b, seq(float[2]) s) <{CONSTANTS}> {{
            {ROWS}
            r = SequenceAt (rows, i)
            a = RandomUniformLike (r)
            s = SequenceInsert (rows, a)
            q = SequenceAt (s, i)
            b = RandomUniformLike (q)
        }}""")
    used = InferenceSession(given)
    seen = []
    for n in SIZES:
        a, b, _ = used.run(None, {"x": np.ones((n, 2), np.float32), "i": np.array(0)})
        seen += [tuple(a.tolist()), tuple(b.tolist())]
    assert len(set(seen)) == len(seen)


def test_seeds_repeat():
    """A seed in the model, and `onnxruntime.set_seed` for others, decide what is drawn."""
    given = model(beside_a_list("RandomUniform", "float"))
    x = {"x": np.ones((3, 2), np.float32)}
    try:
        drawn = []
        for seed in (1, 1, 2):
            ort.set_seed(seed)
            used = InferenceSession(given)
            drawn.append([tuple(used.run(["d"], x)[0].tolist()) for _ in range(5)])
    finally:
        ort.set_seed(0)
    assert drawn[0] == drawn[1] != drawn[2]
    given = model(beside_a_list("with a seed", "float"))
    ours, theirs = InferenceSession(given), reference(given)
    for _ in range(5):
        np.testing.assert_array_equal(ours.run(["d"], x)[0], theirs.run(["d"], x)[0])


def test_a_dropout_that_drops_nothing_is_no_reason():
    given = model(f"""
        f (float[N, 2] x) => (float[2] y) <{CONSTANTS}> {{
            {ROWS}
            r = SequenceAt (rows, zero)
            y = Dropout (r)
        }}""")
    used = InferenceSession(given)
    used.run(None, {"x": np.ones((3, 2), np.float32)})
    assert used._engines._first is not None


def test_errors_name_the_node():
    given = model(f"""
        f (float[N, 2] x, int64 i) => (float[2] y) {{
            {ROWS}
            [pick] r = SequenceAt (rows, i)
            d = RandomUniformLike (r)
            y = Add (d, r)
        }}""")
    used = InferenceSession(given)
    for _ in range(4):
        used.run(None, {"x": np.ones((3, 2), np.float32), "i": np.array(1)})
        with pytest.raises(IndexError, match="'pick'"):
            used.run(None, {"x": np.ones((3, 2), np.float32), "i": np.array(7)})
