"""Files that pickles name: another process maps them, or reads a column, if they haven't changed."""

import bisect
import datetime
import errno
import mmap
import os
import stat
import weakref
from typing import Any, NamedTuple

import numpy as np

from seqcore._arguments.shown import add_note, shown
from seqcore.core.late import late
from seqcore.core.pickling import MappedFile

REMEDY = "restore the file at this path, or pickle copy.deepcopy(seq), which has the data"

# The files and columns that the last pickles have opened, the most recently used last: mapped files by their
# path, decoded columns by path and name. With each its path, size and time, or its `Column`, and how many
# bytes of memory it takes.
_OPEN: dict[Any, tuple[Any, Any, int]] = {}
# Mapped files that are in use, by path.
_MAPPED: "weakref.WeakValueDictionary[str, MappedFile]" = weakref.WeakValueDictionary()
# Files whose decoded columns are in use: the next column needs no other look at them.
_FILES: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()
# The files of the mappings that callers have made, with a weak reference to the mapping, by its id.
_OF_CALLERS: "dict[int, tuple[Any, FileOfCaller | None]]" = {}
_MOST = 16  # open files, which are mappings without a descriptor
_MOST_READ = 64 << 20  # bytes of columns that were read, rather than mapped, and one larger column
_LEAST_READ = _MOST_READ >> 8  # bytes that a small column counts as, because each is checked
_OF_JOBLIB = f"{os.sep}joblib_memmapping_folder_"
_SECOND = 1_000_000_000


def _date(time):
    """Return a time in nanoseconds as readable text."""
    seconds, rest = divmod(time, _SECOND)
    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{rest:09}"


def _is_as(found_nbytes, found_time, nbytes, time):
    # Archives may store whole seconds only.
    return found_nbytes == nbytes and found_time in (time, time // _SECOND * _SECOND)


def _check(path, found, nbytes, time):
    if not _is_as(found.st_size, found.st_mtime_ns, nbytes, time):
        raise ValueError(
            f"{path} has changed since the pickled sequence was made from it: it had {nbytes:,} bytes from "
            f"{_date(time)}, now it has {found.st_size:,} from {_date(found.st_mtime_ns)}; load it again"
        )


def _marked(error):
    """Say of an error that a file which a pickle names is the reason."""
    add_note(error, f"the sequence was pickled as the path of this file: {REMEDY}")
    error.of_stored = True  # for maps, whose workers reply only with the error


# -- mapped files --------------------------------------------------------------------------------------


def map_file(path, check=None):
    """Return a file as a MappedFile; `check` gets its status, even if another file has its name by then.

    Raises
    ------
    OSError
        If the file is missing, is not a file or can't be read.
    """
    found = os.stat(path)
    if check is not None:
        check(found)
    if not stat.S_ISREG(found.st_mode):  # opening a pipe would block
        number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
        raise OSError(number, "expected a file, got a folder or a device", path)
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_BINARY", 0))
    try:
        found = os.fstat(descriptor)
        if check is not None:
            check(found)
        named = path, found.st_size, found.st_mtime_ns
        if os.name != "nt" and found.st_size:
            return MappedFile(*named, descriptor)
        memory = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ) if found.st_size else b""
        return MappedFile(*named, address=_address(memory), memory=memory)
    finally:
        os.close(descriptor)


def _address(memory):
    return np.frombuffer(memory, np.uint8).__array_interface__["data"][0] if len(memory) else 0


def mapped(stamp):
    """Return a file that has not changed as a MappedFile.

    Parameters
    ----------
    stamp : tuple of str, int, int
        The path, size and time of the file, as a pickle has them.

    Raises
    ------
    OSError
        If the file is missing.
    ValueError
        If the file has changed.
    """
    path, nbytes, time = stamp
    try:
        known = _MAPPED.get(path)
        if known is not None and _is_as(known.nbytes, known.time, nbytes, time):
            _check(path, os.stat(path), nbytes, time)
        else:
            known = _MAPPED[path] = map_file(path, lambda found: _check(path, found, nbytes, time))
    except (OSError, ValueError) as error:
        _marked(error)
        raise
    return known


def keep(files):
    """Keep the last files that a pickle has mapped for the next pickle, and close others.

    Parameters
    ----------
    files : list of MappedFile
        The files.
    """
    for file in files[-_MOST:]:
        _keep(file.path, file.stamp, file, 0, closes=file is files[-1])


class FileOfCaller(MappedFile):
    """A file that the caller has mapped."""

    __slots__ = ()

    def is_gone(self):
        """Return whether no file has the path any more, as after a caller's own work with temporary files."""
        return not os.path.exists(self.path)


def files_at(addresses):
    """Return which files are mapped at addresses, or None if the system doesn't tell: only Linux does.

    A path may name another file by now. If two mappings have equal ids, they are of one file. An id may
    differ from what os.stat says of the file: compare it with that of a new mapping.
    """
    try:
        with open("/proc/self/maps", "rb") as maps:
            lines = maps.read().splitlines()
    except OSError:
        return None
    found = [lines[bisect.bisect_right(lines, address, key=_end_of)].split() for address in addresses]
    return [(line[3], line[4]) if line[4] != b"0" else at for at, line in zip(addresses, found, strict=True)]


