"""Files that unpickled sequences have mapped or read stay for the next pickle, within bounds."""

import os
import pickle

import numpy as np
import pytest
from support.saved import pa, ragged, saved, touched, write_table

import seqcore as sq
from seqcore._files import paths, reading


@pytest.fixture(autouse=True)
def none_is_open(monkeypatch):
    monkeypatch.setattr(paths, "_OPEN", {})
    paths._FILES.clear()
    paths._MAPPED.clear()


@pytest.fixture
def times_mapped(monkeypatch):
    """The paths that were mapped, each as often as it was."""
    map_file, found = paths.map_file, []

    def spy(path, *rest):
        found.append(os.path.basename(path))
        return map_file(path, *rest)

    monkeypatch.setattr(paths, "map_file", spy)
    monkeypatch.setattr(reading, "map_file", spy)
    return found


def pickles(folder, count, words=None):
    """Return pickles of so many files; those of words are read, and the others mapped."""
    elements = [np.array([words], object)] if words else ragged([1, 2])
    return [pickle.dumps(saved(folder / f"{i}", elements)) for i in range(count)]


def are_open():
    return [os.path.basename(key if isinstance(key, str) else key[0]) for key in paths._OPEN]


def test_the_last_ones(tmp_path):
    for data in pickles(tmp_path, paths._MOST + 3):
        pickle.loads(data)
    assert are_open() == [str(i) for i in range(3, paths._MOST + 3)]


def test_one_that_is_used_again_is_the_last(tmp_path, times_mapped):
    made = pickles(tmp_path, 3)
    times_mapped.clear()
    for i in (0, 1, 2, 0, 0):
        assert pickle.loads(made[i]) == ragged([1, 2])
    assert are_open() == ["1", "2", "0"]
    assert times_mapped == ["0", "1", "2"]


def test_memory_is_bounded(tmp_path, monkeypatch):
    made = pickles(tmp_path, 5, words="word" * 50)
    for data in made:
        pickle.loads(data)
    assert are_open() == ["0", "1", "2", "3", "4"]
    (nbytes,) = {nbytes for _, _, nbytes in paths._OPEN.values()}
    assert nbytes > 0
    monkeypatch.setattr(paths, "_LEAST_READ", 1)
    for limit, left in ((3 * nbytes, 3), (3 * nbytes - 1, 2), (2 * nbytes, 2), (nbytes, 1), (nbytes - 1, 1)):
        monkeypatch.setattr(paths, "_MOST_READ", limit)
        paths._OPEN.clear()
        for data in made:
            pickle.loads(data)
        assert are_open() == ["0", "1", "2", "3", "4"][5 - left :]


def test_many_columns_of_few_bytes(tmp_path, monkeypatch):
    made = pickles(tmp_path, 2 * paths._MOST, words="word")
    for data in made:
        pickle.loads(data)
    assert len(are_open()) == len(made)
    monkeypatch.setattr(paths, "_MOST_READ", 5 * paths._LEAST_READ)
    pickle.loads(pickles(tmp_path, 1, words="words")[0])
    assert len(are_open()) == 5


def test_a_larger_column_beside_others(tmp_path, monkeypatch, times_mapped):
    monkeypatch.setattr(paths, "_MOST_READ", 3_000)
    monkeypatch.setattr(paths, "_LEAST_READ", 1_000)
    large = pickles(tmp_path, 1, words=["word"] * 1_000)
    (tmp_path / "more").mkdir()
    small = pickles(tmp_path / "more", 5, words="word")
    times_mapped.clear()
    for data in large + small + large:
        pickle.loads(data)
    assert times_mapped == ["0", "0", "1", "2", "3", "4"]
    assert are_open() == ["2", "3", "4", "0"]


def test_a_column_counts_without_its_file(tmp_path, monkeypatch, times_mapped):
    table = pa.table({"read": pa.array([[True, False]] * 9), "mapped": pa.array([[0] * 9_000] * 9)})
    data = pickle.dumps(sq.load(write_table(tmp_path / "0", table), column="read"))
    times_mapped.clear()
    monkeypatch.setattr(paths, "_MOST_READ", 500_000)
    for _ in range(2):
        pickle.loads(data)
    assert times_mapped == ["0"]


@pytest.mark.parametrize(
    "change", [os.remove, lambda path: touched(path, 1), lambda path: sq.save(path, [[1]])]
)
def test_files_that_have_changed_are_closed_with_the_next(tmp_path, change):
    made = pickles(tmp_path, 3)
    for data in made[:2]:
        pickle.loads(data)
    change(tmp_path / "0")
    assert are_open() == ["0", "1"]
    pickle.loads(made[2])
    assert are_open() == ["1", "2"]


def test_times_of_archives_have_whole_seconds(tmp_path):
    second = 1_000_000_000
    sq.save(tmp_path / "0", ragged([1, 2]))
    touched(tmp_path / "0", 5 * second + 7)
    data = pickle.dumps(sq.load(tmp_path / "0"))
    for time in (5 * second, 5 * second + 7):
        touched(tmp_path / "0", time)
        assert pickle.loads(data) == ragged([1, 2])
    for time in (4 * second, 5 * second + 6, 6 * second):
        touched(tmp_path / "0", time)
        with pytest.raises(ValueError, match=r"has changed.*\d bytes from \d.*, now it has .* from \d"):
            pickle.loads(data)
