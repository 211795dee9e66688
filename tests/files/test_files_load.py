"""Several files as one sequence, columns of files by others, and what load says where it can't."""

import os
import pickle
import re

import numpy as np
import pytest
from support.bodies import within
from support.processes import output_of
from support.saved import lies_in, needs_proc, pa, ragged, write_column, write_table
from support.strategies import assert_holds

import seqcore as sq
from seqcore._files import reading


@pytest.fixture
def three(tmp_path):
    """Three files of int32, and the elements that they hold."""
    paths = [tmp_path / f"part {i}.arrow" for i in range(3)]
    seqs = [ragged([3, 0, 1], start=i) for i in range(3)]
    for path, seq in zip(paths, seqs, strict=True):
        sq.save(path, seq)
    return paths, [element for seq in seqs for element in seq]


# --- several files ---


def test_one_column_before_several(tmp_path):
    sq.save(tmp_path / "one.arrow", ragged([1, 2]))
    sq.Columns({"a": [1, 2], "b": [3, 4]}).save(tmp_path / "two.arrow")
    with pytest.raises(ValueError, match=r"two\.arrow can't be read: it has 2 columns \(a, b\): pass"):
        sq.load([tmp_path / "one.arrow", tmp_path / "two.arrow"])


@pytest.mark.parametrize("names", [("a", "c"), ("a",), ("a", "b", "c")])
def test_files_need_the_same_columns(tmp_path, names):
    for name, columns in [("first", ("a", "b")), ("second", names)]:
        sq.Columns({column: [1, 2] for column in columns}).save(tmp_path / f"{name}.arrow")
    paths = [tmp_path / "first.arrow", tmp_path / "second.arrow"]
    with pytest.raises(ValueError, match=r"second\.arrow has other columns than .*first\.arrow: all files"):
        sq.Columns.load(paths)
    assert sq.load(paths, column="a").tolist() == [1, 2, 1, 2]


def test_no_file_at_all():
    for nothing in ([], ()):
        with pytest.raises(ValueError, match=r"no .*(file|path)|empty|at least one"):
            sq.load(nothing)


def test_another_type_is_named_with_its_file(three, tmp_path):
    paths, _ = three
    sq.save(tmp_path / "floats.arrow", [np.float64([1])])
    with pytest.raises(TypeError, match=r"floats\.arrow") as caught:
        sq.load([*paths, tmp_path / "floats.arrow"])
    assert "float64" in str(caught.value)
    assert "int32" in str(caught.value)


def test_a_damaged_one_is_named(three, tmp_path):
    (tmp_path / "short.arrow").write_bytes(three[0][0].read_bytes()[:-1])
    with pytest.raises(ValueError, match=r"short\.arrow"):
        sq.load([*three[0], tmp_path / "short.arrow"])


# --- columns ---


@pytest.fixture
def columns(tmp_path):
    table = pa.table({"a": [[1, 2], []], "b": ["x", "y"], "tensors": [[0.5], [1.5]], "odd, name": [1, 2]})
    return write_table(tmp_path / "table.arrow", table)


def test_all_columns_are_of_one_file(tmp_path, monkeypatch):
    """Another process replaces the file while its columns are read: all are of the one that was opened."""
    path = tmp_path / "a.arrow"
    older, newer = (sq.Columns({"a": np.full(5, k), "b": [[k], [k, k]] + [[]] * 3}) for k in (1, 2))
    older.save(path)
    read = reading.File._sequence

    def replaced(*arguments):
        newer.save(path)
        return read(*arguments)

    monkeypatch.setattr(reading.File, "_sequence", replaced)
    assert sq.load(path) == older
    sq.save(path, older["b"])
    assert sq.load(path) == older["b"]
    monkeypatch.undo()
    assert sq.load(path) == newer


@pytest.mark.parametrize("name", ["c", "", "A", "a.item"])
def test_no_such_column(columns, name):
    with pytest.raises((ValueError, KeyError), match=r"table\.arrow") as caught:
        sq.load(columns, column=name)
    assert "tensors" in str(caught.value)
    sq.save(columns, [np.arange(3)])
    with pytest.raises((ValueError, KeyError), match=r"table\.arrow"):
        sq.load(columns, column=name)


