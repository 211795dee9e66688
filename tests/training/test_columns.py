"""Columns: sequences and arrays under names; their selections, files, pickles and Arrow tables."""

import copy
import itertools
import pickle
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.races import beside
from support.results import same
from support.strategies import NAMES, filled

import seqcore as sq
from seqcore import Columns, TensorSequence

ARROW_NAMES = [name for name in NAMES if name not in ("complex64", "complex128", "bfloat16")]


def columns_of(n, name="int32"):
    """Columns of every kind."""
    lengths = [i % 4 for i in range(n)]
    return Columns(
        {
            "tokens": TensorSequence.from_lengths(filled(name, sum(lengths)), lengths),
            "rows": TensorSequence.from_lengths(filled(name, (sum(lengths), 2)), lengths),
            "label": filled(name, n),
            "box": filled(name, (n, 3)),
            "grid": filled(name, (n, 2, 2)),
            "odd, name": np.arange(n) % 2 == 0,
        }
    )


def test_what_it_is():
    columns = columns_of(5)
    assert len(columns) == 5
    assert columns.names == ["tokens", "rows", "label", "box", "grid", "odd, name"]
    assert columns.dtypes["odd, name"] == np.dtype(bool)
    assert columns.nbytes == sum(columns[name].nbytes for name in columns.names)
    assert "tokens" in columns
    assert "token" not in columns
    assert 0 not in columns
    assert type(columns["tokens"]) is TensorSequence
    assert columns["box"].shape == (5, 3)
    assert not columns["label"].flags.writeable
    assert dict(columns).keys() == set(columns.names)
    assert repr(columns) == (
        "<Columns of 5 rows: tokens int32 sequence, rows int32 sequence, label int32, box int32 (3,), "
        "grid int32 (2, 2), odd, name bool>"
    )
    assert repr(columns[:1]).startswith("<Columns of 1 row: ")
    with pytest.raises(TypeError, match="unhashable"):
        hash(columns)


def test_rows():
    columns = columns_of(5)
    row = columns[-1]
    assert list(row) == columns.names
    assert row["tokens"].tolist() == columns["tokens"][4].tolist()
    assert isinstance(row["label"], np.int32)
    assert row["box"].shape == (3,)
    assert [one["label"] for one in columns] == columns["label"].tolist()
    words = Columns({"word": ["a", "b"]})
    assert words[0] == {"word": "a"}


@given(st.integers(1, 12), st.data())
def test_selections(n, data):
    columns = columns_of(n)
    indices = data.draw(st.lists(st.integers(-n, n - 1)))
    mask = data.draw(st.lists(st.booleans(), min_size=n, max_size=n))
    bounds = st.none() | st.integers(-n - 2, n + 2)
    part = slice(data.draw(bounds), data.draw(bounds), data.draw(st.sampled_from([None, 1, 2, -1])))
    keys = [
        indices,
        np.array(indices, np.int16),
        mask,
        np.array(mask),
        part,
        TensorSequence(np.bool_(mask).tolist()),
    ]
    for key in keys:
        picked = columns[key]
        positions = np.arange(n)[np.bool_(mask) if isinstance(key, TensorSequence) else key]
        assert len(picked) == len(positions)
        for name in columns.names:
            column = columns[name]
            if isinstance(column, np.ndarray):
                assert np.array_equal(picked[name], column[positions])
                assert picked[name].shape == column[positions].shape
            else:
                assert picked[name] == column[positions]
    assert same(columns.__getitems__(indices), columns[indices])
    assert same(columns[::-1][indices], columns[np.arange(n)[::-1][indices]])


@pytest.mark.parametrize("key", [3, np.array(2), slice(1, 3), "box"])
def test_several_positions_are_no_single_one(key):
    with pytest.raises(TypeError, match=r"index array|slice"):
        columns_of(5).__getitems__(key)


