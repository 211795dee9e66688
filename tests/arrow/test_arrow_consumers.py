"""Sequences of each type, shape and layout, as each consumer of Arrow's data sees them: one oracle for all.

Consumers are ctypes, which read the structs themselves, and pyarrow, each by an array and by a stream. All
have to find the same type, and the elements.
"""

import numpy as np
import pytest
from support.arrow.c_data import (
    FORMATS,
    NULLABLE,
    Chunks,
    Schema,
    children,
    decode,
    metadata_of,
    release,
    take,
    taken,
)
from support.strategies import LAYOUTS, dtype_of, filled, laid_out

from seqcore import TensorSequence, split_to_sequence

try:
    import pyarrow as pa
    from support.arrow.values import array_of, assert_elements, sound, storage_of
except ImportError:
    pa = None

ARROW_NAMES = list(FORMATS)
SHAPES = [
    [(), ()],
    [(), (), ()],
    [(5,)],
    [(3,), (0,), (2,)],
    [(0,), (0,)],
    [(2, 3), (0, 3), (1, 3)],
    [(0, 3)],
    [(2, 0), (0, 0), (3, 0)],
    [(2, 3, 4), (1, 3, 4)],
    [(2, 0, 3), (1, 0, 3)],
    [(2, 3, 0), (1, 3, 0)],
    [(1, 2, 1, 3), (2, 2, 1, 3)],
]
VARIABLE = [
    [(2, 3), (1, 4), (0, 2), (3, 0)],
    [(2, 3, 4), (2, 4, 3), (1, 1, 1)],
    [(2, 3, 4), (2, 3, 5)],
    [(0, 3), (0, 4)],
    [(1, 0), (1, 2)],
]
BUFFERS = {"+s": 1, "+w": 1, "+l": 2, "+L": 2, "U": 3}
RANKS = [[(2,), (), (3,)], [(), (1,)], [(2, 3), (2,)], [(1,), (1,), (1, 1)], [(1, 2, 3), (1, 2, 3), (2, 3)]]


def tensors(name, shapes):
    return [filled(name, shape, start=7 * i) for i, shape in enumerate(shapes)]


def type_of(name, arrays):
    """The formats of the type that a sequence of these elements has, from the outermost on."""
    if len({one.shape[1:] for one in arrays}) > 1:
        return ("+s", ("+l", FORMATS[name]), (f"+w:{arrays[0].ndim}", "i"))
    kind = FORMATS[name]
    for extent in reversed(arrays[0].shape[1:] if arrays else ()):
        kind = (f"+w:{extent}", kind)
    return kind if arrays and not arrays[0].ndim else ("+L", kind)


def formats(schema):
    """A schema's format, with those of its children."""
    code = schema.format.decode()
    return (code, *map(formats, children(schema))) if schema.n_children else code


def names_and_flags(schema):
    return [
        *((one.name, one.flags) for one in children(schema)),
        *(pair for one in children(schema) for pair in names_and_flags(one)),
    ]


# -- the consumers ---------------------------------------------------------------------------------------


def described(schema):
    """What a schema says: formats, names, flags and metadata. It is released."""
    found = formats(schema), names_and_flags(schema), metadata_of(schema)
    release(schema)
    return found


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
        assert array.buffers[1] % (4 if code == "+l" else 8) == 0
    for one, items in zip(children(schema), children(array), strict=True):
        assert_sound(one, items)


def decoded(schema, array):
    """An array's elements as lists, beside their shapes where these vary."""
    assert_sound(schema, array)
    values = decode(schema, array)
    assert len(values) == array.length
    release(array)
    return list(values)


def lists_of(arrays):
    if len({one.shape[1:] for one in arrays}) > 1:
        return [(one.ravel().tolist(), list(one.shape)) for one in arrays]
    return [one.tolist() for one in arrays]


def by_array(seq, arrays):
    schema, array = taken(seq)
    assert decoded(schema, array) == lists_of(arrays)
    return described(schema)


def by_stream(seq, arrays):
    chunks, got = Chunks(seq.__arrow_c_stream__()), []
    schema = chunks.schema()
    while (array := chunks.next()).release:
        got += decoded(schema, array)
    assert got == lists_of(arrays)
    chunks.close()
    return described(schema)


def schema_of(kind):
    return described(take(kind.__arrow_c_schema__(), Schema))


def by_pyarrow(seq, arrays):
    made = sound(array_of(seq))
    storage_of(made).validate(full=True)
    assert_elements(made, arrays)
    return schema_of(pa.field("", made.type))


def by_pyarrows_stream(seq, arrays):
    made = pa.chunked_array(seq)
    for chunk in made.chunks:
        assert chunk.type == made.type
        sound(chunk)
    assert_elements(made, arrays)
    return schema_of(pa.field("", made.type))


