"""What Arrow's arrays hold, as NumPy arrays, by pyarrow alone; and the types that sequences become."""

import math

import numpy as np
import pyarrow as pa
from support.strategies import same

ITEMS = {
    "bool": pa.bool_(),
    "int8": pa.int8(),
    "int16": pa.int16(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint8": pa.uint8(),
    "uint16": pa.uint16(),
    "uint32": pa.uint32(),
    "uint64": pa.uint64(),
    "float16": pa.float16(),
    "float32": pa.float32(),
    "float64": pa.float64(),
    "string": pa.large_string(),
}
ITEM_NAMES = list(ITEMS)
SHARED_NAMES = [name for name in ITEM_NAMES if name not in ("bool", "string")]


def is_fixed(kind):
    return pa.types.is_fixed_size_list(kind)


def is_list(kind):
    views = [getattr(pa.types, name, None) for name in ("is_list_view", "is_large_list_view")]
    return any(is_it(kind) for is_it in (pa.types.is_list, pa.types.is_large_list, *filter(None, views)))


def is_text(kind):
    views = getattr(pa.types, "is_string_view", None)
    return pa.types.is_string(kind) or pa.types.is_large_string(kind) or bool(views and views(kind))


def type_of(name, shapes):
    """The type of a sequence of these elements, where it is no variable shape."""
    kind = ITEMS[name]
    for extent in reversed(shapes[0][1:] if shapes else ()):
        kind = pa.list_(kind, extent)
    return kind if shapes and not shapes[0] else pa.large_list(kind)


def inner(kind):
    """The extents of nested fixed-size lists, and the type within."""
    extents = []
    while is_fixed(kind):
        extents.append(kind.list_size)
        kind = kind.value_type
    return extents, kind


def tensor_of(array):
    """An array whose fixed-size lists are axes."""
    extents, kind = inner(array.type)
    n = len(array)
    for _ in extents:
        array = array.flatten()
    flat = np.array(array.to_pylist(), object) if is_text(kind) else array.to_numpy(zero_copy_only=False)
    return flat.reshape(n, *extents)


def storage_of(array):
    return array.storage if isinstance(array, pa.ExtensionArray) else array


def array_of(seq):
    """What pyarrow makes of a sequence; where it has no such tensors, as of words, their storage."""
    words = seq.dtype == object and len({shape[1:] for shape in seq.shapes}) > 1
    if not words or not KNOWS_VARIABLE_SHAPES:
        return pa.array(seq)
    rank = len(seq.shapes[0])
    kind = pa.struct([("data", pa.list_(pa.large_string())), ("shape", pa.list_(pa.int32(), rank))])
    return pa.Array._import_from_c_capsule(kind.__arrow_c_schema__(), seq.__arrow_c_array__()[1])


def _knows_variable_shapes():
    storage = pa.struct([("data", pa.list_(pa.int8())), ("shape", pa.list_(pa.int32(), 1))])
    metadata = {"ARROW:extension:name": "arrow.variable_shape_tensor", "ARROW:extension:metadata": "{}"}
    capsule = pa.field("", storage, metadata=metadata).__arrow_c_schema__()
    return isinstance(pa.Field._import_from_c_capsule(capsule).type, pa.BaseExtensionType)


KNOWS_VARIABLE_SHAPES = _knows_variable_shapes()


def variable_of(array):
    """Tensors of variable shape, whether pyarrow knows that type or not; no permutation."""
    storage = storage_of(array)
    data, shapes = storage.field("data"), storage.field("shape").to_pylist()
    return [tensor_of(data[i].values).reshape(shape) for i, shape in enumerate(shapes)]


def elements_of(array):
    """The elements of a list array, plain array or tensor array."""
    if pa.types.is_struct(storage_of(array).type):
        return variable_of(array)
    array = storage_of(array)
    if is_list(array.type):
        return [tensor_of(array[i].values) for i in range(len(array))]
    rows = tensor_of(array)
    return [np.array(one, rows.dtype) for one in rows]


def assert_elements(array, expected):
    """The elements of an array, or of all chunks of one, are these."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    got = [one for chunk in chunks for one in elements_of(chunk)]
    assert len(got) == len(expected)
    for one, other in zip(got, expected, strict=True):
        assert same(one, other), (one, other)


def address_of(array):
    """Where the first number of an array is in memory, below its fixed-size lists."""
    start = array.offset
    while is_fixed(array.type):
        start *= array.type.list_size
        array = array.values
        start += array.offset
    return array.buffers()[1].address + start * _size(array.type)


def _size(kind):
    extents, kind = inner(kind)
    return math.prod(extents) * kind.bit_width // 8


def addresses_of(array):
    """Where each element's first number is in memory."""
    array = storage_of(array)
    if is_list(array.type):
        start, size = address_of(array.values), _size(array.values.type)
        first = array.offsets if not hasattr(array, "sizes") else array.offsets[: len(array)]
        return [start + size * one for one in first.to_pylist()[: len(array)]]
    start, size = address_of(array), _size(array.type)
    return [start + size * i for i in range(len(array))]


def sound(array):
    array.validate(full=True)
    assert array.null_count == 0
    return array


class Given:
    """An object with the methods alone, whatever pyarrow's class has besides."""

    def __init__(self, array, field=None):
        self.array, self.field = array, field

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = self.array.__arrow_c_array__()
        return (schema if self.field is None else self.field.__arrow_c_schema__()), array


def with_metadata(array, name, text=None):
    """An array whose field says that it is of an extension type, known to pyarrow or not."""
    metadata = {"ARROW:extension:name": name}
    if text is not None:
        metadata["ARROW:extension:metadata"] = text
    return Given(array, pa.field("", array.type, metadata=metadata))
