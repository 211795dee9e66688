"""Damaged files and files of other kinds: an error that names the file, or elements that can all be read."""

import gzip
import io
import re
import zipfile

import numpy as np
import pytest
from support import damaged_files, odd_files
from support.processes import lines_of
from support.random_cases import run_seed
from support.saved import needs_proc, open_files, pa, ragged, shaped_table, write_column, write_table
from support.strategies import assert_holds

import seqcore as sq
from seqcore import TensorSequence

KINDS = [*damaged_files.KINDS]


@pytest.mark.slow
@pytest.mark.parametrize("kinds", [KINDS[i::3] for i in range(3)], ids=" ".join)
@pytest.mark.mostly_at_night(3)
def test_no_damage_is_a_crash(tmp_path, kinds):
    """In a process of its own, whose last line says what it crashed at; more and other cases with a seed."""
    some = "::53" if run_seed() is None else f"{run_seed() % 13}::13"
    lines = lines_of(damaged_files, tmp_path, some, *kinds)
    assert lines[-1] == "ended"
    assert len(lines) > 250


def test_no_odd_file_is_a_crash(tmp_path):
    lines = lines_of(odd_files, tmp_path)
    assert lines[-1] == f"ended {len(odd_files.CASES)}"
    assert len(lines) > len(odd_files.CASES) > 100


# --- files of other kinds ---


def stream():
    sink = io.BytesIO()
    table = pa.table({"tensors": [[1, 2], [3]]})
    with pa.ipc.new_stream(sink, table.schema) as to:
        to.write_table(table)
    return sink.getvalue()


def parquet():
    sink = io.BytesIO()
    pytest.importorskip("pyarrow.parquet").write_table(pa.table({"tensors": [[1, 2], [3]]}), sink)
    return sink.getvalue()


def archive():
    sink = io.BytesIO()
    with zipfile.ZipFile(sink, "w") as to:
        to.writestr("a.txt", "text")
    return sink.getvalue()


def numpys():
    sink = io.BytesIO()
    np.save(sink, np.arange(10))
    return sink.getvalue()


FOREIGN = {
    "nothing": (lambda: b"", r"(?i)empty|no bytes|0 bytes"),
    "parquet": (parquet, r"(?i)parquet"),
    "half a stream": (lambda: stream()[:-60], r"(?i)damaged|incomplete"),
    "text": (lambda: b"a,b\n1,2\n3,4\n" * 30, r"(?i)text|CSV"),
    "short text": (lambda: b"hi\n", r"."),
    "JSON": (lambda: b'{"tensors": [[1, 2], [3]]}' * 10, r"(?i)text|JSON"),
    "zip": (archive, r"."),
    "gzip": (lambda: gzip.compress(stream()), r"."),
    "NumPy's": (numpys, r"."),
    "Feather's first": (lambda: b"FEA1\0\0\0\0" + bytes(100) + b"\0\0\0\0FEA1", r"."),
    "zeros": (lambda: bytes(4096), r"."),
    "one byte": (lambda: b"A", r"."),
    "the magic": (lambda: b"ARROW1", r"."),
    "the magic twice": (lambda: b"ARROW1\0\0ARROW1", r"."),
    "the magic around nothing": (lambda: b"ARROW1\0\0\0\0\0\0ARROW1", r"."),
    "the magic around zeros": (lambda: b"ARROW1\0\0" + bytes(1000) + b"\x08\0\0\0ARROW1", r"."),
    "a negative footer": (lambda: b"ARROW1\0\0" + bytes(100) + b"\xff\xff\xff\xffARROW1", r"."),
}


@pytest.mark.parametrize(("make", "match"), FOREIGN.values(), ids=FOREIGN)
def test_other_kinds_are_told(path, make, match):
    data = make()
    path.write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        sq.load(path)
    assert re.search(match, str(caught.value).replace(str(path), ""))
    assert path.read_bytes() == data


