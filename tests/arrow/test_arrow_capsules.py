"""What stands in the capsules of Arrow's C data interface: formats, buffers and values, by ctypes."""

import numpy as np
import pytest
from support.c_data import (
    FORMATS,
    NULLABLE,
    Array,
    ArrayStream,
    Chunks,
    Schema,
    children,
    decode,
    look,
    metadata_of,
    release,
    take,
    taken,
    view,
)
from support.strategies import LAYOUTS, dtype_of, filled, laid_out

from seqcore import TensorSequence, split_to_sequence

ARROW_NAMES = list(FORMATS)
SHARED_NAMES = [name for name in ARROW_NAMES if name not in ("bool", "string")]
SHAPES = {
    "rank 0": [(), ()],
    "rank 1": [(3,), (0,), (2,)],
    "rank 2": [(2, 3), (0, 3), (1, 3)],
    "rank 3": [(2, 3, 4), (1, 3, 4)],
    "rank 4": [(1, 2, 1, 3), (2, 2, 1, 3)],
    "nothing inside": [(2, 0), (0, 0)],
    "nothing further inside": [(2, 3, 0), (1, 3, 0)],
    "nothing in the middle": [(2, 0, 3)],
    "one": [(5,)],
}
VARIABLE = {
    "rank 2": [(2, 3), (1, 4), (0, 2), (3, 0)],
    "rank 3": [(2, 3, 4), (2, 4, 3), (1, 1, 1)],
}
BUFFERS = {"+s": 1, "+w": 1, "+l": 2, "+L": 2, "U": 3}


def tensors(name, shapes):
    return [filled(name, shape, start=7 * i) for i, shape in enumerate(shapes)]


def formats(schema):
    """A schema's format, with those of its children."""
    code = schema.format.decode()
    return (code, *map(formats, children(schema))) if schema.n_children else code


def assert_sound(schema, array):
    """What Arrow asks of both, and what is said of ours."""
    code = schema.format.decode()
    assert array.n_buffers == BUFFERS.get(code.split(":")[0], 2)
    assert array.n_children == schema.n_children
    assert (array.null_count, array.offset) == (0, 0)
    assert not array.dictionary
    assert not schema.dictionary
    assert schema.release
    assert array.release
    assert not array.buffers[0]  # no nulls, no bitmap
    if array.n_buffers == 3 or code in ("+l", "+L"):
        width = 4 if code == "+l" else 8
        assert array.buffers[1] % width == 0
    for one, items in zip(children(schema), children(array), strict=True):
        assert_sound(one, items)


def let_go(*structs):
    for one in structs:
        release(one)


@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("name", ARROW_NAMES)
def test_types_and_values(name, kind):
    shapes = SHAPES[kind]
    arrays = tensors(name, shapes)
    schema, array = taken(TensorSequence(arrays))
    expected = FORMATS[name]
    for extent in reversed(shapes[0][1:]):
        expected = (f"+w:{extent}", expected)
    assert formats(schema) == (("+L", expected) if shapes[0] else expected)
    assert array.length == len(arrays)
    assert_sound(schema, array)
    assert metadata_of(schema) == {}
    assert decode(schema, array) == [one.tolist() for one in arrays]
    let_go(schema, array)


@pytest.mark.parametrize("kind", VARIABLE)
@pytest.mark.parametrize("name", ARROW_NAMES)
def test_variable_shapes(name, kind):
    arrays = tensors(name, VARIABLE[kind])
    schema, array = taken(TensorSequence(arrays))
    rank = arrays[0].ndim
    assert formats(schema) == ("+s", ("+l", FORMATS[name]), (f"+w:{rank}", "i"))
    assert [one.name for one in children(schema)] == [b"data", b"shape"]
    metadata = metadata_of(schema)
    if metadata or name not in (
        "bool",
        "string",
    ):  # which pyarrow refuses in tensors: only what they are stored as
        assert metadata.pop(b"ARROW:extension:name") == b"arrow.variable_shape_tensor"
        assert metadata.pop(b"ARROW:extension:metadata", b"") in (b"", b"{}")
        assert metadata == {}
    assert_sound(schema, array)
    got = decode(schema, array)
    assert got == [(one.ravel().tolist(), list(one.shape)) for one in arrays]
    let_go(schema, array)


@pytest.mark.parametrize("name", ARROW_NAMES)
def test_no_elements(name):
    seq = TensorSequence(dtype="string" if name == "string" else name)
    schema, array = taken(seq)
    assert formats(schema) == ("+L", FORMATS[name])
    assert_sound(schema, array)
    assert decode(schema, array) == []
    let_go(schema, array)
    schema, array = taken(split_to_sequence(filled(name, (0, 3))))
    assert formats(schema) == ("+L", FORMATS[name])
    assert (array.length, decode(schema, array)) == (0, [])
    let_go(schema, array)


def names_and_flags(schema):
    return [
        *((one.name, one.flags) for one in children(schema)),
        *(pair for one in children(schema) for pair in names_and_flags(one)),
    ]


@pytest.mark.parametrize("shape", [(3,), (3, 2), (3, 2, 2)])
def test_children_are_called_item_and_may_be_null(shape):
    schema, array = taken(TensorSequence([filled("int8", shape)]))
    assert names_and_flags(schema) == [(b"item", NULLABLE)] * len(shape)
    let_go(schema, array)


