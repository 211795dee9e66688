"""Others read what is saved, and what they write is loaded: pyarrow, Polars, DuckDB, pandas."""

import numpy as np
import pytest
from support.saved import (
    FILE_NAMES,
    address,
    lies_in,
    needs_proc,
    pa,
    ragged,
    saved,
    write_column,
    write_table,
)
from support.strategies import assert_holds, dtype_of, filled
from test_files import SHAPES, tensors

import seqcore as sq
from seqcore import TensorSequence, split_to_sequence

pytestmark = pytest.mark.mostly_slow(3)

pytest.importorskip("pyarrow", "18", reason="its bools of bytes came with 18")
pytest.importorskip("pyarrow.feather")

ARROW = {"string": pa.large_string(), "float16": pa.float16(), "bool": pa.bool8()}


def arrow_type(name):
    return ARROW.get(name) or pa.from_numpy_dtype(dtype_of(name))


def read(path):
    """The one column of a file, as pyarrow reads it."""
    with pa.memory_map(str(path)) as source:
        table = pa.ipc.open_file(source).read_all()
    table.validate(full=True)
    assert table.column_names == ["tensors"]
    return table["tensors"]


def is_variable(shapes):
    return len({shape[1:] for shape in shapes}) > 1


# --- pyarrow ---


@pytest.mark.parametrize("shapes", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("name", FILE_NAMES)
def test_pyarrow_reads_every_type_and_shape(path, name, shapes):
    arrays = tensors(name, shapes)
    sq.save(path, arrays)
    column = read(path)
    assert column.null_count == 0
    if not is_variable(shapes):
        assert column.to_pylist() == [array.tolist() for array in arrays]
        return
    for found, array in zip(column.to_pylist(), arrays, strict=True):
        assert found["data"] == array.ravel().tolist()
        assert found["shape"] == list(array.shape)


@pytest.mark.parametrize("name", FILE_NAMES)
def test_types_are_the_documented_ones(path, name):
    item = arrow_type(name)
    sq.save(path, [filled(name, ()), filled(name, ())])
    assert read(path).type == item
    for seq in (TensorSequence([filled(name, 3), filled(name, 0)]), TensorSequence(dtype=name)):
        sq.save(path, seq)
        assert read(path).type == pa.large_list(item)
    sq.save(path, [filled(name, (2, 3)), filled(name, (1, 3))])
    assert read(path).type == pa.large_list(pa.list_(item, 3))
    sq.save(path, [filled(name, (2, 3, 4)), filled(name, (1, 3, 4))])
    assert read(path).type == pa.large_list(pa.list_(pa.list_(item, 4), 3))


@pytest.mark.parametrize("name", [name for name in FILE_NAMES if name not in ("bool", "string")])
def test_other_extents_are_variable_shape_tensors(path, name):
    arrays = [filled(name, (2, 3)), filled(name, (2, 4))]
    sq.save(path, arrays)
    with pa.memory_map(str(path)) as source:
        field = pa.ipc.open_file(source).schema.field(0)
    kind = field.type
    if isinstance(kind, pa.BaseExtensionType):
        assert kind.extension_name == "arrow.variable_shape_tensor"
        kind = kind.storage_type
    else:  # a pyarrow that doesn't know it
        assert field.metadata[b"ARROW:extension:name"] == b"arrow.variable_shape_tensor"
    assert [kind.field(i).name for i in range(2)] == ["data", "shape"]
    assert kind.field(0).type.value_type == arrow_type(name)
    assert kind.field(1).type == pa.list_(pa.int32(), 2)


@needs_proc
@pytest.mark.parametrize("chunks", [None, 1, 2])
@pytest.mark.parametrize("compression", [None, "lz4", "zstd"])
def test_pyarrows_files(path, chunks, compression):
    lists = [[1.5, 2], [], [3], [4, 5, 6], []]
    arrays = [np.array(numbers, np.float32) for numbers in lists]
    for kind in (pa.list_, pa.large_list, pa.list_view, pa.large_list_view):
        column = pa.array(lists, kind(pa.float32()))
        write_column(path, column, max_chunksize=chunks, compression=compression)
        back = sq.load(path)
        assert_holds(back, arrays)
        if compression is None:
            assert all(lies_in(element, path) for element in back if len(element))
        write_column(path, column[1:4], max_chunksize=chunks, compression=compression)
        assert_holds(sq.load(path), arrays[1:4])


def texts(*values):
    return [np.array(value, object) for value in values]


ONES = np.arange(12, dtype=np.int32)
ROWS = pa.FixedSizeListArray.from_arrays(pa.array(ONES), 3)
IMAGES = ONES.reshape(2, 3, 2)
TURNED = pa.fixed_shape_tensor(pa.int32(), (2, 3), permutation=(1, 0))
RUNS = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array([1.5, 2.5]))

