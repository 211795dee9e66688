"""Arrow's arrays become sequences: lists of every kind, their slices, and what is decoded."""

import gc

import numpy as np
import pytest
from support.strategies import assert_holds, filled

from seqcore import TensorSequence, concat_from_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import ITEM_NAMES, ITEMS, SHARED_NAMES, address_of, addresses_of, elements_of, inner  # noqa: E402

from_arrow = TensorSequence.from_arrow
VIEWS = [getattr(pa, name) for name in ("list_view", "large_list_view") if hasattr(pa, name)]
all_names = pytest.mark.parametrize("name", ITEM_NAMES)
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


def made(name, shapes, kind=pa.large_list):
    """A list array of elements with these shapes, by pyarrow alone."""
    values = pa.array(list(filled(name, sum(int(np.prod(shape)) for shape in shapes))), ITEMS[name])
    for extent in reversed(shapes[0][1:]):
        values = pa.FixedSizeListArray.from_arrays(values, extent)
    width = np.int64 if kind.__name__.startswith("large") else np.int32
    ends = np.cumsum([0, *(shape[0] for shape in shapes)]).astype(width)
    return listed(ends, values, kind)


def listed(ends, values, kind):
    names = {"list_": "ListArray", "large_list": "LargeListArray"}
    names |= {"list_view": "ListViewArray", "large_list_view": "LargeListViewArray"}
    numbers = (ends[:-1], np.diff(ends)) if kind in VIEWS else (ends,)
    return getattr(pa, names[kind.__name__]).from_arrays(*map(pa.array, numbers), values)


# --- lists ---


@all_names
def test_no_extent_within(name):
    array = pa.array([[[], []], [], [[]]], pa.large_list(pa.list_(ITEMS[name], 0)))
    seq = from_arrow(array)
    assert seq.shapes == [(2, 0), (0, 0), (1, 0)]
    seq._check()
    fixed = pa.array([[], []], pa.list_(ITEMS[name], 0))
    assert from_arrow(fixed).shapes == [(0,), (0,)]


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
@pytest.mark.parametrize("name", ["bool", "string"])
def test_views_of_what_is_copied(name):
    values = pa.array(list(filled(name, 10)), ITEMS[name])
    array = pa.ListViewArray.from_arrays([6, 0, 3, 9, 2, 0], [3, 4, 0, 1, 5, 10], values[:])
    for part in slices_of(array):
        taken(part)


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


def test_subclasses_and_what_follows():
    class Frames(TensorSequence):
        pass

    array = pa.array([[1, 2], [], [3]])
    seq = Frames.from_arrow(array)
    assert type(seq) is Frames
    assert_holds(seq, elements_of(array))
    seq.insert(1, np.array([7]))
    del seq[0]
    seq[-1] = np.array([[1]])
    assert_holds(seq, [np.array([7]), np.array([], int), np.array([[1]])])
    assert array.to_pylist() == [[1, 2], [], [3]]


@shared_names
def test_values_are_arrows_memory(name):
    array = made(name, [(2, 3), (0, 3), (4, 3)])
    seq = from_arrow(array)
    assert address(seq.values()) == address_of(array.values)
    assert inner(array.type.value_type)[0] == [3]
    assert seq.offsets().tolist() == [0, 2, 2, 6]


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
