"""Megatron's `.bin` and `.idx`: written byte for byte, mapped, pickled by path, damaged and changed."""

import os
import pickle
import struct
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqcore as sq
from seqcore import Columns, TensorSequence

# As the format has them; not from the module, which this has to find wrong.
CODES = {"uint8": 1, "int8": 2, "int16": 3, "int32": 4, "int64": 5, "float64": 6, "float32": 7, "uint16": 8}
HEADER = "<9sQBQQ"


def pair(documents, dtype, boundaries=None, modes=b""):
    """The bytes of a pair, each number packed by itself."""
    sizes = [len(document) for document in documents]
    starts = [sum(sizes[:i]) * np.dtype(dtype).itemsize for i in range(len(sizes))]
    boundaries = range(len(sizes) + 1) if boundaries is None else boundaries
    index = struct.pack(HEADER, b"MMIDIDX\0\0", 1, CODES[dtype], len(sizes), len(boundaries))
    index += struct.pack(f"<{len(sizes)}i", *sizes) + struct.pack(f"<{len(sizes)}q", *starts)
    index += struct.pack(f"<{len(boundaries)}q", *boundaries) + modes
    return index, b"".join(np.asarray(document, dtype).tobytes() for document in documents)


def put(folder, documents, dtype="int32", **options):
    index, tokens = pair(documents, dtype, **options)
    (folder / "corpus.idx").write_bytes(index)
    (folder / "corpus.bin").write_bytes(tokens)
    return folder / "corpus.idx"


DOCUMENTS = [[1, 2, 3], [], [4], [5, 6, 7, 8]]


@pytest.mark.parametrize("suffix", ["idx", "bin"])
@pytest.mark.parametrize("dtype", CODES)
def test_a_pair_is_written_and_read_as_the_format_says(tmp_path, dtype, suffix):
    path = tmp_path / f"corpus.{suffix}"
    sq.save(path, TensorSequence([np.array(one, dtype) for one in DOCUMENTS]))
    index, tokens = pair(DOCUMENTS, dtype)
    assert (tmp_path / "corpus.idx").read_bytes() == index
    assert (tmp_path / "corpus.bin").read_bytes() == tokens
    assert sorted(os.listdir(tmp_path)) == ["corpus.bin", "corpus.idx"]
    loaded = sq.load(path)
    assert loaded.dtype == dtype
    assert loaded.tolist() == DOCUMENTS
    assert not loaded[0].flags.writeable


@given(st.lists(st.lists(st.integers(-9, 9), max_size=5), max_size=200), st.integers(1, 60))
def test_many_parts_are_one_pair(tmp_path_factory, documents, size):
    folder = tmp_path_factory.mktemp("pairs")
    parts = [TensorSequence(documents[i : i + size], "int16") for i in range(0, len(documents), size)]
    sq.save(folder / "corpus.idx", [*parts, TensorSequence(dtype="int16")])
    index, tokens = pair(documents, "int16")
    assert (folder / "corpus.idx").read_bytes() == index
    assert (folder / "corpus.bin").read_bytes() == tokens
    loaded = sq.load(folder / "corpus.idx")
    assert loaded.tolist() == documents
    assert loaded.lengths().tolist() == [*map(len, documents)]
    assert loaded[::-1].windows(2).tolist() == [
        one[k : k + 2] for one in documents[::-1] for k in range(0, len(one), 2)
    ]
    assert pickle.loads(pickle.dumps(loaded)) == loaded


def test_several_sequences_a_document_and_modes(tmp_path):
    path = put(tmp_path, DOCUMENTS, boundaries=[0, 2, 4], modes=b"\0\1\0\1")
    assert sq.load(path).tolist() == DOCUMENTS


def test_pairs_without_tokens(tmp_path):
    assert len(sq.load(put(tmp_path, []))) == 0
    assert sq.load(put(tmp_path, [[], []])).tolist() == [[], []]
    sq.save(tmp_path / "none.idx", TensorSequence(dtype="uint16"))
    assert sq.load(tmp_path / "none.idx") == TensorSequence(dtype="uint16")