# Arrays of other types than ours, and what they hold.
COLUMNS = {
    "numbers": (pa.array(ONES), ONES),
    "bits": (pa.array([True, False, True]), [True, False, True]),
    "lists of bits": (pa.array([[True, False], []]), [[True, False], np.array([], bool)]),
    "texts": (pa.array(["a", "é"]), texts("a", "é")),
    "views of texts": (pa.array(["a" * 20, "é"], pa.string_view()), texts("a" * 20, "é")),
    "lists of texts": (pa.array([["a"], []]), texts(["a"], [])),
    "fixed sizes": (ROWS, ONES.reshape(4, 3)),
    "fixed in fixed": (pa.FixedSizeListArray.from_arrays(ROWS, 2), ONES.reshape(2, 2, 3)),
    "fixed in lists": (pa.ListArray.from_arrays([0, 1, 1, 4], ROWS), np.split(ONES.reshape(4, 3), [1, 1])),
    "lists in lists": (pa.array([[[1, 2], [3, 4]], [[5, 6]]]), [[[1, 2], [3, 4]], [[5, 6]]]),
    "tensors": (pa.FixedShapeTensorArray.from_numpy_ndarray(IMAGES), IMAGES),
    "turned tensors": (
        pa.ExtensionArray.from_storage(TURNED, pa.FixedSizeListArray.from_arrays(pa.array(ONES), 6)),
        ONES.reshape(2, 2, 3).transpose(0, 2, 1),
    ),
    "dictionaries": (pa.array(["x", "y", "x"]).dictionary_encode(), texts(*"xyx")),
    "runs": (RUNS, [1.5, 1.5, 2.5]),
    "bytes of bools": (
        pa.ExtensionArray.from_storage(pa.bool8(), pa.array([0, 1, 2, -1], pa.int8())),
        [False, True, True, True],
    ),
    "no lists": (pa.array([], pa.list_(pa.int8())), []),
    "structs of one": (pa.StructArray.from_arrays([pa.array([[1, 2], [3]])], ["a"]), [[1, 2], [3]]),
}


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize(("column", "arrays"), COLUMNS.values(), ids=COLUMNS)
def test_pyarrows_other_types(path, column, arrays, compression):
    arrays = [np.asarray(array) for array in arrays]
    write_column(path, column, compression=compression)
    assert_holds(sq.load(path), arrays)
    write_table(path, pa.table({"t": pa.chunked_array([column[:1], column[:0], column[1:]])}))
    assert_holds(sq.load(path), arrays)


@pytest.mark.parametrize(
    ("column", "match"),
    [
        (pa.array([[1], None, [2]]), r"null"),
        (pa.array([[1], [None, 2]]), r"null"),
        (pa.array([1, None]), r"null"),
        (pa.array([1, 2], pa.timestamp("s")), r"timestamp"),
        (pa.array([[1]], pa.list_(pa.date32())), r"date"),
        (pa.array([b"a"]), r"binary"),
        (pa.nulls(2), r"null"),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_what_is_no_tensor_is_named(path, column, match):
    """A TypeError from `from_arrow`; of a file it may be a ValueError too, which names the file."""
    write_column(path, column)
    with pytest.raises((TypeError, ValueError), match=match) as caught:
        sq.load(path)
    assert str(path) in str(caught.value)


def test_lists_of_several_lengths_in_an_element(path):
    write_column(path, pa.array([[[1, 2]], [[1], [2, 3]]]))
    with pytest.raises(ValueError, match=r"\b1\b"):
        sq.load(path)


def test_values_in_one_batch_are_one_array(path):
    back = saved(path, split_to_sequence(filled("float32", (100, 8)), keepdims=0))
    assert address(back.values()) == address(back[0])


# --- Polars, DuckDB, pandas ---


@pytest.fixture
def polars():
    return pytest.importorskip("polars")


def lists_of(name, shapes):
    """What Polars has for the elements; it knows Arrow's bool8 as an extension of int8."""
    return [(a.astype("int8") if name == "bool" else a).tolist() for a in tensors(name, shapes)]


@pytest.mark.parametrize("shapes", [[(), ()], [(3,), (0,), (2,)], [(2, 3), (1, 3)], [(1, 3, 2)]])
@pytest.mark.parametrize("name", FILE_NAMES)
def test_polars_reads(polars, path, name, shapes):
    sq.save(path, tensors(name, shapes))
    for frame in (polars.read_ipc(path), polars.scan_ipc(path).collect()):
        assert frame.columns == ["tensors"]
        assert frame["tensors"].to_list() == lists_of(name, shapes)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4", "zstd"])
def test_polars_files(polars, path, compression):
    frame = polars.DataFrame({"a": [[1.5, 2], [], [3]], "b": ["x" * 20, "", "é"], "c": [True, False, True]})
    frame.write_ipc(path, compression=compression)
    assert_holds(sq.load(path, "a"), [np.array([1.5, 2]), np.array([]), np.array([3.0])])
    assert_holds(sq.load(path, "b"), texts("x" * 20, "", "é"))
    assert_holds(sq.load(path, "c"), [np.array(bit) for bit in (True, False, True)])
    fixed = polars.DataFrame({"d": polars.Series([[1, 2], [3, 4]], dtype=polars.Array(polars.Int16, 2))})
    fixed.write_ipc(path, compression=compression)
    assert_holds(sq.load(path), [np.int16([1, 2]), np.int16([3, 4])])


@pytest.mark.mostly_slow(5)
@pytest.mark.parametrize("name", [name for name in FILE_NAMES if name != "float16"])
def test_duckdb_reads(path, name):
    duckdb = pytest.importorskip("duckdb")
    for shapes in ([(), ()], [(3,), (0,), (2,)], [(2, 3), (1, 3)]):
        sq.save(path, tensors(name, shapes))
        with duckdb.connect() as connection, pa.memory_map(str(path)) as source:
            connection.register("saved", pa.ipc.open_file(source).read_all())
            found = [row for (row,) in connection.sql("select tensors from saved").fetchall()]
            connection.unregister("saved")
        assert [np.array(row).tolist() for row in found] == [a.tolist() for a in tensors(name, shapes)]


def test_pandas_files(path):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame({"a": [np.arange(3.0), np.arange(2.0)], "b": [1, 2]}).to_feather(path)
    assert_holds(sq.load(path, "a"), [np.arange(3.0), np.arange(2.0)])
    assert_holds(sq.load(path, "b"), [np.array(1), np.array(2)])
    sq.save(path, ragged([2, 1]))
    assert [list(row) for row in pandas.read_feather(path)["tensors"]] == [[0, 1], [2]]
