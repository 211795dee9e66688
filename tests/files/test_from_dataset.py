"""Data sets of Hugging Face as Columns: the rows that the data set itself gives, pickled by path."""

import os
import pickle

import numpy as np
import pytest

from seqcore import Columns, TensorSequence, load, save

datasets = pytest.importorskip("datasets")
pytestmark = pytest.mark.filterwarnings("ignore")  # of datasets and its packages

N = 40


def source(n=N, first=0):
    return {
        "tokens": [list(range(i % 7)) for i in range(first, first + n)],
        "label": list(range(first, first + n)),
        "text": [f"row {i}" for i in range(first, first + n)],
        "box": [[i, i + 1.5] for i in range(first, first + n)],
    }


FEATURES = datasets.Features(
    {
        "tokens": datasets.Sequence(datasets.Value("int32")),
        "label": datasets.Value("int64"),
        "text": datasets.Value("string"),
        "box": datasets.Sequence(datasets.Value("float32"), length=2),
    }
)


@pytest.fixture
def mapped(tmp_path):
    data = datasets.Dataset.from_dict(source(), features=FEATURES)
    data.save_to_disk(tmp_path / "set", num_shards=3)
    return datasets.load_from_disk(str(tmp_path / "set"))


WAYS = {
    "whole": lambda data: data,
    "a slice": lambda data: data.select(range(5, 30)),
    "slices of slices": lambda data: data.select(range(5, 30)).select(range(10, 20)),
    "select": lambda data: data.select([3, 1, 39, 3]),
    "shuffle": lambda data: data.shuffle(seed=3),
    "shuffled slices": lambda data: data.shuffle(seed=3).select(range(4, 9)),
    "filter": lambda data: data.filter(lambda row: row["label"] % 3 == 0, load_from_cache_file=False),
    "sort": lambda data: data.sort("label", reverse=True),
    "shard": lambda data: data.shard(3, 1),
    "split": lambda data: data.train_test_split(0.3, seed=1)["train"],
    "renamed": lambda data: data.rename_column("tokens", "input_ids").shuffle(seed=1),
    "removed": lambda data: data.remove_columns(["text"]).select(range(9)),
    "selected columns": lambda data: data.select_columns(["label", "tokens"]),
    "renamed twice": lambda data: data.rename_columns({"tokens": "label", "label": "tokens"}),
    "concatenated": lambda data: datasets.concatenate_datasets([data.select(range(7)), data.shuffle(seed=2)]),
    "side by side": lambda data: datasets.concatenate_datasets(
        [data, data.select_columns(["label"]).rename_column("label", "other")], axis=1
    ),
    "cast": lambda data: data.cast_column("label", datasets.Value("int32")),
    "with a format": lambda data: data.with_format("numpy"),
    "none": lambda data: data.select([]),
}
BY_DATA = ("cast", "none")


def expected(data):
    return [{name: row[name] for name in data.column_names} for row in data.with_format(None)]


def rows_of(columns):
    return [
        {name: getattr(value, "tolist", lambda v=value: v)() for name, value in row.items()}
        for row in columns
    ]


@pytest.mark.parametrize("way", WAYS)
def test_rows_are_those_of_the_dataset(mapped, way):
    data = WAYS[way](mapped)
    columns = Columns.from_dataset(data)
    assert columns.names == data.column_names
    assert rows_of(columns) == expected(data)
    if way not in BY_DATA:
        numbers = columns[[name for name in columns.names if name != "text"]]
        assert len(pickle.dumps(numbers)) < 1500
        assert b"corpus" in pickle.dumps(numbers) or b".arrow" in pickle.dumps(numbers)
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_a_dataset_of_a_table_that_was_saved(tmp_path):
    """Its file has other metadata than the data set, which replaces them when it is loaded."""
    pa = pytest.importorskip("pyarrow")
    given = Columns({"tokens": TensorSequence([[1, 2], [3]] * 2000), "label": np.arange(4000)})
    datasets.Dataset(pa.table(given)).save_to_disk(tmp_path / "set")
    loaded = Columns.from_dataset(datasets.load_from_disk(str(tmp_path / "set")).shuffle(seed=1))
    assert len(pickle.dumps(loaded)) < 2_000 + 8 * 4000
    assert pickle.loads(pickle.dumps(loaded)) == loaded


def test_kinds_of_columns(mapped):
    columns = Columns.from_dataset(mapped)
    assert isinstance(columns["tokens"], TensorSequence)
    assert columns["tokens"].dtype == np.int32
    assert columns["box"].shape == (N, 2)
    assert columns["label"].tolist() == list(range(N))
    assert columns["text"][3] == "row 3"


