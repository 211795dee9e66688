"""Files of several columns: parts match by name and may differ in width, and nothing is read twice."""

import pickle
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from seqcore.core.arrow import array_capsule, stream_capsule
from support.arrow.producers import Node, capsule_of, numbers
from support.random_cases import run_seed
from support.saved import pa, write_table
from support.strategies import assert_holds

import seqcore as sq
from seqcore import Columns, TensorSequence
from seqcore._files import paths, reading
from seqcore.core.fields import Column, Field


def same(columns, expected):
    """Whether columns hold the columns of a dict of lists of arrays, whatever their order."""
    assert sorted(columns.names) == sorted(expected)
    for name, arrays in expected.items():
        assert_holds(columns.sequences[name], [*map(np.asarray, arrays)])
    return True


# --- parts, by name and of any width ---

ROWS = {
    "label": lambda draw, i: np.array(i, np.int64),
    "small": lambda draw, i: np.array(i % 100, np.int8),
    "score": lambda draw, i: np.array(i / 7, np.float64),
    "flag": lambda draw, i: np.array(i % 3 == 0),
    "box": lambda draw, i: np.full((2, 3), i, np.float32),
    "tokens": lambda draw, i: np.arange(i, i + draw(4), dtype=np.int64),
    "words": lambda draw, i: np.array([f"{i} {k}" for k in range(draw(3))], object),
    "image": lambda draw, i: np.full((draw(3), draw(3), 3), i, np.uint8),
    "mask": lambda draw, i: np.ones((draw(3), draw(3)), bool),
    "crop": lambda draw, i: np.full((draw(3), 2), i, np.int16),
}
ARRAYS = "label", "small", "score", "flag", "box"


def columns_of(rows, names):
    made = {}
    for name in names:
        arrays = [row[name] for row in rows]
        if name in ARRAYS:
            made[name] = np.array(arrays) if arrays else np.empty((0, *ONE[name].shape), ONE[name].dtype)
        else:
            made[name] = TensorSequence(arrays, ONE[name].dtype)
    return Columns(made)


ONE = {name: make(lambda most: 1, 0) for name, make in ROWS.items()}


@given(data=st.data())
def test_parts_give_what_one_part_gives(data, tmp_path_factory):
    """Any columns, in another order in each part, of any widths, with parts without rows."""
    names = data.draw(st.lists(st.sampled_from([*ROWS]), min_size=1, max_size=4, unique=True))
    sizes = data.draw(st.lists(st.integers(0, 3), min_size=1, max_size=5))
    width = st.integers(0, 3)
    rows = [
        {name: ROWS[name](lambda most: data.draw(width) % (most + 1), i) for name in names}
        for i in range(sum(sizes))
    ]
    parts, at = [], 0
    for size in sizes:
        parts.append(columns_of(rows[at : at + size], data.draw(st.permutations(names))))
        at += size
    path = tmp_path_factory.getbasetemp() / "parts.arrow"
    sq.save(path, iter(parts))
    loaded = Columns({names[0]: sq.load(path)}) if len(names) == 1 else sq.load(path)
    assert same(loaded, {name: [row[name] for row in rows] for name in names})
    if len(names) > 1 and rows:
        assert loaded.names == parts[0].names
        columns_of(rows, parts[0].names).save(path)
        whole = sq.load(path)
        assert whole == loaded
        assert pa.table(whole).schema == pa.table(loaded).schema