def assert_given(seq, name, arrays):
    """Each consumer finds the type and the elements, and the method for the type alone gives that type."""
    kind, variable = type_of(name, arrays), len({one.shape[1:] for one in arrays}) > 1
    ours = schema_of(seq)
    assert ours[0] == kind
    assert {flags for item, flags in ours[1] if item == b"item"} <= {NULLABLE}
    assert by_array(seq, arrays) == by_stream(seq, arrays) == ours
    if variable:
        assert [one for one, _ in ours[1][:2]] == [b"data", b"shape"]
        if ours[2] or name not in ("bool", "string"):  # of which pyarrow takes no tensors: lists in a struct
            assert ours[2].pop(b"ARROW:extension:name") == b"arrow.variable_shape_tensor"
            assert ours[2].pop(b"ARROW:extension:metadata", b"") in (b"", b"{}")
            assert ours[2] == {}
    else:
        assert {one for one, _ in ours[1]} <= {b"item"}
        assert ours[2] == {}
    if pa is not None:
        assert by_pyarrow(seq, arrays)[0] == kind
        if not (variable and name == "string"):
            assert by_pyarrows_stream(seq, arrays)[0] == kind


# -- the cases -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shapes", [*SHAPES, *VARIABLE])
@pytest.mark.parametrize("name", ARROW_NAMES)
def test_types_and_values(name, shapes):
    arrays = tensors(name, shapes)
    assert_given(TensorSequence(arrays), name, arrays)


@pytest.mark.mostly_slow(7)
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("shape", [(), (4,), (3, 4), (2, 3, 2), (0, 3), (2, 0)])
@pytest.mark.parametrize("name", ARROW_NAMES)
def test_layouts(name, shape, layout):
    array = laid_out(filled(name, shape), layout)
    for arrays in ([array, array], [array]):
        assert_given(TensorSequence(arrays), name, arrays)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ["bool", "float32", "string"])
def test_layouts_of_variable_shapes(name, layout):
    arrays = [laid_out(filled(name, shape), layout) for shape in [(2, 3), (3, 2), (0, 4), (4, 1)]]
    assert_given(TensorSequence(arrays), name, arrays)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("axis", [0, 1, 2])
@pytest.mark.parametrize("name", ["bool", "int16", "float64", "string"])
def test_splits_along_each_axis(name, axis, layout):
    source = laid_out(filled(name, (4, 4, 4)), layout)
    for keepdims in (0, 1):
        seq = split_to_sequence(source, axis=axis, keepdims=keepdims)
        assert_given(seq, name, list(seq))


@pytest.mark.parametrize("name", ARROW_NAMES)
def test_no_elements(name):
    cleared = split_to_sequence(filled(name, (4, 3)))
    cleared.clear()
    for seq in (
        TensorSequence(dtype=name),
        cleared,
        split_to_sequence(filled(name, (0, 3))),
        TensorSequence([filled(name, ())])[:0],
    ):
        assert_given(seq, name, [])
        if pa is not None:
            assert pa.chunked_array(seq).num_chunks <= 1


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("name", ARROW_NAMES)
def test_elements_of_several_memories(name):
    parts = [split_to_sequence(filled(name, (n, 2), start=n), 3) for n in (9, 12, 6, 300)]
    seq = sum(parts[1:], parts[0])
    mixed = seq + [filled(name, (1, 2)), laid_out(filled(name, (4, 2)), "reversed")] + parts[0][::-1]
    for one in (seq, mixed, seq[::-1]):
        assert_given(one, name, list(one))


# -- what can't be given ---------------------------------------------------------------------------------


def methods(seq):
    yield from (seq.__arrow_c_schema__, seq.__arrow_c_array__, seq.__arrow_c_stream__)
    if pa is not None:
        yield from (lambda give=give: give(seq) for give in (pa.array, pa.chunked_array, pa.field))


@pytest.mark.parametrize("name", ["complex64", "complex128", "bfloat16"])
@pytest.mark.parametrize("shapes", [[], *SHAPES, *VARIABLE])
def test_types_that_arrow_does_not_have(name, shapes):
    for give in methods(TensorSequence(tensors(name, shapes), dtype=dtype_of(name))):
        with pytest.raises(TypeError, match=name):
            give()


@pytest.mark.parametrize("shapes", RANKS)
def test_several_ranks_are_an_error_that_names_two(shapes):
    seq = TensorSequence(tensors("int8", shapes))
    odd = next(i for i, shape in enumerate(shapes) if len(shape) != len(shapes[0]))
    for give in methods(seq):
        with pytest.raises(ValueError, match=r"\(.*\).*\(.*\)") as caught:
            give()
        for said in (shapes[0], shapes[odd], odd):
            assert str(said) in str(caught.value)
    seq._check()
    assert_given(seq[:odd], "int8", list(seq[:odd]))


@pytest.mark.parametrize("count", [0, 1, 7, 8, 9, 63, 64, 65, 1001])
def test_bools_of_any_number(count):
    flags = np.arange(count) % 3 == 0
    seq = TensorSequence([flags, ~flags, flags[:1]])
    assert_given(seq, "bool", list(seq))
