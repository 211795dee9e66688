"""Sequences as columns of data frames and databases, and back: Polars, DuckDB, pandas."""

import numpy as np
import pytest
from support.strategies import NUMERIC_NAMES, assert_holds, filled

from seqcore import TensorSequence, split_to_sequence

pytestmark = pytest.mark.mostly_slow(7)

from_arrow = TensorSequence.from_arrow
NAMES = [name for name in NUMERIC_NAMES if "complex" not in name] + ["string"]
all_names = pytest.mark.parametrize("name", NAMES)


def some(name):
    """Sequences of every rank that a table can have a column of."""
    return {
        "rank 0": split_to_sequence(filled(name, 5), keepdims=0),
        "rank 1": split_to_sequence(filled(name, 9), [2, 0, 3, 4]),
        "rank 2": split_to_sequence(filled(name, (9, 2)), [2, 0, 3, 4]),
        "rank 3": split_to_sequence(filled(name, (9, 2, 3)), [2, 0, 3, 4]),
        "a slice": split_to_sequence(filled(name, 9), [2, 0, 3, 4])[1:3],
        "a selection": split_to_sequence(filled(name, (9, 2)), [2, 0, 3, 4])[[3, 0, 0]],
        "several memories": split_to_sequence(filled(name, 9), 2) + split_to_sequence(filled(name, 50), 3),
        "no elements": TensorSequence(dtype=name),
    }


def lists_of(seq):
    return [one.tolist() for one in seq]


kinds = pytest.mark.parametrize("kind", list(some("int8")))


# --- Polars ---


@pytest.fixture
def pl():
    return pytest.importorskip("polars")


class Bare:
    """The methods alone: Polars reads what is a sequence element by element, and asks only what is none."""

    def __init__(self, seq):
        self.__arrow_c_stream__ = seq.__arrow_c_stream__


class BareArray:
    def __init__(self, seq):
        self.__arrow_c_array__ = seq.__arrow_c_array__


@kinds
@all_names
def test_polars_takes_sequences_and_gives_them_back(pl, name, kind):
    seq = some(name)[kind]
    if name == "float16" and not hasattr(pl, "Float16"):
        pytest.skip("this Polars has no float16")
    for given in (Bare(seq), BareArray(seq)):
        series = pl.Series("x", given)
        assert series.to_list() == lists_of(seq)
        assert from_arrow(series) == seq
        assert from_arrow(series.to_frame()) == seq
        assert from_arrow(series.rechunk()) == seq


@pytest.mark.parametrize("name", [name for name in NAMES if name != "string"])
def test_polars_takes_what_it_may_read_by_elements(pl, name):
    """The same in whichever way Polars goes; its reader of arrays of objects panics."""
    seq = some(name)["rank 1"]
    series = pl.Series("x", seq)
    assert series.to_list() == lists_of(seq)
    assert from_arrow(series) == seq


def test_the_types_of_polars(pl):
    for seq, expected in [
        (split_to_sequence(filled("int32", 4), 2), pl.List(pl.Int32)),
        (split_to_sequence(filled("bool", 4), 2), pl.List(pl.Boolean)),
        (split_to_sequence(filled("string", 4), 2), pl.List(pl.String)),
        (split_to_sequence(filled("uint8", (4, 3)), 2), pl.List(pl.Array(pl.UInt8, 3))),
        (split_to_sequence(filled("uint8", (4, 3, 2)), 2), pl.List(pl.Array(pl.UInt8, (3, 2)))),
        (split_to_sequence(filled("float64", 4), keepdims=0), pl.Float64),
        (TensorSequence(dtype="int8"), pl.List(pl.Int8)),
    ]:
        assert pl.Series(Bare(seq)).dtype == expected


