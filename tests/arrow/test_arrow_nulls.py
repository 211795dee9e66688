"""Nulls: those that an element can see are errors that name it, all others are none."""

import re

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


REMEDIES = {  # arrays with nulls within lists, and what is in place of them if one does as the message says
    "lists": (pa.array([[0], [1, None], [2]])[1:], 0),
    "long lists of bools": (pa.array([[True, None], []], pa.large_list(pa.bool_())), False),
    "lists of one length": (pa.array([[1, 2], [None, 3]], pa.list_(pa.int8(), 2))[1:], 0),
    "texts": (pa.array([["a", None]]), ""),
    "lists of lists": (pa.array([[[1, None]], [[2, 3], [4, 5]]]), 0),
}
if hasattr(pa, "list_view"):
    REMEDIES["list views"] = (pa.array([[0], [1, None], [2, 3], [4]], pa.list_view(pa.int64()))[1:], 0)


def refused(array):
    with pytest.raises(TypeError, match="fill or drop") as caught:
        from_arrow(array)
    return str(caught.value)


@pytest.mark.parametrize(("array", "filling"), REMEDIES.values(), ids=REMEDIES)
@pytest.mark.parametrize("is_table", [False, True])
def test_the_remedy_works_as_it_is_written(array, filling, is_table):
    text = refused(pa.table({"x": array}) if is_table else array)
    call = re.search(r"(pyarrow|awkward)\..*\)", text)[0]
    if "awkward" in call:
        awkward = pytest.importorskip("awkward")
        call = f"awkward.to_arrow({call}, extensionarray=False)".replace("0)", f"{filling!r})")
        filled = eval(call, {"awkward": awkward, "a": array})
    else:
        filled = eval(call, {"pyarrow": pa, "a": array})
    values = str(array.to_pylist()).replace("None", repr(filling))
    assert str(from_arrow(filled).tolist()) == values


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
