"""A schema that a consumer asks for: what is honored, what is not, and what is no schema."""

import numpy as np
import pytest
from support.strategies import address, filled

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import (  # noqa: E402
    ITEMS,
    SHARED_NAMES,
    addresses_of,
    assert_elements,
    sound,
)

VIEWS = [getattr(pa, name) for name in ("list_view", "large_list_view") if hasattr(pa, name)]
views = pytest.mark.parametrize("kind", VIEWS)


def asked(seq, kind):
    """What the sequence itself gives for a type, with no cast by the consumer; and what the stream gives."""
    stream = pa.ChunkedArray._import_from_c_capsule(seq.__arrow_c_stream__(kind.__arrow_c_schema__()))
    made = pa.Array._import_from_c_capsule(*seq.__arrow_c_array__(kind.__arrow_c_schema__()))
    assert stream.type == made.type
    for chunk in stream.chunks:
        sound(chunk)
    assert stream.length() == len(made)
    return sound(made)


def honored(seq, kind):
    made = asked(seq, kind)
    assert made.type == kind
    if not isinstance(kind, pa.BaseExtensionType):  # of these pa.array asks for the storage alone
        assert pa.array(seq, kind).type == kind
    assert pa.chunked_array(seq, kind).type == kind
    return made


def declined(seq, kind):
    """The default is given, and is whole."""
    default = pa.array(seq).type
    made = asked(seq, kind)
    assert made.type == default
    assert_elements(made, list(seq))


# --- list views in any order ---


@views
@pytest.mark.parametrize("name", SHARED_NAMES)
def test_selections_go_without_a_copy(name, kind):
    source = filled(name, (12, 2))
    rows = split_to_sequence(source, [3, 0, 5, 4])
    for seq in (
        rows[::-1],
        rows[[3, 0, 0, 2]],
        rows[[2]],
        rows[::2],
        rows[np.array([True, False, True, True])],
    ):
        made = honored(seq, kind(pa.list_(ITEMS[name], 2)))
        assert_elements(made, list(seq))
        got = [here for here, one in zip(addresses_of(made), seq, strict=True) if one.size]
        assert got == [address(one) for one in seq if one.size]


def test_tensors_of_one_shape_go_without_a_copy():
    source = filled("float32", (5, 2, 3))
    seq = split_to_sequence(source, keepdims=0)
    made = honored(seq, pa.fixed_shape_tensor(pa.float32(), (2, 3)))
    assert addresses_of(made) == [address(one) for one in seq]


@pytest.mark.skipif(not hasattr(pa, "bool8"), reason="this pyarrow has no bool8")
def test_bool8_goes_without_a_copy_and_back():
    source = filled("bool", 12)
    seq = split_to_sequence(source, [3, 0, 5, 4])
    made = honored(seq, pa.large_list(pa.bool8()))
    items = made.values.storage
    assert items.buffers()[1].address + items.offset == address(source)
    assert TensorSequence.from_arrow(made) == seq


ITEM_REQUESTS = {
    "int8": pa.int8(),
    "bool": pa.bool_(),
    "string": pa.string(),
    "large string": pa.large_string(),
    "string by position": pa.dictionary(pa.int8(), pa.string()),
    "runs": pa.run_end_encoded(pa.int16(), pa.int8()),
    "bytes": pa.binary(),
    "views of strings": pa.string_view(),
    "nothing": pa.null(),
    "dates": pa.date32(),
}
if hasattr(pa, "bool8"):
    ITEM_REQUESTS |= {"bool8": pa.bool8(), "id": pa.uuid()}


@pytest.mark.parametrize("inner", [pa.list_, pa.large_list, lambda one: pa.list_(one, 2)])
def test_names_of_items_at_each_level(inner):
    number = pa.field("number", pa.float32(), nullable=False)
    row = pa.field("row", inner(number), nullable=False)
    made = honored(TensorSequence([np.ones((3, 2), np.float32)]), pa.list_(row)).type.value_field
    for one, wanted in ((made, row), (made.type.value_field, number)):
        assert (one.name, one.nullable) == (wanted.name, wanted.nullable)


@pytest.mark.parametrize("name", ["int8", "bool", "string"])
def test_without_elements_any_nesting_of_the_items_is_honored(name):
    seq = TensorSequence(dtype=name)
    around = [pa.list_, pa.large_list, *VIEWS, lambda kind: pa.list_(kind, 2), lambda kind: pa.list_(kind, 0)]
    for item, kind in ITEM_REQUESTS.items():
        kinds = [kind, *(one(kind) for one in around), pa.list_(pa.list_(kind, 2))]
        if item in ("int8", "bool"):
            kinds.append(pa.fixed_shape_tensor(kind, (2, 3)))
        for one in kinds:
            is_of = item == name or (name, item) in (("bool", "bool8"), ("string", "large string"))
            made = asked(seq, one)
            assert made.type == (one if is_of else pa.array(seq).type)
            assert not len(made)
        for other in (pa.struct([("a", kind)]), pa.map_(pa.string(), kind)):
            declined(seq, other)
