"""Batches of positions for training: elements of similar length together, or packed to a capacity."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np

from seqcore._arguments.integers import LONGEST, as_count, as_integer, boolean, integer
from seqcore._arguments.other_names import NamesOfSamplers, explains_arguments
from seqcore._arguments.shown import shown, shown_error
from seqcore.core.order import by_length, cut_by_padded, narrowed, shuffled
from seqcore.core.pack import packed
from seqcore.packing import as_capacity, as_lengths

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seqcore._typing import Integers
    from seqcore.core.sequence import TensorSequence

__all__ = ["BatchSampler"]

_LIMITS = ("batch_size", "max_tokens", "capacity")


class BatchSampler(NamesOfSamplers):
    """Yield batches of positions of elements of similar length, for PyTorch's `batch_sampler`.

    Exactly one of `batch_size`, `max_tokens` and `capacity` says how large a batch is.

    Parameters
    ----------
    lengths : TensorSequence or array_like of int
        The sequence to sample from, or the lengths of its elements, of shape (n,), 0 or more.
    batch_size : int, optional
        The number of elements in a batch. The elements are sorted by length, those of equal length in random
        order, and divided in this order.
    max_tokens : int, optional
        The largest size of a padded batch: its number of elements times the longest length. The elements are
        sorted as for `batch_size`, and each batch takes as many as fit.
    capacity : int, optional
        The largest sum of lengths in a batch, for batches without padding: `pack` by best fit decreasing.
    shuffle : bool, optional
        If True, shuffle the batches, and elements of equal length among them. If False, go by length.
    seed : int, optional
        The seed of the order, 0 or more, the same on every rank.
    rank, world_size : int, optional
        The number of this process among all, from 0, and the number of processes. Each rank yields different
        batches, and the same number of them.
    drop_last : bool, optional
        If True, leave out batches so that ranks have the same number of them, and the batch that isn't full.
        If False, repeat batches from the beginning of the epoch. Batches of packs count as full.

    Raises
    ------
    ValueError
        If not exactly one limit is given, an element is longer than `max_tokens` or `capacity`, there are
        more ranks than batches, or a number is out of range.
    TypeError
        If a number is not an integer, or a flag is not a bool.

    See Also
    --------
    pack : The packs themselves.

    Notes
    -----
    The order depends on the seed and the epoch only: iterating again gives the same batches, until
    `set_epoch`. An epoch is prepared in O(n) at its first batch, as arrays. Each batch is a list of Python
    integers. PyTorch is not needed.

    Examples
    --------
    >>> import seqcore as sq
    >>> sampler = sq.BatchSampler([2, 5, 2, 4, 1], batch_size=2, shuffle=False)
    >>> list(sampler), len(sampler)
    ([[4, 0], [2, 3], [1]], 3)
    """

    @explains_arguments
    def __init__(
        self,
        lengths: TensorSequence[Any] | Integers,
        *,
        batch_size: SupportsIndex | None = None,
        max_tokens: SupportsIndex | None = None,
        capacity: SupportsIndex | None = None,
        shuffle: bool = True,
        seed: SupportsIndex = 0,
        rank: SupportsIndex = 0,
        world_size: SupportsIndex = 1,
        drop_last: bool = False,
    ) -> None:
        # No variable is shared with the comprehension: without memory for that CPython 3.11 loses arguments.
        given = (batch_size, max_tokens, capacity)
        limits = [name for name, limit in zip(_LIMITS, given, strict=True) if limit is not None]
        if len(limits) != 1:
            raise ValueError(
                "pass exactly one of batch_size, max_tokens and capacity, got "
                f"{' and '.join(limits) or 'none of them'}"
            )
        self._kind = limits[0]
        self._shuffle = boolean("shuffle", shuffle)
        self._drop_last = boolean("drop_last", drop_last)
        self._seed = integer("seed", seed, least=0)
        self._world_size = as_count("world_size", integer("world_size", world_size))
        self._rank = integer("rank", rank, least=0)
        if self._rank >= self._world_size:
            raise ValueError(f"rank is {self._rank}, but must be less than world_size={self._world_size}")
        self._lengths = narrowed(as_lengths(lengths))
        if self._kind == "batch_size":
            self._limit = as_count("batch_size", batch_size)
        else:
            limit = max_tokens if self._kind == "max_tokens" else capacity
            self._limit = as_capacity(self._kind, limit, self._lengths)
        self._bounds = self._divided()
        self._epoch = 0
        self._first = 0  # the batch that the next iteration begins with
        self._given = 0  # batches of the epoch that were handed out
        count = self._count()
        if self._world_size > max(count, 1):
            raise ValueError(
                f"there are {count} batches, too few for world_size={self._world_size}: use fewer ranks, or "
                f"a smaller {self._kind}"
            )

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, for this rank."""
        return self._count() // self._world_size if self._drop_last else -(-self._count() // self._world_size)

    def __iter__(self) -> Iterator[list[int]]:
        """Iterate over the batches of the epoch; after `load_state_dict`, over the rest of it."""
        self._given = self._first
        return self._batches(self._epoch)

    def __repr__(self) -> str:
        return (
            f"<BatchSampler of {len(self._lengths):,} elements: {self._kind}={self._limit}, {len(self):,} "
            f"batches{f' for rank {self._rank} of {self._world_size}' if self._world_size > 1 else ''}>"
        )

    @property
    def sampler(self) -> BatchSampler:
        """The sampler itself: Lightning calls `set_epoch` on the `sampler` of a loader's batch sampler."""
        return self

    def set_epoch(self, epoch: SupportsIndex) -> None:
        """Set the number of the epoch, which changes the order. Call it before each epoch.

        Parameters
        ----------
        epoch : int
            The epoch, 0 or more. The epoch of a loaded state goes on where it was; any other begins anew.

        Raises
        ------
        ValueError
            If it is negative.
        TypeError
            If it is not an integer.
        """
        wanted = integer("epoch", epoch, least=0)
        if wanted != self._epoch:
            self._epoch, self._first, self._given = wanted, 0, 0

    def state_dict(self) -> dict[str, Any]:
        """Return the epoch and the number of batches handed out, to save with a checkpoint.

        Returns
        -------
        dict
            Only strings, integers and bools. `"batches"` counts what the iterator has handed out. Loaders
            with worker processes fetch ahead: set it to the number of batches that were trained on.
        """
        return {"epoch": self._epoch, "batches": self._given, **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next iteration begins with the first batch that it doesn't have.

        Parameters
        ----------
        state : dict
            What `state_dict` returned, on any rank.

        Raises
        ------
        ValueError
            If the state is of other lengths or arguments.
        TypeError
            If it is not a state of a BatchSampler.
        """
        if not isinstance(state, dict) or not {"epoch", "batches"} <= state.keys():
            raise TypeError(f"state must be a dict from BatchSampler.state_dict, got {shown(state)}")
        for name, own in self._identity().items():
            if not _is_equal(state.get(name), own):
                what = "other lengths" if name == "lengths" else f"{name}={shown(state.get(name))}"
                mine = "" if name == "lengths" else f", this sampler has {name}={own}"
                raise ValueError(
                    f"the state is of a BatchSampler with {what}{mine}: make one like it to go on"
                )
        epoch = integer("epoch", state["epoch"], least=0)
        batches = integer("batches", state["batches"], least=0)
        if batches > len(self):
            raise ValueError(f"the state has {batches} batches, but an epoch has {len(self)}")
        self._epoch, self._first, self._given = epoch, batches, batches

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled sampler; what doesn't fit is refused, because pickles may be damaged."""
        try:
            names = "shuffle", "seed", "rank", "world_size", "drop_last"
            own = BatchSampler(
                state["_lengths"],
                **{state["_kind"]: state["_limit"]},
                **{name: state[f"_{name}"] for name in names},
            )
            own.load_state_dict({**own.state_dict(), "epoch": state["_epoch"], "batches": state["_first"]})
            own._given = integer("batches", state["_given"], least=0)
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(f"the pickle of a BatchSampler is damaged: {shown_error(error)}") from error
        self.__dict__.update(state | own.__dict__)

    # -- the batches -----------------------------------------------------------------------------------

    def _identity(self):
        """Return what a state must agree in: the lengths, as a checksum, and the arguments but the rank."""
        return {
            "elements": len(self._lengths),
            "lengths": zlib.crc32(self._lengths.data),
            self._kind: self._limit,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "world_size": self._world_size,
            "drop_last": self._drop_last,
        }

    def _divided(self):
        """Return the offsets of batches, the same in each epoch; None for packs, whose number is the same."""
        n, limit = len(self._lengths), min(self._limit, len(self._lengths) + 1)
        if self._kind == "capacity":
            _, bounds = packed(self._lengths, self._limit, "best_fit_decreasing", LONGEST)
            self._npacks = len(bounds) - 1
            return None
        if self._kind == "batch_size":
            if self._drop_last:
                return np.arange(0, n + 1, limit)
            return np.minimum(np.arange(-(-n // limit) + 1) * limit, n)
        rising = self._lengths.take(by_length(self._lengths))
        bounds = cut_by_padded(rising, self._limit)
        # The last batch isn't full if one more element would fit.
        if self._drop_last and n and (n - int(bounds[-2]) + 1) * int(rising[-1]) <= self._limit:
            bounds = bounds[:-1]
        return bounds

    def _count(self):
        """Return the number of batches of all ranks, before they are made to divide."""
        return self._npacks if self._bounds is None else len(self._bounds) - 1

    def _ordered(self, bits):
        """Return the positions of an epoch, batch by batch, and the offsets of the batches."""
        random = bits if self._shuffle else None
        if self._bounds is None:
            return packed(self._lengths, self._limit, "best_fit_decreasing", LONGEST, random)
        order = by_length(self._lengths, random)
        if self._shuffle and self._kind == "batch_size" and self._bounds[-1] < len(order):
            # Any elements may be left out, not always the longest ones.
            rng = np.random.Generator(bits)
            order = np.delete(order, rng.choice(len(order), len(order) - self._bounds[-1], replace=False))
        return order, self._bounds

    def _batches(self, epoch):
        # Not before the first batch is asked for: PyTorch's loader with workers calls iter() twice.
        first, self._first = self._first, 0
        self._given = first
        if first == len(self):
            return
        bits = np.random.PCG64([self._seed, epoch])
        positions, offsets = self._ordered(bits)
        count = self._count()
        which = shuffled(count, bits) if self._shuffle else np.arange(count)
        for i in range(first, len(self)):
            at = which[(i * self._world_size + self._rank) % count]
            batch = positions[offsets[at] : offsets[at + 1]].tolist()
            self._given = i + 1
            yield batch


def _is_equal(value: Any, own: int | bool) -> bool:
    """Return whether a value of a state is an argument of the sampler; it may be anything."""
    if isinstance(own, bool):
        return isinstance(value, bool | np.bool_) and bool(value) == own
    return as_integer(value) == own
