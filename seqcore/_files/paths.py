"""Pickle elements of files as paths and positions: the other process opens the files itself."""

import datetime
import os
from typing import NamedTuple

import numpy as np

from seqcore._shown import add_note, got, shown
from seqcore.core.flat import chained
from seqcore.dtypes import type_name

REMEDY = "restore the file at this path, or pickle copy.deepcopy(seq), which has the data"

_OPEN: dict["StoredIn", object] = {}  # open files of unpickled sequences, the most recently used last
_KEPT = 4_000_000  # elements in open files, each of 32 bytes; one file is kept in any case
_SECOND = 1_000_000_000


def _date(time):
    """Return a time in nanoseconds as readable text."""
    seconds, rest = divmod(time, _SECOND)
    return f"{datetime.datetime.fromtimestamp(seconds):%Y-%m-%d %H:%M:%S}.{rest:09}"


class StoredIn(NamedTuple):
    """A column of a file, with the file's size and time when it was opened."""

    path: str
    nbytes: int
    time: int  # the modification time in nanoseconds
    column: str | None
    elements: int  # the number of elements

    @classmethod
    def of(cls, file):
        """Return the file that a pickle names; raise a TypeError if it is damaged."""
        kinds = (str, int, int, (str, type(None)), int)
        if not isinstance(file, tuple) or len(file) != len(kinds) or not all(map(isinstance, file, kinds)):
            raise TypeError(
                "the pickle is damaged: expected a file's path, size, time, column and length, got "
                f"{shown(file)}"
            )
        return cls(*file)

    def check(self, found):
        """Raise if the file has changed, by its status."""
        # Archives may store whole seconds only.
        known = found.st_mtime_ns in (self.time, self.time // _SECOND * _SECOND)
        if not known or found.st_size != self.nbytes:
            raise ValueError(
                f"{self.path} has changed since the pickled sequence was loaded from it: it had "
                f"{self.nbytes:,} bytes from {_date(self.time)}, now it has {found.st_size:,} from "
                f"{_date(found.st_mtime_ns)}; load it again"
            )


# -- pickling --------------------------------------------------------------------------------------------


def reduced(seq, files, which, positions):
    """Return the content of a pickle: [(file, positions)], the order, and the elements that are in no file.

    Parameters
    ----------
    seq : TensorSequence
        The sequence.
    files : list of StoredIn
        The files of its elements.
    which, positions : int64 arrays
        For each element the index of its file, -1 for none, and its position there.
    """
    order = np.argsort(which, kind="stable")  # elements in no file come first
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
    """Return non-negative integers as a range if they are one, else in the smallest integer type."""
    if not len(numbers):
        return range(0)
    if np.all(numbers[1:] - numbers[:-1] == 1):
        return range(int(numbers[0]), int(numbers[-1]) + 1)
    return numbers.astype(np.min_scalar_type(numbers.max()))


# -- unpickling ------------------------------------------------------------------------------------------


def restored(dtype, files, order, others):
    """Return the sequence for the content of a pickle, the inverse of `reduced`.

    Raises
    ------
    OSError
        If a file is missing.
    ValueError
        If a file has changed.
    """
    if type(files) is not list:
        raise TypeError(f"the pickle is damaged: expected a list of files, got a {type(files).__name__}")
    parts = []
    if others is not None:
        if not hasattr(others, "__getitems__"):
            raise TypeError(
                f"the pickle is damaged: expected a sequence of other elements, got {shown(others)}"
            )
        parts.append(others[:])
    for stored in files:
        if type(stored) is not tuple or len(stored) != 2:
            raise TypeError(
                f"the pickle is damaged: expected a pair of file and positions, got {shown(stored)}"
            )
        file, positions = stored
        parts.append(_selected(opened(StoredIn.of(file)), positions, file[0]))
    for part in parts:
        if part.dtype != dtype:
            raise ValueError(
                f"the pickle says dtype {type_name(dtype)}, but its files have {type_name(part.dtype)}"
            )
    whole = chained(parts)
    if order is None:
        return whole
    _check(order, len(whole), "the pickle is damaged: its order")
    if len(order) != len(whole) or not np.all(np.bincount(order.astype(np.int64), minlength=len(order)) == 1):
        raise ValueError(
            f"the pickle is damaged: its order doesn't have each of the {len(whole)} elements once"
        )
    return whole[order.astype(np.int64)]


def _selected(column, positions, path):
    """Return the elements of a column at positions, as `_short` returns them."""
    if type(positions) is range:
        if positions.step != 1 or not 0 <= positions.start <= positions.stop <= len(column):
            raise IndexError(
                f"{path} has {len(column)} elements, but the pickle has positions {shown(positions)}"
            )
        return column[positions.start : positions.stop]
    _check(positions, len(column), path)
    return column[positions.astype(np.int64)]


def _check(numbers, n, what):
    """Raise if an array does not consist of positions from 0 to n - 1."""
    if not isinstance(numbers, np.ndarray) or numbers.dtype.kind != "u" or numbers.ndim != 1:
        raise TypeError(f"{what}: expected a 1-D array of unsigned integers as positions, got {got(numbers)}")
    if len(numbers) and numbers.max() >= n:
        raise IndexError(f"{what}: position {numbers.max()} is out of range for {n} elements")


def opened(file):
    """Return the elements of a column of a file that has not changed.

    Raises
    ------
    OSError
        If the file is missing.
    ValueError
        If the file has changed.
    """
    try:
        file.check(os.stat(file.path))
        return _open(file)
    except (OSError, ValueError) as error:
        add_note(error, f"the sequence was pickled as the path of this file: {REMEDY}")
        error.of_stored = True  # for maps, whose workers reply only with the error
        raise


def _open(file):
    """Return the elements of a file, which is kept open for the next pickle of it."""
    # Each line is one atomic step of a dict. Other threads may run in between, and read a file again.
    column = _OPEN.pop(file, None)
    if column is None:
        from seqcore._files.reading import read  # which imports this module

        column = read(file.path, file.column, file.check)
        if len(column) != file.elements:
            raise ValueError(
                f"{file.path} has {len(column)} elements, but had {file.elements} when it was pickled"
            )
    _OPEN[file] = column
    while len(_OPEN) > 1 and sum(map(len, list(_OPEN.values()))) > _KEPT:
        _OPEN.pop(next(iter(list(_OPEN)), None), None)
    return column
