"""What a session takes for its inputs, and what it says where it doesn't."""

import ml_dtypes
import numpy as np
import pytest
from onnx import parser
from support.models.sessions import (
    assert_fails,
    assert_value,
    assert_values,
    f32,
    floats,
    i64,
    run,
    session,
)
from support.races import together

from seqcore import TensorSequence
from seqcore.onnx import InferenceSession

pytestmark = pytest.mark.mostly_slow(5)

# Inputs of every kind, each of which also goes through an operator.
ALL_KINDS = """
    kinds (seq(float[]) frames, float[N, 3] image, int64 count, optional(float[M]) maybe,
           optional(seq(int64[])) perhaps)
       => (int64 n, float[N, 3] y, int64 more, bool some, bool any, seq(float[]) all) {
        n = SequenceLength (frames)
        y = Neg (image)
        more = Add (count, n)
        some = OptionalHasElement (maybe)
        any = OptionalHasElement (perhaps)
        all = SequenceInsert (frames, image)
    }
"""


def good():
    return {
        "frames": floats(1, 3),
        "image": np.ones((2, 3), np.float32),
        "count": i64(5),
        "maybe": f32(1),
        "perhaps": [i64([1, 2])],
    }


def expected(feed):
    n = len(feed["frames"])
    flags = [np.array(feed.get(name) is not None) for name in ("maybe", "perhaps")]
    return [i64(n), -feed["image"], i64(5 + n), *flags, [*feed["frames"], feed["image"]]]


@pytest.fixture(scope="module")
def kinds():
    return session(ALL_KINDS, 18)


class TestGood:
    def test_foreign_byte_order_and_frozen_arrays(self, kinds):
        image = np.ones((2, 3), np.float32)
        frames = [frame.astype(">f4") for frame in floats(1, 3)]
        image.flags.writeable = False
        frames[0].flags.writeable = False
        feed = good() | {"image": image.astype(">f4"), "frames": frames, "count": np.array(5, ">i8")}
        assert_values(kinds.run(None, feed), expected(good()))
        assert_values(kinds.run(None, good() | {"image": image}), expected(good()))

    def test_elements_of_a_sequence(self, kinds):
        """Read-only views, which share memory with the sequence they are from."""
        source = TensorSequence([np.ones((2, 3), np.float32)])
        found = kinds.run(["y", "all"], good() | {"image": source[0], "frames": source})
        assert_values(found, [-source[0], [source[0], source[0]]])


class TestBad:
    def check(self, used, feed, *names):
        assert_fails(used, feed, Exception, names)
        assert_values(used.run(None, good()), expected(good()))

    @pytest.mark.parametrize("name", ["frames", "image", "count"])
    def test_missing(self, kinds, name):
        feed = good()
        del feed[name]
        self.check(kinds, feed, name)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("image", np.ones((2, 3))),
            ("image", np.ones((2, 3), np.float16)),
            ("image", np.ones((2, 3), np.int64)),
            ("image", np.ones((2, 3), ml_dtypes.bfloat16)),
            ("image", np.array([["a", "b", "c"]], object)),
            ("count", np.array(5, np.int32)),
            ("count", np.array(5.0)),
            ("count", np.array(True)),
            ("maybe", np.ones(2)),
            ("frames", [np.ones(2)]),
            ("frames", [f32(1), np.ones(2)]),
            ("frames", TensorSequence([np.ones(2)])),
            ("frames", TensorSequence(dtype="int64")),
            ("perhaps", [f32(1)]),
            ("perhaps", [i64(1), np.array(1, np.int32)]),
            ("perhaps", TensorSequence([f32(1)])),
        ],
    )
    def test_another_element_type(self, kinds, name, value):
        self.check(kinds, good() | {name: value}, name)

    @pytest.mark.parametrize("make", [TensorSequence, list, tuple])
    def test_a_sequence_for_a_tensor(self, kinds, make):
        value = make([np.ones((2, 3), np.float32)])
        self.check(kinds, good() | {"image": value}, "image")
        self.check(kinds, good() | {"maybe": value}, "maybe")

    def test_none(self, kinds):
        for name in ("frames", "image", "count"):
            self.check(kinds, good() | {name: None}, name)
        self.check(kinds, good() | {"frames": [f32(1), None]}, "frames")

    def test_elements_that_are_no_tensors(self, kinds):
        for value in (
            [object()],
            [np.ma.masked_array(f32(1))],
            [{"a": 1}],
            [np.array(["2020-01-01"], "M8[D]")],
        ):
            self.check(kinds, good() | {"frames": value}, "frames")
        self.check(kinds, good() | {"image": np.ma.masked_array(np.ones((2, 3), np.float32))}, "image")

    def test_feeds_are_checked_though_unused(self):
        text = "g (seq(float[]) s, float[N] x, seq(int64[]) t) => (int64 n) { n = SequenceLength (s) }"
        used = session(text)
        feed = {"s": floats(1), "x": f32(1), "t": [i64([1])]}
        for name, value in (("x", i64([1])), ("t", [f32(1)]), ("t", f32(1)), ("x", floats(1))):
            assert_fails(used, feed | {name: value}, Exception, name)
            assert_values(used.run(None, feed), [i64(1)])

    def test_a_feed_that_changes_while_it_is_read(self):
        """A run has the sequence as it stood at the call."""
        s = TensorSequence(floats(1, 2))
        text = "g (seq(float[]) s) => (seq(float[]) t) { t = SequenceErase (s) }"
        (found,) = run(text, s=s)
        s.clear()
        assert_value(found, floats(1))