def test_equality():
    rows = np.arange(6).reshape(3, 2)
    columns = Columns({"a": rows})
    assert columns == Columns({"a": rows.copy()})
    for other in (rows + 1, rows.astype("int8"), rows[:2], TensorSequence(list(rows))):
        assert columns != Columns({"a": other})
    assert columns != Columns({"b": rows})
    assert columns != {"a": rows}
    assert (columns == {"a": rows}) is False


def test_numbers_of_several_types_are_one_array():
    assert Columns({"a": [1, 2.5, True]})["a"].tolist() == [1, 2.5, 1]


def test_a_sequence_without_elements_stays_one():
    assert isinstance(Columns({"a": TensorSequence(dtype="int64")})["a"], TensorSequence)


def test_what_becomes_an_array():
    numbers = TensorSequence([1.5, 2.5])
    columns = Columns({"numbers": numbers, "list": [1, 2], "words": ["a", "b"], "lists": [[1], [2, 3]]})
    assert [type(columns[name]) for name in columns.names] == [
        np.ndarray,
        np.ndarray,
        np.ndarray,
        TensorSequence,
    ]
    assert columns["numbers"].tolist() == [1.5, 2.5]
    assert columns["words"].dtype == object
    arrays = np.empty(2, object)
    arrays[:] = [np.arange(2), np.arange(3)]
    assert Columns({"x": arrays})["x"].lengths().tolist() == [2, 3]
    assert Columns({"x": arrays[:1]})["x"].lengths().tolist() == [2]
    assert same(Columns(columns), columns)


def test_a_frame():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame({"trip": [np.arange(2), np.arange(3)], "fare": [1.5, 2.5]})
    columns = Columns(dict(frame))
    assert columns["trip"].lengths().tolist() == [2, 3]
    assert columns["fare"].tolist() == [1.5, 2.5]


@pytest.mark.parametrize(
    ("given_", "error", "message"),
    [
        ({}, ValueError, "at least one column"),
        ([1, 2], TypeError, r"columns must be a mapping of names to columns, got \[1, 2\]"),
        ({1: [1]}, TypeError, "the name of a column must be a str, got 1"),
        ({"a": [1, 2], "b": [[1]]}, ValueError, "column 'b' has length 1, but column 'a' has length 2"),
        ({"a": 5}, ValueError, "column 'a' is a single value, expected one for each row"),
        ({"a": [[1], ["b"]]}, TypeError, "column 'a': "),
        ({"a": np.array(["2020-01-01"], "M8[D]")}, TypeError, "column 'a': .*datetime64"),
        ({"a": None}, TypeError, "column 'a': "),
    ],
)
def test_refused(given_, error, message):
    with pytest.raises(error, match=message):
        Columns(given_)


def test_keys_that_are_refused():
    columns = columns_of(3)
    with pytest.raises(KeyError, match="there is no column 'token', only tokens, rows, label"):
        columns["token"]
    with pytest.raises(IndexError, match="position 3 is out of range"):
        columns[3]
    with pytest.raises(IndexError, match="the mask has length 2"):
        columns[[True, False]]
    for key in (None, 1.5, (0, 1), columns):
        with pytest.raises(TypeError):
            columns[key]


class Counts:
    """A position that is another one each time it is asked."""

    asked = 0

    def __index__(self):
        self.asked += 1
        return self.asked


class Changes:
    """An array of positions that are others each time."""

    asked = 0

    def __array__(self, dtype=None, copy=None):
        self.asked += 1
        return np.full(3, self.asked)


@pytest.mark.parametrize("name", ["a\0b", "\0", "\ud800", "x\udfff"])
def test_names_that_arrow_lacks(tmp_path, name):
    """They are not cut off at the NUL, where they would be another column's."""
    pytest.importorskip("pyarrow")
    columns = Columns({name: [1, 2], "é": [3, 4]})
    assert pickle.loads(pickle.dumps(columns)) == columns
    for call in (
        columns.__arrow_c_schema__,
        columns.__arrow_c_stream__,
        lambda: columns.save(tmp_path / "a.arrow"),
    ):
        with pytest.raises(ValueError, match=re.escape(f"column {name!r} can't be in an Arrow table")):
            call()
    assert list(tmp_path.iterdir()) == []


