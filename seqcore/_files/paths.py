"""Pickle elements of files as paths and positions: the other process opens the files itself."""

import datetime
import os
import weakref
from typing import Any, NamedTuple

from seqcore._arguments.shown import add_note, shown

REMEDY = "restore the file at this path, or pickle copy.deepcopy(seq), which has the data"

# Open files of unpickled sequences by path and column, the most recently used last: the file as it was, its
# elements, and how many bytes of memory they take.
_OPEN: dict[tuple[str, str | None], tuple["StoredIn", object, int]] = {}
# Files whose unpickled elements are in use: the next column needs no other look at them.
_FILES: "weakref.WeakValueDictionary[str, Any]" = weakref.WeakValueDictionary()
_MOST = 16  # open files; each is a mapping, without a descriptor
_MOST_READ = 64 << 20  # bytes of elements that were read, rather than mapped
_SECOND = 1_000_000_000


def _date(time):
    """Return a time in nanoseconds as readable text."""
    seconds, rest = divmod(time, _SECOND)
    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{rest:09}"


def _is_as(found, nbytes, time):
    # Archives may store whole seconds only.
    return found.st_size == nbytes and found.st_mtime_ns in (time, time // _SECOND * _SECOND)


def _check(path, found, nbytes, time):
    if not _is_as(found, nbytes, time):
        raise ValueError(
            f"{path} has changed since the pickled sequence was loaded from it: it had {nbytes:,} bytes from "
            f"{_date(time)}, now it has {found.st_size:,} from {_date(found.st_mtime_ns)}; load it again"
        )


class _Values(NamedTuple):
    path: str
    nbytes: int
    time: int  # the modification time in nanoseconds
    column: str | None
    elements: int  # the number of elements
    beside: tuple[int, int] | None = None  # of a pair: the size and time of the file with the values


class StoredIn(_Values):
    """A column of a file, with the file's size and time when it was opened."""

    file: Any = None  # what was read of the file, for its other columns, as long as this one is in use

    @classmethod
    def of(cls, file):
        """Return the file that a pickle names; raise a TypeError if it is damaged."""
        kinds: tuple[Any, ...] = (str, int, int, (str, type(None)), int, (tuple, type(None)))
        if (
            not isinstance(file, tuple)
            or len(file) not in (5, 6)
            or not all(map(isinstance, file, kinds))
            or (len(file) == 6 and file[5] is not None and list(map(type, file[5])) != [int, int])
        ):
            raise TypeError(
                "the pickle is damaged: expected a file's path, size, time, column and length, got "
                f"{shown(file)}"
            )
        return cls(*file)

    def is_as(self, found):
        """Return whether a file is this one, by its status."""
        return _is_as(found, self.nbytes, self.time)

    def check(self, found, found_beside=None):
        """Raise if the file has changed, by its status, or the one beside it."""
        _check(self.path, found, self.nbytes, self.time)
        if self.beside is not None:
            beside = f"{os.path.splitext(self.path)[0]}.bin"
            _check(beside, os.stat(beside) if found_beside is None else found_beside, *self.beside)


def opened(file):
    """Return the elements of a column of a file that has not changed.

    Parameters
    ----------
    file : list or tuple
        The values of a `StoredIn`, as a pickle has them.

    Raises
    ------
    OSError
        If the file is missing.
    ValueError
        If the file has changed.
    """
    file = StoredIn.of(tuple(file))
    try:
        file.check(os.stat(file.path))
        return _open(file)
    except (OSError, ValueError) as error:
        add_note(error, f"the sequence was pickled as the path of this file: {REMEDY}")
        marked: Any = error
        marked.of_stored = True  # for maps, whose workers reply only with the error
        raise


def _open(file):
    """Return the elements of a file, which is kept open for the next pickle of it."""
    # Each line is one atomic step of a dict. Other threads may run in between, and open a file again.
    key = file.path, file.column
    known, column, nbytes = _OPEN.pop(key, (None, None, 0))
    if known != file:
        column, nbytes = _read_pair(file) if file.beside is not None else _read_column(file)
        if len(column) != file.elements:
            raise ValueError(
                f"{file.path} has {len(column)} elements, but had {file.elements} when it was pickled"
            )
        if nbytes > _MOST_READ:
            return column
        _close_some(_MOST - 1, _MOST_READ - nbytes)
    _OPEN[key] = file, column, nbytes
    return column


def _read_column(file):
    read = _FILES.get(file.path)
    if read is None or not file.is_as(read.found):
        from seqcore._files.reading import File  # which imports this module

        read = File.at(file.path, file.check, is_kept=True)
    column = read.column(file.column)
    _FILES[file.path] = read
    return column


def _read_pair(file):
    from seqcore._files.megatron import opened, pair_of  # which import this module

    pair = pair_of(file.path)
    if pair is None:
        raise ValueError(f"{file.path} is not a Megatron index any more")
    return opened(pair, file.check), 0


def _close_some(most, most_nbytes):
    """Close all but the last open files and bytes of elements, and the files that were changed or removed."""
    for key, (file, _, nbytes) in reversed(list(_OPEN.items())):
        most -= 1
        most_nbytes -= nbytes
        try:
            file.check(os.stat(file.path))
            current = True
        except (OSError, ValueError):
            current = False
        if not current or most < 0 or most_nbytes < 0:
            _OPEN.pop(key, None)
