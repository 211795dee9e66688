"""Divide the data to save into parts that fit memory: sequences as given, single tensors collected."""

from collections.abc import Mapping
from typing import Any

from seqcore._arguments.protocols import is_of
from seqcore._arguments.shown import got, prefixed
from seqcore._arguments.tensors import has_type
from seqcore._format.text import snapshot_of
from seqcore.columns import Columns
from seqcore.core.sequence import TensorSequence

_GATHERED = 32 << 20  # bytes of single tensors in one part
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
        raise TypeError(
            f"expected a sequence to save, got a {type(given).__name__}: convert it, or one of its columns, "
            "with TensorSequence.from_arrow"
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
    loose, first, gathered, dtype = None, 0, 0, None
    untyped: list[Any] = []  # of the first tensors those of lists without items, which have no type
    for number, item in enumerate(items):
        if _is_part(item):
            if loose is not None or untyped:
                yield first, TensorSequence(untyped) if loose is None else loose
                loose, untyped = None, []
            dtype = item.dtype if is_of(item, TensorSequence) else None
            yield number, item if is_of(item, Columns) else snapshot_of(item)
            continue
        try:
            # A copy, because generators often reuse one array.
            if loose is not None:
                taken = TensorSequence([item], loose.dtype, copy=True)
            elif dtype is not None and isinstance(item, list | tuple):  # may be typed as those before
                taken = TensorSequence([item], dtype, copy=True)
            else:
                taken = TensorSequence([item], copy=True)
        except (TypeError, ValueError) as error:
            raise prefixed(f"part {number}", error) from error
        if loose is None:
            first, gathered = number - len(untyped), 0
        if loose is None and dtype is None and not has_type(item):
            untyped.append(taken[0])
            first_rank = untyped[0].ndim
        else:
            if loose is None:
                loose, dtype = TensorSequence(dtype=taken.dtype), taken.dtype
                loose.extend([tensor.astype(dtype) for tensor in untyped])
                untyped = []
            loose.extend(taken)
            first_rank = loose[0].ndim
        del item
        tensor = taken[0]
        if tensor.ndim != first_rank:
            raise ValueError(
                f"part {number} is a tensor of shape {tensor.shape}, expected rank {first_rank} as the "
                "parts before: a file has tensors of one rank"
            )
        gathered += tensor.nbytes
        if gathered >= _GATHERED:
            yield first, loose
            loose = None
    if loose is not None or untyped:
        yield first, TensorSequence(untyped) if loose is None else loose


def slices_of(part, together):
    """Yield slices of a sequence or of Columns that are small enough for a batch.

    If `together` is False, the elements are scattered and have to be copied.
    """
    count = max(1, -(-part.nbytes // (_BATCH if together else _COPIED)))
    size = -(-len(part) // count)
    for first in range(0, len(part), size):
        yield part[first : first + size]
