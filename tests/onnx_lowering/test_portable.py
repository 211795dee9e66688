"""Models for runtimes with few operators: the target "portable", fixed shapes, loops that are written out."""

import numpy as np
import onnx
import pytest
from support.models.exported import MODELS
from support.models.lowering import left_in, ops, session
from support.models.ragged_io import as_tensors, assert_close
from support.models.sessions import model

from seqcore.onnx import InferenceSession, lower
from seqcore.onnx.__main__ import main
from seqcore.onnx._lowering import unroll
from seqcore.onnx.explaining import explain
from seqcore.onnx.lowering import lower_with_loops


def depth(graph):
    """How deep loops and branches are nested."""
    inner = [
        (node.op_type in ("If", "Loop", "SequenceMap")) + depth(one.g)
        for node in graph.node
        for one in node.attribute
        if one.HasField("g")
    ]
    return max(inner, default=0)


def known_shapes_left(made):
    """Nodes that read shapes which are constants."""
    graph = onnx.shape_inference.infer_shapes(made).graph
    known = {
        value.name
        for value in (*graph.input, *graph.value_info)
        if value.type.tensor_type.HasField("shape")
        and all(dim.HasField("dim_value") for dim in value.type.tensor_type.shape.dim)
    }
    return [node.name for node in graph.node if node.op_type in ("Shape", "Size") and node.input[0] in known]


@pytest.mark.mostly_at_night(13)
@pytest.mark.parametrize("name", MODELS)
def test_exported(name):
    """They return what the given model returns. Without elements they may fail, but are never wrong."""
    one = MODELS[name]
    used = InferenceSession(one.path)
    plain = lower(one.path, ragged_io=True)
    portable = lower(one.path, ragged_io=True, target="portable")
    assert portable.opset_import[0].version <= plain.opset_import[0].version
    assert depth(portable.graph) <= depth(onnx.load(one.path).graph)
    assert left_in(portable) == []
    names, outputs = ([value.name for value in part] for part in (plain.graph.input, plain.graph.output))
    for n in (0, 1, 2, 5):
        feed = one.example(max(n, one.least), seed=n)
        if any(isinstance(value, list) and not value for value in feed.values()):
            continue  # an empty list doesn't tell the shape of an element
        results = zip([value.name for value in used.get_outputs()], used.run(None, feed), strict=True)
        expected = as_tensors(dict(results), outputs)
        tensors = as_tensors(feed, names)
        shapes = {key: value.shape for key, value in tensors.items()}
        fixed = lower(one.path, ragged_io=True, target="portable", shapes=shapes, unroll=8)
        assert known_shapes_left(fixed) == []
        for made in (portable, fixed):
            onnx.checker.check_model(made, full_check=True)
            try:
                found = session(made).run(None, tensors)
            except Exception:
                assert n == 0
                continue
            assert_close(found, [expected[key] for key in outputs])


WHILE = """
    f (float[N, 4] x, int64 k) => (float[M, 4] y, int64 last, float[L] sums)
    <bool yes = {1}, int64 zero = {0}, int64 one = {1}, int64 two = {2}, int64 most = {1000},
     int64[1] front = {0}> {
        shape = Shape (x)
        n = Gather (shape, zero)
        end = Mul (n, two)
        start = SequenceEmpty ()
        begins = Greater (n, zero)
        at, rows, sums = Loop (TRIPS, begins, zero, start) <body = b
            (int64 i, bool c, int64 j, seq(float[4]) s) => (bool on, int64 j2, seq(float[4]) t, float sum) {
            row = Gather (x, j)
            t = SequenceInsert (s, row)
            j2 = Add (j, one)
            before = SequenceAt (s2, zero)
            s2 = SequenceConstruct (row)
            sum = ReduceSum <keepdims = 0> (before)
            double = Mul (j2, two)
            on = Less (double, LIMIT)
        }>
        last = Identity (at)
        length = SequenceLength (rows)
        none = Equal (length, zero)
        y = If (none) <
            then_branch = a () => (float[A, 4] u) { u = Slice (x, front, front) },
            else_branch = d () => (float[B, 4] w) { w = ConcatFromSequence <axis = 0, new_axis = 1> (rows) }
        >
    }
"""


def while_loop(trips="most", limit="end"):
    """Its counter is compared doubled: without that, the number of iterations would be known."""
    # Nodes come in order.
    lines = WHILE.replace("TRIPS", trips).replace("LIMIT", limit).splitlines()
    made = next(k for k, line in enumerate(lines) if "s2 = " in line)
    lines[made - 1], lines[made] = lines[made], lines[made - 1]
    return model("\n".join(lines))


