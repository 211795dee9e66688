"""Arrow's two types of tensors, and extension types that are their storage."""

import itertools
import json
import pickle

import numpy as np
import pytest
from support.damaged_elements import assert_damaged
from support.strategies import address, assert_holds, filled

from seqcore import TensorSequence

pa = pytest.importorskip("pyarrow")

from support.arrow.values import ITEMS, SHARED_NAMES, with_metadata  # noqa: E402

from_arrow = TensorSequence.from_arrow
FIXED, VARIABLE = "arrow.fixed_shape_tensor", "arrow.variable_shape_tensor"
shared_names = pytest.mark.parametrize("name", SHARED_NAMES)


def fixed(name, shape, count, **parameters):
    """Tensors of one shape, made from values that count up: as pyarrow's type, and as a field's metadata."""
    source = filled(name, (count, *shape))
    size = int(np.prod(shape))
    storage = pa.FixedSizeListArray.from_arrays(pa.array(list(source.ravel()), ITEMS[name]), size)
    text = json.dumps({"shape": list(shape), **parameters})
    arrays = [with_metadata(storage, FIXED, text)]
    if name in SHARED_NAMES:
        kind = pa.fixed_shape_tensor(ITEMS[name], shape, **parameters)
        arrays.append(pa.ExtensionArray.from_storage(kind, storage))
    return source, arrays


# --- fixed shapes ---


@pytest.mark.parametrize("shape", [(4,), (2, 3), (2, 3, 2), (1, 1), (1,)])
@shared_names
def test_fixed_shapes(name, shape):
    source, arrays = fixed(name, shape, 4)
    for array in arrays:
        assert_holds(from_arrow(array), list(source))
    array = arrays[-1]
    start = array.storage.values.buffers()[1].address
    for part in (
        array,
        array[1:],
        array[1:3],
        pa.chunked_array([array[:1], array[1:]]),
        pa.table({"x": array}),
    ):
        seq = from_arrow(part)
        first = len(source) - len(seq) if len(seq) > 2 else 1
        assert_holds(seq, list(source[first : first + len(seq)]))
        step = int(np.prod(shape)) * source.itemsize
        assert [address(one) for one in seq] == [start + step * (first + i) for i in range(len(seq))]


@shared_names
def test_a_dimension_without_extent(name):
    for shape in [(0,), (2, 0), (0, 3)]:
        storage = pa.array([[], []], pa.list_(ITEMS[name], 0))
        array = with_metadata(storage, FIXED, json.dumps({"shape": list(shape)}))
        assert from_arrow(array).shapes == [shape, shape]


@pytest.mark.parametrize(
    ("shape", "permutation"),
    [
        *(((2, 3), list(order)) for order in itertools.permutations(range(2))),
        *(((2, 3, 4), list(order)) for order in itertools.permutations(range(3))),
        ((1, 2, 3, 2), [3, 0, 2, 1]),
    ],
)
@pytest.mark.parametrize("name", ["int8", "float64", "bool", "string"])
def test_permutations(name, shape, permutation):
    """The i-th axis of an element is the axis with the number permutation[i] of what is stored."""
    source, arrays = fixed(name, shape, 3, permutation=permutation)
    for array in arrays:
        seq = from_arrow(array)
        assert_holds(seq, list(source.transpose(0, *(axis + 1 for axis in permutation))))
    if name in SHARED_NAMES:
        assert [one.shape for one in seq] == [array[i].to_numpy().shape for i in range(3)]
        assert address(seq[1]) == array.storage.values.buffers()[1].address + source[0].nbytes
        assert_holds(from_arrow(array[1:]), list(seq[1:]))


MALFORMED = [
    *("", "{}", "[]", "null", "{", "5", '"shape"', "\xff", "{" * 99),
    *('{"shape": 6}', '{"shape": null}', '{"shape": [2, null]}', '{"shape": [2, 3.5]}'),
    *('{"shape": [2, 2]}', '{"shape": [-2, -3]}', '{"shape": ["2", "3"]}'),
    *('{"shape": [2, 3], "permutation": [0, 0]}', '{"shape": [2, 3], "permutation": [0]}', "[" * 100_000),
    *('{"shape": [2, 3], "permutation": [1, 2]}', '{"shape": [2, 3], "permutation": [-1, 0]}'),
    *('{"shape": [2, 3], "permutation": "10"}', '{"shape": [4294967296, 4294967296, 6]}'),
    *('{"shape": [18446744073709551617, 6]}', '{"shape": {"0": 6}}', '{"shape": []}'),
]


