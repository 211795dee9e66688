"""Arrow by chance: any sequence goes there and back, and any array comes as pyarrow says it is."""

import itertools
import pickle
import re
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.random_cases import examples
from support.strategies import assert_holds, filled, laid_out, layouts, same, slices

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import (  # noqa: E402
    ITEM_NAMES,
    ITEMS,
    SHARED_NAMES,
    Given,
    addresses_of,
    array_of,
    assert_elements,
    elements_of,
    is_fixed,
    is_list,
    sound,
    storage_of,
    type_of,
)

from_arrow = TensorSequence.from_arrow
VIEWS = [getattr(pa, name) for name in ("list_view", "large_list_view") if hasattr(pa, name)]
LISTS = [pa.list_, pa.large_list, *VIEWS]
item_names = st.sampled_from(ITEM_NAMES)


@st.composite
def sequences(draw):
    """Splits and lists of arrays of one rank, or what came from Arrow, selected from and put together."""
    if draw(st.booleans()):
        seq = from_arrow(draw(arrow_arrays())[1])
    else:
        name, rank = draw(item_names), draw(st.integers(0, 3))
        shapes = st.lists(st.integers(0, 3), min_size=max(rank - 1, 0), max_size=max(rank - 1, 0))
        seq, tail = TensorSequence(dtype=name), draw(shapes)
        for start in range(draw(st.sampled_from([1, 1, 2, 3]))):
            seq = seq + part_of_sequence(draw, name, rank, tail, draw(shapes), start)
    if draw(st.booleans()):
        seq = seq[draw(slices(len(seq)))]
    if len(seq) and draw(st.booleans()):
        seq = seq[draw(st.lists(st.integers(-len(seq), len(seq) - 1), max_size=6))]
    return seq


def part_of_sequence(draw, name, rank, tail, other, start):
    n, way = draw(st.integers(0, 6)), draw(st.sampled_from(["split", "array", "another shape"]))
    if rank == 0:
        return split_to_sequence(filled(name, n, start), keepdims=0)
    shape = (n, *(other if way == "another shape" else tail))
    source = laid_out(filled(name, shape, start), draw(layouts.filter(lambda one: one != "broadcast")))
    if way != "split":
        return TensorSequence([source])
    ends = sorted(draw(st.lists(st.integers(0, n), min_size=1, max_size=5)))
    return TensorSequence.from_offsets(source, ends)


def name_of(seq):
    return next(name for name in ITEM_NAMES if TensorSequence(dtype=name).dtype == seq.dtype)


def is_variable(seq):
    return len({shape[1:] for shape in seq.shapes}) > 1


@given(sequences())
@settings(max_examples=examples(600))
def test_any_sequence_goes_there_and_back(seq):
    expected = list(seq)
    made = sound(array_of(seq))
    if is_variable(seq):
        assert pa.types.is_struct(storage_of(made).type)
    else:
        assert made.type == type_of(name_of(seq), seq.shapes)
    assert_elements(made, expected)
    seq._check()
    back = from_arrow(seq)
    assert back.dtype == seq.dtype
    assert_holds(back, expected)
    if is_variable(seq) and seq.dtype == object:
        return
    with patch("seqcore._arrow.layouts._LARGE_PART", 1):  # a chunk of each memory
        chunked = pa.chunked_array(seq)
    assert_elements(chunked, expected)
    back = from_arrow(pa.table({"x": chunked}))
    assert back.dtype == seq.dtype
    if not is_variable(seq) or isinstance(made, pa.ExtensionArray):
        assert_holds(back, expected)


OTHERS = [pa.null(), pa.binary(), pa.date32(), pa.timestamp("us", "UTC"), pa.decimal128(5)]
OTHERS += [pa.struct([("a", pa.int32())]), pa.struct([]), pa.map_(pa.string(), pa.int32())]
OTHERS += [pa.dictionary(pa.int8(), pa.string()), pa.run_end_encoded(pa.int16(), pa.int32())]
OTHERS += [pa.dense_union([pa.field("a", pa.int32())])]
BOOL8 = [pa.bool8()] if hasattr(pa, "bool8") else []


def items_for(name):
    """The types that have all values of one."""
    if name == "string":
        return [pa.string(), pa.large_string()]
    loses = name in ("int64", "uint64")  # NumPy casts them to float64, which has fewer of them
    wider = [one for one in ITEM_NAMES[:-1] if np.can_cast(name, one) and not (loses and "float" in one)]
    return [ITEMS[one] for one in wider] + BOOL8 * (name == "bool")


