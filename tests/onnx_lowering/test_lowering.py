"""seqcore.onnx.lower: what becomes of a model's sequences, and that the model does what it did."""

import numpy as np
import onnx
import pytest
from support.models.lists_in_loops import ELEMENT, LENGTHS, NONE, STACK, feeds, feeds_of_strings, loop
from support.models.lowering import check, left_in, lowered, ops, outcome, parse, quick_report, rows, session

from seqcore.onnx import InferenceSession, lower
from seqcore.onnx.lowering import lower_with_report

pytestmark = pytest.mark.mostly_slow(5)

BRANCH = """z = Cast<to = 9>(p) z0 = Squeeze(z)
    y = If(z0) <
        then_branch = a () => (float[A, B] u) { u = ConcatFromSequence<axis = 0, new_axis = 1>(l) },
        else_branch = b () => (float[C, D] v) { v = Identity(x) }
    >"""
# Elements that are longer in each round.
RAGGED = """f = Constant<value = int64[1] {1}>() o = Constant<value = int64[1] {0}>() i1 = Reshape(i, f)
            n1 = Add(i1, f) q = Gather(x, i) e = Slice(q, o, n1) t = SequenceInsert(s, e)"""


@pytest.mark.parametrize("opset", [11, 13])
def test_older_opsets_stay_as_they_are(opset):
    """A session runs them all the same, the list in linear time."""
    text = """g (float[N, 4] x, int64 i) => (float[4] y) {
        s = SplitToSequence<keepdims = 0>(x)
        y = SequenceAt(s, i)
    }"""
    model = parse(text, opset)
    result, notes = lower_with_report(model)
    assert result == model
    assert [str(note) for note in notes] == [
        f"'s' stays a list: the model has opset {opset}, export it with 14 or later"
    ]
    x = rows(3)
    used = InferenceSession(model)
    for _ in range(3):
        np.testing.assert_array_equal(used.run(None, {"x": x, "i": np.array(-1)})[0], x[-1])


class TestLoops:
    @pytest.mark.parametrize("what", ["m = SequenceLength(l)", "m = SequenceAt(l, p)"])
    def test_readers_that_need_one_shape(self, what):
        outs = "int64 m" if "Length" in what else "float[M] m"
        check(loop(after=what, start=NONE, outs=outs), feeds(-2, 0, 1))
        # Rounds differ in shape: only a stack of them would fail anyway.
        check(loop(RAGGED, what, NONE, outs), feeds(-2, 0, 1), gone=False)
        check(loop(RAGGED, start=NONE), feeds(0))

    def test_a_stack_that_may_not_be_needed_proves_nothing(self):
        check(loop(RAGGED, BRANCH, NONE), feeds(0, 1), gone=False)

    @pytest.mark.parametrize(
        ("insert", "why"),
        [
            ("t0 = SequenceInsert(s, e) t = SequenceErase(t0)", "erases from it"),
            ("t = SequenceInsert(s, e, i)", ""),  # at the end, where the iterations count from 0
            ("t = SequenceInsert(s, e) u = SequenceAt(t, zero) v = Add(u, u)", ""),
            ("t = SequenceConstruct(e)", "makes it anew"),
        ],
    )
    def test_what_stays(self, insert, why):
        model = parse(loop(f"{ELEMENT} {insert}", start=NONE))
        result, notes = quick_report(model)
        if why:
            assert result == model
            assert any(why in str(note) for note in notes if note.value == "l"), notes
        else:
            assert left_in(result) == []  # what isn't needed is no hindrance

    def test_strings(self):
        body = """o = Constant<value = int64[1] {-1}>() k = Reshape(i, o) e = GatherND(x, k)
            t = SequenceInsert(s, e)"""
        after, start = f"{STACK} z = SequenceAt(l, p)", NONE.replace("()", "<dtype = 8>()")
        text = loop(body, after, start, "float[A, B] y, float[C] z").replace("float[", "string[")
        check(text, feeds_of_strings(-3, -1, 0, 2))

    @pytest.mark.parametrize("level", ["DISABLE_ALL", "ENABLE_BASIC", "ENABLE_ALL"])
    def test_guards_outlive_every_optimizer(self, level):
        text = loop(after=f"{STACK} z = SequenceAt(l, p)", start=NONE, outs="float[A, B] y, float[C] z")
        running = session(lowered(parse(text)), level)
        for feed, n in zip(feeds(-3, 1), np.repeat(LENGTHS, 2), strict=True):
            inside = -n <= feed["p"][0] < n
            assert (outcome(running, feed) is not None) == inside