def test_several_pairs_are_one_sequence(tmp_path):
    for name in "ab":
        sq.save(tmp_path / f"{name}.idx", TensorSequence(DOCUMENTS, "int32"))
    assert sq.load(str(tmp_path / "*.idx")).tolist() == DOCUMENTS * 2
    assert sq.load([tmp_path / "a.bin", tmp_path / "b.idx"]).tolist() == DOCUMENTS * 2


@pytest.mark.parametrize("names", ["a", "ab", "abc"])
@pytest.mark.parametrize("is_first", [True, False])
def test_a_pair_beside_files_of_columns(tmp_path, names, is_first):
    """It is one sequence, and so is a file of one column."""
    pytest.importorskip("pyarrow", reason="some files are tables")
    paths = [put(tmp_path, DOCUMENTS), tmp_path / "table.arrow"][:: 1 if is_first else -1]
    sq.save(tmp_path / "table.arrow", Columns({name: TensorSequence([[9]], "int32") for name in names}))
    if len(names) > 1:
        for load in (sq.load, Columns.load):
            with pytest.raises(ValueError, match=r"has several columns: load them|it has \d columns"):
                load(paths)
        return
    assert sq.load(paths).tolist() == ([*DOCUMENTS, [9]] if is_first else [[9], *DOCUMENTS])
    columns = Columns.load(paths)
    assert columns[columns.names[0]].tolist() == sq.load(paths).tolist()


def test_no_package_is_needed(tmp_path):
    put(tmp_path, DOCUMENTS)
    code = """
import sys
sys.modules["pyarrow"] = None
import seqcore as sq
sq.save("other.idx", sq.load("corpus.idx"))
assert sq.load("other.bin").tolist() == sq.load("corpus.bin").tolist()
"""
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=60)


# -- pickles -------------------------------------------------------------------------------------------


def test_pickles_are_paths_and_positions(tmp_path):
    path = put(tmp_path, [range(1000)] * 500)
    loaded = sq.load(path)
    for part in (loaded, loaded[::2], loaded[[7, 3]], loaded[10:20] + loaded[:3]):
        data = pickle.dumps(part)
        assert len(data) < 1000
        assert pickle.loads(data) == part
    assert loaded.pinned_nbytes >= 500 * 4000


@pytest.mark.parametrize("changed", ["corpus.idx", "corpus.bin"])
def test_changed_files_are_errors(tmp_path, changed):
    data = pickle.dumps(sq.load(put(tmp_path, DOCUMENTS)))
    before = (tmp_path / changed).read_bytes()
    (tmp_path / changed).write_bytes(before + b"\0" * 4)
    with pytest.raises(ValueError, match=f"{changed} has changed since"):
        pickle.loads(data)
    (tmp_path / changed).unlink()
    with pytest.raises(FileNotFoundError):
        pickle.loads(data)


# -- damage --------------------------------------------------------------------------------------------


def test_any_truncated_or_altered_index_is_an_error_or_the_same(tmp_path):
    path = put(tmp_path, DOCUMENTS)
    index = path.read_bytes()
    for size in range(9, len(index)):
        path.write_bytes(index[:size])
        with pytest.raises(ValueError, match=r"corpus.idx (is damaged|can't be read)"):
            sq.load(path)
    numbers = range(9, len(index) - 8 * 5)  # documents are not read
    for at in numbers:
        path.write_bytes(index[:at] + bytes([index[at] ^ 0x81]) + index[at + 1 :])
        with pytest.raises(ValueError, match="damaged"):
            assert sq.load(path).tolist() == DOCUMENTS


def test_a_last_sequence_that_begins_or_ends_before_it_does_is_found_at_once(tmp_path):
    path = put(tmp_path, DOCUMENTS)
    n, given = len(DOCUMENTS), path.read_bytes()
    for form, at in (("<i", 4 * (n - 1)), ("<q", 4 * n + 8 * (n - 1))):
        index = bytearray(given)
        struct.pack_into(form, index, struct.calcsize(HEADER) + at, -8)
        path.write_bytes(index)
        with pytest.raises(ValueError, match=f"damaged, or .*: sequence {n - 1} has"):
            sq.load(path)


