"""Other consumers and producers of Arrow: Parquet and IPC, Awkward, nanoarrow, and arro3, in Rust."""

import io

import numpy as np
import pytest
from support.strategies import assert_holds, filled
from test_arrow_tables import all_names, from_arrow, kinds, lists_of, some

from seqcore import TensorSequence, split_to_sequence

pytestmark = pytest.mark.mostly_slow(3)

VARIABLE = [(2, 3), (1, 4), (0, 2), (3, 1)]


# --- files of pyarrow's ---


@pytest.fixture
def pa():
    return pytest.importorskip("pyarrow")


@pytest.mark.parametrize("store_schema", [True, False])
@kinds
@all_names
def test_parquet(pa, name, kind, store_schema):
    parquet = pytest.importorskip("pyarrow.parquet")
    seq = some(name)[kind]
    file = io.BytesIO()
    parquet.write_table(pa.table({"x": pa.array(seq)}), file, store_schema=store_schema)
    table = parquet.read_table(file)
    back = from_arrow(table)
    assert back.dtype == seq.dtype
    if store_schema or kind in ("rank 0", "rank 1", "a slice", "several memories", "no elements"):
        assert_holds(back, list(seq))
        assert from_arrow(table["x"]) == back
    else:  # lists of lists, which don't say how long the inner ones are where there are none
        assert lists_of(back) == lists_of(seq)
    assert from_arrow(parquet.ParquetFile(file).read_row_group(0)[:2]).shapes == back.shapes[:2]


@all_names
def test_parquet_in_row_groups(pa, name):
    parquet = pytest.importorskip("pyarrow.parquet")
    seq = split_to_sequence(filled(name, (500, 2)), 3)
    file = io.BytesIO()
    parquet.write_table(pa.table({"x": pa.chunked_array(seq)}), file, row_group_size=50)
    assert from_arrow(parquet.read_table(file)) == seq
    reader = parquet.ParquetFile(file)
    parts = [from_arrow(batch) for batch in reader.iter_batches(20)]
    assert sum(parts[1:], parts[0]) == seq


@pytest.mark.parametrize("compression", [None, "zstd"])
@pytest.mark.parametrize("write", ["new_file", "new_stream"])
@all_names
def test_ipc(pa, name, write, compression):
    sequences = [*some(name).values()]
    if name != "string":  # pyarrow takes no tensors of words
        sequences.append(TensorSequence([filled(name, shape) for shape in VARIABLE]))
    for seq in sequences:
        file, table = io.BytesIO(), pa.table({"x": pa.chunked_array(seq)})
        options = pa.ipc.IpcWriteOptions(compression=compression)
        with getattr(pa.ipc, write)(file, table.schema, options=options) as writer:
            writer.write_table(table)
        file.seek(0)
        reader = pa.ipc.open_file(file) if write == "new_file" else pa.ipc.open_stream(file)
        assert from_arrow(reader.read_all()) == seq
        if write == "new_stream":
            file.seek(0)
            assert from_arrow(pa.ipc.open_stream(file)) == seq


@pytest.mark.thread_unsafe
def test_a_mapped_file(pa, tmp_path):
    seq = split_to_sequence(filled("float32", (100, 4)), 3)
    table = pa.table({"x": pa.array(seq)})
    with pa.ipc.new_file(tmp_path / "rows.arrow", table.schema) as writer:
        writer.write_table(table)
    with pa.memory_map(str(tmp_path / "rows.arrow")) as file:
        pool = pa.total_allocated_bytes()
        back = from_arrow(pa.ipc.open_file(file).read_all())
        assert pa.total_allocated_bytes() - pool < seq.nbytes
        assert back == seq
        del back


# --- Awkward ---


@pytest.fixture
def ak():
    pytest.importorskip("pyarrow")
    return pytest.importorskip("awkward")