@pytest.mark.parametrize(
    ("n", "trips", "count"), [(0, "most", 0), (1, "most", 1), (3, "most", 3), (7, "most", 7), (7, "two", 2)]
)
def test_a_loop_that_counts_itself(n, trips, count):
    """How often it goes on, its own counter says: a list of as many elements is left, and then none."""
    given = while_loop(trips)
    x = np.arange(4 * n, dtype=np.float32).reshape(n, 4)
    feed = {"x": x, "k": np.array(3)}
    made, _, loops = lower_with_loops(given, False, packs=True, shapes={"x": (n, 4)}, unroll=7)
    assert not {"Loop", "If"} & {*ops(made)}
    assert left_in(made) == []
    iterations = "1 iteration" if count == 1 else f"{count} iterations"
    assert all(text == f"is written out: {iterations}" for text in loops.values())
    found = session(made).run(None, feed)
    np.testing.assert_array_equal(found[0], x[:count])
    assert found[1] == count
    np.testing.assert_array_equal(found[2], x[:count].sum(1))


@pytest.mark.parametrize(
    ("kwargs", "n", "text"),
    [
        ({}, 8, "has more than 7 iterations"),
        ({"trips": "k"}, 5, "the number of its iterations depends on data"),
        ({"limit": "k"}, 5, "whether it goes on depends on data"),
    ],
)
def test_loops_that_stay(kwargs, n, text):
    given = while_loop(**kwargs)
    made, _, loops = lower_with_loops(given, False, packs=True, shapes={"x": (n, 4)}, unroll=7)
    assert "Loop" in ops(made)
    assert [one for one in loops.values() if text in one]
    lines = explain(given, shapes={"x": (n, 4)}, unroll=7)
    assert any(text in line for line in lines)
    feed = {"x": np.ones((n, 4), np.float32), "k": np.array(3)}
    assert_close(session(made).run(None, feed), session(lower(given)).run(None, feed))


def test_nested_loops():
    """The inner one's count is known in each copy of the outer one."""
    given = model("""
        f (float[N] x) => (float[M] y) <bool yes = {1}, int64 zero = {0}, int64 one = {1}> {
            shape = Shape (x)
            n = Gather (shape, zero)
            start = SequenceEmpty ()
            rows = Loop (n, yes, start) <body = b (int64 i, bool c, seq(float) s) => (bool c2, seq(float) t) {
                c2 = Identity (c)
                t = Loop (i, yes, s) <body = d (int64 j, bool e, seq(float) u) => (bool e2, seq(float) v) {
                    e2 = Identity (e)
                    a = Gather (x, j)
                    b = Gather (x, i)
                    p = Mul (a, b)
                    q = Sub (p, a)
                    v = SequenceInsert (u, q, zero)
                }>
            }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
        }""")
    made = lower(given, shapes={"x": (4,)}, unroll=4)
    assert not {"Loop", "If"} & {*ops(made)}
    feed = {"x": np.arange(4, dtype=np.float32) + 2}
    np.testing.assert_array_equal(session(made).run(None, feed), session(given).run(None, feed))


@pytest.mark.parametrize(
    ("number", "row"), [("int64", "Identity (own)"), ("int64[1]", "Squeeze (own, nought)")]
)
def test_a_model_without_sequences(number, row):
    given = model(f"""
        f (float[N, 4] x) => (float[4] y)
        <bool yes = {{1}}, int64 zero = {{0}}, int64[1] nought = {{0}}, float half = {{0.5}}> {{
            shape = Shape (x)
            n = Gather (shape, zero)
            first = Gather (x, zero)
            y = Loop (n, yes, first) <body = b ({number} i, bool c, float[4] s) => (bool c2, float[4] t) {{
                c2 = Identity (c)
                own = Gather (x, i)
                row = {row}
                h = Mul (s, half)
                t = Add (h, row)
            }}>
        }}""")
    made = lower(given, shapes={"x": (3, 4)}, unroll=3)
    assert {*ops(made)} == {"Gather", row.split()[0], "Mul", "Add", "Identity"}
    assert made.opset_import == given.opset_import
    assert "written out: 3 iterations" in explain(given, shapes={"x": (3, 4)}, unroll=3)[-1]
    assert [dim.dim_value for dim in made.graph.input[0].type.tensor_type.shape.dim] == [3, 4]
    feed = {"x": np.ones((3, 4), np.float32)}
    np.testing.assert_array_equal(session(made).run(None, feed), session(given).run(None, feed))
    assert lower(given) == given


