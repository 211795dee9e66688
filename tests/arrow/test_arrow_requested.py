"""A schema that a consumer asks for: what is honored, what is not, and what is no schema."""

import numpy as np
import pytest
from support.strategies import address, filled, same

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import (  # noqa: E402
    ITEM_NAMES,
    ITEMS,
    SHARED_NAMES,
    addresses_of,
    elements_of,
    sound,
    storage_of,
)

VIEWS = [getattr(pa, name) for name in ("list_view", "large_list_view") if hasattr(pa, name)]
views = pytest.mark.parametrize("kind", VIEWS)


def assert_holds_same(made, arrays):
    got = elements_of(made)
    assert len(got) == len(arrays)
    for one, array in zip(got, arrays, strict=True):
        assert same(one, array), (one, array)


def asked(seq, kind, arrays=None):
    """What the sequence itself gives for a type, with no cast by the consumer; and what the stream gives."""
    arrays = list(seq) if arrays is None else arrays
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
    assert_holds_same(made, list(seq))


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
        assert_holds_same(made, list(seq))
        got = [here for here, one in zip(addresses_of(made), seq, strict=True) if one.size]
        assert got == [address(one) for one in seq if one.size]


@views
def test_a_selection_of_overlapping_elements(kind):
    source = filled("int64", 12)
    seq = TensorSequence.from_arrow(pa.array(TensorSequence([source])))
    whole = TensorSequence([source, source[3:7], source[5:], source[:6]])
    assert_holds_same(honored(whole, kind(pa.int64())), list(whole))
    assert_holds_same(honored(seq, kind(pa.int64())), [source])


# --- lengths that are all one ---


@pytest.mark.parametrize("name", ITEM_NAMES)
def test_fixed_sizes(name):
    for seq in (split_to_sequence(filled(name, 12), 4), TensorSequence([filled(name, 4)] * 3)):
        assert_holds_same(honored(seq, pa.list_(ITEMS[name], 4)), list(seq))
        declined(seq, pa.list_(ITEMS[name], 3))
    seq = split_to_sequence(filled(name, (12, 3)), 4)
    made = honored(seq, pa.list_(pa.list_(ITEMS[name], 3), 4))
    assert_holds_same(made, list(seq))
    declined(split_to_sequence(filled(name, 12), 5), pa.list_(ITEMS[name], 5))
    assert_holds_same(
        honored(TensorSequence([filled(name, 0)] * 2), pa.list_(ITEMS[name], 0)), [filled(name, 0)] * 2
    )


def tensor_type(name, shape, **options):
    return pa.fixed_shape_tensor(ITEMS[name], shape, **options)


@pytest.mark.parametrize("name", SHARED_NAMES)
@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 2)])
def test_fixed_shape_tensors(name, shape):
    source = filled(name, (5, *shape))
    seq = split_to_sequence(source, keepdims=0)
    made = honored(seq, tensor_type(name, shape))
    assert same(made.to_numpy_ndarray(), source)
    assert addresses_of(made) == [address(one) for one in seq]
    for other in [(*shape[:-1], shape[-1] + 1), shape[::-1], shape[1:], (*shape, 1)]:
        if other and other != shape:
            declined(seq, tensor_type(name, other))
    mixed = TensorSequence([filled(name, shape), filled(name, (shape[0] + 1, *shape[1:]))])
    declined(mixed, tensor_type(name, shape))


def test_fixed_shape_tensors_with_a_permutation():
    """Either it is honored, and then rightly, or the default is given."""
    seq = split_to_sequence(filled("int32", (5, 2, 3)), keepdims=0)
    made = asked(seq, tensor_type("int32", (3, 2), permutation=[1, 0]))
    if isinstance(made.type, pa.FixedShapeTensorType):
        assert made.type.permutation == [1, 0]
        flat = np.asarray(made.storage.flatten()).reshape(5, 3, 2)
        assert same(flat.transpose(0, 2, 1), filled("int32", (5, 2, 3)))
    else:
        assert_holds_same(made, list(seq))


def variable_type(name, rank):
    storage = pa.struct([("data", pa.list_(ITEMS[name])), ("shape", pa.list_(pa.int32(), rank))])
    metadata = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": "{}"}
    return pa.field("", storage, metadata=metadata), storage


@pytest.mark.parametrize("name", [*SHARED_NAMES, "bool"])  # pyarrow takes no tensors of words
@pytest.mark.parametrize("shapes", [[(3,), (0,)], [(2, 3), (1, 3)], [(2, 3), (1, 4)], [(2, 3, 2)]])
def test_variable_shape_tensors(name, shapes):
    seq = TensorSequence([filled(name, shape) for shape in shapes])
    field, storage = variable_type(name, len(shapes[0]))
    made = sound(asked(seq, field))
    assert storage_of(made).type == storage
    assert_holds_same(made, list(seq))


@pytest.mark.skipif(not hasattr(pa, "bool8"), reason="this pyarrow has no bool8")
def test_bool8():
    source = filled("bool", 12)
    seq = split_to_sequence(source, [3, 0, 5, 4])
    made = honored(seq, pa.large_list(pa.bool8()))
    items = made.values.storage
    assert items.buffers()[1].address + items.offset == address(source)
    assert items.to_pylist() == source.astype(int).tolist()
    assert TensorSequence.from_arrow(made) == seq
    flags = split_to_sequence(source, keepdims=0)
    made = honored(flags, pa.bool8())
    assert made.storage.to_pylist() == source.astype(int).tolist()
    square = split_to_sequence(filled("bool", (6, 2)), 3)
    assert TensorSequence.from_arrow(honored(square, pa.list_(pa.list_(pa.bool8(), 2)))) == square
    declined(split_to_sequence(filled("int8", 4), 2), pa.large_list(pa.bool8()))


@pytest.mark.parametrize("lists", [pa.list_, pa.large_list])
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_lists_of_text(lists, kind):
    seq = TensorSequence([np.array(["a", "bc"], object), np.array([], object)])
    assert honored(seq, lists(kind)).to_pylist() == [["a", "bc"], []]


def test_positions_in_words_are_not_numbers():
    """A dictionary has the format of its positions."""
    declined(TensorSequence([filled("int8", 3)]), pa.list_(pa.dictionary(pa.int8(), pa.string())))


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
