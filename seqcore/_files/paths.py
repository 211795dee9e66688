"""Elements that stand in files travel as paths and positions: the other side opens the files itself."""

import datetime
import os
from typing import NamedTuple

from seqcore._shown import add_note, shown

REMEDY = "put it where it was and as it was, or send copy.deepcopy(seq), which has the data"

# Files that pickles have come from, by path and column, the last used last: as they were, their elements,
# and how many bytes of memory those take.
_OPEN: dict[tuple[str, str | None], tuple["StoredIn", object, int]] = {}
_MOST = 16  # of them stay open; each is a mapping, without a descriptor
_MOST_READ = 64 << 20  # bytes of what was read of them, rather than mapped; one file stays in any case
_SECOND = 1_000_000_000


def _date(time):
    """A time in nanoseconds as people write it."""
    seconds, rest = divmod(time, _SECOND)
    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{rest:09}"


class StoredIn(NamedTuple):
    """A column of a file, as it was when it was opened."""

    path: str
    nbytes: int
    time: int  # of the last modification, in nanoseconds
    column: str | None
    elements: int  # how many it has

    @classmethod
    def of(cls, file):
        """What a pickle says of a file; a TypeError if it can't be that."""
        kinds = (str, int, int, (str, type(None)), int)
        if not isinstance(file, tuple) or len(file) != len(kinds) or not all(map(isinstance, file, kinds)):
            raise TypeError(
                f"a pickled sequence names its file, size, time, column and length, not {shown(file)}"
            )
        return cls(*file)

    def check(self, found):
        """Refuse a file that is another one by now, by its status."""
        # Archives may keep whole seconds.
        known = found.st_mtime_ns in (self.time, self.time // _SECOND * _SECOND)
        if not known or found.st_size != self.nbytes:
            raise ValueError(
                f"{self.path} has changed since the sequence that was pickled was loaded from it: it had "
                f"{self.nbytes:,} bytes of {_date(self.time)}, and has {found.st_size:,} of "
                f"{_date(found.st_mtime_ns)}; load it again"
            )


def opened(file):
    """The elements of a column of a file that is as it was.

    Parameters
    ----------
    file : list or tuple
        What a pickle says of it: the values of a `StoredIn`.

    Raises
    ------
    OSError
        If it is no longer there.
    ValueError
        If it has changed.
    """
    file = StoredIn.of(tuple(file))
    try:
        file.check(os.stat(file.path))
        return _open(file)
    except (OSError, ValueError) as error:
        add_note(error, f"a sequence was pickled as the path of this file: {REMEDY}")
        error.of_stored = True  # for maps, whose workers say no more than what went wrong
        raise


def _open(file):
    """The elements of a file, which stays open for the next pickle that comes from it."""
    # Each line is a single step of a dict's: threads may come in between, and open a file once more.
    key = file.path, file.column
    known, column, nbytes = _OPEN.pop(key, (None, None, 0))
    if known != file:
        from seqcore._files.reading import read  # which marks what it reads as stored

        column, nbytes = read(file.path, file.column, file.check)
        if len(column) != file.elements:
            raise ValueError(f"{file.path} has {len(column)} elements, not {file.elements} as it had")
        _close_some(_MOST - 1, _MOST_READ - nbytes)
    _OPEN[key] = file, column, nbytes
    return column


def _close_some(most, most_nbytes):
    """Keep only so many of the open files, and so many bytes, and none that has changed or is gone."""
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
