"""Nulls: those that an element can see are errors that name it, all others are none."""

import pytest

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import with_metadata  # noqa: E402

from_arrow = TensorSequence.from_arrow
NULLS = {  # with the position of the first element that sees one; test_arrow_random.py draws others
    "in rows of lists": (1, pa.array([[[1, 2]], [[3, 4], None]], pa.list_(pa.list_(pa.int32())))),
    "many": (0, pa.nulls(3, pa.int32())),
    "a table": (2, pa.table({"x": [[1, 2], [], None, [3]]})),
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
