"""Divide the data to save into parts that fit memory: sequences as given, single tensors collected."""

from collections.abc import Mapping
from copy import deepcopy

import numpy as np

from seqcore._arguments.protocols import is_dataset, is_of
from seqcore._arguments.shown import got, prefixed
from seqcore._arguments.tensors import as_tensor
from seqcore._format.text import snapshot_of
from seqcore.columns import Columns
from seqcore.core.arrow import first_misfit
from seqcore.core.sequence import TensorSequence

_GATHERED = 32 << 20  # bytes of single tensors in one part
_COUNTED = np.ndarray, np.generic, list, tuple, str, int, float, complex
_COPIED = 64 << 20  # bytes of scattered elements to copy at a time
_BATCH = 1 << 30  # bytes of a batch, because not every reader takes arrays of more than 2³¹ items


def parts_of(given):
    """Yield the sequences or Columns to save, each with the index of its first item among those given.

    Parameters
    ----------
    given : TensorSequence, Columns, list or tuple of tensors, or iterable
        The data, an iterable of sequences, of Columns, or of tensors.
    """
    if is_of(given, Columns):
        return iter([(0, given)])
    if is_of(given, TensorSequence):
        return iter([(0, snapshot_of(given))])
    if isinstance(given, list | tuple) and not any(_is_part(item) for item in given):
        return iter([(0, TensorSequence(given))])
    if hasattr(given, "__arrow_c_stream__") or hasattr(given, "__arrow_c_array__"):
        call = "Columns.from_arrow" if hasattr(given, "columns") else "TensorSequence.from_arrow"
        raise TypeError(f"expected a sequence to save, got a {type(given).__name__}: convert it with {call}")
    if is_dataset(given):
        raise TypeError(
            f"expected a sequence to save, got a {type(given).__name__} of Hugging Face: convert it with "
            "Columns.from_dataset"
        )
    is_tensor = isinstance(given, str | bytes) or hasattr(given, "__array__") or hasattr(given, "__dlpack__")
    is_iterable = hasattr(type(given), "__iter__") or hasattr(type(given), "__getitem__")
    if is_tensor or isinstance(given, Mapping) or not is_iterable:
        remedy = "make Columns(…) of it" if isinstance(given, Mapping) else "put it into a list"
        raise TypeError(
            f"expected a sequence, a list of tensors, or an iterable of either to save, got {got(given)}"
            + (f": {remedy}" if given is not None else "")
        )
    return _gathered(iter(given))


def _is_part(item):
    return is_of(item, TensorSequence) or is_of(item, Columns)


def _gathered(items):
    """Yield sequences as they are, and collect the tensors between them."""
    items, dtype = enumerate(items), None
    ahead = next(items, None)
    while ahead is not None:
        first, item = ahead
        if _is_part(item):
            dtype = item.dtype if is_of(item, TensorSequence) else None
            yield first, item if is_of(item, Columns) else snapshot_of(item)
            ahead = next(items, None)
            continue
        run = _Run(ahead, items)
        try:
            # Lists may be typed as the tensors before. A copy, because generators often reuse one array.
            loose = TensorSequence(run, dtype if isinstance(item, list | tuple) else None, copy=True)
        except (TypeError, ValueError) as error:
            named = prefixed(f"part {run.number}", error)
            said = str(named).replace(f"tensors[{run.number - first}]", "the tensor")
            raise type(named)(said) from error
        if run.error is not None:
            raise run.error
        rank = loose[0].ndim
        at = first_misfit(loose, rank, rank, ())
        if at < len(loose):
            raise ValueError(
                f"part {first + at} is a tensor of shape {loose[at].shape}, expected rank {rank} as the "
                "parts before: a file has tensors of one rank"
            )
        dtype, ahead = loose.dtype, run.ahead
        yield first, loose


class _Run:
    """The tensors of an iterable up to the next sequence, or up to so many bytes."""

    def __init__(self, ahead, items):
        self.ahead, self.items = ahead, items  # the next item with its number, and those behind it
        self.number = ahead[0]  # of the last tensor
        self.error: Exception | None = None  # of the iterable itself, rather than of a tensor

    def __iter__(self):
        nbytes = 0
        while self.ahead is not None and nbytes < _GATHERED and not _is_part(self.ahead[1]):
            self.number, item = self.ahead
            if not isinstance(item, _COUNTED):
                item = as_tensor(item)
            size = _nbytes_of(item)
            yield deepcopy(item) if size == 0 and isinstance(item, list) else item  # it waits for a type
            nbytes += size
            try:
                self.ahead = next(self.items, None)
            except (TypeError, ValueError) as error:
                self.error, self.ahead = error, None


def _nbytes_of(item):
    """Return about how many bytes a tensor has, by the first items of nested lists."""
    count = 1
    while isinstance(item, list | tuple):
        if not item:
            return 0
        count, item = count * len(item), item[0]
    return count * getattr(item, "nbytes", 8)


def slices_of(part, together):
    """Yield slices of a sequence or of Columns that are small enough for a batch.

    If `together` is False, the elements are scattered and have to be copied.
    """
    count = max(1, -(-part.nbytes // (_BATCH if together else _COPIED)))
    size = -(-len(part) // count)
    for first in range(0, len(part), size):
        yield part[first : first + size]
