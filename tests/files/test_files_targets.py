"""Where files go: links, devices, folders, odd names, and the rights of a new file."""

import errno
import os
import re
import shutil
import socket
import stat
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
from support.bodies import within
from support.saved import contents, ragged, saved, unchanged
from support.strategies import assert_holds

import seqcore as sq
from seqcore._files import targets

SEQ = ragged([3, 0, 2])
OTHER = ragged([1, 1], start=40)

posix = pytest.mark.skipif(sys.platform == "win32", reason="as POSIX has it")


class Spelled:
    """A path of somebody's own."""

    def __init__(self, path):
        self.path = path

    def __fspath__(self):
        return self.path


@pytest.mark.parametrize("spell", [str, Path, lambda path: Spelled(str(path))], ids=["str", "Path", "own"])
def test_paths_of_any_kind(tmp_path, spell):
    path = spell(tmp_path / "a.arrow")
    assert sq.save(path, SEQ) is None
    assert_holds(sq.load(path), list(SEQ))
    assert_holds(sq.load([path, path]), [*SEQ, *SEQ])
    assert os.listdir(tmp_path) == ["a.arrow"]


@pytest.mark.thread_unsafe
def test_another_working_folder_while_saving(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)

    def parts():
        yield SEQ
        os.chdir("inner")
        yield OTHER

    sq.save("a.arrow", parts())
    assert_holds(sq.load(tmp_path / "a.arrow"), [*SEQ, *OTHER])
    assert os.listdir(tmp_path / "inner") == []


NAMES = [
    "a b",
    "日本語.arrow",
    "é",
    "#?&%41",
    "a'b\"c",
    "-x",
    "~",
    "..x",
    "x.",
    ".hidden",
    "*[a]{b}",
]
NAMES += ["x" * 255, "日" * 85, "new\nline", "back\\slash", "tab\t", "file:x", "s3:", "%s%d{0}"]


@posix
@pytest.mark.parametrize("name", NAMES, ids=lambda name: ascii(name[:9]))
@pytest.mark.thread_unsafe
def test_odd_names(tmp_path, name, monkeypatch):
    try:
        (tmp_path / name).exists()
    except OSError as error:  # as some layers beneath it have it
        pytest.skip(f"this system has no file of such a name: {error.strerror}")
    assert_holds(saved(tmp_path / name, SEQ), list(SEQ))
    monkeypatch.chdir(tmp_path)
    assert_holds(saved(name, OTHER), list(OTHER))
    assert_holds(sq.load([name, tmp_path / name]), [*OTHER, *OTHER])
    assert os.listdir(tmp_path) == [name]
    with unchanged(tmp_path), pytest.raises(TypeError):
        sq.save(name, 3)


def failure_of(call):
    try:
        call()
    except (ValueError, OSError, TypeError) as error:
        return str(error)
    return None


@posix
def test_names_that_are_no_text(tmp_path):
    """They work, or an error says what is the matter."""
    path = os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")
    failure = failure_of(lambda: sq.save(path, SEQ))
    assert os.listdir(os.fsencode(tmp_path)) == ([] if failure else [b"caf\xe9"])
    assert failure is None or re.search(r"caf|encode|UTF-8", failure)
    Path(path).write_bytes(b"no file of Arrow's")
    assert failure_of(lambda: sq.load(path))


@posix
def test_bytes_for_a_path(tmp_path):
    """They work, or an error says what is the matter."""
    path = os.fsencode(tmp_path / "a.arrow")
    failure = failure_of(lambda: sq.save(path, SEQ))
    assert os.listdir(tmp_path) == ([] if failure else ["a.arrow"])
    assert "bytes" in failure if failure else sq.load(path) == SEQ


# --- links, folders, devices ---


@posix
@pytest.mark.parametrize("relative", [True, False])
@pytest.mark.parametrize("exists", [True, False])
def test_a_link_stays_and_its_file_is_replaced(tmp_path, relative, exists):
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    file, link, second = tmp_path / "far" / "file", tmp_path / "near" / "link", tmp_path / "near" / "second"
    if exists:
        sq.save(file, OTHER)
    link.symlink_to("../far/file" if relative else file)
    second.symlink_to("link")
    for path in (link, second):
        assert_holds(saved(path, SEQ), list(SEQ))
        assert_holds(sq.load(file), list(SEQ))
        assert link.is_symlink()
        assert second.is_symlink()
        assert not file.is_symlink()
    assert os.listdir(tmp_path / "far") == ["file"]
    assert sorted(os.listdir(tmp_path / "near")) == ["link", "second"]