@pytest.mark.parametrize("names", ["n", [None], [3], iter(["n"])])
def test_names_of_another_kind(kinds, names):
    with pytest.raises(TypeError, match="output_names must be a list of names"):
        kinds.run(names, good())


@pytest.mark.parametrize("feed", [None, [], [1], 3, f32(1)])
def test_feeds_of_another_kind(kinds, feed):
    with pytest.raises(TypeError, match="must be a dict"):
        kinds.run(None, feed)
    assert_values(kinds.run(None, good()), expected(good()))


class Unfit(TypeError):
    """As some libraries' errors, it is made of more than a message."""

    def __init__(self, what, why):
        super().__init__(f"{what} is {why}")


@pytest.mark.parametrize(
    ("make", "kind"),
    [(lambda: Unfit("this", "unfit"), TypeError), (lambda: RuntimeError("this is unfit"), RuntimeError)],
    ids=["TypeError", "RuntimeError"],
)
def test_errors_of_other_libraries_name_the_input(make, kind):
    class Other:
        def __array__(self, dtype=None, copy=None):
            raise make()

    used = session("g (seq(float[]) s, float[N] x) => (int64 n) { n = SequenceLength (s) }")
    feed = {"s": floats(1), "x": f32(1)}
    for name, value in (("x", Other()), ("s", [Other()])):
        assert_fails(used, feed | {name: value}, kind, [f"'{name}'", "this is unfit"])


@pytest.mark.parametrize("compiles", ["lazy", "load"])
def test_a_list_that_other_threads_edit(compiles):
    """Arrays that leave the list meanwhile are read all the same; each array is of ones."""
    model = parser.parse_model("""
        <ir_version: 8, opset_import: ["": 17]>
        main (seq(float[N, 4]) a) => (seq(float[N, 4]) y, float[M, 4] z) {
          zero = Constant <value_int = 0> ()
          e = SequenceAt (a, zero)
          y = SequenceInsert (a, e)
          z = ConcatFromSequence <axis = 0> (y)
        }""")
    session = InferenceSession(model, compile=compiles)
    arrays = [np.ones((2, 4), np.float32) for _ in range(50)]
    running = [True, True]

    def edit():
        while any(running):
            arrays.append(np.ones((2, 4), np.float32))
            del arrays[: len(arrays) - 50]

    def run(k):
        try:
            for _ in range(150):
                elements, joined = session.run(None, {"a": arrays})
                assert np.all(joined == 1)
                assert all(np.all(one == 1) for one in elements)
        finally:
            running[k] = False

    together(edit, lambda: run(0), lambda: run(1))
