"""Schemas that a consumer asks for in vain, and what is no schema."""

import gc

import numpy as np
import pytest
from support.strategies import filled

from seqcore import TensorSequence, split_to_sequence

pa = pytest.importorskip("pyarrow")

from support.arrow.c_data import Array, Schema, decode, release, take  # noqa: E402
from support.arrow.producers import Node, capsule_of  # noqa: E402
from test_arrow_requested import VIEWS, address, asked, assert_elements  # noqa: E402


def test_offsets_that_do_not_fit():
    values = np.zeros(2**31 + 8, "int8")  # never written to: it takes no memory
    seq = TensorSequence.from_offsets(values, [0, 2**31 + 3, 2**31 + 8])
    kind = pa.list_(pa.int8())
    made = pa.Array._import_from_c_capsule(*seq.__arrow_c_array__(kind.__arrow_c_schema__()))
    assert made.type == pa.large_list(pa.int8())
    assert made.offsets.to_pylist() == [0, 2**31 + 3, 2**31 + 8]
    assert address(values) == made.values.buffers()[1].address
    made = pa.array(seq[1:], kind)
    assert made.type == kind
    assert made.to_pylist() == [[0] * 5]


@pytest.mark.skipif(not VIEWS, reason="this pyarrow has no list views")
def test_views_of_more_than_their_offsets_count():
    """The chosen elements are few, but views refer to the whole array."""
    values = np.zeros(2**31 + 8, "int8")  # never written to: it takes no memory
    for longest, kind in ((2**31 - 1, pa.list_view(pa.int8())), (2**31, pa.large_list(pa.int8()))):
        seq = TensorSequence.from_offsets(values[:longest], [0, 3, longest - 2, longest])[[2, 0]]
        made = asked(seq, pa.list_view(pa.int8()))
        assert made.type == kind
        assert made.to_pylist() == [[0, 0], [0, 0, 0]]


@pytest.mark.parametrize("kind", [pa.list_, *VIEWS[:1]])
def test_no_more_items_than_offsets_count(monkeypatch, kind):
    monkeypatch.setattr("seqcore._arrow.layouts._MOST", 10)
    for lengths in ([5, 5], [8, 1], [8, 1, 1], [5, 6], [2] * 6):
        seq = TensorSequence([filled("int8", length) for length in lengths])
        made = asked(seq, kind(pa.int8()))
        assert made.type == (kind if sum(lengths) <= 10 else pa.large_list)(pa.int8())
        assert_elements(made, list(seq))


def test_not_null_items():
    """Never a crash; and what says that it has no nulls has none."""
    kind = pa.list_(pa.field("item", pa.int32(), nullable=False))
    seq = TensorSequence([filled("int32", 3)])
    assert_elements(asked(seq, kind), list(seq))
    assert_elements(asked(seq, pa.list_(pa.field("element", pa.int32()))), list(seq))


def test_inner_lists_with_too_many_items_for_their_offsets(monkeypatch):
    monkeypatch.setattr("seqcore._arrow.items._MOST", 6)
    seq = TensorSequence([filled("int32", (2, 3))])
    kinds = [pa.large_list(kind(pa.int32())) for kind in (pa.list_, pa.large_list)]
    for kind in kinds:
        assert asked(seq, kind).to_pylist() == [seq[0].tolist()]
    monkeypatch.setattr("seqcore._arrow.items._MOST", 5)
    with pytest.raises(OverflowError, match="too many items for 32-bit offsets: request large_list"):
        seq.__arrow_c_array__(kinds[0].__arrow_c_schema__())
    assert asked(seq, kinds[1]).to_pylist() == [seq[0].tolist()]


# --- schemas by ctypes ---


@pytest.mark.parametrize(
    "code",
    [
        *(b"+l", b"+vl", b"+s", b"", b"x", b"\xff"),
        *(b"+w:", b"+w:-1", b"+w:10000000000", b"+w:99999999999999999999"),
    ],
)
def test_a_schema_is_released_once(code):
    seq = split_to_sequence(filled("int32", 5), [2, 3])
    for items in ([], [Node("i", 0, [None, None])], [Node("i", 0, [None, None]) for _ in range(2)]):
        node = Node(code, 0, [], items)
        if code.startswith(b"+w:"):  # no type of Arrow's
            with pytest.raises(ValueError, match="not a valid format of a fixed-size list"):
                seq.__arrow_c_array__(node.__arrow_c_schema__())
            assert node.settled()
            continue
        schema, array = (
            take(*one)
            for one in zip(seq.__arrow_c_array__(node.__arrow_c_schema__()), (Schema, Array), strict=True)
        )
        assert decode(schema, array) == [one.tolist() for one in seq]
        release(schema)
        release(array)
        assert node.settled()


def test_a_released_schema():
    seq = split_to_sequence(filled("int32", 5), [2, 3])
    node = Node("+l", 0, [], [Node("i", 0, [None, None])])
    capsule = node.__arrow_c_schema__()
    release(node.schema)
    with pytest.raises(ValueError, match="released"):
        seq.__arrow_c_array__(capsule)


@pytest.mark.parametrize(
    "value",
    [5, "schema", b"", object(), (), pa.int8(), pa.list_(pa.int32())],
)
def test_what_is_no_schema(value):
    seq = split_to_sequence(filled("int32", 5), [2, 3])
    for give in (seq.__arrow_c_array__, seq.__arrow_c_stream__):
        with pytest.raises(TypeError):
            give(value)
        with pytest.raises(TypeError):
            give(requested_schema=value)


def test_capsules_of_other_things():
    seq = split_to_sequence(filled("int32", 5), [2, 3])
    node = Node("+l", 0, [], [Node("i", 0, [None, None])])
    for capsule in (seq.__arrow_c_array__()[1], seq.__arrow_c_stream__(), capsule_of(node.schema, b"schema")):
        for give in (seq.__arrow_c_array__, seq.__arrow_c_stream__):
            with pytest.raises(TypeError):
                give(capsule)
    gc.collect()
    assert node.settled()
    assert_elements(pa.array(seq), list(seq))
