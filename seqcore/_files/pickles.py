"""Pickles of sequences: which sources their elements are of, and in which order.

::

    parts    ("even", array, axis, length), ("views", …), …        tables, with no more than is used of them
             ("lists", array, offsets, low), …                     tables of files, with all their numbers
             ("file", path, size, time, column, length)            columns that were decoded when loaded
    order    ((part, first, step, n), …) or an array of such runs, or (parts, numbers) of each element

An array is a NumPy array, or the place of one in a file: ((path, size, time), offset, dtype, shape, strides).
A sequence whose sources all are in files is pickled by such places and columns, any other as data, which goes
out once, in arrays that protocol 5 of pickle can leave where they are. Unpickling maps files and reads
nothing of them; damaged numbers of a file are found when an element is read, as after `load`.

Version 0.1 named columns of mapped files too. Such pickles are read in the same way.
"""

from collections.abc import Iterable
from itertools import count, repeat
from typing import Any

import numpy as np

from seqcore._arguments.shown import got, shown
from seqcore._arguments.tensors import as_tensor
from seqcore._files.paths import FileOfCaller, keep, mapped, opened
from seqcore._format.text import snapshot_of
from seqcore.core.arrow import from_foreign_offsets, from_foreign_shapes, from_shapes, from_views
from seqcore.core.maps import chained, split_by_lengths, split_equally
from seqcore.core.pickling import Found, MappedFile, mapped_pointers, mark_origin
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING, element_type, type_name

_FIELDS = {  # of each kind of part
    "whole": 1,
    "even": 3,
    "offsets": 3,
    "lengths": 3,
    "views": 4,
    "shaped": 3,
    "lists": 3,
    "tensors": 5,
    "pointers": 3,
}
_STRIDES = tuple, type(None)
_RUNS_AS_INTEGERS = 8  # which take less than an array's pickle
_LARGEST = 2**63 - 1

# == out =================================================================================================


def reduced(sequence):
    """Return the parts of a sequence, and the order of its elements among them."""
    own = snapshot_of(sequence)
    found = Found(own)
    stored = _stored(found)
    if stored is None:
        # Copied together where the tables are mostly unused, or many and small.
        if found.is_better_tight():
            own.compact()
            found = Found(own)
        parts = list(map(_as_data, map(found.part, range(len(found)))))
        places = np.arange(len(found)), -np.array(found.low, np.int64)
    else:
        parts, *places = stored
    return parts, _order(found, len(parts), *places)


def _as_data(part):
    # Only such arrays leave their data out of band.
    kind, array, *rest = part
    return kind, array if array.flags.forc else np.ascontiguousarray(array), *rest


def _stored(found):
    """Return the parts of sources that are all in files, the part of each source, and the first number there.

    None if one is not, or if the caller has removed its file.
    """
    seen: set[MappedFile] = set()
    parts: dict[Any, int] = {}  # and their numbers; equal ones, of files that were loaded twice, are one
    more: list[Any] = []  # whole arrays, by their source
    empty: dict[Any, _Numbers] = {}  # arrays without items, by their shape; of np.memmap they know no file
    part_of, shifts = np.zeros(len(found), np.int64), np.zeros(len(found), np.int64)
    for i in range(len(found)):
        file, (column, first) = found.file(i), found.origin(i)
        part, shift = None, 0
        if isinstance(file, FileOfCaller) and file not in seen:
            seen.add(file)
            if file.is_gone():
                return None
        if file is not None:
            part = _with_places(found.whole(i), file)
            if part is not None and part[0] == "whole":
                more.append((i, file, found.whole(i)[1]))
                continue
        if part is None and column is not None and not isinstance(column, MappedFile):
            part, shift = ("file", *column), first
        if part is None and file is not None:
            used = found.part(i)
            place = _place(used[1], file) if used is not None else None
            if place is not None:
                kind, _, *numbers = used
                if kind == "offsets":
                    kind, numbers[1] = "lengths", np.diff(numbers[1])
                part, shift = (kind, place, *[_Numbers.of(one) for one in numbers]), -found.low[i]
        if part is None:
            whole = found.whole(i)
            if whole is None or whole[0] != "whole" or whole[1].size:
                return None
            part = "whole", empty.setdefault(whole[1].shape, _Numbers(whole[1]))
        part_of[i] = parts.setdefault(part, len(parts))
        shifts[i] = shift
    made = [tuple(one.array if type(one) is _Numbers else one for one in part) for part in parts]
    for part, sources in _views_of(more):
        part_of[sources], shifts[sources] = len(made), np.arange(len(sources))
        made.append(part)
    return made, part_of, shifts