def test_polars_works_on_them(pl):
    seq = split_to_sequence(np.arange(9), [2, 0, 3, 4])
    frame = pl.DataFrame({"x": pl.Series(Bare(seq)), "n": [2, 0, 3, 4]})
    assert frame["x"].list.sum().to_list() == [1, 0, 9, 26]
    picked = frame.filter(pl.col("n") > 2).select("x")
    assert_holds(from_arrow(picked), [np.arange(2, 5), np.arange(5, 9)])
    exploded = frame.filter(pl.col("n") > 0).explode("x")
    grouped = exploded.group_by("n", maintain_order=True).agg("x").select("x")
    assert_holds(from_arrow(grouped), [np.arange(2), np.arange(2, 5), np.arange(5, 9)])
    with pytest.raises(TypeError, match=r"x.*n"):
        from_arrow(frame)


def test_polars_slices_and_chunks(pl):
    series = pl.Series([[1, 2], [], [3], [4, 5, 6]])
    long = series.append(pl.Series([[7]], dtype=series.dtype)).append(series[1:3])
    assert long.n_chunks() > 1
    for part in (series[1:], long, long[3:6], long[:0], long.reverse(), long.rechunk()[2:]):
        assert_holds(from_arrow(part), [np.array(one, np.int64) for one in part.to_list()])


def test_other_series_of_polars(pl):
    words = ["to", "be", "longer than twelve bytes", "", "to"]
    expected = [np.array(word, object) for word in words]
    assert_holds(from_arrow(pl.Series(words)), expected)
    assert_holds(from_arrow(pl.Series(words, dtype=pl.Categorical)), expected)
    assert_holds(from_arrow(pl.Series(words, dtype=pl.Enum(sorted(set(words))))), expected)
    assert_holds(from_arrow(pl.Series([words, []])), [np.array(words, object), np.array([], object)])
    assert_holds(from_arrow(pl.Series([True, False])), [np.array(True), np.array(False)])
    pairs = pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int16, 2))
    assert_holds(from_arrow(pairs), [np.array([1, 2], "int16"), np.array([3, 4], "int16")])
    assert_holds(
        from_arrow(pl.Series([[[1, 2]], [[3, 4], [5, 6]]])), [np.array([[1, 2]]), np.array([[3, 4], [5, 6]])]
    )
    for other in (pl.Series([1, None]), pl.Series([[1], None]), pl.Series([[1, None]]), pl.Series([None])):
        with pytest.raises(TypeError, match="null"):
            from_arrow(other)
    dates = pl.Series(["2024-02-29"]).str.to_date()
    for other in (dates, dates.cast(pl.Datetime), pl.Series([b"a"]), pl.Series([{"a": 1, "b": 2}])):
        with pytest.raises(TypeError):
            from_arrow(other)


# --- DuckDB ---


@pytest.fixture
def query():
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    with duckdb.connect() as connection:

        def run(text, **columns):
            if columns:
                table = pa.table({key: pa.array(seq) for key, seq in columns.items()})
                connection.register("t", table)
            return connection.sql(text)

        yield run


def arrow_tables(relation):
    """What a result gives to Arrow, in each of its ways."""
    new = hasattr(relation, "to_arrow_table")
    yield relation.to_arrow_table() if new else relation.fetch_arrow_table()
    if new:
        yield relation.arrow()
    if hasattr(relation, "__arrow_c_stream__"):
        yield relation


@pytest.mark.mostly_slow(7)
@kinds
@all_names
@pytest.mark.thread_unsafe
def test_duckdb_takes_sequences_and_gives_them_back(query, name, kind):
    if name == "float16":
        pytest.skip("DuckDB has no float16")
    seq = some(name)[kind]
    relation = query("select x from t", x=seq)
    for table in arrow_tables(relation):
        assert from_arrow(table) == seq
    found = [row[0] for row in query("select x from t", x=seq).fetchall()]
    assert found == _tuples(lists_of(seq), seq)


def _tuples(lists, seq):
    """DuckDB gives what has a fixed size as tuples."""
    if not len(seq) or len(seq.shapes[0]) < 2:
        return lists
    return [[_tuple(row) for row in one] for one in lists]


def _tuple(row):
    return tuple(_tuple(one) if isinstance(one, list) else one for one in row)