@pytest.mark.parametrize("text", MALFORMED, ids=lambda text: text[:30])
def test_malformed_metadata_of_fixed_shapes(text):
    storage = pa.array([[1, 2, 3, 4, 5, 6]], pa.list_(pa.int32(), 6))
    with pytest.raises((TypeError, ValueError, RecursionError)):
        from_arrow(with_metadata(storage, FIXED, text))


def test_tensors_of_another_storage():
    for storage in (pa.array([1, 2]), pa.array([[1, 2]]), pa.array([["a"] * 6]), pa.array([{"x": 1}])):
        for name in (FIXED, VARIABLE):
            with pytest.raises(ValueError, match=name):
                from_arrow(with_metadata(storage, name, '{"shape": [2, 3]}'))


@pytest.mark.parametrize("level", ["tensor", "number"])
def test_nulls_in_fixed_shapes(level):
    rows = [[1, 2], None if level == "tensor" else [3, None], [4, 5]]
    storage = pa.array(rows, pa.list_(pa.int32(), 2))
    array = pa.ExtensionArray.from_storage(pa.fixed_shape_tensor(pa.int32(), (2,)), storage)
    with pytest.raises(TypeError, match=r"\b1\b.*null|null.*\b1\b"):
        from_arrow(array)
    assert_holds(from_arrow(array[:1]), [np.array([1, 2], "int32")])
    assert_holds(from_arrow(array[2:]), [np.array([4, 5], "int32")])


# --- variable shapes ---


def variable(arrays, name, text="{}", outer=pa.list_, fields=("data", "shape")):
    """Tensors of variable shape, in C order."""
    rank = arrays[0].ndim
    kinds = {"data": outer(ITEMS[name]), "shape": pa.list_(pa.int32(), rank)}
    rows = [{"data": list(one.ravel()), "shape": list(one.shape)} for one in arrays]
    storage = pa.array(rows, pa.struct([(one, kinds[one]) for one in fields]))
    return with_metadata(storage, VARIABLE, text), storage


SHAPES = [[(2, 3), (1, 4), (0, 2), (3, 0)], [(3,), (0,)], [(2, 3, 4), (4, 3, 2)], [(2, 2), (2, 2)]]


@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("name", ITEMS)
def test_variable_shapes(name, shapes):
    arrays = [filled(name, shape, start=5 * i) for i, shape in enumerate(shapes)]
    given, storage = variable(arrays, name)
    seq = from_arrow(given)
    assert_holds(seq, arrays)
    for start in range(len(arrays)):
        part = with_metadata(storage[start:], VARIABLE, "{}")
        assert_holds(from_arrow(part), arrays[start:])
    if name in SHARED_NAMES:
        data = storage.field("data")
        start = data.values.buffers()[1].address
        ends = [start + one * arrays[0].itemsize for one in data.offsets.to_pylist()]
        assert [address(one) for one in seq if one.size] == [
            at for at, one in zip(ends, arrays, strict=False) if one.size
        ]


SAME = {
    "large lists": {"outer": pa.large_list},
    "fields in the other order": {"fields": ("shape", "data")},
    "names": {"text": '{"dim_names": ["a", "b"]}'},
    "no uniform shape": {"text": '{"uniform_shape": [null, null]}'},
    "no parameters": {"text": "{}"},
    "no text": {"text": ""},
    "no metadata": {"text": None},
}


@pytest.mark.parametrize("options", SAME.values(), ids=SAME)
def test_what_changes_no_variable_shape(options):
    arrays = [filled("int16", (2, 3)), filled("int16", (1, 4))]
    given, _ = variable(arrays, "int16", **options)
    assert_holds(from_arrow(given), arrays)


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
@pytest.mark.parametrize("name", ["int8", "float64", "bool", "string"])
def test_permutations_of_variable_shapes(name, order):
    """Shapes and data are those of what is stored, as Arrow says."""
    arrays = [filled(name, (2, 3, 4)), filled(name, (1, 2, 5)), filled(name, (2, 0, 1))]
    given, _ = variable(arrays, name, json.dumps({"permutation": list(order)}))
    seq, expected = from_arrow(given), [one.transpose(order) for one in arrays]
    assert_holds(seq, expected)
    assert_holds(pickle.loads(pickle.dumps(seq)), expected)


