"""Pack elements into batches of a fixed capacity, such as a token budget."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from seqcore._arguments.integers import LONGEST, as_count, integer, integers, within_64_bits
from seqcore._arguments.other_names import NamesOfColumns, explains_arguments
from seqcore._arguments.protocols import is_of
from seqcore._arguments.shown import got, shown, shown_number
from seqcore.core.sequence import TensorSequence
from seqcore.core.training import STRATEGIES, narrowed, packed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from seqcore._typing import Integers

__all__ = ["pack"]


@explains_arguments
def pack(
    lengths: TensorSequence[Any] | Integers,
    capacity: SupportsIndex,
    *,
    strategy: Literal["best_fit_decreasing", "first_fit_decreasing", "next_fit"] = "best_fit_decreasing",
    max_count: SupportsIndex | None = None,
) -> TensorSequence[np.int64]:
    """Divide elements among packs whose lengths sum to at most a capacity.

    Parameters
    ----------
    lengths : TensorSequence or array_like of int
        The sequence to pack, or the lengths of its elements, of shape (n,), 0 or more.
    capacity : int
        The largest sum of lengths in a pack, for example the number of tokens in a batch.
    strategy : {"best_fit_decreasing", "first_fit_decreasing", "next_fit"}, optional
        The first two take the longest elements first. Best fit puts an element into the fullest pack that has
        enough space, first fit into the first such pack. Next fit keeps the order of the elements: it begins
        a pack whenever the next element doesn't fit.
    max_count : int, optional
        The largest number of elements in a pack. By default there is no limit.

    Returns
    -------
    TensorSequence
        One int64 array for each pack: the positions of its elements, in increasing order. For no lengths it
        is empty.

    Raises
    ------
    ValueError
        If an element is longer than the capacity, a length is negative, the lengths are not 1-D, `capacity`
        or `max_count` is less than 1, or the strategy is unknown.
    TypeError
        If a number is not an integer.

    See Also
    --------
    BatchSampler : Packs as the batches of PyTorch's DataLoader, shuffled in each epoch.

    Notes
    -----
    O(n log n), without the GIL; about 100 ns for each element. Best fit decreasing needs at most 11/9
    of the fewest packs possible, plus one.

    Examples
    --------
    >>> import seqcore as sq
    >>> sq.pack([5, 3, 2, 4, 1], 8).tolist()
    [[0, 1], [2, 3, 4]]
    """
    lengths = as_lengths(lengths)
    if strategy not in STRATEGIES:
        raise ValueError(f"strategy must be one of {', '.join(map(repr, STRATEGIES))}, got {shown(strategy)}")
    limit = as_capacity("capacity", capacity, lengths)
    most = as_count("max_count", max_count, "sets no limit")
    positions, offsets = packed(
        narrowed(lengths), limit, strategy, LONGEST if most is None else min(most, LONGEST)
    )
    return TensorSequence.from_offsets(positions, offsets)


def as_lengths(lengths: TensorSequence[Any] | Integers) -> NDArray[np.int64]:
    """Return lengths, or those of a sequence, as an int64 array of our own.

    Raises
    ------
    TypeError
        If they are not integers.
    ValueError
        If one is negative, or they are not 1-D.
    """
    if is_of(lengths, TensorSequence):
        return lengths.lengths()
    if is_of(lengths, NamesOfColumns):
        columns: Any = lengths
        inner = dict(columns.inner)
        names, kinds = [*inner], [*inner.values()]
        name = names[kinds.index(None) if None in kinds else 0]
        raise TypeError(f"lengths must be a sequence or integers, got Columns: pass columns[{name!r}]")
    first: Any = lengths[0] if isinstance(lengths, list | tuple) and lengths else 0
    if isinstance(first, list | tuple) or getattr(first, "ndim", False):
        raise ValueError(
            f"lengths must be a sequence or integers, got a {type(lengths).__name__} whose first item is "
            f"{got(first)}: pass TensorSequence(arrays)"
        )
    if isinstance(lengths, range):  # which may be of any length
        lengths = np.arange(lengths.start, lengths.stop, lengths.step)
    given = integers("lengths", lengths)
    if given.ndim != 1:
        raise ValueError(f"lengths must be a 1-D array of integers, got shape {given.shape}")
    if given.dtype.kind in "uO" and np.any(given > LONGEST):
        at = int(np.argmax(given > LONGEST))
        raise ValueError(
            f"element {at} has length {shown_number(given[at])}, but no array is longer than {LONGEST}"
        )
    own = np.array(within_64_bits(given))  # a copy, which nobody else changes
    if own.size and own.min() < 0:
        at = int(np.argmax(own < 0))
        raise ValueError(f"lengths[{at}] is {shown_number(given[at])}, but a length can't be negative")
    return own


def as_capacity(name: str, capacity: SupportsIndex | None, lengths: NDArray[np.int64]) -> int:
    """Return a capacity as an int; raise if an element is longer."""
    limit = integer(name, capacity, least=1)
    if lengths.size and lengths.max() > limit:
        at = int(np.argmax(lengths > limit))
        raise ValueError(
            f"element {at} has length {lengths[at]}, which is more than {name}={limit}: divide the "
            f"sequence with windows({limit}), or pass a larger {name}; leaving elements out loses data"
        )
    return min(limit, LONGEST)