@st.composite
def requests(draw):
    """A sequence, a type to ask for, and whether it is given as that: None for variable shapes."""
    seq = draw(sequences().filter(len))
    if draw(st.booleans()):
        seq = seq[[shape == seq.shapes[0] for shape in seq.shapes]]
    name, shapes = name_of(seq), {*seq.shapes}
    rank, inner = len(min(shapes)), {shape[1:] for shape in shapes}
    way = draw(st.sampled_from(["lists"] * 4 + ["fixed shape", "variable shape"]))
    if rank and way == "fixed shape" and name in SHARED_NAMES:
        shape = draw(st.sampled_from(sorted(shapes)) | st.just((2,) * rank))
        order = draw(st.sampled_from([None, None, [*reversed(range(rank))]])) if rank > 1 else None
        asked = pa.fixed_shape_tensor(ITEMS[name], shape, permutation=order)
        return seq, asked, shapes == {shape} and order is None
    if rank and way == "variable shape" and name != "string":  # of which pyarrow takes no tensors
        storage = pa.struct([("data", pa.list_(ITEMS[name])), ("shape", pa.list_(pa.int32(), rank))])
        metadata = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": "{}"}
        return seq, pa.field("", storage, metadata=metadata), None
    fitting = items_for(name)
    known = draw(st.sampled_from([fitting] * 3 + [[*ITEMS.values(), *OTHERS]]))
    kind = draw(st.sampled_from(known))
    fits = kind in fitting and (not rank or len(inner) == 1)
    for axis in reversed(range(rank)):
        of = draw(st.sampled_from([None, *(LISTS[:2] if axis else LISTS)]))
        extent = min(shape[axis] for shape in shapes) + draw(st.sampled_from([0] * 9 + [1]))
        kind = pa.list_(kind, extent) if of is None else of(kind)
        fits = fits and (of is not None or {shape[axis] for shape in shapes} == {extent})
    return seq, kind, fits


def lists_of(array):
    if pa.types.is_struct(storage_of(array).type):
        return [one.tolist() for one in elements_of(array)]
    return array.to_numpy_ndarray().tolist() if hasattr(array, "to_numpy_ndarray") else array.to_pylist()


@given(requests())
@settings(max_examples=examples(1000))
def test_any_type_that_is_asked_for(drawn):
    """It is given where the elements fit it, else the usual type; the elements are there in any case."""
    seq, asked, fits = drawn
    if is_variable(seq) and seq.dtype == object:
        return
    kind, expected = asked if fits else array_of(seq).type, [one.tolist() for one in seq]
    made = pa.Array._import_from_c_capsule(*seq.__arrow_c_array__(asked.__arrow_c_schema__()))
    with patch("seqcore._arrow.layouts._LARGE_PART", 1):
        stream = pa.ChunkedArray._import_from_c_capsule(seq.__arrow_c_stream__(asked.__arrow_c_schema__()))
    assert stream.type == made.type
    if fits is None:
        assert pa.types.is_struct(storage_of(made).type)
    else:
        assert made.type == kind
    assert lists_of(sound(made)) == expected
    assert [one for chunk in stream.chunks for one in lists_of(sound(chunk))] == expected


# --- arrays by pyarrow ---


NUMBERS = {
    "bool": st.booleans(),
    "int8": st.integers(-128, 127),
    "uint16": st.integers(0, 2**16 - 1),
    "int32": st.integers(-(2**31), 2**31 - 1),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "uint64": st.integers(0, 2**64 - 1),
    "float16": st.integers(-2000, 2000).map(np.float16),
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=20) | st.just("longer than a view has room for"),
}
TEXTS = [getattr(pa, name) for name in ("string", "large_string", "string_view") if hasattr(pa, name)]


def part_of(draw, array):
    """Return a slice of an Arrow array, and where it begins and ends."""
    start = draw(st.sampled_from([0, 0, 0, 1, 2, len(array)]))
    stop = max(len(array) - draw(st.sampled_from([0, 0, 0, 1, 2])), start)
    return array[start:stop], start, stop


def encoded(draw, array):
    """Return the items as they are, by a dictionary that has more and is in any order, or in runs."""
    way = draw(st.sampled_from(["plain", "plain", "dictionary", "runs"]))
    n = len(array)
    if way == "plain" or not n:
        return array
    if way == "runs":
        ends = sorted({*draw(st.lists(st.integers(1, n), max_size=n)), n})
        values = pa.array([array[end - 1].as_py() for end in ends], array.type)
        kind = pa.run_end_encoded(draw(st.sampled_from([pa.int16(), pa.int32(), pa.int64()])), array.type)
        return pa.RunEndEncodedArray.from_arrays(ends, values, kind)
    codes = draw(st.lists(st.integers(0, n - 1), min_size=n, max_size=n))
    kind = draw(st.sampled_from([pa.int8(), pa.int32(), pa.uint8(), pa.uint64()]))
    return pa.DictionaryArray.from_arrays(pa.array(codes, kind), array)


def masked(draw, count, nulls):
    return draw(st.lists(st.sampled_from([False] * 5 + [nulls]), min_size=count, max_size=count))