class _Numbers:
    """An array in memory, equal only to itself; numbers are in as few bytes as they take."""

    def __init__(self, array):
        self.array = array

    @classmethod
    def of(cls, value):
        return cls(_shortest(value)) if isinstance(value, np.ndarray) else value


def _with_places(part, file):
    """Return a part with the places of its arrays in files, or None if one of them is in none."""
    if part is None:
        return None
    found = []
    for value in part:
        if isinstance(value, np.ndarray):
            value = _place(value, file) or _place(value, _file_under(value))
            if value is None:
                return None
        found.append(value)
    return tuple(found)


def _file_under(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return array if isinstance(array, MappedFile) else None


def _place(array, file):
    """Return the place of an array in a mapped file, or None if it isn't there."""
    if file is None:
        return None
    strides = None if array.flags.c_contiguous else array.strides
    offset = 0
    if array.size:
        begin = array.__array_interface__["data"][0]
        if not file.has(*_bounds(array, begin)):
            return None
        offset = begin - file.address
    return file.stamp, offset, type_name(array.dtype), array.shape, strides


def _bounds(array, begin):
    """Return where the memory of an array with items begins and ends, that of its first item being known."""
    return (
        (begin, begin + array.nbytes) if array.flags.c_contiguous else np.lib.array_utils.byte_bounds(array)
    )


def _views_of(arrays):
    """Yield parts of arrays in files, each with the sources that are its elements.

    C-contiguous arrays whose rows have one shape are views of the file's rows, the others are by themselves.
    """
    groups: dict[Any, Any] = {}
    for source, file, array in arrays:
        row = array.itemsize
        for extent in array.shape[1:]:
            row *= extent
        start = array.__array_interface__["data"][0] - file.address
        if array.ndim and array.size and array.flags.c_contiguous:
            key = file.stamp, array.shape[1:], row, start % row
        else:
            key = source
        groups.setdefault(key, []).append((source, start, len(array) if array.ndim else 1, file, array))
    for members in groups.values():
        sources, begins, counts, files, some = zip(*members, strict=True)
        if len(members) == 1:
            yield ("whole", _place(some[0], files[0])), list(sources)
            continue
        row = some[0].nbytes // counts[0]
        low, lengths = min(begins), np.array(counts)
        starts = (np.array(begins) - low) // row
        shape = (int((starts + lengths).max()), *some[0].shape[1:])
        place = files[0].stamp, low, type_name(some[0].dtype), shape, None
        yield ("views", place, 0, _shortest(starts), _shortest(lengths)), list(sources)


def _order(found, nparts, part_of, shifts):
    """Return the order of the elements among the parts, from that among the sources."""
    runs = found.runs
    if runs is None:
        which, numbers = part_of[found.which], found.numbers + shifts[found.which]
        runs = _runs_of(which, numbers)
        if runs is None:
            return _shortest(which) if nparts > 1 else None, _shortest(numbers)
    elif len(runs):
        runs[:, 1] += shifts[runs[:, 0]]
        runs[:, 0] = part_of[runs[:, 0]]
    # Neighbors in one part, of the batches of a file, are one run.
    if len(runs) > 1:
        runs = _merged(runs)
    return tuple(map(tuple, runs.tolist())) if len(runs) <= _RUNS_AS_INTEGERS else runs


def _merged(runs):
    runs[runs[:, 3] == 1, 2] = 1
    follows = np.zeros(len(runs), bool)
    follows[1:] = (
        (runs[1:, 0] == runs[:-1, 0])
        & (runs[1:, 2] == runs[:-1, 2])
        & (runs[1:, 1] == runs[:-1, 1] + runs[:-1, 2] * runs[:-1, 3])
    )
    begins = np.flatnonzero(~follows)
    counts = np.add.reduceat(runs[:, 3], begins)
    runs = runs[begins]
    runs[:, 3] = counts
    return runs


def _runs_of(which, numbers):
    """Return the runs that elements are, or None where the numbers of each take less."""
    breaks = np.flatnonzero((which[1:] != which[:-1]) | (numbers[1:] - numbers[:-1] != 1)) + 1
    if 16 * len(breaks) > len(numbers):
        return None
    begins = np.concatenate([[0], breaks])
    counts = np.diff(begins, append=len(numbers))
    return np.column_stack([which[begins], numbers[begins], np.ones_like(begins), counts])


def _shortest(numbers):
    """Return numbers that are not negative in as few bytes as they take."""
    return numbers.astype(np.min_scalar_type(numbers.max() if numbers.size else 0))


# == back ================================================================================================


def restored(dtype, parts, order):
    """Return the sequence that a pickle says; what doesn't fit is refused, because pickles may be damaged.

    Parameters
    ----------
    dtype : np.dtype
        The element type.
    parts : list of tuple
        The parts.
    order : tuple or array
        The order of the elements among them.
    """
    if type(parts) is not list or not isinstance(order, tuple | np.ndarray):
        raise TypeError(
            "the pickle is damaged: expected a list of parts and the order of the elements among them, got "
            f"{shown(parts)} and {shown(order)}"
        )
    files: dict[Any, MappedFile] = {}
    sequences = list(map(_part, repeat(dtype), parts, count(), repeat(files)))
    keep([*files.values()])
    if type(order) is tuple and len(order) == 2 and isinstance(order[1], np.ndarray):
        which = None if order[0] is None else _integers(order[0], "parts")
        return _by_numbers(dtype, sequences, which, _integers(order[1], "numbers"))
    return _by_runs(dtype, sequences, order)


def _part(dtype, part, at, files):
    """Return a part as a sequence. `files` are those that were mapped for the parts before."""
    if type(part) is not tuple or not part or type(part[0]) is not str:
        raise TypeError(f"the pickle is damaged: part {at} must be a table or a file, got {shown(part)}")
    kind, *rest = part
    if kind == "file":
        column = opened(rest)
        if column.dtype != dtype:
            raise ValueError(
                f"{rest[0]} has elements of dtype {column.dtype}, but the pickled sequence has dtype {dtype}"
            )
        return column
    if len(rest) != _FIELDS.get(kind, -1):
        raise TypeError(
            f"the pickle is damaged: part {at} must be a table, got {shown(kind)} with {len(rest)} values"
        )
    array = _array(rest[0], dtype, at, files)
    if kind in ("lists", "tensors", "pointers"):
        return _in_file(kind, array, rest, at, files)
    if kind == "whole":
        return TensorSequence([array], dtype)
    if kind == "shaped":
        if array.ndim != 1 or not array.flags.c_contiguous:
            raise ValueError(
                f"the pickle is damaged: the items of part {at} have shape {array.shape}, expected one axis"
            )
        return from_shapes(array, _integers(rest[1], "offsets"), _integers(rest[2], "shapes", 2))
    axis = rest[1]
    if type(axis) is not int or not -1 <= axis < array.ndim or (axis < 0 and kind != "even"):
        raise ValueError(f"the pickle is damaged: part {at} has axis {shown(axis)}, but rank {array.ndim}")
    if kind == "even":
        length = rest[2]
        if type(length) is not int or length < 1 or array.ndim == 0 or (axis < 0 and length > 1):
            raise ValueError(f"the pickle is damaged: part {at} has elements of length {shown(length)}")
        return split_equally(array, max(axis, 0), min(length, _LARGEST), axis < 0)
    if kind == "views":
        return from_views(array, _integers(rest[2], "starts"), _integers(rest[3], "lengths"), axis)
    numbers = _integers(rest[2], kind)
    if kind == "offsets":
        if len(numbers) == 0 or numbers[0] != 0:
            raise ValueError(f"the pickle is damaged: the offsets of part {at} don't begin at 0")
        numbers = np.diff(numbers)
    try:
        return split_by_lengths(array, axis, numbers)
    except ValueError as error:
        raise ValueError(f"the pickle is damaged: part {at}: {error}") from error


def _array(given, dtype, at, files):
    """Return an array of a pickle, which is of a dtype unless that is None."""
    if isinstance(given, np.ndarray):
        return as_tensor(given, dtype)
    if type(given) is not tuple:
        raise TypeError(f"the pickle is damaged: part {at} must be a table of arrays, got {got(given)}")
    array = _mapped_array(given, at, files)
    if dtype is not None and array.dtype != dtype:
        raise ValueError(
            f"{given[0][0]} has elements of dtype {array.dtype}, but the pickled sequence has dtype {dtype}"
        )
    return array


def _mapped_array(place, at, files):
    """Return the array at a place of a file, which must be within it."""
    if len(place) != 5 or type(place[0]) is not tuple or list(map(type, place[0])) != [str, int, int]:
        raise TypeError(f"the pickle is damaged: part {at} must name a place in a file, got {shown(place)}")
    stamp, offset, name, shape, strides = place
    dtype = element_type(name) if type(name) is str else STRING
    extents = (*shape, *(strides or ())) if type(shape) is tuple and type(strides) in _STRIDES else (None,)
    if dtype == STRING or {*map(type, extents), type(offset)} != {int} or min(shape, default=0) < 0:
        raise TypeError(f"the pickle is damaged: part {at} must name a place in a file, got {shown(place)}")
    file = files.get(stamp)
    if file is None:
        file = files[stamp] = mapped(stamp)
    try:
        array = np.ndarray(shape, dtype, b"" if 0 in shape else file, max(offset, 0), strides)
    except (ValueError, TypeError, OverflowError, BufferError) as error:
        raise ValueError(
            f"the pickle is damaged: part {at} is not in the {file.nbytes:,} bytes of {file.path}: {error}"
        ) from error
    if array.size and (offset < 0 or not file.has(*_bounds(array, file.address + offset))):
        raise ValueError(f"the pickle is damaged: part {at} is not in the bytes of {file.path}")
    return array


def _in_file(kind, array, rest, at, files):
    """Return a table whose numbers are a file's, and are used as they are there."""
    count = 2 if kind == "lists" else 3
    numbers = [_array(one, None, at, files) for one in rest[1:count]]
    if kind != "pointers" and not all(one.flags.c_contiguous and one.flags.aligned for one in numbers):
        raise ValueError(f"the pickle is damaged: the numbers of part {at} are not aligned")
    try:
        if kind == "pointers":
            made = mapped_pointers(array, *numbers)
        elif kind == "lists":
            made = from_foreign_offsets(array, *numbers, rest[2], rest[2] + len(array))
        else:
            low, order = rest[3:]
            made = from_foreign_shapes(array, numbers[0], low, low + len(array), numbers[1], order)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"the pickle is damaged: the numbers of part {at} don't fit: {error}") from error
    mark_origin(made, _file_under(numbers[0]) or _file_under(array), _file_under(array))
    return made


