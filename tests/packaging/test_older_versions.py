"""Files and pickles of all versions since 0.1 can be read: `tests/data/make.py` has written them."""

import importlib.util
import io
import pickle
from pathlib import Path

import numpy as np
import pytest

import seqcore as sq

DATA = Path(__file__).parents[1] / "data"
FOLDERS = sorted(folder for folder in DATA.iterdir() if folder.is_dir() and folder.name[0].isdigit())

spec = importlib.util.spec_from_file_location("make", DATA / "make.py")
make = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make)


class Unpickler(pickle.Unpickler):
    """Read pickles whose files are now in another folder, where they have another time of modification."""

    def __init__(self, path):
        self.folder = path.parent
        super().__init__(io.BytesIO(path.read_bytes()))

    def find_class(self, module, name):
        found = super().find_class(module, name)
        if name != "restore" or module != "seqcore.core.sequence":
            return found
        return lambda cls, dtype, parts, order: found(cls, dtype, [self.moved(part) for part in parts], order)

    def moved(self, part):
        if part[0] == "file":
            kind, path, size, _, *rest = part
            return (kind, *self.stamp(path, size), *rest)
        return tuple(map(self.place, part))

    def place(self, item):
        """Return the place of an array in a file of the folder; anything else as it is."""
        if isinstance(item, tuple) and item and isinstance(item[0], tuple) and len(item[0]) == 3:
            (path, size, _), *rest = item
            return (self.stamp(path, size), *rest)
        return item

    def stamp(self, path, size):
        here = self.folder / path.replace("\\", "/").rpartition("/")[2]
        return str(here), size, here.stat().st_mtime_ns


def check(seq, arrays):
    assert len(seq) == len(arrays)
    for i, (found, expected) in enumerate(zip(seq, arrays, strict=True)):
        assert type(found) is type(expected), i
        if isinstance(expected, (np.ndarray, np.generic)):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape), i
        np.testing.assert_array_equal(found, expected)


def check_columns(columns):
    assert list(columns.names) == list(make.COLUMNS)
    for name, expected in make.COLUMNS.items():
        check(columns[name], expected)
        assert type(columns[name]) is (sq.TensorSequence if isinstance(expected, list) else np.ndarray)


def kind_of(order):
    if isinstance(order, np.ndarray):
        return "runs as an array"
    if len(order) == 2 and isinstance(order[1], np.ndarray):
        return "numbers" if order[0] is None else "parts and numbers"
    return "runs as a tuple"


def test_the_data_have_all_kinds_of_parts_and_orders():
    pytest.importorskip("pyarrow")
    kinds = set()
    for seq in make.in_memory().values():
        _, _, parts, order, *_ = seq.__reduce__()[1]
        kinds |= {kind for kind, *_ in parts} | {kind_of(order)}
    tables = {"whole", "even", "offsets", "views", "shaped"}
    assert kinds == tables | {"numbers", "parts and numbers", "runs as a tuple", "runs as an array"}


def test_there_is_a_folder_for_the_first_version():
    assert [folder.name for folder in FOLDERS][:1] == ["0.1"]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
class TestFolder:
    @pytest.mark.parametrize("name", make.FILES)
    def test_file(self, folder, name):
        pytest.importorskip("pyarrow")
        seq = sq.load(folder / f"{name}.arrow")
        check(seq, make.FILES[name])
        assert seq.dtype == make.FILES[name][0].dtype

    def test_columns(self, folder):
        pytest.importorskip("pyarrow")
        check_columns(sq.load(folder / "columns.arrow"))

    @pytest.mark.parametrize("protocol", [4, 5])
    def test_pickles(self, folder, protocol):
        found = Unpickler(folder / f"memory-{protocol}.pickle").load()
        check_columns(found.pop("Columns"))
        assert found.keys() == make.MEMORY.keys()
        for name, seq in found.items():
            check(seq, make.MEMORY[name])
            seq.append(seq[0] if len(seq) else np.int8([1]))  # and can be edited
            seq._check()

    @pytest.mark.parametrize("protocol", [4, 5])
    def test_bfloat16(self, folder, protocol):
        pytest.importorskip("ml_dtypes")
        check(Unpickler(folder / f"bfloat16-{protocol}.pickle").load(), make.bfloat16())

    @pytest.mark.parametrize("protocol", [4, 5])
    def test_pickles_of_files(self, folder, protocol):
        pytest.importorskip("pyarrow")
        found = Unpickler(folder / f"by_path-{protocol}.pickle").load()
        check_columns(found.pop("columns"))
        assert found.keys() == {*make.BY_PATH, *make.JOINED}
        for name, arrays in make.JOINED.items():
            check(found[name], arrays)
        for name, (file, which) in make.BY_PATH.items():
            arrays = make.FILES[file]
            check(found[name], arrays[which] if isinstance(which, slice) else [arrays[i] for i in which])
