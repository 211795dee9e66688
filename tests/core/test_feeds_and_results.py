"""What the core does for models: arrays that go in as they are, and results that come out."""

import gc
import weakref
from types import MappingProxyType

import numpy as np
import pytest
from seqcore.core.maps import TensorType, outputs_of, taken_feed

from seqcore import TensorSequence

FLOAT, INT = np.dtype(np.float32), np.dtype(np.int64)
TWO_BY_THREE = np.zeros((2, 3), np.float32)


class Marked(np.ndarray):
    pass


@pytest.mark.parametrize(
    ("tensors", "shape", "fits"),
    [
        ([], None, True),
        ([], (2,), True),
        ([TWO_BY_THREE, np.zeros((), np.float32)], None, True),
        ([TWO_BY_THREE] * 2, (2, 3), True),
        ([TWO_BY_THREE] * 2, (-1, 3), True),
        ([TWO_BY_THREE, TWO_BY_THREE[:0]], (-1, 3), True),
        ([TWO_BY_THREE.T, TWO_BY_THREE.T], (3, 2), True),
        ([np.zeros((), np.float32)], (), True),
        ([TWO_BY_THREE, TWO_BY_THREE[0]], (-1, 3), False),
        ([TWO_BY_THREE, TWO_BY_THREE[:, :2]], (-1, 3), False),
        ([TWO_BY_THREE], (), False),
        ([TWO_BY_THREE], (-1,) * 65, False),
        ([TWO_BY_THREE, TWO_BY_THREE.astype(np.float64)], None, False),
        ([TWO_BY_THREE.astype(">f4")], None, False),
        ([TWO_BY_THREE.view(Marked)], None, False),
        ([TWO_BY_THREE, TWO_BY_THREE.tolist()], None, False),
        ([np.float32(1)], None, False),
        ([None], None, False),
    ],
)
def test_what_fits(tensors, shape, fits):
    kind = TensorType(FLOAT, shape)
    assert kind.takes_all(tensors) is fits
    assert all(map(kind.takes, tensors)) is fits


def test_any_dtype():
    mixed = [TWO_BY_THREE, TWO_BY_THREE.astype(">i2")]
    assert TensorType(None, (2, -1)).takes_all(mixed)
    assert not TensorType(None, (3, -1)).takes_all(mixed)
    assert not TensorType(None, None).takes_all([*mixed, None])
    assert not TensorType(INT, None).takes(TWO_BY_THREE)


def test_what_types_are_made_of():
    for wrong in (("f4", None), (FLOAT, [1]), (FLOAT, ("a",))):
        with pytest.raises(TypeError):
            TensorType(*wrong)
    for tensors in (None, (TWO_BY_THREE,)):
        with pytest.raises(TypeError):
            TensorType(FLOAT, None).takes_all(tensors)


def test_a_feed_of_which_some_is_taken_otherwise():
    types = {"x": TensorType(FLOAT, (-1, 3)), "y": TensorType(FLOAT, ()), "words": None, "s": list, "t": list}
    seen = []

    def take(name, value):
        seen.append((name, value))
        return name.upper()

    feed = {"words": ["a"], "x": TWO_BY_THREE, "y": 1.5}
    taken = taken_feed(feed, types, take)
    assert taken == {"words": "WORDS", "x": TWO_BY_THREE, "y": "Y"}
    assert taken["x"] is TWO_BY_THREE
    assert seen == [("words", ["a"]), ("y", 1.5)]
    assert feed["y"] == 1.5
    assert taken_feed({"x": TWO_BY_THREE, "z": 0}, types, take) is None
    assert taken_feed({}, types, take) == {}
    seen.clear()
    feed = {"s": [TWO_BY_THREE], "t": TensorSequence([TWO_BY_THREE])}
    taken = taken_feed(MappingProxyType(feed), types, take)
    assert taken["t"] is feed["t"]
    assert taken["s"] is not feed["s"]
    assert taken["s"][0] is TWO_BY_THREE
    assert taken_feed({"s": (TWO_BY_THREE,)}, types, take) == {"s": "S"}


def test_outputs_of_each_kind():
    rows, lengths = np.arange(6, dtype=np.float32).reshape(3, 2), np.array([1, 2])
    long = np.array([1, 2], np.longlong)
    values = [rows, rows.copy(), rows.copy(), lengths, rows.copy(), np.array(0), [rows[0], rows], long]
    hows = [
        None,
        ("stacked", FLOAT),
        ("joined", FLOAT),
        ("joined", FLOAT),
        ("list", FLOAT),
        (None, INT),
        1,
        0,
    ]
    outputs = outputs_of(values, hows)
    assert outputs[0] is rows
    assert [type(one) for one in outputs[1:5]] == [TensorSequence] * 4
    assert [one.shapes for one in outputs[1:5]] == [[(2,)] * 3, [(1, 2), (2, 2)], [(2,)] * 3, [(2,), (3, 2)]]
    assert outputs[5] is long
    assert long.dtype is INT
    assert long.tolist() == [1, 2]
    assert outputs[6] is not outputs[1]
    assert outputs[6] == outputs[1]
    np.testing.assert_array_equal(outputs[7], rows)
    assert not np.shares_memory(outputs[7], rows)


def test_a_dtype_of_another_size_is_left_alone():
    array = np.zeros(2, np.int32)
    assert outputs_of([array], [(None, INT)])[0].dtype == np.int32


@pytest.mark.parametrize(
    ("values", "how", "error"),
    [
        ([np.array(1.0, np.float32)], ("stacked", FLOAT), ValueError),
        ([np.zeros(2, np.float32), np.array([3])], ("joined", FLOAT), ValueError),
        ([np.zeros(2, np.float32), [1, 1.5]], ("joined", FLOAT), TypeError),
        ([np.zeros(2, np.float32)], ("joined", FLOAT), IndexError),
        ([[1]], ("stacked", FLOAT), TypeError),
        ([[1]], (None, FLOAT), TypeError),
        ([], None, IndexError),
    ],
)
def test_what_is_not_as_told(values, how, error):
    with pytest.raises(error):
        outputs_of(values, [how])


def test_values_are_let_go():
    array = np.zeros((2, 3), np.longlong)
    gone = weakref.ref(array)
    outputs_of([array], [(None, INT)])
    del array
    gc.collect()
    assert gone() is None