def test_keys_are_read_once():
    """All columns of a row are of that row, whatever a key's hooks or another thread do meanwhile."""
    columns = Columns({name: np.arange(50) for name in "abc"})
    assert columns[Counts()] == {"a": 1, "b": 1, "c": 1}
    for chosen in (
        columns[Changes()],
        columns[[Counts(), Counts()]],
        columns.__getitems__(Changes()),
        columns[Counts() : Counts() : Counts()],
    ):
        assert columns_agree(chosen)
    assert len(columns[Counts() :]) == 49
    assert columns[-2:-5:-1]["b"].tolist() == [48, 47, 46]
    assert columns[::-1]["c"].tolist() == [*range(49, -1, -1)]
    with pytest.raises(TypeError, match="slice indices must be integers"):
        columns["a":"b"]


def columns_agree(columns):
    first = columns[columns.names[0]]
    return all(np.array_equal(columns[name], first) for name in columns.names)


@pytest.mark.slow
def test_positions_that_a_thread_writes():
    columns, positions = Columns({name: np.arange(100) for name in "abcd"}), np.zeros(20_000, int)
    numbers = itertools.cycle(range(100))

    def read():
        for _ in range(100):
            assert columns_agree(columns[positions])
            assert columns_agree(columns.__getitems__(positions))

    beside(lambda: positions.fill(next(numbers)), read)


def test_errors_of_classes_of_their_own():
    class Unreadable:
        def __array__(self, dtype=None, copy=None):
            raise UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")

    with pytest.raises(ValueError, match=r"column 'a': .*invalid start byte"):
        Columns({"a": Unreadable()})
    with pytest.raises(ValueError, match=r"column 'a': .*invalid start byte"):
        Columns({"a": [[1], Unreadable()]})


# --- pickles and copies ---


def test_damaged_pickles():
    make, (cls, sequences, inner) = columns_of(5).__reduce__()
    name = "box"
    for sequence in (None, 5, [1] * 5, np.arange(5)):
        with pytest.raises(TypeError, match="the pickle is damaged: column 'box' is"):
            make(cls, sequences | {name: sequence}, inner)
    for shape in ((2,), (3, 1), (), "x", [3], (-3,), (3.0,)):
        with pytest.raises(ValueError, match="the pickle is damaged: rows of column 'box' don't have shape"):
            make(cls, sequences, inner | {name: shape})
    with pytest.raises(ValueError, match="the pickle is damaged: rows of column 'tokens'"):
        make(cls, sequences, inner | {"tokens": ()})
    for shape in ((-1,), (2, -2)):
        with pytest.raises(ValueError, match="the pickle is damaged: rows of column 'a'"):
            make(cls, {"a": TensorSequence(dtype="int8")}, {"a": shape})
    for shape in ((0,), (2, 0)):
        empty = Columns({"a": np.zeros((3, *shape))})
        assert pickle.loads(pickle.dumps(empty)) == empty
    for other in (dict, 3, columns_of(5)):
        with pytest.raises(TypeError, match="the pickle is damaged: expected Columns, got"):
            make(other, sequences, inner)
    for others in (None, [], {}, {name: inner[name]}):
        with pytest.raises(TypeError, match="the pickle is damaged: the names of its columns differ"):
            make(cls, sequences, others)
    with pytest.raises(TypeError, match="the pickle is damaged: column 5"):
        make(cls, {5: sequences[name]}, {5: None})
    with pytest.raises(ValueError, match="has length 4, but column"):
        make(cls, sequences | {name: sequences[name][:4]}, inner)


# --- Arrow ---