def test_a_model_without_sequences_comes_back_equal():
    model = parse("g (float[N] x) => (float[N] y) { dead = Neg(x) y = Add(x, x) }")
    result = lower(model)
    assert result == model
    assert result is not model
    result.graph.node[0].op_type = "Abs"
    assert model.graph.node[0].op_type == "Neg"


def test_arguments():
    model = parse(loop(start=NONE))
    assert lower(model.SerializeToString()) == lower(model)
    with pytest.raises(
        TypeError, match=r"model must be a path, bytes or a ModelProto, got .* of type GraphProto"
    ):
        lower(model.graph)
    with pytest.raises(FileNotFoundError):
        lower("no/such.onnx")
    with pytest.raises(ValueError, match="can't be read as an ONNX model"):
        lower(b"hello")
    model.graph.node[0].op_type = "NoSuchOperator"
    with pytest.raises(ValueError, match="the model is not valid: ") as raised:
        lower(model)
    assert "\n" not in str(raised.value)


def test_functions_are_inlined_and_metadata_stays():
    model = onnx.parser.parse_model("""<ir_version: 8, opset_import: ["": 17, "own": 1], producer_name: "us">
    g (float[N, 4] x, int64 i) => (float[4] y) { y = own.pick(x, i) }
    <opset_import: ["": 17], domain: "own"> pick (a, i) => (b) {
        s = SplitToSequence<keepdims = 0>(a)
        b = SequenceAt(s, i)
    }""")
    model.metadata_props.add(key="a", value="b")
    result = lowered(model)
    assert ops(result) == ["Gather"]
    assert result.producer_name == "us"
    assert result.metadata_props == model.metadata_props


@pytest.mark.may_be_refused
def test_a_model_that_fits_no_more_once_it_is_lowered_stays():
    text = """g (float[3, 4] x) => (float[A] y) {
        s = SplitToSequence<keepdims = 0>(x)
        w = ConcatFromSequence<axis = 0>(s)
        t = SequenceMap <body = f (float[K] e, float[L] h) => (float[M] o) { o = Add(e, h) }> (s, w)
        y = ConcatFromSequence<axis = 0>(t)
    }"""
    result, notes = quick_report(parse(text))
    assert result == parse(text)
    assert not any(note.is_lowered for note in notes)
    assert "a lowered model would not be valid" in str(notes[0])


def test_weights_come_back():
    weights = onnx.numpy_helper.from_array(np.random.rand(100, 100).astype("f"), "w")
    dead = onnx.numpy_helper.from_array(np.random.rand(100, 100).astype("f"), "dead")
    text = """g (float[N, 100] x, int64 i) => (float[100] y, float[C] z) {
        s = SplitToSequence<keepdims = 0>(x)
        e = SequenceAt(s, i)
        y = MatMul(e, w)
        t = SplitToSequence<keepdims = 0>(w)
        z = SequenceAt(t, i)
    }"""
    model = onnx.parser.parse_model(f'<ir_version: 8, opset_import: ["": 17]> {text}')
    model.graph.initializer.extend([weights, dead])
    result, _ = check(model, [{"x": rows(3, 100), "i": np.int64(i)} for i in (-4, -3, 0, 2, 3, 99)])
    # One that nobody ever read goes.
    assert list(result.graph.initializer[:1]) == [weights]
    assert not any(tensor.name == "dead" for tensor in result.graph.initializer)
    # Weights that can be fed are inputs, and stay ones.
    model.graph.input.append(onnx.helper.make_tensor_value_info("w", 1, [100, 100]))
    result, _ = check(model, [{"x": rows(3, 100), "i": np.int64(2), "w": np.ones((100, 100), "f")}])