def lists_from(kind, bounds, array, mask):
    """Return lists of an array's items from where to where: one behind the other, but for views."""
    starts, sizes = [a for a, _ in bounds], [b - a for a, b in bounds]
    if kind not in VIEWS:
        ends = starts[:1] + [b for _, b in bounds] if bounds else [0]
        of, width = (pa.ListArray, pa.int32()) if kind is pa.list_ else (pa.LargeListArray, pa.int64())
        return of.from_arrays(pa.array(ends, width), array, mask=mask)
    is_small = kind is pa.list_view
    of, width = (pa.ListViewArray, pa.int32()) if is_small else (pa.LargeListViewArray, pa.int64())
    return of.from_arrays(pa.array(starts, width), pa.array(sizes, width), array, mask=mask)


def listed(draw, array, kind, nulls):
    """Return lists of an array's items, and where each begins and ends, in order or views in any; or None."""
    n, least = len(array), draw(st.sampled_from([1, 3, 5]))
    places = st.integers(draw(st.sampled_from([0, min(2, n)])), n)
    if kind in VIEWS:
        bounds = draw(st.lists(st.tuples(places, places).map(sorted), min_size=least, max_size=6))
    else:
        bounds = [*itertools.pairwise(sorted(draw(st.lists(places, min_size=least, max_size=7))))]
    mask = masked(draw, len(bounds), nulls)
    lists = lists_from(kind, bounds, array, pa.array(mask) if any(mask) else None)
    return lists, [None if is_null else one for one, is_null in zip(bounds, mask, strict=True)]


def rowed(draw, array, width, nulls):
    """Return an array's items as rows of one width, in fixed-size lists or in others, and which are null."""
    kind, starts = draw(st.sampled_from(["fixed", *LISTS])), range(0, len(array), width)
    mask = masked(draw, len(starts), nulls)
    given = pa.array(mask) if any(mask) else None
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(array, width, mask=given), mask
    return lists_from(kind, [(start, start + width) for start in starts], array, given), mask