@pytest.mark.parametrize("name", ARROW_NAMES)
def test_tables_back_and_forth(name):
    pa = pytest.importorskip("pyarrow")
    columns = columns_of(9, name)
    for one in (columns, columns[2:7], columns[[5, 0, 5]], columns[:0]):
        table = pa.table(one)
        table.validate(full=True)
        assert table.column_names == columns.names
        assert table["box"].type.list_size == 3
        assert same(Columns.from_arrow(table), one)
        assert same(Columns.from_arrow(table.slice(1, 3)), one[1:4])
    assert same(Columns.from_arrow(pa.table(columns).to_batches(4)[0]), columns[:4])
    several = pa.concat_tables([pa.table(columns[:4]), pa.table(columns[4:])])
    assert same(Columns.from_arrow(several), columns)


def test_numbers_of_tables_are_not_copied():
    pa = pytest.importorskip("pyarrow")
    table = pa.table({"x": np.arange(5.0), "y": pa.array([[1, 2]] * 5, pa.list_(pa.int64(), 2))})
    columns = Columns.from_arrow(table)
    assert columns["x"].ctypes.data == table["x"].chunk(0).buffers()[1].address
    assert columns["y"].ctypes.data == table["y"].chunk(0).values.buffers()[1].address
    back = pa.table(columns)
    assert back["x"].chunk(0).buffers()[1].address == columns["x"].ctypes.data


def test_tables_of_others():
    pl, duckdb = pytest.importorskip("polars"), pytest.importorskip("duckdb")
    frame = pl.DataFrame({"tokens": [[1, 2], [3]], "label": [0.5, 1.5], "word": ["a", "b"]})
    columns = Columns.from_arrow(frame)
    assert columns["tokens"].tolist() == [[1, 2], [3]]
    assert columns["label"].tolist() == [0.5, 1.5]
    assert columns["word"].tolist() == ["a", "b"]
    assert pl.DataFrame(columns).to_dict(as_series=False) == frame.to_dict(as_series=False)
    picked = duckdb.sql("select tokens, label from columns where label > 1")
    assert Columns.from_arrow(picked)["tokens"].tolist() == [[3]]


def test_tables_that_are_refused():
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(TypeError, match=r"column .b.: element 1 is null"):
        Columns.from_arrow(pa.table({"a": [1, 2], "b": [1, None]}))
    with pytest.raises(TypeError, match=r"column .b.: .*timestamp"):
        Columns.from_arrow(pa.table({"a": [1], "b": pa.array([0], pa.timestamp("s"))}))
    with pytest.raises(ValueError, match="2 columns have the name 'a'"):
        Columns.from_arrow(pa.Table.from_arrays([pa.array([1])] * 2, ["a", "a"]))
    with pytest.raises(TypeError, match="expected an Arrow table, got an array of type int64"):
        Columns.from_arrow(pa.array([1, 2]))
    with pytest.raises(TypeError, match="expected an Arrow table, an object with"):
        Columns.from_arrow({"a": [1]})
    with pytest.raises(TypeError, match="column 'c': Arrow doesn't support complex64"):
        pa.table(Columns({"c": np.zeros(2, np.complex64)}))


# --- files ---


def test_loaded_columns_pickle_as_paths(tmp_path):
    pytest.importorskip("pyarrow")
    n = 20_000
    columns = Columns(
        {"a": np.arange(n), "b": TensorSequence.from_lengths(np.arange(3 * n), [3] * n), "c": np.ones((n, 4))}
    )
    columns.save(tmp_path / "large.arrow")
    loaded = sq.load(tmp_path / "large.arrow")
    for one in (loaded, loaded[100:15_000], loaded[::-2]):
        sent = pickle.dumps(one)
        assert len(sent) < 1500
        assert same(pickle.loads(sent), one)
    columns[:5].save(tmp_path / "large.arrow")
    with pytest.raises(ValueError, match="has changed since"):
        pickle.loads(pickle.dumps(loaded))