def _integers(given, what, ndim=1):
    """Return a row or table of integers of at most 64 bits, as a copy in int64."""
    if not isinstance(given, np.ndarray) or given.dtype.kind not in "iu":
        raise TypeError(f"the pickle is damaged: its {what} must be an array of integers, got {shown(given)}")
    numbers = np.ndarray.view(given, np.ndarray)
    if numbers.ndim != ndim or (numbers.dtype.kind == "u" and numbers.size and numbers.max() > _LARGEST):
        raise ValueError(f"the pickle is damaged: its {what} have shape {numbers.shape}, or are too large")
    return np.array(numbers, dtype=np.int64, order="C", copy=True)


def _joined(dtype, sequences):
    return chained(sequences) if sequences else TensorSequence(dtype=dtype)


def _by_numbers(dtype, sequences, which, numbers):
    """Return elements by their parts and their numbers there."""
    bases = np.cumsum([0, *map(len, sequences)])
    if which is None and len(sequences) == 1:
        which = np.zeros(1, np.int64)
    elif which is None or len(which) != len(numbers):
        raise ValueError(
            f"the pickle is damaged: it has {len(sequences)} parts, but doesn't say which one each element "
            "is in"
        )
    elif len(which) and not (which.min() >= 0 and which.max() < len(sequences)):
        raise ValueError(f"the pickle is damaged: an element names a part beyond its {len(sequences)} parts")
    if len(numbers) and (numbers.min() < 0 or np.any(numbers >= np.diff(bases)[which])):
        raise IndexError("the pickle is damaged: an element has a number that its part doesn't have")
    return _joined(dtype, sequences)[numbers + bases[which]]