@posix
def test_a_link_among_the_folders(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    assert_holds(saved(tmp_path / "link" / "file", SEQ), list(SEQ))
    assert os.listdir(tmp_path / "real") == ["file"]
    assert (tmp_path / "link").is_symlink()


@posix
def test_links_in_a_circle(tmp_path):
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")
    for call in (lambda path: sq.save(path, SEQ), sq.load):
        with pytest.raises(OSError, match="a"):
            call(tmp_path / "a")
    assert sorted(os.listdir(tmp_path)) == ["a", "b"]
    assert os.readlink(tmp_path / "a") == "b"


@posix
def test_a_link_to_a_folder(tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder")
    with pytest.raises(IsADirectoryError, match=r"link|folder"):
        sq.save(tmp_path / "link", SEQ)
    assert (tmp_path / "link").is_symlink()
    assert os.listdir(tmp_path / "folder") == []
    assert sorted(os.listdir(tmp_path)) == ["folder", "link"]


@posix
def test_a_file_for_a_folder(tmp_path):
    (tmp_path / "file").write_text("x")
    with unchanged(tmp_path):
        for path in (f"{tmp_path}/file/a.arrow", f"{tmp_path}/new/", f"{tmp_path}/file/"):
            with pytest.raises(OSError, match=re.escape(str(tmp_path))):
                sq.save(path, SEQ)


def test_a_target_that_is_found_wrong_before_anything_is_asked_for(tmp_path):
    asked = []

    def parts():
        asked.append(1)
        yield SEQ

    with pytest.raises(OSError, match="absent"):
        sq.save(tmp_path / "absent" / "a.arrow", parts())
    with pytest.raises(IsADirectoryError):
        sq.save(tmp_path, parts())
    assert asked == []


@posix
@pytest.mark.parametrize("through", ["itself", "a link"])
@pytest.mark.parametrize("kind", ["pipe", "device", "socket"])
def test_what_is_no_file_is_not_replaced(tmp_path, kind, through):
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "device":
        try:
            os.mknod(path, 0o600 | stat.S_IFCHR, os.makedev(1, 3))  # a null of our own
        except PermissionError:
            pytest.skip("only root makes devices")
    else:
        listening = socket.socket(socket.AF_UNIX)
        listening.bind(os.path.relpath(path))  # short enough
        listening.close()
    before = path.lstat()
    if through == "a link":
        (tmp_path / f"{kind} link").symlink_to(kind)
        path = tmp_path / f"{kind} link"
    names = os.listdir(tmp_path)
    with pytest.raises(OSError, match=kind):
        within(5, lambda: sq.save(path, SEQ))
    assert os.listdir(tmp_path) == names
    assert (tmp_path / kind).lstat().st_mode == before.st_mode
    assert (tmp_path / kind).lstat().st_ino == before.st_ino
    with pytest.raises((OSError, ValueError), match=kind):
        within(5, lambda: sq.load(path))


def can_be_opened(path):
    try:
        path.open("r+b").close()
    except PermissionError:
        return False
    return True


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root is others too")
@pytest.mark.thread_unsafe
@pytest.mark.parametrize("rights", [0o664, 0o644], ids=oct)
def test_a_file_of_somebody_else(rights):
    nobody, groups = 65534, os.getgroups()
    with tempfile.TemporaryDirectory() as folder:  # pytest's are for one user
        path = Path(folder, "a.arrow")
        sq.save(path, SEQ)
        os.chmod(folder, 0o777)
        os.chown(path, 0, nobody)
        path.chmod(rights)
        try:
            os.setgroups([nobody])
            os.seteuid(nobody)
            if rights == 0o644 and can_be_opened(path):
                pytest.skip("root is root in name alone, as in some containers")
            if rights == 0o664:
                sq.save(path, OTHER)
            else:
                with pytest.raises(PermissionError, match=r"a\.arrow"):
                    sq.save(path, OTHER)
        finally:
            os.seteuid(0)
            os.setgroups(groups)
        assert_holds(sq.load(path), list(OTHER if rights == 0o664 else SEQ))
        assert os.listdir(folder) == ["a.arrow"]


@pytest.mark.thread_unsafe
def test_a_file_that_another_process_removes_meanwhile(tmp_path, monkeypatch):
    """After it was there, and before its permissions are read."""
    path, copymode = tmp_path / "a.arrow", shutil.copymode
    sq.save(path, SEQ)

    def removed(source, target):
        os.remove(source)
        copymode(source, target)

    monkeypatch.setattr(shutil, "copymode", removed)
    sq.save(path, OTHER)
    assert_holds(sq.load(path), list(OTHER))
    assert os.listdir(tmp_path) == ["a.arrow"]


@posix
@pytest.mark.thread_unsafe
def test_a_sandbox_that_does_not_know_who_may_write(tmp_path, monkeypatch):
    """Older sandboxes refuse the system call behind os.access, whatever the file."""
    path = tmp_path / "a.arrow"
    sq.save(path, SEQ)
    monkeypatch.setattr(os, "access", lambda *args, **kwargs: False)
    sq.save(path, OTHER)
    assert_holds(sq.load(path), list(OTHER))


@posix
def test_a_second_name_keeps_the_older_file(tmp_path):
    path, second = tmp_path / "a", tmp_path / "b"
    sq.save(path, OTHER)
    os.link(path, second)
    assert_holds(saved(path, SEQ), list(SEQ))
    assert_holds(sq.load(second), list(OTHER))


# --- rights ---


@posix
@pytest.mark.thread_unsafe
@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002, 0o000])
def test_a_new_file_has_the_rights_that_the_umask_leaves(tmp_path, mask):
    before = os.umask(mask)
    try:
        sq.save(tmp_path / "one", SEQ)
        sq.save(tmp_path / "many", iter([SEQ, OTHER]))
        sq.save(tmp_path / "wider", iter([np.zeros((2, 3)), np.zeros((2, 4))]))
    finally:
        os.umask(before)
    for path in tmp_path.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


