"""Folders that Hugging Face's datasets saved: they stand for the files of the data set, and for no others."""

import json
import random
import shutil

import numpy as np
import pytest
from support.random_cases import run_seed
from support.saved import pa

import seqcore as sq


def rows_of(columns):
    return [{name: np.asarray(value).tolist() for name, value in row.items()} for row in columns]


def stream(path, rows):
    """A file as datasets writes it: in Arrow's stream format."""
    table = pa.table({"tokens": pa.array([row["tokens"] for row in rows], pa.list_(pa.int64()))})
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_stream(sink, table.schema) as to:
        to.write_table(table)


def folder_with(folder, names, **state):
    """A folder with some files of its state, a cache and a file of an older data set."""
    folder.mkdir(parents=True, exist_ok=True)
    for i, name in enumerate(names):
        stream(folder / name, [{"tokens": [i] * (i + 1)}])
    stream(folder / "cache-0123456789abcdef.arrow", [{"tokens": [99]}])
    stream(folder / "data-00007-of-00008.arrow", [{"tokens": [98]}])
    listed = [{"filename": name} for name in names]
    (folder / "state.json").write_text(json.dumps({"_data_files": listed, **state}))
    return folder


@pytest.mark.parametrize(
    "names", [["data-00000-of-00001.arrow"], ["b.arrow", "a.arrow"], [f"{i}.arrow" for i in (10, 9, 100)]]
)
def test_the_files_of_the_state_in_its_order(tmp_path, names):
    folder = folder_with(tmp_path / "saved", names)
    expected = [[i] * (i + 1) for i in range(len(names))]
    assert sq.load(folder).tolist() == expected
    assert sq.load(str(folder), column="tokens").tolist() == expected
    assert sq.load([folder, folder]).tolist() == expected * 2


def test_a_folder_without_a_state_has_all_files(tmp_path):
    folder = folder_with(tmp_path / "saved", ["a.arrow"])
    for text in ("[]", '{"epoch": 3}'):  # a state of somebody else's
        (folder / "state.json").write_text(text)
        assert sq.load(folder).tolist() == [[0], [99], [98]]
    for text in ("", "{", '{"_data_files": [{"file', "[" * 100_000):  # which files are the data set's?
        (folder / "state.json").write_text(text)
        with pytest.raises(ValueError, match=r"state\.json is damaged, it isn't JSON.*data-\*\.arrow"):
            sq.load(folder)
    (folder / "state.json").unlink()
    assert sq.load(folder).tolist() == [[0], [99], [98]]


@pytest.mark.parametrize(
    ("state", "error", "message"),
    [
        ({"_data_files": []}, FileNotFoundError, "no rows"),
        ({"_data_files": None}, ValueError, "state.json is damaged"),
        ({"_data_files": ["a.arrow"]}, ValueError, "state.json is damaged"),
        ({"_data_files": [{"filename": "../a.arrow"}]}, ValueError, "state.json is damaged"),
        ({"_data_files": [{"filename": ""}]}, ValueError, "state.json is damaged"),
        ({"_data_files": [{"filename": 5}]}, ValueError, "state.json is damaged"),
        ({"_data_files": [{"filename": "missing.arrow"}]}, FileNotFoundError, "missing.arrow"),
        ({"_indices_data_files": [{"filename": "i.arrow"}]}, ValueError, "flatten_indices"),
        ({"_indices_files": [{"filename": "i.arrow"}]}, ValueError, "flatten_indices"),
    ],
)
def test_states_that_do_not_tell(tmp_path, state, error, message):
    folder = folder_with(tmp_path / "saved", ["a.arrow"], **state)
    with pytest.raises(error, match=message):
        sq.load(folder)


def test_splits_are_named(tmp_path):
    for split in ("train", "test"):
        folder_with(tmp_path / split, ["a.arrow"])
    (tmp_path / "dataset_dict.json").write_text('{"splits": ["train", "test"]}')
    with pytest.raises(ValueError, match=r"several splits \(train, test\): load one of them, .*train"):
        sq.load(tmp_path)
    assert len(sq.load(tmp_path / "test")) == 1
    (tmp_path / "dataset_dict.json").unlink()
    (tmp_path / "dataset_info.json").write_text('{"splits": {"train": {}, "test": {}}}')
    with pytest.raises(ValueError, match="splits train, test"):
        sq.load(tmp_path)


@pytest.mark.slow
def test_any_history_of_a_data_set(tmp_path, monkeypatch):
    """Map, filter, shuffle, select and save, with caches in the folder: the rows are those of datasets."""
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets = pytest.importorskip("datasets")
    datasets.disable_progress_bars()
    random_ = random.Random(run_seed() or 0)
    rows = [{"tokens": list(range(i % 5 + 1)), "label": i, "text": f"row {i}"} for i in range(40)]
    steps = {
        "map": lambda data: data.map(lambda row: {"label": row["label"] + 1}),
        "filter": lambda data: data.filter(lambda row: row["label"] % 7 != 3),
        "shuffle": lambda data: data.shuffle(seed=random_.randrange(100)),
        "select": lambda data: data.select(random_.sample(range(len(data)), len(data) // 2 + 1)),
    }
    cached = 0
    for case in range(6):
        folder = tmp_path / f"{case} 0"
        datasets.Dataset.from_list(rows).save_to_disk(folder, num_shards=random_.choice([1, 3]))
        for step in range(3):
            data = datasets.load_from_disk(folder)
            used = random_.choices([*steps], k=2)
            for name in used:
                data = steps[name](data)
            assert rows_of(sq.load(folder)) == list(datasets.load_from_disk(folder)), (case, step, used)
            cached += len(list(folder.glob("cache-*.arrow")))
            folder = tmp_path / f"{case} {step + 1}"
            data.save_to_disk(folder, num_shards=random_.choice([1, 2, 4]))
            assert rows_of(sq.load(folder)) == list(data), (case, step, used)
        # Over an older one with more files.
        shutil.copytree(folder, tmp_path / f"{case} over")
        fewer = datasets.load_from_disk(folder).select(range(3))
        fewer.save_to_disk(tmp_path / f"{case} over", num_shards=1)
        assert rows_of(sq.load(tmp_path / f"{case} over")) == list(fewer)
    assert cached > 6  # files that must not be loaded
    both = datasets.DatasetDict(train=fewer, test=fewer)
    both.save_to_disk(tmp_path / "both")
    with pytest.raises(ValueError, match=r"\(train, test\)"):
        sq.load(tmp_path / "both")
    assert rows_of(sq.load(tmp_path / "both" / "test")) == list(fewer)
    datasets.Dataset.from_dict({"a": []}).save_to_disk(tmp_path / "none")
    with pytest.raises(FileNotFoundError, match="no rows"):
        sq.load(tmp_path / "none")
