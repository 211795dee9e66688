"""Nulls: those that an element can see are errors that name it, all others are none."""

import numpy as np
import pytest

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import with_metadata  # noqa: E402

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


NULLS = {  # with the position of the first element that sees one
    "masked lists": (2, masked()),
    "fixed sizes": (1, fixed([[1, 2], None, [3, 4]])),
    "in rows": (1, pa.array([[[1, 2]], [[3, 4], None]], pa.list_(pa.list_(pa.int32(), 2)))),
    "in rows of lists": (1, pa.array([[[1, 2]], [[3, 4], None]], pa.list_(pa.list_(pa.int32())))),
    "many": (0, pa.nulls(3, pa.int32())),
    "a table": (2, pa.table({"x": lists_with_a_null()})),
    "rows of a struct": (1, pa.array([{"x": [1]}, None], pa.struct([("x", pa.list_(pa.int32()))]))),
    "extension": (1, with_metadata(pa.array([1, None]), "their.own")),
}


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
        (lists_with_a_null()[3:], [[3]]),
        (masked()[:2], [[1, 2], []]),
        (masked()[3:], [[3]]),
        (masked([1, 2, None, None, 3])[:2], [[1, 2], []]),
        (masked([1, 2, None, None, 3])[3:], [[3]]),
        (fixed([[1, 2], None, [3, 4]])[2:], [[3, 4]]),
        (pa.array([None, {"x": [1]}], pa.struct([("x", pa.list_(pa.int32()))]))[1:], [[1]]),
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