@pytest.mark.parametrize("extensions", [False, True])
@kinds
@all_names
def test_awkward_takes_sequences_and_gives_them_back(ak, pa, name, kind, extensions):
    seq = some(name)[kind]
    array = ak.from_arrow(pa.array(seq))
    assert ak.to_list(array) == lists_of(seq)
    back = ak.to_arrow(array, extensionarray=extensions)
    assert from_arrow(back) == seq
    assert from_arrow(pa.chunked_array([back, back])) == seq + seq


def test_awkward_works_on_them(ak, pa):
    array = ak.from_arrow(pa.array(split_to_sequence(np.arange(9), [2, 0, 3, 4])))
    assert ak.sum(array, axis=1).to_list() == [1, 0, 9, 26]
    for made in (array[::-1], array * 2, array[ak.num(array) > 2], array[[3, 0, 0]], array[:, :1]):
        for extensions in (False, True):
            back = from_arrow(ak.to_arrow(made, extensionarray=extensions))
            assert lists_of(back) == made.to_list()


def test_what_awkward_makes(ak):
    rows = ak.Array([[1.5, 2.5], [], [3.5]])
    for extensions in (False, True):
        back = from_arrow(ak.to_arrow(rows, extensionarray=extensions))
        assert_holds(back, [np.array([1.5, 2.5]), np.array([]), np.array([3.5])])
        words = from_arrow(ak.to_arrow(ak.Array([["to", "be"], []]), extensionarray=extensions))
        assert_holds(words, [np.array(["to", "be"], object), np.array([], object)])
        regular = ak.to_regular(ak.Array([[1, 2], [3, 4]]))
        assert_holds(
            from_arrow(ak.to_arrow(regular, extensionarray=extensions)), [np.array([1, 2]), np.array([3, 4])]
        )
        for other in (ak.Array([[1, None]]), ak.Array([[1], None])):
            with pytest.raises(TypeError, match="null"):
                from_arrow(ak.to_arrow(other, extensionarray=extensions))
        records = ak.Array([{"x": 1, "y": 2}])
        with pytest.raises(TypeError, match=r"x.*y"):
            from_arrow(ak.to_arrow(records, extensionarray=extensions))


# --- nanoarrow and arro3 ---


@kinds
@all_names
def test_nanoarrow(name, kind):
    na = pytest.importorskip("nanoarrow")
    seq = some(name)[kind]
    array = na.Array(seq)
    assert array.to_pylist() == lists_of(seq)
    assert from_arrow(array) == seq
    assert na.ArrayStream(seq).read_all().to_pylist() == lists_of(seq)
    assert from_arrow(na.ArrayStream(seq)) == seq
    assert na.c_array(seq).length == len(seq)
    for asked in (
        na.large_list(na.Schema(na.c_array(array).schema.child(0))) if kind == "rank 1" else na.Schema(seq),
    ):
        assert na.c_array(seq, asked).length == len(seq)


def test_nanoarrow_checks_everything():
    na = pytest.importorskip("nanoarrow")
    for seq in [*some("float32").values(), *some("string").values(), *some("bool").values()]:
        view = na.c_array(seq).view()
        assert view.null_count == 0
        assert view.offset == 0
    tensors = TensorSequence([filled("int8", shape) for shape in VARIABLE])
    schema = na.c_schema(tensors)
    assert schema.metadata[b"ARROW:extension:name"] == b"arrow.variable_shape_tensor"


@kinds
@all_names
def test_arro3(name, kind):
    arro3 = pytest.importorskip("arro3.core")
    seq = some(name)[kind]
    array = arro3.Array.from_arrow(seq)
    assert array.to_pylist() == lists_of(seq)
    assert from_arrow(array) == seq
    chunked = arro3.ChunkedArray.from_arrow(seq)
    assert from_arrow(chunked) == seq
    parts = [array.slice(len(seq) // 2)]
    if len(seq):
        back = split_to_sequence(np.arange(len(seq))[::-1].copy(), keepdims=0)
        parts.append(array.take(arro3.Array.from_arrow(back)))
    for part in parts:
        assert lists_of(from_arrow(part)) == part.to_pylist()