@pytest.mark.parametrize(
    ("options", "error", "text"),
    [
        (
            {"shapes": {"z": (3, 4)}},
            ValueError,
            "shapes has 'z', which is not an input of the model: it has 'x', 'w'",
        ),
        ({"shapes": {"x": (3,)}}, ValueError, r"shapes\['x'\] has rank 1, got \(3,\): the input has rank 2"),
        ({"shapes": {"x": (3, 5)}}, ValueError, r"shapes\['x'\] has 5 on axis 1: the model fixes it to 4"),
        ({"shapes": {"w": (5,)}}, ValueError, "don't fit the model.*('add'|node name: add)"),
        ({"shapes": {"x": (-1, 4)}}, ValueError, "must have lengths from 0"),
        ({"shapes": {"x": (10**23, 4)}}, ValueError, "must have lengths from 0"),
        ({"shapes": {"x": (None, 4)}}, TypeError, "must be a tuple of integers"),
        ({"shapes": {"parts": (3,)}}, ValueError, "'parts', which is not a tensor: pass ragged_io=True"),
        ({"shapes": [(3, 4)]}, TypeError, "shapes must map the names of inputs to shapes"),
        ({"unroll": 2.5}, TypeError, "unroll must be an integer, got 2.5"),
        ({"unroll": -1}, ValueError, "unroll must be 0 or more, got -1"),
        (
            {"target": "tensorrt"},
            ValueError,
            "target must be one of 'openvino', 'portable' or None, got 'tensorrt'",
        ),
    ],
)
def test_bad_arguments(options, error, text):
    given = model("""
        f (float[N, 4] x, float[K] w, seq(float[4]) parts) => (float[M, 4] y) {
            r = SplitToSequence <keepdims = 0> (x)
            s = ConcatFromSequence <axis = 0, new_axis = 1> (r)
            [add] y = Add (s, w)
        }""")
    with pytest.raises(error, match=text):
        lower(given, **options)


@pytest.mark.parametrize("options", [{"shapes": {"x": (3, 4)}}, {"unroll": 4}])
def test_models_of_old_operators_have_no_fixed_shapes(options):
    old = while_loop()
    old.opset_import[0].version = 13
    with pytest.raises(ValueError, match="shapes and unroll need opset 14 or later: the model has 13"):
        lower(old, **options)
    assert lower(old) == old


def test_sums_say_what_they_are():
    """onnx2torch 1.5 takes other defaults than ONNX."""
    given = model("""
        f (float[N, 4] x) => (float[M, 4] y) <int64 zero = {0}> {
            r = SplitToSequence <keepdims = 0> (x)
            s = ConcatFromSequence <axis = 0, new_axis = 1> (r)
            y = CumSum <exclusive = 1> (s, zero)
        }""")
    (sums,) = (node for node in lower(given, target="portable").graph.node if node.op_type == "CumSum")
    assert {one.name: one.i for one in sums.attribute} == {"exclusive": 1, "reverse": 0}


def test_a_model_that_gets_too_large(monkeypatch):
    """It is refused before it is made."""
    monkeypatch.setattr(unroll, "MOST_NBYTES", 1000)
    with pytest.raises(
        ValueError, match=r"5 iterations of Loop '.*' would make the model larger than ONNX's 2 GB"
    ):
        lower(while_loop(), shapes={"x": (5, 4)}, unroll=100)


def test_command_line(tmp_path, capsys):
    path, out = tmp_path / "given.onnx", tmp_path / "out.onnx"
    onnx.save(while_loop(), path)

    def run(*arguments):
        code = main([str(one) for one in arguments])
        return code, *capsys.readouterr()

    code, said, _ = run(
        "lower", path, "-o", out, "--target", "portable", "--shape", "x=3,4", "--shape", "k=", "--unroll", "9"
    )
    assert code == 0
    assert "next: load" in said
    assert "known:" not in said
    assert "Loop" not in ops(onnx.load(out))
    _, said, _ = run("lower", path, "-o", out, "--target", "portable")
    assert "known: " in said  # which runtimes have no Loop
    for bad in (
        ["--shape", "x"],
        ["--shape", "x=a"],
        ["--shape", "=3"],
        ["--shape", "x=3"],
        ["--unroll", "-2"],
    ):
        code, said, error = run("lower", path, "-o", out, *bad)
        assert (code, said) == (1, "")
        assert error.startswith("seqcore.onnx: ")
    _, said, _ = run("explain", path, "--shape", "x=3,4", "--unroll", "2")
    assert "has more than 2 iterations" in said


def test_a_list_that_is_fixed_to_no_elements():
    """onnxruntime takes an Expand to no items out."""
    given = model("""f (seq(int64[K]) s, int64[N] x) => (seq(int64[M]) y)
        <bool yes = {1}, int64 zero = {0}, int64 three = {3}> {
        n = SequenceLength (s)
        few = Mod (n, three)
        none = SequenceEmpty <dtype = 7> ()
        y, z = Loop (few, yes, none, s) <body = b (int64 i, bool c, seq(int64[P]) t, seq(int64[Q]) v)
                                        => (bool d, seq(int64[R]) u, seq(int64[S]) w) {
            u = SequenceInsert (t, x)
            w = SequenceInsert (v, x)
            d = Less (i, zero)
        }>
    }""")
    for n in (0, 2):
        shapes = {"s_values": (3 * n,), "s_lengths": (n,), "x": (4,)}
        made = session(lower(given, ragged_io=True, target="portable", shapes=shapes))
        feed = {"s_values": np.ones(3 * n, np.int64), "s_lengths": np.full(n, 3), "x": np.arange(4)}
        values, lengths = made.run(None, feed)
        np.testing.assert_array_equal(values, np.tile(feed["x"], min(n, 1)))
        assert lengths.tolist() == [4] * min(n, 1)