def test_parts_that_do_not_fit(tmp_path):
    pytest.importorskip("pyarrow")
    columns = columns_of(4)
    others = [
        (
            Columns({"tokens": columns["tokens"]}),
            TypeError,
            "part 1 has the columns tokens int32, expected tokens int32, rows",
        ),
        (columns_of(4, "int64"), TypeError, "part 1 has the columns tokens int64"),
        (columns["tokens"], TypeError, "part 1 is a TensorSequence, expected Columns"),
        (
            Columns({**columns, "rows": [np.zeros((1, 5, 1), np.int32)] * 4}),
            ValueError,
            "part 1: column 'rows': expected tensors of rank 2 as in the parts before, got rank 3",
        ),
        (
            Columns({**columns, "rows": [np.zeros((1,) * rank, np.int32) for rank in (1, 2, 1, 2)]}),
            (TypeError, ValueError),
            "part 1.*column 'rows'.*rank",
        ),
    ]
    for other, error, message in others:
        with pytest.raises(error, match=message):
            sq.save(tmp_path / "a.arrow", iter([columns, other]))
        assert not list(tmp_path.iterdir())
    with pytest.raises(TypeError, match="part 1 is a Columns, expected a sequence"):
        sq.save(tmp_path / "a.arrow", [columns["tokens"], columns])
    columns.save(tmp_path / "a.arrow")
    columns_of(4, "int8").save(tmp_path / "b.arrow")
    with pytest.raises(TypeError, match="has dtype int8"):
        sq.load([tmp_path / "a.arrow", tmp_path / "b.arrow"])
    Columns({"x": [1], "y": [2]}).save(tmp_path / "c.arrow")
    with pytest.raises(ValueError, match=r"c\.arrow has other columns than"):
        sq.load([tmp_path / "a.arrow", tmp_path / "c.arrow"])


