"""Elements that stand in files travel as paths and positions: the other side opens the files itself."""

import datetime
import os
from typing import NamedTuple

import numpy as np

from seqcore._shown import add_note, shown
from seqcore.core.flat import chained
from seqcore.dtypes import type_name

REMEDY = "put it where it was and as it was, or send copy.deepcopy(seq), which has the data"

_OPEN: dict["StoredIn", object] = {}  # files that pickles have come from, the last used last
_KEPT = 4_000_000  # elements of theirs, each of 32 bytes; one file stays in any case
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


# -- out -------------------------------------------------------------------------------------------------


def reduced(seq, files, which, positions):
    """What is pickled of a sequence: [(file, positions)], the order of all, and elements that are in no file.

    Parameters
    ----------
    seq : TensorSequence
    files : list of StoredIn
    which, positions : int64 arrays
        Of each element: the number of its file, -1 for none, and where it stands there.
    """
    order = np.argsort(which, kind="stable")  # what is in no file comes first
    bounds = np.searchsorted(which[order], np.arange(-1, len(files) + 1))
    stored = [
        (file, _short(positions[order[start:stop]]))
        for file, start, stop in zip(files, bounds[1:-1], bounds[2:], strict=True)
    ]
    others = seq[order[: bounds[1]]] if bounds[1] else None
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    back = _short(back)
    return stored, None if isinstance(back, range) else back, others


def _short(numbers):
    """Numbers that are not negative, as a range if they are one, else in as few bytes as they take."""
    if not len(numbers):
        return range(0)
    if np.all(numbers[1:] - numbers[:-1] == 1):
        return range(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers.astype(np.min_scalar_type(numbers.max()))


# -- back ------------------------------------------------------------------------------------------------


def restored(dtype, files, order, others):
    """The opposite of `reduced`.

    Raises
    ------
    OSError
        If a file is no longer there.
    ValueError
        If it is another one by now.
    """
    if type(files) is not list:
        raise TypeError(f"a pickled sequence has a list of files, not a {type(files).__name__}")
    parts = []
    if others is not None:
        if not hasattr(others, "__getitems__"):
            raise TypeError(f"a pickled sequence has its other elements as a sequence, not {shown(others)}")
        parts.append(others[:])
    for stored in files:
        if type(stored) is not tuple or len(stored) != 2:
            raise TypeError("a pickled sequence has pairs of a file and positions")
        file, positions = stored
        parts.append(_selected(opened(StoredIn.of(file)), positions, file[0]))
    for part in parts:
        if part.dtype != dtype:
            raise ValueError(f"tensors of {type_name(part.dtype)} are none of {type_name(dtype)}")
    whole = chained(parts)
    if order is None:
        return whole
    _check(order, len(whole), "the order of a pickled sequence")
    if len(order) != len(whole) or not np.all(np.bincount(order.astype(np.int64), minlength=len(order)) == 1):
        raise ValueError(
            f"the order of a pickled sequence doesn't have each of its {len(whole)} elements once"
        )
    return whole[order.astype(np.int64)]


def _selected(column, positions, path):
    """The elements of a file at positions, in the form of `_short`."""
    if type(positions) is range:
        if positions.step != 1 or not 0 <= positions.start <= positions.stop <= len(column):
            raise IndexError(f"{path} has {len(column)} elements, none at {shown(positions)}")
        return column[positions.start : positions.stop]
    _check(positions, len(column), path)
    return column[positions.astype(np.int64)]


def _check(numbers, n, what):
    """Refuse what is no row of positions from 0 to n - 1."""
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind != "u" or numbers.ndim != 1:
        raise TypeError(f"{what}: positions are a row of unsigned integers")
    if len(numbers) and numbers.max() >= n:
        raise IndexError(f"{what}: there are {n} elements, none at {numbers.max()}")


def opened(file):
    """The elements of a column of a file that is as it was.

    Raises
    ------
    OSError
        If it is no longer there.
    ValueError
        If it has changed.
    """
    try:
        file.check(os.stat(file.path))
        return _open(file)
    except (OSError, ValueError) as error:
        add_note(error, f"a sequence was pickled as the path of this file: {REMEDY}")
        error.of_stored = True  # for maps, whose workers say no more than what went wrong
        raise


def _open(file):
    """The elements of a file, which stays open for the next pickle that comes from it."""
    # Each line is a single step of a dict's: threads may come in between, and read a file once more.
    column = _OPEN.pop(file, None)
    if column is None:
        from seqcore._files.reading import read  # which marks what it reads as stored

        column = read(file.path, file.column, file.check)
        if len(column) != file.elements:
            raise ValueError(f"{file.path} has {len(column)} elements, not {file.elements} as it had")
    _OPEN[file] = column
    while len(_OPEN) > 1 and sum(map(len, list(_OPEN.values()))) > _KEPT:
        _OPEN.pop(next(iter(list(_OPEN)), None), None)
    return column