@st.composite
def arrow_arrays(draw, nulls=False):
    """Draw an array of any of Arrow's kinds: items, how they are encoded, their lists, and slices of each.

    Return it with the elements that it stands for, each an array of objects; a null is None.
    """
    name = draw(st.sampled_from(list(NUMBERS)))
    widths = draw(st.sampled_from([[], [], [1], [2], [3], [2, 1], [2, 2]]))  # rows, and rows of rows
    kind = draw(st.sampled_from(TEXTS))() if name == "string" else ITEMS[name]
    numbers = draw(st.lists(NUMBERS[name], min_size=draw(st.sampled_from([0, 6, 12])), max_size=14))
    mask = masked(draw, len(numbers), nulls)
    numbers = [None if is_null else one for one, is_null in zip(numbers, mask, strict=True)]
    items, *_ = part_of(draw, encoded(draw, pa.array(numbers, kind)))
    values = np.empty(len(items), object)
    values[:] = items.to_pylist()
    for width in widths:
        items = items[: len(items) // width * width]
        values = values[: len(items)].reshape(-1, width, *values.shape[1:])
        items, mask = rowed(draw, items, width, nulls)
        values[np.array(mask, bool)] = None
        items, start, stop = part_of(draw, items)
        values = values[start:stop]
    outer = draw(st.sampled_from([None, *LISTS]))
    if outer is None:  # rows alone are elements too
        return name, items, [values[k : k + 1].reshape(values.shape[1:]) for k in range(len(values))]
    lists, bounds = listed(draw, items, outer, nulls)
    lists, start, stop = part_of(draw, lists)
    return name, lists, [None if one is None else values[slice(*one)] for one in bounds[start:stop]]


def assert_read(seq, name, elements):
    seq._check()
    assert seq.dtype == (object if name == "string" else name)
    assert len(seq) == len(elements)
    for one, wanted in zip(seq, elements, strict=True):
        if one.size or wanted.size:
            assert same(one, wanted.astype(seq.dtype))
        assert not one.flags.writeable


@given(arrow_arrays())
@settings(max_examples=examples(600))
def test_any_array_comes_as_it_is(drawn):
    name, array, elements = drawn
    seq = from_arrow(array)
    assert_read(seq, name, elements)
    if name not in ("bool", "string") and not is_encoded(array):
        shared = {*addresses_of(array)} if is_fixed_below(array) else None
        found = [one.__array_interface__["data"][0] for one in seq if one.size]
        assert shared is None or {*found} <= shared
    assert from_arrow(Given(array)) == seq
    del array
    assert_read(seq, name, elements)


def is_encoded(array):
    kind = array.type
    while is_list(kind) or is_fixed(kind):
        kind = kind.value_type
    return pa.types.is_dictionary(kind) or pa.types.is_run_end_encoded(kind)


def is_fixed_below(array):
    kind = array.type.value_type if is_list(array.type) else array.type
    while is_fixed(kind):
        kind = kind.value_type
    return not is_list(kind)


@given(arrow_arrays(), st.data())
@settings(max_examples=examples(200))
def test_any_chunks_come_as_they_are(drawn, data):
    name, array, elements = drawn
    cuts = sorted(data.draw(st.lists(st.integers(0, len(array)), max_size=4)))
    bounds = [*itertools.pairwise([0, *cuts, len(array)])]
    chunked = pa.chunked_array([array[a:b] for a, b in bounds], array.type)
    whole = from_arrow(chunked)
    assert_read(whole, name, elements)
    half = len(elements) // 2
    assert_read(from_arrow(chunked[half:]), name, elements[half:])
    for table in (pa.table({"x": chunked}), pa.table({"": chunked})):
        assert_read(from_arrow(table[:half]), name, elements[:half])
    for batch in pa.table({"x": chunked}).to_batches():
        assert len(from_arrow(batch)) == batch.num_rows
    if not any(one.size for one in elements):
        return
    other = from_arrow(pa.chunked_array([*chunked.chunks, *chunked.chunks], array.type))
    assert_read(other, name, elements * 2)


@pytest.mark.parametrize("outer", LISTS)
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


@pytest.mark.skipif(not VIEWS, reason="needs a pyarrow with list views")
def test_elements_of_several_axes():
    """Lists of lists that are even within an element; list views of lists, in any order and around nulls."""

    def views(child, *spans):
        return pa.ListViewArray.from_arrays(
            *(pa.array(one, pa.int32()) for one in zip(*spans, strict=True)), child
        )

    rows, holes = pa.array([[1, 2], [3, 4], [5], [6]]), pa.array([1, None, 2, 3])
    pairs = pa.array([[[1, 2]], [[3, 4]], [[5, 6], [7, 8]]], pa.list_(pa.list_(pa.int8(), 2)))
    for array in (
        pa.array([[[1, 2], [3, 4]], [[5]], []]),
        pa.ListArray.from_arrays([0, 2, 3], pairs),
        views(rows, (0, 2), (2, 2), (2, 1)),
        views(holes, (0, 1), (2, 2), (3, 1)),
        pa.ListArray.from_arrays([0, 2, 4], views(holes[2:], (1, 1), (0, 1), (1, 1), (0, 1))),
        pa.ListArray.from_arrays([0, 2, 3], views(holes, (0, 1), (2, 1), (3, 1))),
        pa.FixedSizeListArray.from_arrays(views(rows, (2, 1), (3, 1), (2, 1), (2, 1)), 2),
    ):
        assert from_arrow(array).tolist() == array.to_pylist()
    for at, array in enumerate(
        (pa.ListArray.from_arrays([0, 2], views(rows, (0, 1), (2, 1))), views(rows, (0, 1), (1, 2)))
    ):
        with pytest.raises(ValueError, match=f"element {at} is ragged"):
            from_arrow(array)


@given(st.data(), st.integers(1, 3))
def test_elements_that_differ_along_any_axis(data, nlists):
    """Each is regular; the type says how long lists are at some levels."""
    fixed = [data.draw(st.none() | st.integers(0, 3)) for _ in range(nlists)]
    lengths = st.tuples(*(st.integers(0, 3) if n is None else st.just(n) for n in [None, *fixed]))
    tensors = [np.arange(np.prod(shape)).reshape(shape) for shape in data.draw(st.lists(lengths, min_size=1))]
    kind = pa.int64()
    for n in reversed([data.draw(st.sampled_from([None, len(tensors[0])])), *fixed]):
        kind = data.draw(st.sampled_from(LISTS))(kind) if n is None else pa.list_(kind, n)
    if kind.num_fields and is_fixed(kind):
        tensors = [one for one in tensors if len(one) == len(tensors[0])]
    array = pa.array([one.tolist() for one in tensors], kind)
    first = data.draw(st.integers(0, len(array)))
    assert from_arrow(array[first:]).tolist() == array[first:].to_pylist()


@given(arrow_arrays(nulls=True))
@settings(max_examples=examples(600))
def test_nulls_are_found_where_they_are(drawn):
    """Those that an element sees are an error that names it; others, between lists, are none."""
    name, array, elements = drawn
    struct = pa.StructArray.from_arrays([array], ["x"])
    for given_array, part in ((array, elements), (struct[1:], elements[1:])):
        seen = [i for i, one in enumerate(part) if one is None or None in one.ravel().tolist()]
        if not seen:
            assert_read(from_arrow(given_array), name, part)
            continue
        with pytest.raises(TypeError, match=r"element \d+ (has nulls|is null).*fill.*drop") as caught:
            from_arrow(given_array)
        assert int(re.search(r"\d+", str(caught.value))[0]) in seen
