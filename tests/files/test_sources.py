"""Where `load` finds files: folders, patterns, addresses, and Arrow's stream format."""

import contextlib
import io
import os
import pickle
import re
import tempfile
from pathlib import Path

import pytest
from support.saved import lies_in, needs_proc, pa, ragged

import seqcore as sq

PARTS = {"day-1.arrow": [1, 2], "day-10.arrow": [3], "day-2.arrow": [0, 4]}  # in order of name


@pytest.fixture
def folder(tmp_path):
    for k, (name, lengths) in enumerate(PARTS.items()):
        sq.save(tmp_path / name, ragged(lengths, start=10 * k))
    (tmp_path / "notes.txt").write_text("no data")
    (tmp_path / ".seqcore-1234.part").write_bytes(b"half a file")
    (tmp_path / "old.arrow.d").mkdir()
    return tmp_path


def test_a_folder_is_its_files_in_order(folder):
    seq = sq.load(folder)
    assert seq.lengths().tolist() == [1, 2, 3, 0, 4]
    assert seq == sq.load([folder / name for name in PARTS])
    assert seq == sq.load(str(folder)) == sq.load(os.fsencode(folder)) == sq.load([folder])
    assert pickle.loads(pickle.dumps(seq[::-1])) == seq[::-1]


@pytest.mark.parametrize("pattern", ["day-*.arrow", "day-[12]*", "**/*.arrow", "day-?.arrow"])
def test_patterns(folder, pattern):
    found = sorted(path for path in folder.glob(pattern) if path.is_file())
    assert sq.load(folder / pattern) == sq.load(found)
    assert sq.load([folder / "day-2.arrow", str(folder / pattern)]) == sq.load(
        [folder / "day-2.arrow", *found]
    )


def test_a_file_with_the_name_of_a_pattern(tmp_path):
    sq.save(tmp_path / "a[1].arrow", ragged([3]))
    sq.save(tmp_path / "a1.arrow", ragged([4]))
    assert sq.load(tmp_path / "a[1].arrow").lengths().tolist() == [3]
    odd = tmp_path / "odd[1]"
    odd.mkdir()
    sq.save(odd / "b.arrow", ragged([5]))
    assert sq.load(odd).lengths().tolist() == [5]


def test_nothing_there(tmp_path):
    empty = tmp_path / "empty"
    empty.mkdir()
    (empty / "a.parquet").touch()
    with pytest.raises(FileNotFoundError, match=r"no \*\.arrow file in this folder") as caught:
        sq.load(empty)
    assert caught.value.filename == str(empty)
    with pytest.raises(FileNotFoundError, match="no file matches this pattern"):
        sq.load(tmp_path / "*.arrow")


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root is others too")
@pytest.mark.thread_unsafe
@pytest.mark.parametrize("rights", [0o000, 0o311], ids=oct)
def test_folders_that_may_not_be_read(rights):
    """They are not taken for empty ones."""
    with tempfile.TemporaryDirectory() as outer:  # pytest's are for one user
        os.chmod(outer, 0o755)
        folder = Path(outer, "folder")
        folder.mkdir()
        sq.save(folder / "a.arrow", ragged([3]))
        folder.chmod(rights)
        os.seteuid(65534)
        try:
            with contextlib.suppress(PermissionError):
                os.listdir(folder)
                pytest.skip("an emulated root may read all")
            for path in (folder, folder / "*.arrow", folder / "[ab]" / "*.arrow", folder / "**/*.arrow"):
                with pytest.raises(PermissionError, match=re.escape(str(folder))):
                    sq.load(path)
            with pytest.raises(FileNotFoundError, match="no file matches this pattern"):
                sq.load(Path(outer, "none", "*.arrow"))
            if rights == 0o311:  # but its files, by their names
                assert sq.load(folder / "a.arrow").lengths().tolist() == [3]
        finally:
            os.seteuid(0)


@pytest.mark.parametrize(
    "address",
    [
        "s3://bucket/a.arrow",
        "gs://bucket/*.arrow",
        "https://example.org/a",
        "hf://datasets/a/b",
        Path("s3://b/a"),
    ],
)
def test_addresses(address):
    with pytest.raises(ValueError, match=r"is an address, but load maps files on a disk: copy the file"):
        sq.load(address)
    with pytest.raises(ValueError, match=r"is an address, but save writes files on a disk: copy the file"):
        sq.save(address, ragged([5]))


@pytest.mark.parametrize("call", [sq.load, lambda path: sq.save(path, ragged([5]))], ids=["load", "save"])
@pytest.mark.parametrize(
    ("path", "error", "message"),
    [
        ("", FileNotFoundError, "the path is empty"),
        ("a\0b.arrow", ValueError, r"expected the path of a file, got 'a\\x00b\.arrow'"),
        ("file:///tmp/a.arrow", ValueError, "file:///tmp/a.arrow is an address, but .*: pass the path alone"),
    ],
    ids=["empty", "null", "file:"],
)
def test_what_names_no_file(call, path, error, message):
    """The message has the path, and none of the working folder, whether it is read or written."""
    with pytest.raises(error, match=message) as caught:
        call(path)
    assert os.getcwd() not in str(caught.value)


@needs_proc
def test_a_file_whose_bytes_cannot_be_read_is_named():
    with pytest.raises(OSError, match="/proc/"):
        sq.load("/proc/self/mem")


# --- Arrow's stream format ---


def stream_of(path, table, max_chunksize=None, **options):
    with pa.ipc.new_stream(path, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as to:
        to.write_table(table, max_chunksize=max_chunksize)
    return path


@needs_proc
@pytest.mark.parametrize("size", [None, 3])
def test_streams_are_mapped(tmp_path, size):
    seq = ragged([3, 0, 5, 1, 2, 4, 4], "float32")
    path = stream_of(str(tmp_path / "s.arrow"), pa.table({"x": pa.array(seq)}), size)
    loaded = sq.load(path)
    assert loaded == seq
    assert all(lies_in(element, path) for element in loaded if element.size)
    for part in (loaded, loaded[2:], loaded[[5, 0]]):
        sent = pickle.dumps(part)
        assert len(sent) < 700
        assert pickle.loads(sent) == part


def test_streams_of_several_columns(tmp_path):
    table = pa.table(
        {
            "x": pa.array(ragged([2, 1])),
            "y": [0.5, 1.5],
            "z": pa.array([[1, 2], [3, 4]], pa.list_(pa.int8(), 2)),
        }
    )
    path = stream_of(str(tmp_path / "s.arrow"), table, 1)
    columns = sq.load(path)
    assert columns["y"].tolist() == [0.5, 1.5]
    assert columns["z"].shape == (2, 2)
    assert sq.load(path, column="x") == ragged([2, 1])
    packed = stream_of(str(tmp_path / "p.arrow"), table, compression="zstd")
    assert sq.load(packed) == columns


def test_damaged_streams(tmp_path):
    sink = io.BytesIO()
    table = pa.table({"x": pa.array(ragged([500] * 20))})
    with pa.ipc.new_stream(sink, table.schema) as to:
        to.write_table(table)
    path = tmp_path / "s.arrow"
    for size in (6, 40, 300, 2000):
        path.write_bytes(sink.getvalue()[:size])
        with pytest.raises(ValueError, match=re.escape(str(path)) + ".*(damaged|incomplete)"):
            sq.load(path)