@pytest.mark.parametrize("keep", [0.2, 0.5, 0.9, 0.999])
def test_what_is_cut_off_is_told(path, keep):
    sq.save(path, ragged([100, 200, 300]))
    data = path.read_bytes()
    path.write_bytes(data[: int(keep * len(data))])
    with pytest.raises(ValueError, match=re.escape(str(path))) as caught:
        sq.load(path)
    assert re.search(r"(?i)cut|truncat|incomplete|damage|end", str(caught.value).replace(str(path), ""))


def test_damaged_strings(path):
    sq.save(path, [np.array(["abcdefgh", "x"], object)])
    data = path.read_bytes()
    assert data.count(b"abcdefgh") == 1
    path.write_bytes(data.replace(b"abcdefgh", b"abc\xff\xfefgh"))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        sq.load(path)


@pytest.mark.skipif(not hasattr(pa, "bool8"), reason="pyarrow's bools of bytes came with 18")
def test_bytes_that_are_no_bools(path):
    """Another one's bytes for bools are no NumPy bools: they are true or false in every use."""
    storage = pa.array([0, 1, 2, 77, -1, -128, 0], pa.int8())
    bools = pa.ExtensionArray.from_storage(pa.bool8(), storage)
    write_column(path, pa.LargeListArray.from_arrays([0, 3, 7], bools))
    first, second = sq.load(path)
    assert [*first, *second] == [False, True, True, True, True, True, False]
    assert (first.sum(), second.sum()) == (2, 3)
    assert np.array_equal(~second, [False, False, False, True])
    assert {*first.tobytes(), *second.tobytes()} == {0, 1}


def test_a_size_that_no_memory_holds(path):
    """A damaged length of what is compressed."""
    write_column(path, pa.array([[1] * 9000]), compression="lz4")
    data, length = path.read_bytes(), (72_000).to_bytes(8, "little")
    assert data.count(length) == 1
    path.write_bytes(data.replace(length, (1 << 47).to_bytes(8, "little")))
    with pytest.raises(ValueError, match=re.escape(str(path))):
        sq.load(path)


def test_a_shape_that_is_not_the_data_s(path):
    """Tensors whose shape doesn't go with how many numbers there are."""
    for shape in ([2, 3], [-1, -4], [1 << 16, 1 << 16], [0, 5], [(1 << 31) - 1] * 2, [-2, 2]):
        write_table(path, shaped_table([1, 2, 3, 4], [0, 4], [shape]))
        seq = sq.load(path)
        for use in (lambda seq: seq[0], list, TensorSequence.tolist, lambda seq: seq.shapes):
            with pytest.raises(ValueError, match=f"element 0.*can't be read.*{re.escape(str(path))}"):
                use(seq)
        del seq[0]
        assert len(seq) == 0


@needs_proc
@pytest.mark.thread_unsafe
def test_what_fails_leaves_no_file_open(path):
    sq.save(path, ragged([3, 4]))
    data = path.read_bytes()
    before = open_files()
    for i in range(0, len(data), 3):
        path.write_bytes(data[:i])
        with pytest.raises(ValueError, match=path.name):
            sq.load(path)
    assert open_files() == before
    path.write_bytes(data)
    assert_holds(sq.load(path), list(ragged([3, 4])))


@pytest.mark.thread_unsafe
@pytest.mark.parametrize(
    ("error", "kind"), [(OSError("cut off"), ValueError), (OSError(5, "cut off"), OSError)]
)
def test_only_the_system_s_own_errors_are_of_the_system(path, monkeypatch, error, kind):
    """pyarrow raises OSError too, without a number, for what is wrong in a file."""

    def fail(*args):
        raise error

    sq.save(path, ragged([3]))
    monkeypatch.setattr("seqcore._files.reading._content", fail)
    with pytest.raises(kind, match="cut off") as caught:
        sq.load(path)
    assert type(caught.value) is kind
    assert str(path) in str(caught.value)