WRONG_IN_A_MAP = """g (float[N, 6] x, int64[N, 2] h) => (float[A, B, C] z) {
    a = SplitToSequence<keepdims = 0>(x)
    b = SplitToSequence<keepdims = 0>(h)
    s = SequenceMap (a, b)
        <body = m (float[6] u, int64[2] k) => (float[2, 3] r) { r = Reshape(u, k) }>
    z = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""
ONE_NAME_FOR_TWO_LENGTHS = """g (float[N, M] x, float[M, N] y, int64 n) => (float[A, B, C] z)
<int64 one = {1}> {
    e = SequenceEmpty()
    s = Loop (n, "", e) <body = a (int64 i, bool go, seq(float[]) u) => (bool go, seq(float[]) v) {
        c = Less(i, one)
        r = If(c) <then_branch = t () => (float[K, L] p) { p = Neg(x) },
                   else_branch = f () => (float[K, L] q) { q = Transpose<perm = [1, 0]>(y) }>
        v = SequenceInsert (u, r)
    }>
    z = ConcatFromSequence<axis = 0, new_axis = 1>(s)
}"""


@pytest.mark.parametrize(
    ("text", "feed"),
    [
        (WRONG_IN_A_MAP, {"x": rows(2, 6), "h": np.array([[2, 3], [3, 2]])}),
        (
            ONE_NAME_FOR_TWO_LENGTHS,
            {"x": rows(2, 3), "y": rows(2, 3), "n": np.array(2)},
        ),
    ],
)
def test_shapes_that_are_declared_wrong(text, feed):
    """Tensors of one size and two shapes don't join, whatever the model says of them."""
    assert outcome(session(lowered(parse(text))), feed) is None


@pytest.mark.parametrize("target", [None, "openvino", "portable"])
def test_a_slice_whose_end_comes_from_a_list_of_numbers(target):
    """PyTorch's `x[start : start + n]`, whose end is a scalar, which onnxruntime and OpenVINO refuse."""
    given = parse("""
        f (float[T, 2] x, int64[N] lengths) => (float[N, 2] y)
        <int64 zero = {0}, bool yes = {1}, int64[1] first = {0}> {
            numbers = SplitToSequence <keepdims = 0> (lengths)
            n = SequenceLength (numbers)
            none = SequenceEmpty ()
            at, rows = Loop (n, yes, zero, none) <body = b (int64 i, bool c, int64 at, seq(float[K]) rows)
                                                         => (bool d, int64 end, seq(float[K]) more) {
                length = SequenceAt (numbers, i)
                end = Add (at, length)
                start = Unsqueeze (at, first)
                part = Slice (x, start, end, first)
                row = ReduceSum <keepdims = 0> (part, first)
                more = SequenceInsert (rows, row)
                d = Identity (c)
            }>
            y = ConcatFromSequence <axis = 0, new_axis = 1> (rows)
        }""")
    result = lower(given, target=target)
    assert left_in(result) == []
    for lengths in ([2, 0, 3], [20_000, 1]):
        x = np.arange(2.0 * sum(lengths), dtype=np.float32).reshape(-1, 2) % 7
        expected = [part.sum(0) for part in np.split(x, np.cumsum(lengths)[:-1])]
        (y,) = session(result).run(None, {"x": x, "lengths": np.array(lengths)})
        np.testing.assert_array_equal(y, expected)
        (y,) = InferenceSession(given, compile="load").run(None, {"x": x, "lengths": np.array(lengths)})
        np.testing.assert_array_equal(y, expected)