@pytest.mark.thread_unsafe
def test_duckdb_works_on_them(query):
    seq = split_to_sequence(np.arange(9), [2, 0, 3, 4])
    assert query("select list_sum(x)::int from t", x=seq).fetchall() == [(1,), (None,), (9,), (26,)]
    for table in arrow_tables(query("select x from t where len(x) > 2 order by x[1] desc")):
        assert_holds(from_arrow(table), [np.arange(5, 9), np.arange(2, 5)])
    for table in arrow_tables(query("select list_transform(x, lambda i: i * 2)::smallint[] as y from t")):
        assert_holds(from_arrow(table), [one.astype("int16") * 2 for one in seq])


@pytest.mark.thread_unsafe
@pytest.mark.slow
def test_what_duckdb_makes(query):
    for text, expected in [
        ("select range(i) as x from range(4) r(i)", [np.arange(n) for n in range(4)]),
        ("select i::float as x from range(3) r(i)", [np.array(i, "float32") for i in range(3)]),
        (
            "select [i, i + 1]::int[2] as x from range(2) r(i)",
            [np.array([i, i + 1], "int32") for i in range(2)],
        ),
        ("select [[i, 1], [2, 3]] as x from range(2) r(i)", [np.array([[i, 1], [2, 3]]) for i in range(2)]),
        ("select 'w' || i as x from range(2) r(i)", [np.array(f"w{i}", object) for i in range(2)]),
        ("select i > 0 as x from range(3) r(i)", [np.array(i > 0) for i in range(3)]),
        ("select range(i) as x from range(5000) r(i)", [np.arange(n) for n in range(5000)]),
    ]:
        for table in arrow_tables(query(text)):
            assert_holds(from_arrow(table), expected)
    for text in ("select 1 as a, 2 as b", "select date '2024-02-29' as x", "select null::int as x"):
        for table in arrow_tables(query(text)):
            with pytest.raises(TypeError):
                from_arrow(table)


# --- pandas ---


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@kinds
@all_names
def test_pandas_takes_sequences_and_gives_them_back(pd, name, kind):
    pa = pytest.importorskip("pyarrow")
    seq = some(name)[kind]
    made = pa.array(seq)
    series = pd.Series(made, dtype=pd.ArrowDtype(made.type), name="x")
    assert len(series) == len(seq)
    assert [np.array(one).tolist() for one in pa.array(series.array).to_pylist()] == lists_of(seq)
    for column in (series, series.array, series.to_frame()):
        if hasattr(column, "__arrow_c_stream__") or hasattr(column, "__arrow_c_array__"):
            assert from_arrow(column) == seq
    assert from_arrow(pa.array(series.array)) == seq


@pytest.mark.slow
def test_pandas_selections(pd):
    pa = pytest.importorskip("pyarrow")
    seq = split_to_sequence(np.arange(9), [2, 0, 3, 4])
    made = pa.array(seq)
    frame = pd.DataFrame({"x": pd.Series(made, dtype=pd.ArrowDtype(made.type)), "n": [2, 0, 3, 4]})
    for part in (frame[frame.n > 2].x, frame.x.iloc[1:3], frame.x.iloc[::-1], pd.concat([frame.x, frame.x])):
        if not hasattr(part, "__arrow_c_stream__"):
            pytest.skip("this pandas has no streams")
        assert lists_of(from_arrow(part)) == [one if isinstance(one, list) else one.tolist() for one in part]
    with pytest.raises(TypeError, match=r"x.*n"):
        from_arrow(frame)
    numbers = pd.Series([1, 2, None], dtype="int64[pyarrow]")
    assert_holds(from_arrow(numbers[:2]), [np.array(1), np.array(2)])
    with pytest.raises(TypeError, match="null"):
        from_arrow(numbers)
    words = pd.Series(["to", "be"], dtype="string[pyarrow]")
    assert_holds(from_arrow(words), [np.array("to", object), np.array("be", object)])