@posix
@pytest.mark.parametrize("rights", [0o600, 0o644, 0o660], ids=oct)
def test_an_unfinished_file_is_for_its_owner_alone(tmp_path, rights):
    """It has the content of the file that it replaces, which may be secret."""
    path, seen = tmp_path / "a", []
    sq.save(path, SEQ)
    path.chmod(rights)

    def parts():
        for part in (np.zeros((2, 3)), np.zeros((2, 4))):  # the second is written to another file
            yield part
            unfinished = [one for one in tmp_path.iterdir() if one != path]
            seen.extend(stat.S_IMODE(one.stat().st_mode) for one in unfinished)

    sq.save(path, map(sq.split_to_sequence, parts()))
    assert seen
    assert set(seen) == {0o600}
    assert stat.S_IMODE(path.stat().st_mode) == rights


@posix
@pytest.mark.thread_unsafe
def test_saving_leaves_the_umask_alone(tmp_path):
    before = os.umask(0o027)
    try:
        sq.save(tmp_path / "a", SEQ)
        with pytest.raises(TypeError):
            sq.save(tmp_path / "a", 3)
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)


def test_a_file_of_any_kind_is_replaced(tmp_path):
    for older in (b"", b"text", os.urandom(100_000)):
        (tmp_path / "a").write_bytes(older)
        assert_holds(saved(tmp_path / "a", SEQ), list(SEQ))
    assert [*contents(tmp_path)] == [os.fsencode(tmp_path / "a")]


@posix
@pytest.mark.parametrize("rights", [0o444, 0o555], ids=oct)
def test_a_read_only_file_stays(tmp_path, rights):
    """Also if an administrator, who could write it, saves."""
    path = tmp_path / "a.arrow"
    sq.save(path, SEQ)
    path.chmod(rights)
    with pytest.raises(PermissionError, match="the existing file is read-only") as caught:
        sq.save(path, OTHER)
    assert caught.value.filename == str(path)
    assert_holds(sq.load(path), list(SEQ))
    assert os.listdir(tmp_path) == ["a.arrow"]


@pytest.mark.parametrize(
    ("error", "filename"),
    [
        (OSError(errno.ENOSPC, "no space"), "a.arrow"),
        (OSError(errno.ENOSPC, "no space", "unfinished"), "a.arrow"),
        (OSError(errno.EACCES, "not yours", "elsewhere"), "elsewhere"),
        (OSError("of pyarrow"), None),
    ],
    ids=["without a name", "of the unfinished file", "of another file", "without a number"],
)
def test_an_error_names_the_file_to_write(error, filename):
    with pytest.raises(OSError) as caught, targets.naming("a.arrow", lambda name: name == "unfinished"):  # noqa: PT011
        raise error
    assert (caught.value.errno, caught.value.filename) == (error.errno, filename)
    assert (caught.value is error) == (filename != "a.arrow")