def test_columns_that_widen_one_after_the_other(path):
    """Whichever column does, the parts before are written again, whole."""
    rows = [
        {
            "label": np.array(i),
            "image": np.full((2, 1 + i // 20, 3), i, np.uint8),
            "mask": np.ones((2, 1 + i // 40), bool),
        }
        for i in range(60)
    ]
    sq.save(path, (columns_of(rows[start : start + 20], [*rows[0]]) for start in (0, 20, 40)))
    assert same(sq.load(path), {name: [row[name] for row in rows] for name in rows[0]})


def test_columns_in_another_order(path):
    sq.save(path, [Columns({"a": [1, 2], "b": [10, 20]}), Columns({"b": [30, 40], "a": [3, 4]})])
    assert same(sq.load(path), {"a": [1, 2, 3, 4], "b": [10, 20, 30, 40]})
    wide, narrow = np.arange(3, dtype=np.int64), np.arange(3, dtype=np.int8)
    sq.save(path, [Columns({"a": wide, "b": narrow}), Columns({"b": narrow, "a": wide})])
    assert same(sq.load(path), {"a": [*wide] * 2, "b": [*narrow] * 2})
    texts = np.array(["a", "b", "c"], object)
    with pytest.raises(
        TypeError, match="part 1 has the columns b int64, a string, expected a int64, b string"
    ):
        sq.save(path, [Columns({"a": wide, "b": texts}), Columns({"b": wide, "a": texts})])


def test_a_pickle_may_have_its_dicts_in_another_order(path):
    columns = Columns({"a": np.arange(3), "b": np.arange(3, dtype=np.int8)})
    restore, (kind, sequences, inner) = columns.__reduce__()
    other = restore(kind, sequences, dict(reversed(inner.items())))
    other.save(path)
    assert sq.load(path) == columns
    assert Columns.from_arrow(pa.table(other)) == columns


def test_parts_of_another_kind(path):
    rows, lists = np.zeros((2, 3)), TensorSequence([np.zeros(3), np.zeros(3)])
    for parts, error, message in (
        ([rows, lists], TypeError, "column 'a': expected an array as in the parts before, got a sequence"),
        ([lists, rows], TypeError, "column 'a': expected a sequence as in the parts before, got an array"),
        ([rows, np.zeros((2, 4))], ValueError, r"column 'a': its rows have shape \(4,\), expected \(3,\)"),
    ):
        with pytest.raises(error, match=f"part 1: {message}"):
            sq.save(path, [Columns({"a": part, "b": [1, 2]}) for part in parts])
        assert not path.exists()


def test_more_images_than_arrow_s_tensors_take_at_once(path, monkeypatch):
    """Batches end where offsets of 32 bits do, also in a file of columns."""
    monkeypatch.setattr("seqcore._arrow.layouts._MOST", 10)
    images = [np.full((h, w), h, np.uint8) for h, w in ((2, 3), (1, 4), (3, 3), (1, 1))]
    Columns({"image": images, "label": [0, 1, 2, 3]}).save(path)
    assert same(sq.load(path), {"image": images, "label": [0, 1, 2, 3]})
    assert pa.ipc.open_file(path).num_record_batches == 2


def test_files_in_another_order(tmp_path):
    Columns({"a": [1, 2], "b": [[1], [2, 2]]}).save(tmp_path / "1.arrow")
    Columns({"b": [[3]], "a": [3]}).save(tmp_path / "2.arrow")
    both = sq.load(tmp_path)
    assert both.names == ["a", "b"]
    assert same(both, {"a": [1, 2, 3], "b": [[1], [2, 2], [3]]})


# --- Columns.load, which gives Columns of one column too ---


@pytest.mark.parametrize("names", [["label"], ["box"], ["tokens"], ["words"], ["tokens", "label"]])
def test_columns_load_gives_what_was_saved(path, names):
    rows = [{name: ROWS[name](lambda most: 1, i) for name in names} for i in range(5)]
    saved = columns_of(rows, names)
    saved.save(path)
    loaded = Columns.load(path)
    assert loaded == saved
    assert pickle.loads(pickle.dumps(loaded[[3, 1]])) == saved[[3, 1]]
    assert Columns.load([path, path]) == saved + saved
    alone = sq.load(path)
    assert (alone == saved.sequences[names[0]]) if len(names) == 1 else (alone == saved)


def test_columns_load_of_what_has_no_columns(tmp_path):
    seq = TensorSequence([[1], [2, 3]])
    for name in ("seq.arrow", "pair.idx"):
        sq.save(tmp_path / name, seq)
        assert Columns.load(tmp_path / name) == Columns({"tensors": seq})
    Columns({"a": np.ones((2, 2), int)}).save(tmp_path / "narrow.arrow")
    Columns({"a": np.ones((1, 3), int)}).save(tmp_path / "wide.arrow")
    both = Columns.load([tmp_path / "narrow.arrow", tmp_path / "wide.arrow"])  # no array has such rows
    assert both["a"].shapes == [(2,), (2,), (3,)]
    with pytest.raises(FileNotFoundError):
        Columns.load(tmp_path / "none.arrow")


# --- no column is longer than its buffers ---


def some(count, dtype=np.int8):
    return Column(count, (None, np.zeros(count, dtype)))


BYTE = (Field("c"),)


@pytest.mark.parametrize(
    ("field", "column"),
    [
        (Field("l"), Column(3, (None, np.zeros(3, np.int8)))),
        (Field("l"), Column(1, (None, None))),
        (Field("l"), Column(1, (None,))),
        (Field("l"), Column(2, (None, np.zeros(4, np.int64)[::2]))),
        (Field("b"), Column(9, (None, np.zeros(1, np.uint8)))),
        (Field("U"), Column(1, (None, np.array([0, 5]), np.zeros(4, np.uint8)))),
        (Field("U"), Column(1, (None, np.array([0], np.int64), np.zeros(4, np.uint8)))),
        (Field("+L", "", BYTE), Column(1, (None, np.array([0, 5])), (some(4),))),
        (Field("+L", "", BYTE), Column(1, (None, np.array([0, 0])))),
        (Field("+w:3", "", BYTE), Column(2, (None,), (some(5),))),
        (Field("+vL", "", BYTE), Column(2, (None, np.zeros(2), np.zeros(1)), (some(0),))),
        (Field("+s", "", BYTE), Column(2, (None,), (some(1),))),
        (Field("+s", "", (Field("l"),)), Column(2, (None,), (some(2),))),
        (Field("tdD"), some(1, np.int32)),
    ],
)
def test_a_column_that_is_longer_than_its_buffers(field, column):
    """It can't be made by any call; if a layout had such a fault, no consumer would get it."""
    with pytest.raises(RuntimeError, match="doesn't fit its type"):
        array_capsule(field, column)

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return stream_capsule(field, iter([column]))

    with pytest.raises((pa.ArrowException, OSError, TypeError), match=r"doesn't fit its type|date32|import"):
        pa.chunked_array(Stream())


# --- each file is read once ---


@pytest.fixture
def work(monkeypatch):
    """How often a file was opened, its schema parsed, and how many columns the batches had that were read."""
    counts = {"opened": 0, "parsed": 0, "columns": 0}
    at, content = reading.File.at, reading._content
    monkeypatch.setattr(paths, "_OPEN", {})
    paths._FILES.clear()

    def counted_at(*arguments, **options):
        counts["opened"] += 1
        return at(*arguments, **options)

    def counted_content(pa, memory, options):
        counts["parsed"] += 1
        schema, batches = content(pa, memory, options)

        def read():
            for batch in batches:
                counts["columns"] += batch.num_columns
                yield batch

        return schema, read()

    monkeypatch.setattr(reading.File, "at", counted_at)
    monkeypatch.setattr(reading, "_content", counted_content)
    return counts


def done(work, what):
    for name in work:
        work[name] = 0
    result = what()
    return result, tuple(work.values())


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize("count", [3, 200])
def test_the_work_for_many_columns(path, work, count, compression):
    """It is linear in their number: 200 columns are not read 200 times."""
    given = {f"{i}": np.arange(30) if i % 2 else TensorSequence([[i] * 60] * 30) for i in range(count)}
    write_table(path, pa.table(Columns(given)), compression=compression)
    columns, (opened, parsed, read) = done(work, lambda: sq.load(path))
    assert (opened, parsed) == (1, 1)
    assert read == count
    assert columns == Columns(given)
    data = pickle.dumps(columns)
    back, (opened, parsed, read) = done(work, lambda: pickle.loads(data))
    assert back == columns
    assert opened == (compression is not None)  # what was not decoded is only mapped
    assert parsed <= (0 if compression is None else 10)
    assert read <= (0 if compression is None else 3 * count + 10)
    data = pickle.dumps(columns[::-3])
    _, (opened, parsed, read) = done(work, lambda: pickle.loads(data))
    assert opened <= 1
    assert parsed <= 10
    del back


def test_the_work_for_many_files(tmp_path, work):
    """More files than stay open, each of several columns."""
    count = paths._MOST * 2
    for i in range(count):
        Columns({f"{k}": [[i, k]] for k in range(5)}).save(tmp_path / f"{i:03}.arrow")
    columns, counts = done(work, lambda: sq.load(tmp_path))
    assert counts == (count, count, 5 * count)
    data = pickle.dumps(columns)
    back, counts = done(work, lambda: pickle.loads(data))
    assert counts == (0, 0, 0)
    assert back == columns


def test_batches_are_imported_once_for_all_columns(path, monkeypatch):
    table = pa.table({f"{k}": [[k], []] * 3 for k in range(20)})
    write_table(path, table, max_chunksize=1)
    read_stream, made = reading.read_stream, []
    monkeypatch.setattr(reading, "read_stream", lambda capsule: made.append(None) or read_stream(capsule))
    assert sq.load(path) == Columns.from_arrow(table)
    assert len(made) == 1


def test_a_file_is_not_kept_by_what_was_loaded(path, work):
    given = {f"{i}": ["x" * 99] * 30 for i in range(20)}
    write_table(path, pa.table(given), compression="lz4")
    data = [pickle.dumps(sq.load(path, column=name)) for name in given]
    assert len(paths._FILES) == 0
    order = random.Random(run_seed() or 0).sample(range(20), 20)
    back = {i: pickle.loads(data[i]) for i in order}
    assert all(back[i].tolist() == given[f"{i}"] for i in order)
    assert len(paths._FILES) == 1
    back.clear()
    paths._OPEN.clear()
    assert len(paths._FILES) == 0


def test_another_file_under_the_same_name(path, work):
    """What is known of a file isn't used for the one that has replaced it."""
    Columns({"a": [1, 2], "b": [[1], [2]]}).save(path)
    old = sq.load(path)
    back = pickle.loads(pickle.dumps(old))
    Columns({"b": [[3], [4, 4]], "a": [3, 4]}).save(path)
    new = sq.load(path)
    assert pickle.loads(pickle.dumps(new)) == new
    with pytest.raises(ValueError, match="has changed since"):
        pickle.loads(pickle.dumps(old))
    assert back == old


@pytest.mark.parametrize("compression", [None, "lz4"])
@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1] * 50, pa.date32()), "column 'bad': .*date32 is not supported"),
        (pa.array([[1], None] * 25), "column 'bad': element 1 is null"),
        (pa.array([{"x": 1, "y": 2}] * 50), "column 'bad': .*pass one of x, y"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_the_column_at_fault_is_named(path, compression, column, message, stream):
    table = pa.table({"a": [[1] * 50] * 50, "bad": column, "c": [1] * 50})
    if stream:
        with pa.ipc.new_stream(
            path, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)
        ) as out:
            out.write_table(table)
    else:
        write_table(path, table, compression=compression)
    with pytest.raises(TypeError, match=rf"tensors\.arrow can't be read: {message}"):
        sq.load(path)
    with pytest.raises(TypeError, match=rf"tensors\.arrow can't be read: {message}"):
        sq.load(path, column="bad")
    assert len(sq.load(path, column="a")) == 50


def test_a_type_that_pyarrow_has_no_class_for(path):
    months, good = (
        Node("tiM", 2, [None, np.array([1, 2], np.int32)], name=b"m"),
        numbers(np.arange(2), name=b"n"),
    )
    table = Node("+s", 2, [None], [good, months])
    schema, array = capsule_of(table.schema), capsule_of(table.array)
    batch = pa.RecordBatch._import_from_c_capsule(schema, array)
    with pa.ipc.new_stream(path, batch.schema) as out:
        out.write_batch(batch)
    with pytest.raises(TypeError, match=r"tensors\.arrow can't be read: .* pyarrow doesn't know, such as"):
        sq.load(path)