def test_parquet_in_one_call(tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    columns = columns_of(50)
    import pyarrow as pa

    parquet.write_table(pa.table(columns), tmp_path / "a.parquet")
    batches = parquet.ParquetFile(tmp_path / "a.parquet").iter_batches(7)
    sq.save(tmp_path / "a.arrow", map(Columns.from_arrow, batches))
    assert sq.load(tmp_path / "a.arrow")["tokens"] == columns["tokens"]
    assert np.array_equal(sq.load(tmp_path / "a.arrow")["label"], columns["label"])


def test_bools_of_an_array_are_bytes_in_a_file(tmp_path):
    """As those of a sequence, so that they are mapped."""
    pa = pytest.importorskip("pyarrow")
    flags = np.array([True, False, True])
    sq.save(tmp_path / "c.arrow", Columns({"flags": flags, "numbers": flags * 2}))
    with pa.OSFile(str(tmp_path / "c.arrow")) as file:
        schema = pa.ipc.open_file(file).schema
    kinds = [getattr(schema.field(name).type, "storage_type", None) for name in ("flags", "numbers")]
    assert kinds == [pa.int8(), None]
    assert sq.load(tmp_path / "c.arrow")["flags"].tolist() == [True, False, True]


# --- nothing that is handed out is the columns' own ---


def test_nan_is_unequal_to_itself():
    for columns in (
        Columns({"a": np.array([1.0, np.nan])}),
        Columns({"a": TensorSequence([[1.0], [np.nan, 2.0]]), "b": [1, 2]}),
        Columns({"a": np.array([[1 + 1j], [complex(0, np.nan)]]), "b": [1, 2]}),
    ):
        for other in (columns, columns[:], copy.copy(columns), Columns(columns)):
            assert (columns == other, columns != other) == (False, True)
            assert columns[:1] == other[:1]
    same_ = Columns({"a": [1.0, 2.0]})
    assert same_ == same_
    assert same_ != Columns({"b": [1.0, 2.0]})
    assert same_ != Columns({"a": [1.0, 2.0], "b": [1, 2]})
    assert Columns({"a": [1.0], "b": [2]}) == Columns({"b": [2], "a": [1.0]})


def test_a_table_in_place_of_a_mapping():
    pandas = pytest.importorskip("pandas")
    pa = pytest.importorskip("pyarrow")
    for table in (pandas.DataFrame({"a": [1]}), pa.table({"a": [1]}), pa.record_batch({"a": [1]})):
        with pytest.raises(TypeError, match=rf"got a {type(table).__name__}: Columns.from_arrow\("):
            Columns(table)
        assert Columns.from_arrow(table) == Columns({"a": [1]})
    with pytest.raises(TypeError, match=r"got a list of rows: pass \{name: \[row\[name\] for row in rows\]"):
        Columns([{"a": 1}, {"a": 2}])


# -- combined columns ----------------------------------------------------------------------------------


def parts():
    return Columns({"tokens": [[1, 2], [3]], "label": [0, 1], "box": np.zeros((2, 4), np.float32)})


def test_columns_of_both_sides_by_name():
    columns = parts()
    found = columns | {"label": [5.0, 6.0], "more": [[1], [2, 3]]}
    assert found.names == ["tokens", "label", "box", "more"]
    assert found["label"].tolist() == [5.0, 6.0]
    assert found["more"].tolist() == [[1], [2, 3]]
    assert columns["label"].tolist() == [0, 1]
    assert columns | {} == columns == columns | columns
    with pytest.raises(ValueError, match="column 'x' has length 3, but column 'tokens' has length 2"):
        columns | {"x": [1, 2, 3]}
    with pytest.raises(TypeError, match="unsupported operand"):
        columns | [1, 2]


def test_rows_of_both_sides():
    columns = parts()
    found = columns + columns[[1]][["label", "box", "tokens"]]
    assert found.names == ["tokens", "label", "box"]
    assert found["tokens"].tolist() == [[1, 2], [3], [3]]
    assert found["label"].tolist() == [0, 1, 1]
    assert columns[:0] + columns == columns
    with pytest.raises(ValueError, match="of the same names: label are in one"):
        columns + columns[["tokens", "box"]]
    with pytest.raises(TypeError, match=r"'label' is an array of int64 .*, and an array of float64"):
        columns + (columns | {"label": [0.5, 1.5]})
    with pytest.raises(TypeError, match=r"'label' is an array of int64 .*, and a sequence of int64"):
        columns + (columns | {"label": [[1], [1, 2]]})
    with pytest.raises(TypeError, match="unsupported operand"):
        columns + {"tokens": [[1], [2]]}


def test_some_columns():
    columns = parts()
    assert columns[["box", "tokens"]].names == ["box", "tokens"]
    assert len(columns[[]]) == 0
    assert columns[[]].names == columns.names
    assert columns.get("label").tolist() == [0, 1]
    assert columns.get("x") is None
    assert columns.get("x", 7) == 7
    assert dict(columns.items()).keys() == columns.keys()
    with pytest.raises(KeyError, match="there is no column 'x'"):
        columns[["box", "x"]]


def test_combined_columns_pickle_by_path(tmp_path):
    pytest.importorskip("pyarrow")
    Columns({"tokens": [np.arange(1000)] * 9, "label": np.arange(9)}).save(tmp_path / "a.arrow")
    columns = sq.load(tmp_path / "a.arrow")
    combined = (columns + columns)[["tokens", "label"]] | columns[[0] * 18][["label"]]
    assert len(pickle.dumps(combined)) < 2000
    assert pickle.loads(pickle.dumps(combined)) == combined


def test_columns_in_a_notebook():
    page = parts()._repr_html_()
    assert "2 rows of 3 columns" in page
    assert page.count("<svg") == 1  # only the tokens differ in length
    assert "float32 (4,)" in page
    assert "(): " not in page
    assert "&lt;b&gt;" in Columns({"<b>": ["<i>"]})._repr_html_()
    assert "<i>" not in Columns({"<b>": ["<i>"]})._repr_html_()
    assert "2 further columns" in Columns({f"c{i}": [i] for i in range(14)})._repr_html_()
    assert Columns({"a": TensorSequence(dtype="int8")})._repr_html_().count("<tr>") == 1