def test_columns_are_selected(mapped):
    assert Columns.from_dataset(mapped, ["label", "tokens"]).names == ["label", "tokens"]
    mapped.set_format(columns=["tokens"])
    assert Columns.from_dataset(mapped).names == ["tokens"]
    assert Columns.from_dataset(mapped, columns=["label"]).names == ["label"]
    with pytest.raises(KeyError, match="there is no column 'x', only tokens, label"):
        Columns.from_dataset(mapped, ["x"])
    with pytest.raises(TypeError, match="columns must be a list of names"):
        Columns.from_dataset(mapped, "tokens")


def test_a_dataset_in_memory_pickles_as_data():
    data = datasets.Dataset.from_dict(source(), features=FEATURES).shuffle(seed=1)
    columns = Columns.from_dataset(data)
    assert rows_of(columns) == expected(data)
    assert pickle.loads(pickle.dumps(columns)) == columns


def test_what_is_refused(mapped, tmp_path):
    with pytest.raises(TypeError, match="a DatasetDict of 'train', 'test': pass dataset"):
        Columns.from_dataset(mapped.train_test_split(0.5))
    streaming = mapped.to_iterable_dataset()
    with pytest.raises(TypeError, match=r"streaming IterableDataset.*dataset\.with_format\('arrow'\)"):
        Columns.from_dataset(streaming)
    save(tmp_path / "saved.arrow", map(Columns.from_arrow, streaming.with_format("arrow").iter(7)))
    assert load(tmp_path / "saved.arrow")["tokens"] == Columns.from_dataset(mapped)["tokens"]
    for wrong in ({"tokens": [[1]]}, [1], None):
        with pytest.raises(TypeError, match=r"expected a datasets\.Dataset, got"):
            Columns.from_dataset(wrong)

    def doubled(batch):
        return batch

    with pytest.raises(ValueError, match=r"the transform .*doubled, which makes its rows"):
        Columns.from_dataset(mapped.with_transform(doubled))
    with pytest.raises(TypeError, match=r"column 'a': .*null.*columns=\['b'\] leaves it out"):
        Columns.from_dataset(datasets.Dataset.from_dict({"a": [[1], None], "b": [1, 2]}))
    records = datasets.Dataset.from_dict({"a": [{"x": 1}, {"x": 2}], "b": [1, 2]})
    with pytest.raises((TypeError, ValueError), match=r"column 'a': .*columns=\['b'\] leaves it out"):
        Columns.from_dataset(records)
    assert Columns.from_dataset(records, ["b"])["b"].tolist() == [1, 2]


@pytest.mark.parametrize(
    "call",
    [Columns, Columns.from_arrow, TensorSequence.from_arrow, lambda data: save("data.arrow", data)],
    ids=["Columns", "from_arrow", "a column", "save"],
)
def test_other_calls_name_this_one(mapped, call):
    for given in (mapped, mapped.to_iterable_dataset()):
        with pytest.raises(TypeError, match=r"Columns\.from_dataset"):
            call(given)


def test_a_file_that_changed_since_it_was_pickled(mapped, tmp_path):
    data = pickle.dumps(Columns.from_dataset(mapped, ["tokens"]))
    for file in (tmp_path / "set").glob("*.arrow"):
        file.write_bytes(file.read_bytes() + b"\0" * 8)
    with pytest.raises(ValueError, match="has changed since"):
        pickle.loads(data)


@pytest.mark.skipif(os.name == "nt", reason="it replaces no mapped file")
@pytest.mark.parametrize("is_told", [True, False])
def test_a_file_that_was_replaced_while_it_is_mapped(mapped, tmp_path, monkeypatch, is_told):
    path = str(tmp_path / "cache.arrow")

    def times(factor):
        def changed(row):
            return {"tokens": [factor * token for token in row["tokens"]]}

        return mapped.map(changed, cache_file_name=path, load_from_cache_file=False)

    old, new = times(10), times(99)
    if not is_told:
        monkeypatch.setattr("seqcore._files.datasets.files_at", lambda addresses: None)
    for data in (old, new, old.shuffle(seed=1), datasets.concatenate_datasets([new, old])):
        columns = Columns.from_dataset(data)
        assert rows_of(columns) == expected(data)
        assert pickle.loads(pickle.dumps(columns)) == columns
    assert len(pickle.dumps(Columns.from_dataset(new, ["tokens", "label"]))) < 1000
    os.remove(path)
    assert rows_of(Columns.from_dataset(new)) == expected(new)
