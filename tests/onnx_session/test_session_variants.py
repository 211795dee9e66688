"""Models that are written in other ways: what onnxruntime runs, we run, with the same results."""

import contextlib

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import helper, numpy_helper
from support.models.exported import MODELS
from support.models.sessions import AGAIN, assert_near, f32, i64, model, reference
from support.models.variants import VARIANTS, copied, saved_outside
from support.processes import output_of

import seqcore.onnx
from seqcore.onnx import GraphBody, InferenceSession, lower
from seqcore.onnx._model.weights import open_model
from seqcore.onnx._runtimes import sessions

N = 4  # the size of feeds
SPLIT = "rows = SplitToSequence <keepdims = 0> (x)"
X = np.ones((3, 2), np.float32)


def first_row(nodes, y="float[2] y", more=""):
    """A model in which nodes make `y` of `r`, the first row of `x`."""
    picked = f"{SPLIT} r = SequenceAt (rows, zero)"
    return model(f"f (float[N, 2] x{more}) => ({y}) <int64 zero = {{0}}> {{ {picked} {nodes} }}")


def check(given, feed):
    """Session and lowered model give what onnxruntime gives; False where it refuses the model."""
    try:
        expected = reference(given).run(None, dict(feed))
    except Exception:
        return False
    used = InferenceSession(given)
    for _ in range(AGAIN):
        assert_near(used.run(None, feed), expected)
    assert_near(reference(lower(given)).run(None, dict(feed)), expected)
    return True