@pytest.mark.parametrize("order", [None, [1, 0]])
def test_uniform_shapes(order):
    arrays = [filled("float32", (n, 3)) for n in (2, 0, 4)]
    parameters = {"uniform_shape": [None, 3], **({"permutation": order} if order else {})}
    given, _ = variable(arrays, "float32", json.dumps(parameters))
    assert_holds(from_arrow(given), [one.T if order else one for one in arrays])


@pytest.mark.parametrize(
    "text",
    [
        *("[]", "null", "{", "5", "\xff", '{"permutation": 1}', '{"permutation": [0]}'),
        *('{"permutation": [0, 0]}', '{"permutation": [0, 2]}', '{"permutation": [-1, 0]}'),
        '{"permutation": [0, 1, 2]}',
    ],
)
def test_malformed_metadata_of_variable_shapes(text):
    _, storage = variable([filled("int16", (2, 3))], "int16")
    with pytest.raises((TypeError, ValueError)):
        from_arrow(with_metadata(storage, VARIABLE, text))


@pytest.mark.parametrize(
    "shape",
    [[2, 4], [-2, -3], [2, 2], [1, 0], [65536, 65536], [2**31 - 1, 2**31 - 1]],
)
def test_shapes_that_do_not_fit_their_data(shape):
    _, storage = variable([filled("int16", (2, 3))], "int16")
    shapes = pa.array([shape], pa.list_(pa.int32(), 2))
    odd = pa.StructArray.from_arrays([storage.field("data"), shapes], fields=list(storage.type))
    seq = from_arrow(with_metadata(odd, VARIABLE, "{}"))
    assert_damaged(seq, {0}, [None])


@pytest.mark.parametrize("level", ["tensor", "data", "shape", "number", "extent"])
def test_nulls_in_variable_shapes(level):
    row = {
        "tensor": None,
        "data": {"data": None, "shape": [1, 2]},
        "shape": {"data": [1, 2], "shape": None},
        "number": {"data": [1, None], "shape": [1, 2]},
        "extent": {"data": [1, 2], "shape": [None, 2]},
    }[level]
    _, storage = variable([filled("int16", (2, 1))] * 2, "int16")
    whole = {"data": [0, 1], "shape": [2, 1]}
    storage = pa.array([whole, row, whole], storage.type)
    with pytest.raises(TypeError, match=r"\b1\b.*null|null.*\b1\b"):
        from_arrow(with_metadata(storage, VARIABLE, "{}"))
    for part in (storage[:1], storage[2:]):
        assert_holds(from_arrow(with_metadata(part, VARIABLE, "{}")), [filled("int16", (2, 1))])


# --- other extension types ---


class Frames(pa.ExtensionType):
    def __init__(self, storage):
        super().__init__(storage, "tests.frames")

    def __arrow_ext_serialize__(self):
        return b"anything"

    @classmethod
    def __arrow_ext_deserialize__(cls, storage, serialized):
        return cls(storage)


@pytest.mark.parametrize(
    "storage",
    [pa.array([[1, 2], []]), pa.array([1.5]), pa.array([[1, 2]], pa.list_(pa.int8(), 2)), pa.array(["a"])],
)
def test_other_extensions_are_their_storage(storage):
    expected = from_arrow(storage)
    given = pa.ExtensionArray.from_storage(Frames(storage.type), storage)
    assert from_arrow(given) == expected
    assert from_arrow(pa.table({"x": given})) == expected
    assert from_arrow(with_metadata(storage, "tests.frames", "x")) == expected
    assert from_arrow(with_metadata(storage, "", None)) == expected
    nested = pa.ListArray.from_arrays([0, 1], given)
    assert from_arrow(nested)[0].tolist() == [expected[0].tolist()]


def test_extensions_of_bytes_stay_without_a_counterpart():
    if hasattr(pa, "uuid"):
        with pytest.raises(TypeError, match=r"binary|uuid"):
            from_arrow(pa.array([b"0" * 16], pa.uuid()))
    with pytest.raises(TypeError, match=r"binary|tests\.frames"):
        from_arrow(with_metadata(pa.array([b"a"]), "tests.frames"))
