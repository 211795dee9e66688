"""Temporary files of killed writers: the next writer in the folder removes them, but none that is in use."""

import errno
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.races import together
from support.saved import ragged

import seqcore as sq
from seqcore._files import targets

fcntl = pytest.importorskip("fcntl")

# Write a part, say so, and wait for a line before the next one.
WRITER = """
import sys, numpy as np, seqcore as sq
def parts():
    yield sq.TensorSequence([[1, 2], [3]])
    print("began", flush=True)
    if not sys.stdin.readline().strip():
        raise SystemExit("ended")
    yield sq.TensorSequence([[4]])
sq.save(sys.argv[1], parts())
print("saved", flush=True)
"""


@pytest.fixture(autouse=True)
def looks_at_once(monkeypatch):
    monkeypatch.setattr(targets, "_NEXT_LOOKS", {})


@pytest.fixture
def begun():
    """Begin to write a file in another process."""
    writers = []

    def begin(path):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        writers.append(writer)
        assert writer.stdout.readline() == "began\n"
        return writer

    yield begin
    for writer in writers:
        writer.kill()
        writer.communicate()


def left(folder):
    return sorted(one.name for one in Path(folder).iterdir() if one.name.startswith(".seqcore-"))


def kill(writer):
    writer.kill()
    writer.wait()


def test_the_next_save_removes_those_of_killed_writers(tmp_path, begun):
    killed, running = begun(tmp_path / "a.arrow"), begun(tmp_path / "b.arrow")
    assert len(left(tmp_path)) == 2
    kill(killed)
    assert len(left(tmp_path)) == 2
    sq.save(tmp_path / "c.arrow", [[1]])
    (in_use,) = left(tmp_path)
    targets._NEXT_LOOKS.clear()
    sq.save(tmp_path / "c.arrow", [[1]])
    assert left(tmp_path) == [in_use]
    assert running.communicate("go on\n")[0] == "saved\n"
    assert left(tmp_path) == []
    assert sq.load(tmp_path / "b.arrow").tolist() == [[1, 2], [3], [4]]
    assert sorted(os.listdir(tmp_path)) == ["b.arrow", "c.arrow"]


def test_one_that_is_written_again_in_other_widths(tmp_path):
    """Two temporary files at a time, in the process that looks for others."""

    def parts():
        yield sq.TensorSequence([[[1, 2]]])
        sq.save(tmp_path / "b.arrow", [[1]])
        targets._NEXT_LOOKS.clear()
        yield sq.TensorSequence([[[1, 2, 3]]])
        targets._NEXT_LOOKS.clear()
        sq.save(tmp_path / "b.arrow", [[1]])
        assert len(left(tmp_path)) == 1

    sq.save(tmp_path / "a.arrow", parts())
    assert sq.load(tmp_path / "a.arrow").tolist() == [[[1, 2]], [[1, 2, 3]]]
    assert left(tmp_path) == []


def test_threads_leave_each_other_s_files(tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "_NEXT_LOOKS", type("Never", (dict,), {"get": lambda self, key, other: 0})())

    def write(k):
        for i in range(10):
            sq.save(tmp_path / f"{k} {i}.arrow", (ragged([k + 1, i]) for _ in range(2)))

    together(*(lambda k=k: write(k) for k in range(4)))
    for k in range(4):
        assert all(len(sq.load(tmp_path / f"{k} {i}.arrow")) == 4 for i in range(10))
    assert left(tmp_path) == []


NUMBER = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    "name",
    [
        ".seqcore-{number}.part",  # of a writer without a lock, or of version 0.1
        ".seqcore-{number}-{number}.part",  # of another system
        ".seqcore-{host}-{number}.other",
        "seqcore-{host}-{number}.part",
    ],
)
def test_what_others_may_have_in_use_stays(tmp_path, name):
    name = name.format(number=NUMBER, host=targets._host_id())
    (tmp_path / name).write_bytes(b"1")
    sq.save(tmp_path / "a.arrow", [[1]])
    assert sorted(os.listdir(tmp_path)) == sorted(["a.arrow", name])


def test_links_and_folders_of_such_a_name_stay(tmp_path):
    (tmp_path / "own").write_bytes(b"1")
    (tmp_path / f".seqcore-{targets._host_id()}-1.part").symlink_to("own")
    (tmp_path / f".seqcore-{targets._host_id()}-2.part").mkdir()
    os.mkfifo(tmp_path / f".seqcore-{targets._host_id()}-3.part")
    before = left(tmp_path)
    sq.save(tmp_path / "a.arrow", [[1]])
    assert (tmp_path / "own").read_bytes() == b"1"
    assert left(tmp_path) == before
    assert len(before) == 3


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS])
def test_without_locks_nothing_is_removed(tmp_path, monkeypatch, number):
    """A file system without locks: a writer's file has a name that nobody removes, even where locks work."""
    locks = fcntl.flock

    def refuse(*arguments):
        raise OSError(number, "no locks here")

    def parts():
        monkeypatch.setattr(fcntl, "flock", locks)
        targets._NEXT_LOOKS.clear()
        sq.save(tmp_path / "b.arrow", [[1]])
        assert len(left(tmp_path)) == 1
        yield sq.TensorSequence([[1]])

    abandoned = tmp_path / f".seqcore-{targets._host_id()}-{NUMBER}.part"
    abandoned.write_bytes(b"1")
    monkeypatch.setattr(fcntl, "flock", refuse)
    writer = targets.Temporary(str(tmp_path / "c.arrow"))
    writer.open()
    assert abandoned.exists()
    writer.remove()
    sq.save(tmp_path / "a.arrow", parts())
    assert sorted(os.listdir(tmp_path)) == ["a.arrow", "b.arrow"]


def test_an_unknown_host_has_no_such_names(tmp_path, monkeypatch):
    monkeypatch.setattr(targets, "_host_id", lambda: None)
    temporary = targets.Temporary(str(tmp_path / "a.arrow"))
    temporary.open()
    assert left(tmp_path) == [os.path.basename(temporary.name)]
    assert temporary.name.count("-") == os.fspath(tmp_path).count("-") + 1
    temporary.remove()
    assert left(tmp_path) == []


def test_a_folder_is_not_listed_for_each_file(tmp_path, monkeypatch):
    """Or many files in one folder would take quadratic time."""
    listed, real = [], os.listdir

    def listdir(folder):
        listed.append(folder)
        time.sleep(0.01)
        return real(folder)

    monkeypatch.setattr(os, "listdir", listdir)
    for i in range(5):
        temporary = targets.Temporary(str(tmp_path / f"{i}.arrow"))
        temporary.open()
        temporary.remove()
    assert len(listed) == 1


def test_where_open_files_are_never_removed(tmp_path, monkeypatch):
    """As on Windows: by their age, since an open one can't be removed."""
    monkeypatch.setattr(targets, "fcntl", None)
    host = targets._host_id()
    old, new = (tmp_path / f".seqcore-{host}-{k}.part" for k in (1, 2))
    for one in (old, new):
        one.write_bytes(b"1")
    os.utime(old, (time.time() - 7200,) * 2)
    sq.save(tmp_path / "a.arrow", [[1], [2, 3]])
    assert left(tmp_path) == [new.name]
    assert sq.load(tmp_path / "a.arrow").tolist() == [[1], [2, 3]]