def _by_runs(dtype, sequences, order: Iterable[Any]):
    """Return runs of elements: part, first, step and number of elements."""
    if isinstance(order, np.ndarray):
        runs = _integers(order, "runs", 2)
        if runs.shape[1] != 4:
            raise ValueError(f"the pickle is damaged: its runs have shape {runs.shape}, expected (n, 4)")
        order = map(tuple, runs.tolist())
    slices = []
    for run in order:
        if type(run) is not tuple or len(run) != 4 or set(map(type, run)) != {int}:
            raise TypeError(f"the pickle is damaged: a run must be four integers, got {shown(run)}")
        which, first, step, n = run
        if not 0 <= which < len(sequences):
            raise ValueError(
                f"the pickle is damaged: a run names part {which}, but there are {len(sequences)} parts"
            )
        size = len(sequences[which])
        step = 1 if n == 1 else step
        last = first + (n - 1) * step
        if n < 1 or not 0 <= first < size or not 0 <= last < size or step == 0:
            raise IndexError(
                f"the pickle is damaged: a run has {n} elements from {first} on with step {step}, but its "
                f"part has {size}"
            )
        end = last + (1 if step > 0 else -1)
        slices.append(sequences[which][first : end if end >= 0 else None : step])
    return _joined(dtype, slices)
