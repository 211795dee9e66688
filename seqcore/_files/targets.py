"""Write files to a temporary name, and rename them when they are complete."""

import contextlib
import errno
import os
import platform
import shutil
import stat
import sys
import time
import uuid
from typing import Any

from seqcore._arguments.shown import got, shown
from seqcore._files.sources import check_local

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

_PREFIX = ".seqcore-"
_NEXT_LOOKS: dict[str, float] = {}  # by folder: when to look again for files that were left behind


_OTHER_SUFFIXES = {
    **dict.fromkeys(
        (".parquet", ".pq"), "pyarrow.parquet.write_table(pyarrow.table(columns), path) writes it"
    ),
    **dict.fromkeys((".npy", ".npz"), "np.savez(path, values=seq.values(), lengths=seq.lengths()) writes it"),
    **dict.fromkeys((".pkl", ".pickle"), "pickle.dump(seq, file) writes it"),
    **dict.fromkeys((".csv", ".json", ".jsonl"), "pandas or Polars write it from pyarrow.table(columns)"),
    **dict.fromkeys((".pt", ".pth"), "torch.save writes tensors, such as those of seq.values()"),
    **dict.fromkeys((".gz", ".zst", ".lz4", ".zip"), "compressed files can't be mapped"),
}


def check_path(path, sequence):
    """Raise if a path is none (exchanged with the data, empty, an address), or names another format."""
    if not isinstance(path, str | bytes | os.PathLike):
        if isinstance(sequence, str | bytes | os.PathLike):
            raise TypeError(
                f"the path comes first: save({shown(sequence)}, sequence), got a {type(path).__name__} there"
            )
        raise TypeError(f"path must be a str or os.PathLike, got {got(path)}")
    name = os.fsdecode(path)
    if "\0" in name:
        raise ValueError(f"expected the path of a file, got {shown(path)}, which has a null character")
    check_local(
        name,
        "save writes",
        "copy the file to the address then, for example with fsspec.open or the program of the service",
    )
    stem, suffix = os.path.splitext(name)
    if remedy := _OTHER_SUFFIXES.get(suffix.lower()):
        raise ValueError(
            f"save writes Arrow files, not {suffix}: name it {shown(os.path.basename(stem) + '.arrow')}; "
            f"{remedy}"
        )


def target_of(path, what):
    """Return the file to write for a path, with symbolic links followed.

    Raises
    ------
    OSError
        If no file can be written there: it is a folder, a device, a pipe, or a read-only file (also for an
        administrator). `what` is the name of the content in messages.
    """
    path = os.fsdecode(path)
    target = os.path.realpath(path)
    if os.path.isdir(target) or path.endswith(os.sep):
        raise IsADirectoryError(errno.EISDIR, f"{what} must be written to a file, but this is a folder", path)
    try:
        mode = os.stat(path).st_mode  # links are followed, maybe to a pipe without a name
    except FileNotFoundError:
        return target
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, f"{what} must be written to a file, but this is a device or pipe", path)
    if not mode & 0o222:
        raise PermissionError(errno.EACCES, "the existing file is read-only", path)
    os.close(os.open(path, os.O_WRONLY))  # raises PermissionError; os.access is wrong in some sandboxes
    return target


def put_in_place(temporary, target):
    """Replace a file with a complete one, and keep its permissions."""
    with contextlib.suppress(FileNotFoundError):  # there is none, or another process has just removed it
        shutil.copymode(target, temporary)
    os.replace(temporary, target)