def test_an_element_that_disagrees_is_named(tmp_path):
    path = put(tmp_path, DOCUMENTS)
    index = bytearray(path.read_bytes())
    struct.pack_into("<i", index, struct.calcsize(HEADER) + 8, 2)  # of element 2, which has one token
    path.write_bytes(index)
    loaded = sq.load(path)
    assert loaded[0].tolist() == [1, 2, 3]
    for read in (
        lambda: loaded[2],
        lambda: loaded.lengths(),
        lambda: loaded[1:].windows(2),
        loaded.to_padded,
    ):
        with pytest.raises(
            ValueError, match=r"number 2 of the file, can't be read: its pointer .*corpus\.idx"
        ):
            read()


def test_tokens_that_are_missing(tmp_path):
    path = put(tmp_path, DOCUMENTS)
    tokens = (tmp_path / "corpus.bin").read_bytes()
    for size in (0, 4, len(tokens) - 1):
        (tmp_path / "corpus.bin").write_bytes(tokens[:size])
        with pytest.raises(ValueError, match=r"corpus.bin is incomplete: sequence 3 has 4 tokens"):
            sq.load(path)
    (tmp_path / "corpus.bin").unlink()
    with pytest.raises(FileNotFoundError):
        sq.load(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="this system has no named pipes")
def test_a_pipe_is_not_waited_for(tmp_path):
    path = put(tmp_path, DOCUMENTS)
    (tmp_path / "corpus.bin").unlink()
    os.mkfifo(tmp_path / "corpus.bin")
    with pytest.raises(OSError, match="expected a file, got a folder or a device"):
        sq.load(path)


# -- what a pair can't hold ----------------------------------------------------------------------------


def test_what_a_pair_can_not_hold(tmp_path):
    path = tmp_path / "corpus.idx"
    sq.save(path, TensorSequence(DOCUMENTS, "int32"))
    before = path.read_bytes()
    for kind, data, match in (
        (TypeError, TensorSequence([[True]]), "dtype bool, which a Megatron index can't have"),
        (TypeError, TensorSequence(["a"]), "dtype string"),
        (
            TypeError,
            [TensorSequence([[1]], "int8"), TensorSequence([[1]], "int16")],
            "part 1 has dtype int16",
        ),
        (TypeError, Columns({"a": [[1]]}), r"pass columns\[name\]"),
        (ValueError, TensorSequence([[1], [[2]]]), r"element 1 of part 0 has shape \(1, 1\)"),
        (ValueError, TensorSequence([1, 2]), "rank 1"),
        (ValueError, iter([]), "no dtype"),
    ):
        with pytest.raises(kind, match=match):
            sq.save(path, data)
    assert path.read_bytes() == before
    assert sq.load(path).tolist() == DOCUMENTS
    assert sorted(os.listdir(tmp_path)) == ["corpus.bin", "corpus.idx"]
    with pytest.raises(ValueError, match="has no column 'text'"):
        sq.load(path, column="text")


def test_tokens_without_their_index(tmp_path):
    pytest.importorskip("pyarrow", reason="they are taken for a file of Arrow")
    (tmp_path / "m.bin").write_bytes(bytes(range(1, 64)))
    with pytest.raises(ValueError, match=r"m\.idx, which Megatron writes beside it, is missing"):
        sq.load(tmp_path / "m.bin")


def test_names_in_capitals_are_of_arrow_files(tmp_path):
    pytest.importorskip("pyarrow")
    seq = sq.TensorSequence([[1, 2], [3]])
    sq.save(tmp_path / "c.IDX", seq)
    assert sq.load(tmp_path / "c.IDX") == seq
    assert [one.name for one in tmp_path.iterdir()] == ["c.IDX"]


def test_the_bytes_of_a_file_are_no_path():
    with pytest.raises(ValueError, match=r"expected the path of a file, got b'ARROW1.*Columns\.from_arrow"):
        sq.load(b"ARROW1\0\0" + bytes(5000))
