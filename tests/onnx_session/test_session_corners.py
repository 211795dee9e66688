"""Corners of sessions: shapes that nobody told, odd numbers of trips, weights in files."""

import os

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph
from support.models.sessions import AGAIN, f32, model

from seqcore.onnx import InferenceSession, lower

# A list of two, joined: the shapes of its elements are the run's.
JOIN = """
    join (float[a, b] x, float[c, d] y) => (float[e, f] z) {
        both = SequenceConstruct (x, y)
        z = ConcatFromSequence <axis = 0> (both)
    }
"""
# A list of a tensor W, which is elsewhere, and another.
WITH_W = "two (float[2] x) => (seq(float[]) s) { double = Add (x, x) s = SequenceConstruct (W, double) }"
# A product with weights that are heavy enough to be left in their file.
HEAVY = """
    heavy (float[N, 4] x) => (seq(float[]) s, float[N, M] y) {
        y = MatMul (x, W)
        s = SplitToSequence (y)
    }
"""


def heavy(path, columns=100_000):
    """A model in a file, its weights in one beside it."""
    given = model(HEAVY)
    weights = np.ones((4, columns), np.float32)
    given.graph.initializer.append(numpy_helper.from_array(weights, "W"))
    onnx.save(given, path, save_as_external_data=True, location="weights.bin", size_threshold=0)
    return weights


def with_w(folder, n, **where):
    """The path of a model whose W has its data elsewhere."""
    given = model(WITH_W)
    stub = given.graph.initializer.add(name="W", data_type=1, dims=[n], data_location=1)
    for key, value in where.items():
        stub.external_data.add(key=key, value=value)
    (folder / "model.onnx").write_bytes(given.SerializeToString())
    return folder / "model.onnx"


def fails(session, feed, error, words):
    """A session refuses a feed, in whatever way it takes after some."""
    for _ in range(AGAIN):
        with pytest.raises(error, match=words):
            session.run(None, feed)


class TestShapes:
    @pytest.mark.parametrize("shapes", [[(0, 4), (2, 3)], [(2, 3), (3, 0)]])
    def test_an_element_without_items_has_to_fit_too(self, shapes):
        session = InferenceSession(model(JOIN))
        feed = dict(zip("xy", map(np.zeros, shapes, [np.float32] * 2), strict=True))
        fails(session, feed, ValueError, "can't be concatenated along axis 0")

    @pytest.mark.slow
    def test_of_a_piece_that_is_not_there(self):
        session = InferenceSession(
            model("""
                shape (float[N] x, int64 k) => (int64[D] n) {
                    pieces = SplitToSequence <keepdims = 0> (x)
                    piece = SequenceAt (pieces, k)
                    n = Shape (piece)
                }
            """)
        )
        fails(session, {"x": f32(1, 2, 3), "k": np.array(7)}, IndexError, "position 7 is out of range")

    def test_operators_of_others_may_change_a_state_from_trip_to_trip(self):
        text = """<ir_version: 8, opset_import: ["": 17, "com.microsoft": 1]>
            grow (int64 n, float[4] x) => (seq(float[]) all) {
                none = SequenceEmpty ()
                yes = Constant <value = bool {1}> ()
                all, last = Loop (n, yes, none, x) <body = b (int64 i, bool go, seq(float[]) s, float[] p)
                                                  => (bool on, seq(float[]) t, float[] q) {
                    on = Identity (go)
                    t = SequenceInsert (s, p)
                    axis = Constant <value = int32 {0}> ()
                    q = com.microsoft.ExpandDims (p, axis)
                }>
            }"""
        given = onnx.parser.parse_model(text)
        (loop,) = (node for node in given.graph.node if node.op_type == "Loop")
        body = next(one.g for one in loop.attribute if one.name == "body")
        for value in (*body.input, *body.output):
            if value.name in ("p", "q"):  # In this syntax float[] would be a tensor of rank 0 here.
                value.type.tensor_type.ClearField("shape")
        session = InferenceSession(given)
        for _ in range(AGAIN):
            (made,) = session.run(None, {"n": np.array(3), "x": f32(1, 2, 3, 4)})
            assert [one.shape for one in made] == [(4,), (1, 4), (1, 1, 4)]


def test_sequences_of_maps_pass_through():
    """`ZipMap` runs in onnxruntime, as a step; if it fails, the error names it."""
    text = """<ir_version: 8, opset_import: ["": 17, "ai.onnx.ml": 3]>
        g (float[N, M] x, seq(float[]) s) => (z, seq(float[]) t) {
            z = ai.onnx.ml.ZipMap <classlabels_int64s = [1, 2]> (x)
            t = SequenceErase (s)
        }"""
    given = onnx.parser.parse_model(text)
    kind = given.graph.output[0].type.sequence_type.elem_type.map_type
    kind.key_type, kind.value_type.tensor_type.elem_type = onnx.TensorProto.INT64, onnx.TensorProto.FLOAT
    session = InferenceSession(given)
    assert session.get_outputs()[0].type == "seq(map(int64,tensor(float)))"
    for _ in range(AGAIN):
        maps, rest = session.run(None, {"x": np.float32([[1, 2], [3, 4]]), "s": [f32(1), f32(2)]})
        assert maps == [{1: 1.0, 2: 2.0}, {1: 3.0, 2: 4.0}]
        assert [one.tolist() for one in rest] == [[1.0]]
    with pytest.raises(Exception, match="number of classlabels") as caught:
        session.run(None, {"x": np.ones((2, 3), np.float32), "s": [f32(1)]})
    assert "ZipMap 'z'" in "".join(caught.value.__notes__)