def test_the_only_column_may_have_any_name(tmp_path):
    for name in ("x", "", "日本"):
        path = write_column(tmp_path / "own.arrow", pa.array([[1], [2, 3]], pa.list_(pa.int8())), name)
        assert_holds(sq.load(path), [np.int8([1]), np.int8([2, 3])])
        assert_holds(sq.load(path, column=name), [np.int8([1]), np.int8([2, 3])])


def test_two_columns_of_one_name(tmp_path):
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["a", "a"])
    path = write_table(tmp_path / "twins.arrow", table)
    for column, message in (
        (None, "2 columns have the name 'a': rename them"),
        ("a", "2 columns with the name 'a'"),
    ):
        with pytest.raises((ValueError, KeyError), match=rf"twins\.arrow.*{message}"):
            sq.load(path, column)


def test_no_column(tmp_path):
    path = write_table(tmp_path / "bare.arrow", pa.table({}))
    with pytest.raises(ValueError, match=r"bare\.arrow"):
        sq.load(path)


@pytest.mark.parametrize("column", [0, b"a", ["a"], True])
def test_a_column_is_a_name(columns, column):
    several = r": use load\(path\)\[names\]" if isinstance(column, list) else ""
    with pytest.raises(TypeError, match=rf"column must be a str or None, got [^:]*{several}$"):
        sq.load(columns, column=column)


@needs_proc
def test_other_columns_do_no_harm(tmp_path):
    """Dates, nulls and text beside the column that is chosen; its numbers are not copied."""
    table = pa.table(
        {
            "when": pa.array([1, None, 3], pa.timestamp("us")),
            "tensors": pa.array([[1.0, 2.0], [], [3.0]], pa.list_(pa.float32())),
            "nothing": pa.nulls(3),
        }
    )
    path = write_table(tmp_path / "beside.arrow", table)
    back = sq.load(path, column="tensors")
    assert_holds(back, [np.float32([1, 2]), np.float32([]), np.float32([3])])
    assert lies_in(back[0], path)
    for other in ("when", "nothing"):
        with pytest.raises((TypeError, ValueError), match=r"beside\.arrow"):
            sq.load(path, column=other)


# --- what load takes, and what it says ---


@pytest.mark.thread_unsafe
def test_a_relative_path(three, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert_holds(sq.load("part 0.arrow"), three[1][:3])
    back = sq.load(["part 0.arrow", os.path.join("..", tmp_path.name, "part 1.arrow")])
    monkeypatch.chdir("/")
    assert_holds(back, three[1][:6])


def test_a_missing_file(tmp_path):
    for path in (tmp_path / "absent.arrow", tmp_path / "no folder" / "a"):
        with pytest.raises(FileNotFoundError, match=re.escape(str(path))) as caught:
            sq.load(path)
        assert os.fspath(caught.value.filename) == os.fspath(path)


@pytest.mark.thread_unsafe
def test_no_home_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError):
        sq.load("~/a")


@pytest.mark.parametrize("path", [None, 3, 0, True, 1.5, {"a"}, {"a": 1}, Ellipsis])
def test_what_is_no_path(path):
    with pytest.raises(TypeError):
        sq.load(path)
    with pytest.raises(TypeError):
        sq.load([path])
    with pytest.raises(TypeError):
        sq.save(path, [np.arange(3)])


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no pipes that have names here")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")

    def load():
        with pytest.raises((OSError, ValueError), match="pipe"):
            sq.load(tmp_path / "pipe")

    within(5, load)


NO_PYARROW = """
import sys
sys.modules["pyarrow"] = None
import numpy as np, pickle, seqcore as sq
calls = {
    "load": lambda: sq.load(sys.argv[1]),
    "save": lambda: sq.save(sys.argv[1], [np.arange(3)]),
    "loads": lambda: pickle.loads(bytes.fromhex(sys.argv[2])),
}
for name, call in calls.items():
    try:
        print(name, call())
    except ImportError as error:
        print(name, error)
"""


@pytest.mark.slow
def test_without_pyarrow_the_extra_is_named(three):
    path, data = three[0][0], pickle.dumps(sq.load(three[0][0]))
    before = path.read_bytes()
    lines = output_of("-W", "error", "-c", NO_PYARROW, path, data.hex()).splitlines()
    assert [line.split()[0] for line in lines] == ["load", "save", "loads"]
    assert all(re.search(r"pyarrow.*seqcore\S*\[arrow\]", line) for line in lines[:2]), lines
    assert "TensorSequence of" in lines[2]  # which maps the file's bytes, and needs no pyarrow
    assert path.read_bytes() == before
