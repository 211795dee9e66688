"""Files written part by part: what parts may be, and how little of them is in memory at once."""

import tracemalloc

import numpy as np
import pytest
from support.saved import lies_in, needs_proc, pa, part, saved
from support.strategies import assert_holds

import seqcore as sq
from seqcore import split_to_sequence

pytestmark = pytest.mark.mostly_slow(3)


# --- parts ---


def test_a_part_may_be_changed_once_it_is_written(path):
    def parts():
        array = np.zeros((4, 3), np.int32)
        seq = split_to_sequence(array)
        for i in range(5):
            array[...] = i
            yield seq

    assert_holds(saved(path, parts()), [np.full((1, 3), i, np.int32) for i in range(5) for _ in range(4)])


@pytest.mark.slow
@needs_proc
@pytest.mark.parametrize("name", ["int32", "bool"])
def test_elements_of_all_parts_lie_in_the_file(path, name):
    for last in (3, 4):
        back = saved(
            path, iter([part([(2, 3)], name), part([(1, 3), (5, 3)], name), part([(2, last)], name)])
        )
        assert all(lies_in(element, path) for element in back)


# --- what takes no memory ---

LARGE = 1 << 22


def peak_of(path, parts):
    """The most that is allocated at once, in bytes, while the parts are saved."""
    held = pa.total_allocated_bytes()
    arrows = []

    def watched():
        for one in parts:
            arrows.append(pa.total_allocated_bytes() - held)
            yield one
            del one

    tracemalloc.start()
    try:
        sq.save(path, watched())
        return tracemalloc.get_traced_memory()[1] + max(arrows)
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@pytest.mark.thread_unsafe
@pytest.mark.parametrize("last", [8, 9], ids=["same", "other widths at last"])
@pytest.mark.parametrize("name", ["float32", "bool"])
def test_parts_are_not_gathered_in_memory(path, last, name):
    rows = LARGE // np.dtype(name).itemsize // 8

    def parts():
        for i in range(30):
            yield split_to_sequence(np.full((rows, 8 if i < 29 else last), i % 2, name), rows // 4)

    assert peak_of(path, parts()) < 5 * LARGE
    assert len(sq.load(path)) == 120


@pytest.mark.slow
@pytest.mark.thread_unsafe
def test_tensors_are_not_all_gathered_in_memory(path):
    peak = peak_of(path, (np.full(1 << 14, i, np.float32) for i in range(2048)))  # 128 MB
    assert peak < 96 << 20
    back = sq.load(path)
    assert [int(element[-1]) for element in back] == [*range(2048)]


@pytest.mark.parametrize("suffix", [".parquet", ".npz", ".NPY", ".csv", ".pkl", ".pt", ".gz"])
def test_names_of_other_formats(tmp_path, suffix):
    """A file of that name would have Arrow's format, which no reader of such files expects."""
    for data in ([[1]], sq.Columns({"a": [1]}), iter([sq.TensorSequence([[1]])])):
        with pytest.raises(ValueError, match=rf"save writes Arrow files, not \{suffix}: name it 'a.b.arrow'"):
            sq.save(tmp_path / f"a.b{suffix}", data)
    assert not list(tmp_path.iterdir())
    for name in ("a.feather", "a.ipc", "a", "parquet", ".npz", "a.parquet.arrow"):
        sq.save(tmp_path / name, [[1]])
        assert sq.load(tmp_path / name).tolist() == [[1]]


def test_exchanged_arguments(tmp_path):
    path = str(tmp_path / "a.arrow")
    for data in (sq.TensorSequence([[1]]), sq.Columns({"a": [1]}), [[1]]):
        with pytest.raises(
            TypeError, match=rf"the path comes first: save\('.*, sequence\), got a {type(data).__name__}"
        ):
            sq.save(data, path)
    for other in (3, None, [path]):
        with pytest.raises(TypeError, match=r"path must be a str or os\.PathLike, got"):
            sq.save(other, [[1]])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("function", [np.savez, np.savez_compressed])
def test_what_numpy_saves(tmp_path, function):
    seq = sq.TensorSequence([[1, 2], [3]])
    with pytest.raises(
        TypeError, match=r"np\.savez\(file, values=seq\.values\(\), lengths=seq\.lengths\(\)\)"
    ):
        function(tmp_path / "a.npz", seq)
    function(tmp_path / "a.npz", values=seq.values(), lengths=seq.lengths())
    with np.load(tmp_path / "a.npz") as found:
        assert sq.TensorSequence.from_lengths(found["values"], found["lengths"]) == seq


def test_a_series_of_strings_without_axes():
    """Polars' Series has no `ndim`."""
    words = pytest.importorskip("polars").Series(["to", "be"])
    with pytest.raises(TypeError, match=r"got a Series of single strings: Columns\(\{'name': x\}\) takes it"):
        sq.TensorSequence(words)


@pytest.mark.parametrize("dtype", ["str", object])
def test_a_series_of_strings(dtype):
    pandas = pytest.importorskip("pandas")
    words = pandas.Series(["to", "be"], dtype=dtype)
    with pytest.raises(TypeError, match=r"got a Series of single strings: Columns\(\{'name': x\}\) takes it"):
        sq.TensorSequence(words)
    assert sq.Columns({"name": words})["name"].tolist() == ["to", "be"]
    assert sq.TensorSequence(list(words)).tolist() == ["to", "be"]
    lists = pandas.Series([["to"], ["be", "or"]])
    assert sq.TensorSequence(lists).tolist() == [["to"], ["be", "or"]]


def test_whatever_can_be_indexed_is_saved(tmp_path):
    """As a data set of PyTorch, which has no `__iter__`."""

    class Rows:
        def __getitem__(self, i):
            if i > 2:
                raise IndexError
            return [i] * i

    sq.save(tmp_path / "saved.arrow", Rows())
    assert sq.load(tmp_path / "saved.arrow").tolist() == [[], [1], [2, 2]]
