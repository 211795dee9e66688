"""Types of Arrow's that have no counterpart, and objects that are no arrays."""

import datetime
import decimal
import gc
import re

import numpy as np
import pytest
from support.strategies import assert_holds

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import with_metadata  # noqa: E402

from_arrow = TensorSequence.from_arrow
DAY, NOON = datetime.date(2024, 2, 29), datetime.time(12)
MOMENT, SPAN = datetime.datetime(2024, 2, 29, 12), datetime.timedelta(hours=1)

OTHERS = {  # with Arrow's word for them
    "date32": ("date32", pa.array([DAY], pa.date32())),
    "date64": ("date64", pa.array([DAY], pa.date64())),
    "time32": ("time32", pa.array([NOON], pa.time32("s"))),
    "time64": ("time64", pa.array([NOON], pa.time64("us"))),
    "timestamp": ("timestamp", pa.array([MOMENT], pa.timestamp("us"))),
    "timestamp of a zone": ("timestamp", pa.array([MOMENT], pa.timestamp("ns", "Europe/Berlin"))),
    "duration": ("duration", pa.array([SPAN], pa.duration("ms"))),
    "interval": ("interval", pa.array([(1, 2, 3)], pa.month_day_nano_interval())),
    "decimal128": ("decimal", pa.array([decimal.Decimal("1.5")], pa.decimal128(5, 2))),
    "decimal256": ("decimal", pa.array([decimal.Decimal("1.5")], pa.decimal256(50, 2))),
    "binary": ("binary", pa.array([b"a"])),
    "large binary": ("binary", pa.array([b"a"], pa.large_binary())),
    "fixed size binary": ("binary", pa.array([b"ab"], pa.binary(2))),
    "map": ("map", pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int32()))),
    "dense union": (
        "union",
        pa.UnionArray.from_dense(pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([1])]),
    ),
    "sparse union": ("union", pa.UnionArray.from_sparse(pa.array([0], pa.int8()), [pa.array([1])])),
    "null": ("null", pa.nulls(1)),
    "none of them": ("date32", pa.array([], pa.date32())),
    "dictionary": ("date32", pa.array([DAY]).dictionary_encode()),
    "runs": ("date32", pa.RunEndEncodedArray.from_arrays([1], pa.array([DAY]))),
}
if hasattr(pa, "binary_view"):
    OTHERS["binary view"] = ("binary", pa.array([b"a"], pa.binary_view()))


@pytest.mark.parametrize(("word", "array"), OTHERS.values(), ids=OTHERS)
def test_types_without_a_counterpart(word, array):
    with pytest.raises(TypeError, match=word):
        from_arrow(array)
    if not isinstance(array, pa.Array):
        return
    chunked = pa.chunked_array([array, array])
    for given in (chunked, pa.table({"x": chunked}), pa.chunked_array([], array.type)):
        with pytest.raises(TypeError, match=word):
            from_arrow(given)
    for lists in (
        pa.ListArray.from_arrays([0, len(array)], array),
        pa.LargeListArray.from_arrays([0, 0], array),
        pa.ListArray.from_arrays([0, 0], pa.ListArray.from_arrays([0], array)),
        pa.FixedSizeListArray.from_arrays(array, 1),
    ):
        with pytest.raises(TypeError, match=word):
            from_arrow(lists)


def test_structs_in_lists():
    for array in (
        pa.array([[{"x": 1, "y": 2}]]),
        pa.array([{"x": {"y": {"z": 1, "u": 2}}}]),
    ):
        with pytest.raises(TypeError):
            from_arrow(array)


def test_an_array_that_is_stronger_than_its_stream():
    """An object with both methods is taken once."""
    calls = []
    array = pa.array([[1, 2], [3]])

    class Both:
        def __arrow_c_array__(self, requested_schema=None):
            calls.append("array")
            return array.__arrow_c_array__(requested_schema)

        def __arrow_c_stream__(self, requested_schema=None):
            calls.append("stream")
            return pa.chunked_array([array]).__arrow_c_stream__(requested_schema)

    assert_holds(from_arrow(Both()), [np.array([1, 2]), np.array([3])])
    assert len(calls) == 1


def test_methods_without_a_parameter():
    """Producers may leave out what is asked for: nothing is."""
    array = pa.array([[1, 2], [3]])

    class Bare:
        def __arrow_c_array__(self):
            return array.__arrow_c_array__()

    class BareStream:
        def __arrow_c_stream__(self):
            return pa.chunked_array([array]).__arrow_c_stream__()

    for one in (Bare(), BareStream()):
        assert_holds(from_arrow(one), [np.array([1, 2]), np.array([3])])


@pytest.mark.thread_unsafe
def test_errors_let_go():
    gc.collect()
    pool = pa.total_allocated_bytes()
    for make in (
        lambda: pa.array([[1, 2], None]),
        lambda: pa.array([[[1], [2, 3]]] * 100),
        lambda: pa.array([DAY] * 100),
        lambda: pa.chunked_array([[1, 2], [3, None]]),
        lambda: pa.table({"x": [1] * 100, "y": [2] * 100}),
        lambda: with_metadata(
            pa.array([[1, 2]] * 100, pa.list_(pa.int8(), 2)), "arrow.fixed_shape_tensor", "{"
        ),
    ):
        with pytest.raises((TypeError, ValueError)):
            from_arrow(make())
        gc.collect()
        assert pa.total_allocated_bytes() == pool


def test_casts_that_messages_name():
    named = set()
    for word, array in OTHERS.values():
        with pytest.raises(TypeError, match=f"{word}.* is not supported") as caught:
            from_arrow(array)
        with pytest.raises(TypeError, match=re.escape(str(caught.value))):
            from_arrow(pa.table({"x": array}))
        for into in re.findall(r"cast it to (\w+\d|string)", str(caught.value)):
            named.add(word)
            cast = (array if type(array) is not pa.RunEndEncodedArray else array.values).cast(into)
            assert from_arrow(cast).tolist() == cast.to_pylist()
    assert named >= {"date32", "date64", "time32", "time64", "timestamp", "duration", "decimal", "binary"}
