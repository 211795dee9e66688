"""Arrow by chance: any sequence goes there and back, and any array comes as pyarrow says it is."""

import itertools
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from support.random_cases import examples
from support.strategies import assert_holds, filled, laid_out, layouts, same, slices

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import (  # noqa: E402
    ITEM_NAMES,
    ITEMS,
    Given,
    addresses_of,
    array_of,
    chunks_of,
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
    """Splits and lists of arrays of one rank, selected from and put together at random."""
    name, rank = draw(item_names), draw(st.integers(0, 3))
    tail = draw(
        npst.array_shapes(min_dims=max(rank - 1, 1), max_dims=max(rank - 1, 1), min_side=0, max_side=3)
    )
    tail = tail[: max(rank - 1, 0)]
    parts = []
    for start in range(draw(st.integers(1, 3))):
        n = draw(st.integers(0, 6))
        if rank == 0:
            parts.append(split_to_sequence(filled(name, n, start), keepdims=0))
        elif draw(st.booleans()):
            ends = sorted(draw(st.lists(st.integers(0, n), min_size=1, max_size=5)))
            source = laid_out(
                filled(name, (n, *tail), start), draw(layouts.filter(lambda one: one != "broadcast"))
            )
            parts.append(TensorSequence.from_offsets(source, ends))
        else:
            own = tail if draw(st.booleans()) else draw(st.permutations(tail))
            array = laid_out(
                filled(name, (n, *own), start), draw(layouts.filter(lambda one: one != "broadcast"))
            )
            parts.append(TensorSequence([array]))
    seq = parts[0]
    for one in parts[1:]:
        seq = seq + one
    if draw(st.booleans()):
        seq = seq[draw(slices(len(seq)))]
    if len(seq) and draw(st.booleans()):
        seq = seq[draw(st.lists(st.integers(-len(seq), len(seq) - 1), max_size=6))]
    return seq


def expected_type(seq):
    """None where it is a tensor of variable shape."""
    name = next(name for name in ITEM_NAMES if TensorSequence(dtype=name).dtype == seq.dtype)
    return type_of(name, seq.shapes) if len({shape[1:] for shape in seq.shapes}) <= 1 else None


@given(sequences())
@settings(max_examples=examples(250))
def test_any_sequence_goes_there_and_back(seq):
    expected = list(seq)
    made = sound(array_of(seq))
    kind = expected_type(seq)
    if kind is None:
        assert pa.types.is_struct(storage_of(made).type)
    else:
        assert made.type == kind
    got = elements_of(made)
    assert len(got) == len(expected)
    assert all(same(one, array) for one, array in zip(got, expected, strict=True))
    seq._check()
    back = from_arrow(seq)
    assert back.dtype == seq.dtype
    assert_holds(back, expected)
    if kind is None and seq.dtype == object:
        return
    chunked = pa.chunked_array(seq)
    assert all(same(one, array) for one, array in zip(chunks_of(chunked), expected, strict=True))
    back = from_arrow(pa.table({"x": chunked}))
    assert back.dtype == seq.dtype
    if kind is not None or isinstance(made, pa.ExtensionArray):
        assert_holds(back, expected)


@given(sequences(), st.sampled_from(LISTS), st.sampled_from([pa.list_, pa.large_list, None]))
@settings(max_examples=examples(150))
def test_any_sequence_as_lists_that_are_asked_for(seq, outer, within):
    kind = expected_type(seq)
    if kind is None or not seq.shapes or not seq.shapes[0]:
        return
    item, depth = kind.value_type, len(seq.shapes[0]) - 1
    if within is not None:
        for _ in range(depth):
            item = item.value_type
        for _ in range(depth):
            item = within(item)
    made = sound(pa.Array._import_from_c_capsule(*seq.__arrow_c_array__(outer(item).__arrow_c_schema__())))
    assert made.type == outer(item)
    assert made.to_pylist() == [one.tolist() for one in seq]


@given(
    sequences(), st.sampled_from([*ITEMS.values(), pa.list_(pa.int8(), 2), pa.list_(pa.list_(pa.int16()))])
)
@settings(max_examples=examples(100))
def test_any_request_gives_the_elements(seq, kind):
    pair = seq.__arrow_c_array__(kind.__arrow_c_schema__())
    if expected_type(seq) is None and seq.dtype == object:
        return
    made = sound(pa.Array._import_from_c_capsule(*pair))
    lists = [one.tolist() for one in seq]
    if pa.types.is_struct(storage_of(made).type):
        assert [one.tolist() for one in elements_of(made)] == lists
    else:
        assert made.to_pylist() == lists


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
    "string": st.text(st.characters(codec="utf-8"), max_size=20),
}
TEXTS = [getattr(pa, name) for name in ("string", "large_string", "string_view") if hasattr(pa, name)]


def part_of(draw, array):
    """Return a slice of an Arrow array, and where it begins and ends."""
    start = draw(st.integers(0, len(array)))
    stop = draw(st.integers(start, len(array)))
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


