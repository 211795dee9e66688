"""lower(model, ragged_io=True): sequences that a model takes and gives, as tensors."""

import numpy as np
import onnx
import pytest
from support.models.lowering import assert_same, outcome, parse, session

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession, lower
from seqcore.onnx.__main__ import main
from seqcore.onnx.lowering import lower_with_report

pytestmark = pytest.mark.mostly_slow(5)


@pytest.mark.parametrize(
    ("type_", "good", "bad"),
    [
        ("float[N, 4]", [2, 3], [[2, 2], [6, -1], [2, 4], [5, 1], [], [1 << 62, 1 << 62, 5]]),
        ("float[N]", [2, 3], [[2, 2], [6, -1], [2, 4], [-2, 7], [1]]),
        ("float[5, 4]", [5], [[4], [2, 3], [5, 5], []]),
    ],
)
def test_lengths_that_do_not_fit(type_, good, bad):
    model = parse(
        f"g (seq({type_}) s, seq({type_}) r) => (int64 n) {{ n = SequenceLength(s) }}",
    )
    values = np.zeros((5, 4) if "4" in type_ else 5, "f")
    used = session(lower(model, ragged_io=True))
    feed = {"s_values": values, "r_values": values, "r_lengths": np.array(bad[0])}  # that one nobody reads
    assert outcome(used, feed | {"s_lengths": np.array(good)})[0] == len(good)
    for lengths in bad:
        assert outcome(used, feed | {"s_lengths": np.array(lengths, np.int64)}) is None


def test_extents_that_do_not_fit():
    model = parse("g (seq(float[2, N, M]) s) => (int64 n) { n = SequenceLength(s) }")
    used = session(lower(model, ragged_io=True))
    values = np.zeros(16, "f")
    for extents in ([[2, 2, 2], [2, 4, 1]], [[2, 8, 1]]):
        assert outcome(used, {"s_values": values, "s_extents": np.array(extents)})[0] == len(extents)
    for extents in ([[2, 2, 2]], [[2, 2, 2], [2, 4, 2]], [[1, 4, 4]], [[2, -2, -4]], [[4, 2, 2]]):
        assert outcome(used, {"s_values": values, "s_extents": np.array(extents)}) is None


def test_it_fits_a_tensor_sequence():
    model = parse("""g (seq(float[N, 4]) parts) => (seq(float[M, 4]) twice, float[T, 4] all) {
        twice = SequenceMap(parts) <body = b (float[k, 4] e) => (float[k2, 4] f) {
            f = Concat<axis = 0>(e, e)
        }>
        all = ConcatFromSequence<axis = 0>(twice)
    }""")
    parts = TensorSequence([np.random.rand(n, 4).astype("f") for n in (2, 0, 3)])
    used = session(lower(model, ragged_io=True))
    feed = {"parts_values": parts.values(), "parts_lengths": parts.lengths()}
    values, lengths, whole = used.run(None, feed)
    expected = InferenceSession(model).run(None, {"parts": parts})
    assert TensorSequence.from_lengths(values, lengths) == expected[0]
    np.testing.assert_array_equal(whole, expected[1])


def test_names_that_are_taken():
    model = parse("""g (seq(float[N]) s, float[N] s_values) => (seq(float[N]) t) {
        t_lengths = Neg(s_values)
        t = SequenceInsert(s, t_lengths)
    }""")
    graph = lower(model, ragged_io=True).graph
    assert [one.name for one in graph.input] == ["s_values_1", "s_lengths", "s_values"]
    assert [one.name for one in graph.output] == ["t_values", "t_lengths_1"]


@pytest.mark.parametrize(
    ("text", "stays", "inputs"),
    [
        (
            "g (seq(float[]) s, seq(float[N]) t, int64 i) => (float[A] y, int64 n) "
            "{ y = SequenceAt(t, i) n = SequenceLength(s) }",
            "s",
            ["s", "t_values", "t_lengths", "i"],
        ),
        (
            "g (seq(float[N]) t, float[A] x, int64[B] v) => (seq(float[]) u, float[C] y) "
            "{ r = Reshape(x, v) u = SequenceConstruct(r, r) y = ConcatFromSequence<axis = 0>(t) }",
            "u",
            ["t_values", "t_lengths", "x", "v"],
        ),
        (
            "g (optional(seq(float[N])) o, seq(float[N]) t) => (bool b, int64 n) "
            "{ b = OptionalHasElement(o) n = SequenceLength(t) }",
            "",
            ["o", "t_values", "t_lengths"],
        ),
    ],
)
def test_what_stays(text, stays, inputs):
    """The others go in and out as tensors even so."""
    model = parse(text)
    lowered, notes = lower_with_report(model, ragged_io=True)
    onnx.checker.check_model(lowered, full_check=True)
    assert [one.name for one in lowered.graph.input] == inputs
    assert [note.value for note in notes if not note.is_lowered] == [*filter(None, [stays])]


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("shape", ["A, B", "A, 2", "3, B", "3, 2"])
@pytest.mark.parametrize(
    "edit", ["m = SequenceInsert(t, f, n)", "m = SequenceErase(t, n)", "m = Identity(t)"]
)
def test_lists_that_are_joined_go_in_and_out_in_order(edit, shape, axis):
    """Packed, elements that are joined along one axis alone may be transposed."""
    model = parse(f"""g (seq(float[{shape}]) t, int64 n) => (seq(float[{shape}]) m, float[C, D] y)
        <int64 zero = {{0}}> {{
            f = SequenceAt(t, zero) {edit} y = ConcatFromSequence<axis = {axis}>(m)
        }}""")
    lowered = lower(model, ragged_io=True)
    lengths = [(3, 2), (3, 2), (3, 2)] if axis else [(3, 2), (0, 2), (4, 2)]
    if axis and "B" in shape:
        lengths = [(3, 2), (3, 0), (3, 5)]
    elif not axis and shape.startswith("3"):
        lengths = [(3, 2)] * 3
    parts = [np.arange(np.prod(one), dtype=np.float32).reshape(one) + k for k, one in enumerate(lengths)]
    names = [one.name for one in lowered.graph.input]
    extents = np.array(lengths) if "t_extents" in names else np.array(lengths)[:, 0]
    flat = np.concatenate([one.ravel() for one in parts])
    values = flat if "t_extents" in names else flat.reshape(-1, 2)
    feed = dict(zip(names, [values, extents, np.array(1)], strict=True))
    elements, joined = session(model).run(None, {"t": parts, "n": np.array(1)})
    own_values, own_extents, own_joined = session(lowered).run(None, feed)
    np.testing.assert_array_equal(own_joined, joined)
    np.testing.assert_array_equal(own_values.ravel(), np.concatenate([one.ravel() for one in elements]))
    found = [list(np.atleast_1d(one)) for one in own_extents]
    assert found == [list(one.shape)[: len(found[0])] for one in elements]
    ours = InferenceSession(model, compile="load").run(None, {"t": parts, "n": np.array(1)})
    assert_same([list(ours[0]), ours[1]], [elements, joined])


def test_the_command(tmp_path, capsys):
    text = "g (seq(float[N]) parts, int64 i) => (float[M] y) { y = SequenceAt(parts, i) }"
    onnx.save(parse(text), tmp_path / "in.onnx")
    out = tmp_path / "out.onnx"
    assert main(["lower", str(tmp_path / "in.onnx"), "-o", str(out), "--ragged-io"]) == 0
    assert capsys.readouterr().out.startswith(f"{out}: 1 sequence lowered, none left\n")
    assert onnx.load(out) == lower(parse(text), ragged_io=True)
