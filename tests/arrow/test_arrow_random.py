"""Arrow by chance: any sequence goes there and back, and any array comes as pyarrow says it is."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from support.random_cases import examples
from support.strategies import assert_holds, filled, laid_out, layouts, same, slices

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import (  # noqa: E402
    ITEM_NAMES,
    ITEMS,
    Given,
    array_of,
    chunks_of,
    elements_of,
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
    "float32": st.floats(width=32, allow_nan=False),
    "float64": st.floats(allow_nan=False),
    "string": st.text(st.characters(codec="utf-8"), max_size=20),
}


@st.composite
def arrow_arrays(draw):
    """Lists of one or two levels, of any of Arrow's kinds, as slices of larger ones; and their rows."""
    name = draw(st.sampled_from(list(NUMBERS)))
    width = draw(st.integers(0, 3))  # 0: no fixed-size lists within
    one = NUMBERS[name] if not width else st.lists(NUMBERS[name], min_size=width, max_size=width)
    rows = draw(st.lists(st.lists(one, max_size=4), max_size=8))
    text = pa.string() if draw(st.booleans()) else pa.large_string()
    item = text if name == "string" else ITEMS[name]
    if width:
        item = pa.list_(item, width)
    array = pa.array(rows, draw(st.sampled_from(LISTS))(item))
    start = draw(st.integers(0, len(rows)))
    stop = draw(st.integers(start, len(rows)))
    if hasattr(array, "sizes") and rows and draw(st.booleans()):
        order = draw(st.lists(st.integers(0, len(rows) - 1), max_size=8))
        offsets, sizes = (
            pa.array([numbers[i].as_py() for i in order], numbers.type)
            for numbers in (array.offsets, array.sizes)
        )
        array, rows = type(array).from_arrays(offsets, sizes, array.values), [rows[i] for i in order]
        start, stop = min(start, len(rows)), min(stop, len(rows))
    dtype = object if name == "string" else name
    tail = (width,) if width else ()
    return array[start:stop], [np.array(row, dtype).reshape(len(row), *tail) for row in rows[start:stop]]


@given(arrow_arrays())
@settings(max_examples=examples(250))
def test_any_array_comes_as_it_is(pair):
    array, expected = pair
    seq = from_arrow(array)
    assert_holds(seq, expected)
    assert [one.tolist() for one in seq] == array.to_pylist()
    got = elements_of(array)
    assert all(same(one, other) for one, other in zip(seq, got, strict=True))
    assert_holds(from_arrow(Given(array)), expected)


@given(st.lists(arrow_arrays(), min_size=1, max_size=4))
@settings(max_examples=examples(100))
def test_any_chunks_come_as_they_are(pairs):
    first = pairs[0][0].type
    pairs = [pair for pair in pairs if pair[0].type == first]
    chunked = pa.chunked_array([array for array, _ in pairs], first)
    expected = [one for _, arrays in pairs for one in arrays]
    assert_holds(from_arrow(chunked), expected)
    half = len(expected) // 2
    assert_holds(from_arrow(chunked[half:]), expected[half:])
    assert_holds(from_arrow(pa.table({"x": chunked})[:half]), expected[:half])


@given(st.lists(st.none() | st.lists(st.none() | st.integers(-99, 99), max_size=3), max_size=8), st.data())
@settings(max_examples=examples(200))
def test_nulls_are_found_where_they_are(rows, data):
    array = pa.array(rows, data.draw(st.sampled_from(LISTS))(pa.int8()))
    start = data.draw(st.integers(0, len(rows)))
    stop = data.draw(st.integers(start, len(rows)))
    part = rows[start:stop]
    seen = [i for i, row in enumerate(part) if row is None or None in row]
    if not seen:
        assert_holds(from_arrow(array[start:stop]), [np.array(row, "int8") for row in part])
    else:
        with pytest.raises(TypeError, match=rf"\b({'|'.join(map(str, seen))})\b"):
            from_arrow(array[start:stop])