def test_items_of_variable_shapes_may_be_null():
    schema, array = taken(TensorSequence(tensors("int8", VARIABLE["rank 2"])))
    for one in children(schema):
        assert names_and_flags(one) == [(b"item", NULLABLE)]
    let_go(schema, array)


@pytest.mark.parametrize("shapes", [*SHAPES.values(), *VARIABLE.values()], ids=str)
def test_the_three_methods_give_one_type(shapes):
    seq = TensorSequence(tensors("int16", shapes))
    alone = take(seq.__arrow_c_schema__(), Schema)
    schema, array = taken(seq)
    chunks = Chunks(seq.__arrow_c_stream__())
    streams = chunks.schema()
    for one in (schema, streams):
        assert formats(one) == formats(alone)
        assert names_and_flags(one) == names_and_flags(alone)
        assert metadata_of(one) == metadata_of(alone)
    let_go(alone, schema, array, streams)
    chunks.close()


def test_capsules():
    seq = TensorSequence(tensors("int16", [(3,)]))
    pair = seq.__arrow_c_array__()
    assert type(pair) is tuple
    assert len(pair) == 2
    assert look(pair[0], Schema).release
    assert look(pair[1], Array).release
    assert look(seq.__arrow_c_schema__(), Schema).release
    assert look(seq.__arrow_c_stream__(), ArrayStream).release
    assert seq.__arrow_c_array__(requested_schema=None) is not None
    assert seq.__arrow_c_stream__(requested_schema=None) is not None


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (2, 3, 2)], ids=str)
@pytest.mark.parametrize("name", ["bool", "int8", "float64", "string"])
def test_layouts(name, shape, layout):
    array = laid_out(filled(name, shape), layout)
    schema, exported = taken(TensorSequence([array, array]))
    assert decode(schema, exported) == [array.tolist()] * 2
    let_go(schema, exported)


def innermost(schema, array):
    while schema.n_children:
        schema, array = children(schema)[0], children(array)[0]
    return array


@pytest.mark.parametrize("name", SHARED_NAMES)
def test_a_split_is_given_without_a_copy(name):
    source = filled(name, (6, 2))
    schema, array = taken(split_to_sequence(source, [1, 0, 3, 2]))
    start, *_ = view(array.buffers[1], "i8", 1)
    first = innermost(schema, array).buffers[1] + start * 2 * source.itemsize
    assert first == source.ctypes.data
    let_go(schema, array)


@pytest.mark.parametrize("layout", ["strided", "reversed", "transposed", "unaligned"])
def test_copies_are_aligned(layout):
    """So that what is not as it should be goes to consumers who want it so."""
    source = laid_out(filled("float64", (4, 3)), layout)
    schema, array = taken(TensorSequence([source, filled("float64", (1, 3)), source]))
    assert innermost(schema, array).buffers[1] % 8 == 0
    let_go(schema, array)


@pytest.mark.parametrize("count", [1, 7, 8, 9, 63, 64, 65, 1000])
def test_bools_are_packed(count):
    flags = np.arange(count) % 3 == 0
    schema, array = taken(split_to_sequence(flags, 5))
    packed = view(innermost(schema, array).buffers[1], "u1", (count + 7) // 8)
    assert np.unpackbits(packed, bitorder="little", count=count).astype(bool).tolist() == flags.tolist()
    let_go(schema, array)


def test_strings_are_utf8():
    words = np.array(["", "aé", "\U0001f600", "a\0b", "x" * 1000], object)
    schema, array = taken(TensorSequence([words[:2], words[2:]]))
    text = children(array)[0]
    ends = view(text.buffers[1], "i8", 6)
    assert np.diff(ends).tolist() == [len(word.encode()) for word in words]
    assert decode(schema, array) == [words[:2].tolist(), words[2:].tolist()]
    let_go(schema, array)


def test_a_lone_surrogate_is_an_error():
    seq = TensorSequence([np.array(["\ud800"], object)])
    with pytest.raises(ValueError, match=r"surrogate|UTF-8|utf-8"):
        seq.__arrow_c_array__()


@pytest.mark.parametrize("name", ["complex64", "complex128", "bfloat16"])
@pytest.mark.parametrize("shapes", [[], *SHAPES.values(), *VARIABLE.values()], ids=str)
def test_types_that_arrow_has_not(name, shapes):
    seq = TensorSequence(tensors(name, shapes), dtype=dtype_of(name))
    for give in (seq.__arrow_c_schema__, seq.__arrow_c_array__, seq.__arrow_c_stream__):
        with pytest.raises(TypeError, match=name):
            give()


@pytest.mark.parametrize(
    "shapes", [[(2,), (), (3,)], [(), (1,)], [(2, 3), (2,)], [(1, 2, 3), (1, 2, 3), (2, 3)]], ids=str
)
def test_several_ranks_are_an_error_that_names_two(shapes):
    seq = TensorSequence(tensors("int8", shapes))
    for give in (seq.__arrow_c_schema__, seq.__arrow_c_array__, seq.__arrow_c_stream__):
        with pytest.raises(ValueError, match=r"\(.*\).*\(.*\)") as caught:
            give()
        odd = next(i for i, shape in enumerate(shapes) if len(shape) != len(shapes[0]))
        for shape in (shapes[0], shapes[odd]):
            assert str(shape) in str(caught.value)
        assert str(odd) in str(caught.value)
    seq._check()