# Two variants of each model, in turns, so that each of them meets a sixth of the models.
TURNS = [
    (name, list(VARIANTS)[(k * step + k // len(VARIANTS)) % len(VARIANTS)])
    for k, name in enumerate(MODELS)
    for step in (1, 5)
]


@pytest.mark.mostly_slow(31)
@pytest.mark.parametrize(("name", "variant"), dict.fromkeys(TURNS))
@pytest.mark.mostly_at_night(5)
def test_variants(name, variant):
    one = MODELS[name]
    given = VARIANTS[variant](onnx.load(one.path))
    ran = check(given, one.example(N))
    # Its shape inference knows too little of functions, and merges no negative lengths of loop states.
    assert ran or variant in ("functions_outlined", "lengths_negative")


@pytest.mark.mostly_slow(11)
@pytest.mark.parametrize(
    "name", sorted({*list(MODELS)[::4], "line_strips", "split_at_marks", "image_detections"})
)
def test_data_in_other_files(name, tmp_path):
    one = MODELS[name]
    path = tmp_path / "model.onnx"
    saved_outside(onnx.load(one.path), path)
    expected = reference(str(one.path)).run(None, one.example(N))
    used = InferenceSession(path)
    for _ in range(AGAIN):
        assert_near(used.run(None, one.example(N)), expected)
    lowered = tmp_path / "lowered.onnx"
    onnx.save(lower(path), lowered)
    assert_near(reference(str(lowered)).run(None, one.example(N)), expected)


def twice(name, *arrays):
    return [numpy_helper.from_array(array, name) for array in arrays]


def test_the_last_initializer_counts():
    given = first_row("y = Add (r, w)")
    given.graph.initializer.extend(twice("w", f32(1, 2), f32(3, 4)))
    assert check(given, {"x": X})
    heavy = [np.full((2, 5000), value, np.float32) for value in (1, 2)]
    given = first_row("y = MatMul (r, w)", "float[5000] y")
    given.graph.initializer.extend(twice("w", *heavy))
    (y,) = InferenceSession(given).run(None, {"x": X})
    assert (y == 4).all()


@pytest.mark.parametrize("version", [1, 2, 3, 4, 8, onnx.IR_VERSION])
def test_versions_of_the_ir(version):
    given = first_row("y = Neg (r)")
    given.ir_version = version
    assert check(given, {"x": X})


@pytest.mark.parametrize(
    ("domain", "operators", "is_lowered"),
    [
        ("", "Identity Relu", True),  # a newer version takes more types
        ("", "Identity Softmax", False),  # of a matrix before version 13, then of its last axis
        ("", "ReduceSum", False),  # its axes became an input
        ("", "Trilu", False),  # which is younger
        ("ai.onnx.ml", "Softmax", True),  # another operator of this name
    ],
)
def test_versions_that_onnxruntime_may_not_know(monkeypatch, domain, operators, is_lowered):
    """A model gets the newest version that it knows if that changes none of the model's operators."""
    monkeypatch.setattr(sessions, "newest_opset", lambda domain: 12)
    version = 14 if operators == "Trilu" else 13
    made = sessions.loadable_opsets({"": version}, {(domain, one) for one in operators.split()})
    assert (made[""] == 12) is is_lowered
    message = helper.make_model(
        onnx.GraphProto(), opset_imports=[helper.make_opsetid("", version)], ir_version=8
    )
    assert sessions.restamp_proto(message, {(domain, one) for one in operators.split()}) is is_lowered
    assert message.opset_import[0].version == made[""]


@pytest.mark.parametrize("version", [onnx.IR_VERSION, 99])
@pytest.mark.parametrize("more", [SPLIT, ""], ids=["list", "none"])
def test_a_newer_ir_and_data_in_a_file(tmp_path, more, version):
    """Without sequences too, where onnxruntime can't be handed the file, and data of constants."""
    w = np.arange(6000, dtype=np.float32)
    given = model(f"f (float[N, 6000] x) => (float[N, 6000] y) {{ {more} h = Add (x, w) y = Mul (h, c) }}")
    given.graph.initializer.append(numpy_helper.from_array(w, "w"))
    given.graph.node.insert(0, helper.make_node("Constant", [], ["c"], value=numpy_helper.from_array(w)))
    given.ir_version = version
    path = tmp_path / "model.onnx"
    saved_outside(given, path)
    written = onnx.load(path, load_external_data=False)
    assert written.graph.node[0].attribute[0].t.data_location == onnx.TensorProto.EXTERNAL
    x = np.ones((2, 6000), np.float32)
    for options in (None, ort.SessionOptions()):
        (y,) = InferenceSession(path, options).run(["y"], {"x": x})
        np.testing.assert_array_equal(y, (x + w) * w)


class TestDataInFiles:
    """Tensors that are not initializers of the model, and yet have their data in a file."""

    W = np.arange(10_000, dtype=np.float32).reshape(2, 5000)

    SMALL = "small = Constant <value = float {1}> ()"
    PRODUCT = f"{SMALL} y = MatMul (r, small)"
    BRANCHES = f"""y = If (c) <
        then_branch = t () => (float[5000] p) {{ {SMALL} p = MatMul (r, small) }},
        else_branch = e () => (float[5000] q) {{ {SMALL} z = Neg (r) q = MatMul (z, small) }}>"""

    def graphs(self, graph):
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                if attribute.HasField("g"):
                    yield from self.graphs(attribute.g)

    def made(self, nodes, as_initializers=False):
        given = first_row(nodes, "float[5000] y", ", bool c")
        for graph in self.graphs(given.graph):
            for node in list(graph.node):
                if node.op_type == "Constant":
                    tensor = numpy_helper.from_array(self.W, node.output[0])
                    if as_initializers:
                        graph.node.remove(node)
                        graph.initializer.append(tensor)
                    else:
                        node.attribute[0].t.CopyFrom(tensor)
        return given

    @pytest.mark.parametrize("as_initializers", [False, True])
    @pytest.mark.parametrize("nodes", [PRODUCT, BRANCHES])
    def test_in_constants_and_branches(self, tmp_path, nodes, as_initializers):
        given = self.made(nodes, as_initializers)
        path = tmp_path / "model.onnx"
        saved_outside(given, path)
        for c in (True, False):
            feed = {"x": X, "c": np.array(c)}
            expected = [self.W.sum(0) * (1 if c or nodes == self.PRODUCT else -1)]
            used = InferenceSession(path)
            for _ in range(AGAIN):
                assert_near(used.run(None, feed), expected)
            lowered = tmp_path / "lowered.onnx"
            onnx.save(lower(path), lowered)
            assert_near(reference(str(lowered)).run(None, feed), expected)

    def test_in_functions(self, tmp_path):
        inner = [helper.make_node("Constant", [], ["w"], value=numpy_helper.from_array(self.W, "w"))]
        inner.append(helper.make_node("MatMul", ["a", "w"], ["b"]))
        given = first_row("y = own.F (r)", "float[5000] y")
        given.opset_import.append(helper.make_opsetid("own", 1))
        imports = [helper.make_opsetid("", 17)]
        given.functions.append(helper.make_function("own", "F", ["a"], ["b"], inner, imports))
        path = tmp_path / "model.onnx"
        saved_outside(given, path)
        used = InferenceSession(path)
        for _ in range(AGAIN):
            assert_near(used.run(None, {"x": X}), [self.W.sum(0)])

    def test_count_as_weights(self, tmp_path):
        """So that they are not held twice."""
        given = self.made(self.PRODUCT)
        given.graph.node[2].attribute[0].t.CopyFrom(
            numpy_helper.from_array(np.ones((2, 200_000), np.float32), "w")
        )
        given.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 200_000
        used = InferenceSession(given)
        used.run(None, {"x": X, "c": np.array(True)})
        assert used._engines.prepared.weights.nbytes == 1_600_000

    def test_that_are_damaged(self, tmp_path):
        path = tmp_path / "model.onnx"
        saved_outside(self.made(self.PRODUCT), path)
        (tmp_path / "weights.bin").write_bytes(b"few")
        with pytest.raises(Exception, match=r"file_length: 3|3 bytes"):
            InferenceSession(path).run(None, {"x": X, "c": np.array(True)})


class TestLargeModels:
    """Of a megabyte and more the weights stay in the bytes or the file that they came in."""

    W = np.arange(600_000, dtype=np.float32).reshape(2, 300_000)

    def made(self):
        given = model(
            "f (float[N, 2] x, int64 i) => (float[300000] y) "
            f"{{ {SPLIT} r = SequenceAt (rows, i) s = MatMul (r, w) y = Add (s, v) }}"
        )
        given.graph.initializer.extend(
            [numpy_helper.from_array(self.W, "w"), numpy_helper.from_array(self.W[0], "v")]
        )
        return given

    @pytest.mark.parametrize("kind", ["path", "bytes", "bytearray", "message"])
    def test_forms(self, tmp_path, kind):
        given = self.made()
        path = tmp_path / "model.onnx"
        onnx.save(given, path)
        form = {"path": path, "message": given}.get(kind)
        form = (bytes if kind == "bytes" else bytearray)(path.read_bytes()) if form is None else form
        used = InferenceSession(form)
        feed = {"x": X, "i": i64(1)}
        expected = self.W.sum(0) + self.W[0]
        for _ in range(AGAIN):
            np.testing.assert_array_equal(used.run(None, feed)[0], expected)
        # A scalar that comes as an array of one number needs another session, on the same weights.
        for _ in range(AGAIN):
            np.testing.assert_array_equal(
                used.run(None, feed | {"i": i64(1).reshape(1)})[0].ravel(), expected
            )
        np.testing.assert_array_equal(reference(lower(form)).run(None, feed)[0], expected)

    def test_what_is_parsed_has_no_weights(self):
        data = self.made().SerializeToString()
        message, left = open_model(data)
        assert left == data
        assert message.ByteSize() < 1000

    def test_doubled(self):
        given = self.made()
        first = numpy_helper.from_array(np.zeros_like(self.W), "w")
        given.graph.initializer.insert(0, first)
        (y,) = InferenceSession(given.SerializeToString()).run(None, {"x": X, "i": i64(1)})
        np.testing.assert_array_equal(y, self.W.sum(0) + self.W[0])

    def test_cut_off(self):
        """Protobuf says what is wrong; whatever the bytes are, there is a result or an exception."""
        data = self.made().SerializeToString()
        rng = np.random.default_rng(0)
        for n in (len(data) - 1, len(data) // 2, 1 << 20):
            with pytest.raises(ValueError, match="can't be read"):
                InferenceSession(data[:n])
        for _ in range(20):
            damaged = bytearray(data)
            for at in rng.integers(0, 200, 3):
                damaged[at] = rng.integers(0, 256)
            with contextlib.suppress(Exception):
                InferenceSession(damaged)


def test_outputs_of_a_split_without_names():
    kinds = ["plain", "lists", "body", "map", "lowered"]
    assert output_of("-m", "support.models.nameless") == "".join(f"{kind} [0. 1.]\n" for kind in kinds)


def test_in_the_place_of_onnxruntimes_session(monkeypatch):
    monkeypatch.setattr(ort, "InferenceSession", seqcore.onnx.InferenceSession)
    given = first_row("y = Neg (r)")
    used = ort.InferenceSession(given.SerializeToString())
    for n in (3, 3, 3, 3, 1000):
        np.testing.assert_array_equal(used.run(None, {"x": np.ones((n, 2), np.float32)})[0], -np.ones(2))
    plain = ort.InferenceSession(model("f (float[N] x) => (float[N] y) { y = Neg (x) }").SerializeToString())
    np.testing.assert_array_equal(plain.run(None, {"x": f32(1, 2)})[0], f32(-1, -2))
    body = GraphBody(onnx.parser.parse_graph("neg (int64[N] x) => (int64[N] y) { y = Neg(x) }"))
    np.testing.assert_array_equal(body(i64([1, 2])), [-1, -2])


REFUSED = {
    "a cycle": ("y = Add (r, t) t = Neg (y)", "sorted"),
    "a value that nothing makes": ("y = Add (r, nothing)", "nothing"),
    "a name twice": ("y = Neg (r) y = Abs (r)", "y"),
    "an attribute that isn't there": ("y = Neg <what = 1> (r)", "what"),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_onnxruntime_refuses(text):
    nodes, words = REFUSED[text]
    given = first_row(nodes)
    with pytest.raises(Exception):  # noqa: B017, PT011
        reference(given)
    for make in (InferenceSession, lower):
        with pytest.raises(ValueError, match=words):
            make(given)


def test_the_given_message_stays_as_it_is():
    for variant in VARIANTS.values():
        given = variant(onnx.load(MODELS["chunk_thirds"].path))
        before = copied(given)
        InferenceSession(given)
        lower(given)
        assert given == before