def listed(draw, array, kind):
    """Return lists of an array's items, and where each of them begins and ends: in order, or views in any."""
    n = len(array)
    if kind in VIEWS:
        pairs = draw(st.lists(st.tuples(st.integers(0, n), st.integers(0, n)), max_size=6))
        bounds = [(min(pair), max(pair)) for pair in pairs]
        width = pa.int32() if kind is pa.list_view else pa.int64()
        starts, sizes = ([f(a, b) for a, b in bounds] for f in (lambda a, b: a, lambda a, b: b - a))
        of = pa.ListViewArray if kind is pa.list_view else pa.LargeListViewArray
        return of.from_arrays(pa.array(starts, width), pa.array(sizes, width), array), bounds
    ends = sorted(draw(st.lists(st.integers(0, n), min_size=1, max_size=7)))
    of = pa.ListArray if kind is pa.list_ else pa.LargeListArray
    return of.from_arrays(ends, array), [*itertools.pairwise(ends)]


def rowed(draw, array, width):
    """Return an array's items as rows of one width, in fixed-size lists or in others."""
    kind = draw(st.sampled_from(["fixed", *LISTS]))
    if kind == "fixed":
        return pa.FixedSizeListArray.from_arrays(array, width)
    starts = range(0, len(array) + 1, width)
    if kind in VIEWS:
        of, type_ = {
            "list_view": ("ListViewArray", pa.int32()),
            "large_list_view": ("LargeListViewArray", pa.int64()),
        }[kind.__name__]
        sizes = pa.array([width] * (len(array) // width), type_)
        return getattr(pa, of).from_arrays(pa.array(list(starts)[:-1], type_), sizes, array)
    return (pa.ListArray if kind is pa.list_ else pa.LargeListArray).from_arrays(list(starts), array)


@st.composite
def arrow_arrays(draw, nulls=False):
    """Draw an array of any of Arrow's kinds: items, how they are encoded, their lists, and slices of each.

    Return it with the elements that it stands for, each an array of objects, in which a null is None.
    """
    name = draw(st.sampled_from(list(NUMBERS)))
    widths = draw(st.sampled_from([[], [], [1], [2], [3], [2, 1], [2, 2]]))  # rows, and rows of rows
    kind = draw(st.sampled_from(TEXTS))() if name == "string" else ITEMS[name]
    one = st.none() | NUMBERS[name] if nulls else NUMBERS[name]
    items = encoded(draw, pa.array(draw(st.lists(one, max_size=14)), kind))
    items, *_ = part_of(draw, items)
    values = np.empty(len(items), object)
    values[:] = items.to_pylist()
    for width in widths:
        items = items[: len(items) // width * width]
        values = values[: len(items)].reshape(-1, width, *values.shape[1:])
        items, start, stop = part_of(draw, rowed(draw, items, width))
        values = values[start:stop]
    outer = draw(st.sampled_from([None, *LISTS]))
    if outer is None:  # rows alone are elements too
        return name, items, [values[k : k + 1].reshape(values.shape[1:]) for k in range(len(values))]
    lists, bounds = listed(draw, items, outer)
    lists, start, stop = part_of(draw, lists)
    return name, lists, [values[a:b] for a, b in bounds[start:stop]]


def assert_elements(seq, name, elements):
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
    assert_elements(seq, name, elements)
    if name not in ("bool", "string") and not is_encoded(array):
        shared = {*addresses_of(array)} if is_fixed_below(array) else None
        found = [one.__array_interface__["data"][0] for one in seq if one.size]
        assert shared is None or {*found} <= shared
    assert from_arrow(Given(array)) == seq
    del array
    assert_elements(seq, name, elements)


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
    assert_elements(whole, name, elements)
    half = len(elements) // 2
    assert_elements(from_arrow(chunked[half:]), name, elements[half:])
    for table in (pa.table({"x": chunked}), pa.table({"": chunked})):
        assert_elements(from_arrow(table[:half]), name, elements[:half])
    for batch in pa.table({"x": chunked}).to_batches():
        assert len(from_arrow(batch)) == batch.num_rows
    if not any(one.size for one in elements):
        return
    other = from_arrow(pa.chunked_array([*chunked.chunks, *chunked.chunks], array.type))
    assert_elements(other, name, elements * 2)


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


@given(arrow_arrays(nulls=True))
@settings(max_examples=examples(300))
def test_nulls_are_found_where_they_are(drawn):
    """Those that an element sees are an error that names it; others, between lists, are none."""
    name, array, elements = drawn
    seen = "|".join(str(i) for i, one in enumerate(elements) if None in one.ravel().tolist())
    if not seen:
        assert_elements(from_arrow(array), name, elements)
        return
    with pytest.raises(TypeError, match=rf"element ({seen}) (has nulls|is null).*fill.*drop"):
        from_arrow(array)


@given(st.lists(st.none() | st.lists(st.integers(-99, 99), max_size=3), max_size=8), st.data())
@settings(max_examples=examples(100))
def test_lists_that_are_null(rows, data):
    array = pa.array(rows, data.draw(st.sampled_from(LISTS))(pa.int8()))
    array, start, stop = part_of(data.draw, array)
    part = rows[start:stop]
    seen = [i for i, row in enumerate(part) if row is None]
    if not seen:
        assert_holds(from_arrow(array), [np.array(row, "int8") for row in part])
    else:
        with pytest.raises(TypeError, match=rf"\b({'|'.join(map(str, seen))})\b"):
            from_arrow(array)
