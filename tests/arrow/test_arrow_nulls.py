"""Nulls: those that an element can see are errors that name it, all others are none."""

import numpy as np
import pytest

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from support.arrow_values import with_metadata  # noqa: E402

from_arrow = TensorSequence.from_arrow
MASK = np.array([False, False, True, False])


def lists_with_a_null(kind=pa.list_):
    """[1, 2], [], null, [3]"""
    return pa.array([[1, 2], [], None, [3]], kind(pa.int32()))


def masked(values=(1, 2, 7, 8, 3)):
    """[1, 2], [], null with 7 and 8 behind it, [3]"""
    return pa.ListArray.from_arrays(
        pa.array([0, 2, 2, 4, 5], pa.int32()), pa.array(values, pa.int32()), mask=pa.array(MASK)
    )


def fixed(rows, size=2):
    return pa.array(rows, pa.list_(pa.int32(), size))


def with_hidden_nulls():
    """Values of which the first two and the last are null."""
    return pa.array([None, None, 1, 2, 3, 4, None], pa.int32())


NULLS = {  # with the position of the first element that sees one
    "numbers": (2, pa.array([1, 2, None, 3])),
    "bools": (1, pa.array([True, None])),
    "strings": (1, pa.array(["a", None])),
    "views of strings": (1, pa.array(["a", None], pa.string_view())) if hasattr(pa, "string_view") else None,
    "lists": (2, lists_with_a_null()),
    "large lists": (2, lists_with_a_null(pa.large_list)),
    "views": (2, lists_with_a_null(pa.list_view)) if hasattr(pa, "list_view") else None,
    "masked lists": (2, masked()),
    "fixed sizes": (1, fixed([[1, 2], None, [3, 4]])),
    "in lists": (1, pa.array([[1, 2], [3, None], [4]])),
    "in lists of bools": (1, pa.array([[True], [True, None]])),
    "in lists of strings": (3, pa.array([["a"], [], ["b"], [None]])),
    "in fixed sizes": (2, fixed([[1, 2], [3, 4], [5, None]])),
    "in rows": (1, pa.array([[[1, 2]], [[3, 4], None]], pa.list_(pa.list_(pa.int32(), 2)))),
    "in rows of lists": (1, pa.array([[[1, 2]], [[3, 4], None]], pa.list_(pa.list_(pa.int32())))),
    "in rows of numbers": (1, pa.array([[[1, 2]], [[3, 4], [5, None]]], pa.list_(pa.list_(pa.int32(), 2)))),
    "a slice": (1, pa.array([None, None, [1], [None]], pa.list_(pa.int32()))[2:]),
    "a slice of numbers": (1, pa.array([None, 1, None])[1:]),
    "many": (0, pa.nulls(3, pa.int32())),
    "chunks": (3, pa.chunked_array([[1, 2], [], [3, None]])),
    "chunks of lists": (2, pa.chunked_array([[[1]], [[2], [3, None]]])),
    "dictionary": (1, pa.array(["a", None]).dictionary_encode()),
    "in the dictionary": (0, pa.DictionaryArray.from_arrays(pa.array([1, 0]), pa.array([1, None]))),
    "in lists of dictionaries": (
        1,
        pa.ListArray.from_arrays([0, 1, 3], pa.array(["a", "b", None]).dictionary_encode()),
    ),
    "runs": (3, pa.RunEndEncodedArray.from_arrays([2, 3, 5], pa.array([5, 6, None]))),
    "a table": (2, pa.table({"x": lists_with_a_null()})),
    "rows of a struct": (1, pa.array([{"x": [1]}, None], pa.struct([("x", pa.list_(pa.int32()))]))),
    "extension": (1, with_metadata(pa.array([1, None]), "their.own")),
}
NULLS = {name: found for name, found in NULLS.items() if found}


@pytest.mark.parametrize(("position", "array"), NULLS.values(), ids=NULLS)
def test_nulls_are_errors_that_name_the_element(position, array):
    with pytest.raises(TypeError, match="null") as caught:
        from_arrow(array)
    text = str(caught.value)
    assert str(position) in text
    assert "fill" in text
    assert "drop" in text


@pytest.mark.parametrize(
    ("array", "expected"),
    [
        (pa.array([None, 1, 2, None])[1:3], [1, 2]),
        (pa.array([True, None])[:1], [True]),
        (pa.array(["a", None])[:1], ["a"]),
        (lists_with_a_null()[:2], [[1, 2], []]),
        (lists_with_a_null()[3:], [[3]]),
        (lists_with_a_null()[2:2], []),
        (lists_with_a_null(pa.large_list)[3:], [[3]]),
        (masked()[:2], [[1, 2], []]),
        (masked()[3:], [[3]]),
        (masked([1, 2, None, None, 3])[:2], [[1, 2], []]),
        (masked([1, 2, None, None, 3])[3:], [[3]]),
        (pa.ListArray.from_arrays(pa.array([2, 4, 6], pa.int32()), with_hidden_nulls()), [[1, 2], [3, 4]]),
        (pa.ListArray.from_arrays(pa.array([3, 3, 4], pa.int32()), with_hidden_nulls()), [[], [2]]),
        (pa.FixedSizeListArray.from_arrays(with_hidden_nulls()[2:6], 2), [[1, 2], [3, 4]]),
        (pa.FixedSizeListArray.from_arrays(with_hidden_nulls()[:6], 2)[1:], [[1, 2], [3, 4]]),
        (fixed([[1, 2], None, [3, 4]])[2:], [[3, 4]]),
        (pa.chunked_array([[1, None], [2]])[2:], [2]),
        (pa.table({"x": lists_with_a_null()})[:2], [[1, 2], []]),
        (pa.array([None, {"x": [1]}], pa.struct([("x", pa.list_(pa.int32()))]))[1:], [[1]]),
        (pa.array(["a", None]).dictionary_encode()[:1], ["a"]),
        (pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([1, None])), [1, 1]),
        (pa.RunEndEncodedArray.from_arrays([2, 3, 5], pa.array([5, 6, None]))[:3], [5, 5, 6]),
    ],
)
def test_nulls_that_nobody_sees(array, expected):
    seq = from_arrow(array)
    assert [one.tolist() for one in seq] == expected
    seq._check()


def test_a_null_row_that_no_list_sees():
    rows = pa.array([None, [1, 2], [3, 4], None], pa.list_(pa.int32(), 2))
    array = pa.ListArray.from_arrays(pa.array([1, 2, 3], pa.int32()), rows)
    assert [one.tolist() for one in from_arrow(array)] == [[[1, 2]], [[3, 4]]]
    inner = pa.array([None, [1, 2], [3, 4], None], pa.list_(pa.int32()))
    array = pa.ListArray.from_arrays(pa.array([1, 2, 3], pa.int32()), inner)
    assert [one.tolist() for one in from_arrow(array)] == [[[1, 2]], [[3, 4]]]


def test_a_type_of_nulls():
    for array in (
        pa.nulls(2),
        pa.nulls(0),
        pa.array([[None], []]),
        pa.array([[], []]),
        pa.chunked_array([], pa.null()),
    ):
        with pytest.raises(TypeError, match="null"):
            from_arrow(array)