def _end_of(line):
    return int(line.partition(b" ")[0].partition(b"-")[2], 16)


def file_of_memmap(array):
    """Return the file of a np.memmap that was opened to be read, as a MappedFile without memory; or None.

    What may be written is not taken for the file: it differs from it (mode "c"), or changes (mode "r+"). Nor
    is a mapping of a file that was replaced: where the system doesn't tell, another size shows that. joblib
    removes its temporary files when a call of it ends.
    """
    try:
        path, mode, offset = array.filename, array.mode, array.offset
    except AttributeError:
        return None
    if mode != "r" or path is None:
        return None
    memory: Any = array
    while isinstance(memory, np.ndarray):
        memory = memory.base
    if not isinstance(memory, mmap.mmap):
        return None
    number = id(memory)
    known = _OF_CALLERS.get(number)
    if known is not None and known[0]() is memory:
        return known[1]
    file = None
    try:
        path = os.path.abspath(os.fsdecode(path))
        begin = offset - offset % mmap.ALLOCATIONGRANULARITY
        now, address = map_file(path), _address(memory)
        told = files_at([address, now.address])
        is_same = now.nbytes == memory.size() and (told is None or told[0] == told[1])
        if is_same and now.nbytes >= begin + len(memory) and _OF_JOBLIB not in path:
            file = FileOfCaller(*now.stamp, address=address - begin)
    except (OSError, TypeError, ValueError, OverflowError, MemoryError):
        pass  # it is not there any more, and pickles as data
    _OF_CALLERS[number] = weakref.ref(memory, lambda _: _OF_CALLERS.pop(number, None)), file
    return file


# -- decoded columns -----------------------------------------------------------------------------------


class _Values(NamedTuple):
    path: str
    nbytes: int
    time: int  # the modification time in nanoseconds
    name: str | None
    elements: int  # the number of elements


class Column(_Values):
    """A column of a file, with the file's size and time when it was opened."""

    file: Any = None  # what was read of the file, for its other columns, as long as this one is in use

    @classmethod
    def of(cls, file):
        """Return the column that a pickle names; raise a TypeError if it is damaged."""
        kinds: tuple[Any, ...] = (str, int, int, (str, type(None)), int)
        if not isinstance(file, tuple) or len(file) != 5 or not all(map(isinstance, file, kinds)):
            raise TypeError(
                "the pickle is damaged: expected a file's path, size, time, column and length, got "
                f"{shown(file)}"
            )
        return cls(*file)


def opened(file):
    """Return the elements of a column of a file that has not changed.

    Parameters
    ----------
    file : list or tuple
        The values of a `Column`, as a pickle has them.

    Raises
    ------
    OSError
        If the file is missing.
    ValueError
        If the file has changed.
    """
    column = Column.of(tuple(file))
    try:
        _check(column.path, os.stat(column.path), column.nbytes, column.time)
        return _open(column)
    except (OSError, ValueError) as error:
        _marked(error)
        raise


def _open(column):
    """Return the elements of a column, which is kept for the next pickle of it."""
    # Each line is one atomic step of a dict. Other threads may run in between, and open a file again.
    key = column.path, column.name
    known, elements, nbytes = _OPEN.get(key, (None, None, 0))
    if known != column:
        elements, nbytes = _read(column)
        if len(elements) != column.elements:
            raise ValueError(
                f"{column.path} has {len(elements)} elements, but had {column.elements} when it was pickled"
            )
    _keep(key, column, elements, nbytes)
    return elements


def _read(column):
    read = _FILES.get(column.path)
    if read is None or not _is_as(read.file.nbytes, read.file.time, column.nbytes, column.time):
        read = late("File").at(
            column.path, lambda found: _check(column.path, found, column.nbytes, column.time), is_kept=True
        )
    elements = read.column(column.name)
    _FILES[column.path] = read
    return elements


def _keep(key, stamp, value, nbytes, closes=True):
    """Keep what was opened, and close what was not used for long."""
    is_new = _OPEN.pop(key, (None,))[0] != stamp
    _OPEN[key] = stamp, value, nbytes
    if is_new and closes:
        _close_some()


def _close_some():
    """Close all but the last files and columns within the limits, and files that were changed or removed."""
    left = {"files": _MOST, "bytes": _MOST_READ, "larger": 1}
    for key, (stamp, _, nbytes) in reversed(list(_OPEN.items())):
        limit = "files" if not nbytes else "bytes" if nbytes <= _MOST_READ else "larger"
        left[limit] -= max(nbytes, _LEAST_READ) if limit == "bytes" else 1
        try:
            found = os.stat(stamp[0])
            current = _is_as(found.st_size, found.st_mtime_ns, *stamp[1:3])
        except (OSError, ValueError):
            current = False
        if not current or left[limit] < 0:
            _OPEN.pop(key, None)