class TestNumbers:
    def test_trips_below_zero_are_none(self):
        session = InferenceSession(
            model("""
                trips (float[N] x, float[2] r) => (int64 n) {
                    shape = Shape (x)
                    byte = Cast <to = 3> (shape)
                    trips = Cast <to = 7> (byte)
                    start = SequenceConstruct (r)
                    rows = Loop (trips, "", start) <body = b (int64 i, bool go, seq(float[]) s)
                                                      => (bool go, seq(float[]) t) {
                        front = Constant <value_int = 0> ()
                        t = SequenceInsert (s, r, front)
                    }>
                    n = SequenceLength (rows)
                }
            """)
        )
        for _ in range(AGAIN):
            (n,) = session.run(
                None, {"x": np.ones(200, np.float32), "r": f32(1, 2)}
            )  # 200 is -56 in eight bits.
            assert n == 1


class TestWeights:
    @pytest.mark.parametrize("kind", ["above", "by a detour", "absolute"])
    def test_data_outside_of_the_folder_are_not_read(self, tmp_path, kind):
        secret, folder = tmp_path / "secret.bin", tmp_path / "folder"
        secret.write_bytes(bytes(80_000))
        folder.mkdir()
        places = {"above": "../secret.bin", "by a detour": "a/../../secret.bin", "absolute": str(secret)}
        path = with_w(folder, 20_000, location=places[kind])
        for make in (InferenceSession, lower):
            with pytest.raises(ValueError, match=r"'W' has its data at .* outside of its folder"):
                make(path)

    @pytest.mark.parametrize(("key", "number"), [("length", 10**20), ("length", -2), ("offset", -1)])
    def test_places_that_can_not_be(self, key, number, tmp_path):
        (tmp_path / "weights.bin").write_bytes(bytes(80_000))
        for n in (4, 20_000):
            path = with_w(tmp_path, n, location="weights.bin", **{key: str(number)})
            with pytest.raises(ValueError, match=r"can't be read: 'W' begins at .* and has a length of"):
                InferenceSession(path, compile="load")

    def test_a_name_that_is_not_utf8(self):
        data = model(WITH_W.replace("W", "x")).SerializeToString().replace(b"double", b"do\xff\xfele")
        with pytest.raises(InvalidGraph, match="is not UTF-8"):
            InferenceSession(data)

    @pytest.mark.parametrize("location", ["weights.bin", "linked/weights.bin"])
    def test_behind_a_link_that_leads_out_of_the_folder(self, location, tmp_path):
        folder, elsewhere = tmp_path / "model", tmp_path / "elsewhere"
        folder.mkdir()
        elsewhere.mkdir()
        (elsewhere / "weights.bin").write_bytes(bytes(80_000))
        try:
            (folder / "weights.bin").symlink_to(elsewhere / "weights.bin")
            (folder / "linked").symlink_to(elsewhere)
        except OSError as error:  # Windows lets few users make links.
            pytest.skip(f"no links here: {error}")
        for n in (3, 20_000):  # numbers that are read when the model is loaded, and weights
            path = with_w(folder, n, location=location)
            for make in (InferenceSession, lower):
                with pytest.raises(ValueError, match=r"a link to .*, outside of its folder: copy it there"):
                    make(path)

    def test_of_a_cache_that_consists_of_links(self, tmp_path):
        blobs, snapshot = tmp_path / "blobs", tmp_path / "snapshot"
        blobs.mkdir()
        snapshot.mkdir()
        heavy(blobs / "model.onnx")
        for name, blob in (("model.onnx", "0a"), ("weights.bin", "0b")):
            (blobs / name).rename(blobs / blob)
            try:
                (snapshot / name).symlink_to(os.path.join("..", "blobs", blob))
            except OSError as error:  # Windows lets few users make links.
                pytest.skip(f"no links here: {error}")
        session = InferenceSession(snapshot / "model.onnx")
        for _ in range(AGAIN):
            assert session.run(["y"], {"x": np.ones((2, 4), np.float32)})[0].shape == (2, 100_000)

    def test_changed_after_loading(self, tmp_path):
        path = tmp_path / "model.onnx"
        weights = heavy(path)
        session = InferenceSession(path)
        (tmp_path / "weights.bin").write_bytes(np.zeros(8, np.float32).tobytes())
        try:
            (y,) = session.run(["y"], {"x": np.ones((1, 4), np.float32)})
        except ValueError as error:
            assert "was changed since the model was loaded" in str(error)  # noqa: PT017
        else:  # What was read at loading is as good.
            np.testing.assert_array_equal(y, weights.sum(axis=0, keepdims=True))