class Temporary:
    """A new file beside its target, which is removed unless it is put in its place.

    It is locked as long as its writer runs, and then has the running system's id in its name. So the next
    writer in the folder knows which ones were left behind. Locks of other systems may not show on a network's
    disk, and some file systems don't support locks: such files stay.
    """

    def __init__(self, target):
        self.target = target
        self.name: str | None = None  # None before it is opened, and when it is in place
        self.file: Any = None

    def open(self):
        """Create the file, after those of killed writers are removed."""
        folder = os.path.dirname(self.target)
        _remove_abandoned(folder)
        number, host = uuid.uuid4().hex, _host_id()
        plain, locked = (
            os.path.join(folder, f"{_PREFIX}{name}.part") for name in (number, f"{host}-{number}")
        )
        # Set the name first, so that the file is removed after any error.
        self.name = locked if fcntl is None and host else plain  # Windows removes no open file
        self.file = open(self.name, "xb", opener=self._opened)  # noqa: SIM115
        if fcntl is not None and host:
            with contextlib.suppress(OSError):  # without a lock it keeps the name that nobody removes
                fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                os.rename(plain, locked)
                self.name = locked

    def _opened(self, path, flags):
        """Open a file that nobody else may read until it has the rights of the one that it replaces."""
        return os.open(path, flags, 0o600 if os.path.exists(self.target) else 0o666)

    def sync(self):
        """Write everything to the disk, and give the file a time of its own."""
        self.file.flush()
        os.fsync(self.file.fileno())
        # A file is recognized by its time, and the system's own times may have steps of milliseconds.
        now = time.time_ns()
        os.utime(self.file.fileno() if os.utime in os.supports_fd else str(self.name), ns=(now, now))

    def put_in_place(self):
        """Replace the target with the complete file."""
        if fcntl is None:
            self.file.close()  # Windows renames no open file
        put_in_place(self.name, self.target)
        self.name = None

    def remove(self):
        """Remove the file, if it was not put in place."""
        if self.file is not None:
            with contextlib.suppress(OSError):
                self.file.close()
        if self.name is not None:
            with contextlib.suppress(OSError):
                os.remove(self.name)


def _host_id():
    """Return an id of the running system that no other one has, or None if it can't be told."""
    if sys.platform == "linux":
        try:
            with open("/proc/sys/kernel/random/boot_id") as file:
                return uuid.UUID(file.read().strip()).hex
        except (OSError, ValueError):
            return None
    node = uuid.getnode()
    is_random = bool(node >> 40 & 1)
    return None if is_random else uuid.uuid5(uuid.NAMESPACE_DNS, f"{node} {platform.node()}").hex


def _remove_abandoned(folder):
    """Remove the temporary files of killed writers of this host, whose locks nobody has any more."""
    began = time.monotonic()
    if began < _NEXT_LOOKS.get(folder, 0):
        return
    with contextlib.suppress(OSError):
        for name in os.listdir(folder or os.curdir):
            if (
                name.startswith(_PREFIX)
                and name.startswith(f"{_PREFIX}{_host_id()}-")
                and name.endswith(".part")
            ):
                with contextlib.suppress(OSError):
                    _remove_unlocked(os.path.join(folder, name))
    # A process that writes many files into one folder should not list it anew for each.
    ended = time.monotonic()
    if len(_NEXT_LOOKS) >= 100:
        _NEXT_LOOKS.clear()
    _NEXT_LOOKS[folder] = ended + 100 * (ended - began)


def _remove_unlocked(name):
    """Remove a file, or raise an OSError if another process writes it."""
    if fcntl is None:
        # Windows removes no open file. Between closing and renaming it, a writer takes no hour.
        if time.time() - os.stat(name).st_mtime > 3600:
            os.remove(name)
        return
    descriptor = os.open(name, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.remove(name)
    finally:
        os.close(descriptor)


def is_temporary(path):
    """Return whether a path is that of a `Temporary`."""
    return os.path.basename(path).startswith(_PREFIX)


@contextlib.contextmanager
def naming(path, is_temporary=is_temporary):
    """Make errors name the file to write, not the temporary one."""
    try:
        yield
    except OSError as error:
        if error.errno is None or not (error.filename is None or is_temporary(error.filename)):
            raise
        raise OSError(error.errno, error.strerror, path) from error
