"""Arrow's arrays become sequences: lists of every kind, their slices, and what is decoded."""

import gc
import pickle

import numpy as np
import pytest
from support.strategies import assert_holds, filled

import seqcore as sq
from seqcore import TensorSequence, concat_from_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import ITEMS, SHARED_NAMES, addresses_of, elements_of  # noqa: E402

from_arrow = TensorSequence.from_arrow
VIEWS = [getattr(pa, name) for name in ("list_view", "large_list_view") if hasattr(pa, name)]
shared_names = pytest.mark.parametrize("name", SHARED_NAMES)
needs_views = pytest.mark.skipif(not VIEWS, reason="this pyarrow has no list views")


def address(array):
    return array.__array_interface__["data"][0]


def taken(array, expected=None):
    """The sequence of an array holds what the array does."""
    seq = from_arrow(array)
    expected = elements_of(array) if expected is None else expected
    if expected:
        assert seq.dtype == expected[0].dtype
    assert_holds(seq, expected)
    return seq


def shares(array):
    seq = taken(array)
    got = [address(one) for one in seq if one.size]
    assert got == [here for here, one in zip(addresses_of(array), seq, strict=True) if one.size]
    for one in seq:
        with pytest.raises(ValueError, match="WRITEABLE"):
            one.flags.writeable = True
    return seq


def slices_of(array):
    n = len(array)
    return [array[start:stop] for start in range(n + 1) for stop in range(start, n + 1)]


# --- lists ---


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list])
@pytest.mark.parametrize("within", [pa.list_, pa.large_list])
@pytest.mark.parametrize("name", ["bool", "int8", "float64", "string"])
def test_lists_of_lists_of_one_length(name, within, outer):
    word = {"bool": bool, "string": str}.get(name, int)
    rows = [[[word(10 * i + j) for j in range(3)] for i in range(n)] for n in (2, 1, 4)]
    array = pa.array(rows, outer(within(ITEMS[name])))
    expected = [np.array(one, object if name == "string" else name) for one in rows]
    for start in range(3):
        taken(array[start:], expected[start:])
    deep = pa.array([[one, one] for one in rows[:1] * 3], outer(within(within(ITEMS[name]))))
    taken(deep, [np.array([rows[0], rows[0]], expected[0].dtype)] * 3)
    fixed = pa.array(rows, outer(within(ITEMS[name]))).cast(outer(pa.list_(ITEMS[name], 3)))
    taken(fixed, expected)
    mixed = pa.array([[one, one] for one in rows[:1] * 3], outer(within(pa.list_(ITEMS[name], 3))))
    taken(mixed, [np.array([rows[0], rows[0]], expected[0].dtype)] * 3)


def test_inner_lengths_that_differ():
    array = pa.array([[[1, 2], [3, 4]], [[5, 6]], [[1], [2, 3]], [[7, 8]]])
    with pytest.raises(ValueError, match=r"\b2\b"):
        from_arrow(array)
    assert_holds(from_arrow(array[:2]), [np.array([[1, 2], [3, 4]]), np.array([[5, 6]])])
    with pytest.raises(ValueError, match=r"\b1\b"):
        from_arrow(array[1:])
    assert_holds(from_arrow(array[3:]), [np.array([[7, 8]])])


def test_inner_lengths_that_differ_between_elements():
    array = pa.array([[[1, 2], [3, 4]], [[5, 6, 7]]])
    assert_holds(from_arrow(array), [np.array([[1, 2], [3, 4]]), np.array([[5, 6, 7]])])


@pytest.mark.parametrize("outer", [pa.list_, pa.large_list, *VIEWS])
@pytest.mark.parametrize("name", ["bool", "int32", "string"])
def test_chunks_without_rows_have_the_inner_lengths_of_others(tmp_path, name, outer):
    """Where a column is divided changes no shape, also in a file, whose sequence pickles by path."""
    word = {"bool": bool, "string": str}.get(name, int)
    rows = [[], [[word(1), word(2)], [word(3), word(4)]], []]
    kind = outer(pa.list_(ITEMS[name]))
    taken_whole = from_arrow(pa.array(rows, kind))
    assert taken_whole.shapes == [(0, 2), (2, 2), (0, 2)]
    for parts in ([rows[:1], rows[1:]], [[row] for row in rows], [[], rows[:2], rows[2:]]):
        column = pa.chunked_array([pa.array(part, kind) for part in parts])
        assert from_arrow(column) == taken_whole
        path = tmp_path / f"{len(parts)}{parts[0]}.arrow"
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, pa.schema({"a": kind})) as writer:
            writer.write_table(pa.table({"a": column}))
        loaded = sq.load(path)
        assert loaded == taken_whole == pickle.loads(pickle.dumps(loaded))
        assert str(path).encode() in pickle.dumps(loaded)
    nothing = pa.array([[], []], kind)
    assert from_arrow(pa.chunked_array([nothing, nothing])).shapes == [(0, 0)] * 4


# --- views ---


@needs_views
@shared_names
def test_views_out_of_order_that_overlap(name):
    numbers = pa.array(filled(name, 10))
    array = pa.ListViewArray.from_arrays([6, 0, 3, 9, 2, 0], [3, 4, 0, 1, 5, 10], numbers)
    for part in slices_of(array):
        shares(part)
    large = pa.LargeListViewArray.from_arrays([6, 0], [3, 4], pa.FixedSizeListArray.from_arrays(numbers, 1))
    shares(large)
    shares(large[1:])


@needs_views
def test_views_that_leave_most_out():
    array = pa.ListViewArray.from_arrays([99, 0], [1, 1], pa.array(np.arange(100)))
    seq = shares(array)
    assert concat_from_sequence(seq, 0).tolist() == [99, 0]


# --- objects that have the methods ---


def test_columns():
    lists = pa.array([[1, 2], [], [3]])
    expected = elements_of(lists)
    for one in (
        pa.table({"x": lists}),
        pa.record_batch({"x": lists}),
        pa.table({"x": lists}).to_batches()[0],
        pa.StructArray.from_arrays([lists], ["x"]),
        pa.chunked_array([pa.StructArray.from_arrays([lists], ["x"])]),
    ):
        taken(one, expected)
    taken(pa.StructArray.from_arrays([lists], ["x"])[1:], expected[1:])
    taken(pa.table({"x": lists})[2:], expected[2:])
    taken(pa.table({"": lists}), expected)


@pytest.mark.thread_unsafe
def test_memory_outlives_arrow():
    pool = pa.total_allocated_bytes()
    array = pa.array([[1, 2], [], [3] * 1000])
    seq = from_arrow(array)
    assert pa.total_allocated_bytes() > pool
    del array
    gc.collect()
    assert pa.total_allocated_bytes() > pool
    last = seq[2]
    del seq
    gc.collect()
    assert last.tolist() == [3] * 1000
    del last
    gc.collect()
    assert pa.total_allocated_bytes() == pool
