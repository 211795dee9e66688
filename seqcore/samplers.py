"""Batches of positions for training: elements of similar length together, or packed to a capacity."""

from __future__ import annotations

import math
import zlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex

import numpy as np

from seqcore._arguments.integers import as_count, as_integer, boolean, integer, integers, within_64_bits
from seqcore._arguments.other_names import NamesOfSamplers, explains_arguments
from seqcore._arguments.shown import got, shown, shown_error
from seqcore._batches import Draws, MixedBatches, SortedBatches
from seqcore.core.training import narrowed
from seqcore.packing import as_capacity, as_lengths

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from seqcore._typing import Integers
    from seqcore.core.sequence import TensorSequence

__all__ = ["BatchSampler"]

_LIMITS = ("batch_size", "max_tokens", "capacity")
_ARGUMENTS = ("shuffle", "seed", "rank", "world_size", "drop_last", "sources", "weights", "unit", "stop")


class BatchSampler(NamesOfSamplers):
    """Yield batches of positions of elements of similar length, for PyTorch's `batch_sampler`.

    Exactly one of `batch_size`, `max_tokens` and `capacity` says how large a batch is.

    Parameters
    ----------
    lengths : TensorSequence or array_like of int
        The sequence to sample from, or the lengths of its elements, of shape (n,), 0 or more.
    batch_size : int, optional
        The number of elements in a batch, of similar length.
    max_tokens : int, optional
        The largest size of a padded batch: its number of elements times the longest length. The elements of a
        batch are of similar length.
    capacity : int, optional
        The largest sum of lengths in a batch, for batches without padding.
    shuffle : bool, optional
        If True, mix batches anew in each epoch, and give them in random order. If False, go by length.
    seed : int, optional
        The seed of the order, 0 or more, the same on every rank.
    rank, world_size : int, optional
        The number of this process among all, from 0, and the number of processes. They take turns in one
        order, so each yields different batches, and the same number of them.
    drop_last : bool, optional
        If True, leave out batches so that ranks have the same number of them, and the batch that isn't full:
        other elements in each epoch. If False, repeat batches from the beginning of the epoch. Packs count as
        full.
    sources : array_like of int, optional
        For a mixture, the source that each element is from, of shape (n,), from 0.
    weights : sequence of float, optional
        The share of each source in the mixture, of any scale. A weight of 0 leaves a source out.
    unit : {"elements", "tokens"}, optional
        The unit that `weights` are shares of. Tokens are counted by the mean length of a source.
    stop : {"first", "all"}, optional
        The end of an epoch of a mixture: when the first source is used up, so that other sources give some
        elements, others in each epoch; or when all are, so that others begin anew meanwhile.

    Raises
    ------
    ValueError
        If not exactly one limit is given, an element is longer than `max_tokens` or `capacity`, there are
        more ranks than batches, a number is out of range, or the weights don't fit the sources.
    TypeError
        If a number is not an integer, or a flag is not a bool.

    See Also
    --------
    pack : The packs themselves.

    Notes
    -----
    The order depends on the seed and the epoch only, with every version of NumPy: iterating again gives the
    same batches, until `set_epoch`. The epoch is read when the first batch is asked for. `len` is the same in
    every epoch.

    Batches mix: if there are 8 or more, hardly any holds the same elements as one of the epoch before.
    That costs about 1 % of padding or packs with 500 batches, and more with fewer: 4 % with 60. Only
    batches of a few elements that are much longer than all others may stay the same.

    An epoch is prepared in O(n) at its first batch, as arrays. Each batch is a list of Python integers.
    PyTorch is not needed.

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
        sources: Integers | None = None,
        weights: Sequence[float] | None = None,
        unit: Literal["elements", "tokens"] = "elements",
        stop: Literal["first", "all"] = "first",
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
            raise ValueError(
                f"rank is {shown(self._rank)}, but must be less than world_size={shown(self._world_size)}"
            )
        self._lengths = narrowed(as_lengths(lengths))
        if self._kind == "batch_size":
            self._limit = as_count("batch_size", batch_size)
        else:
            limit = max_tokens if self._kind == "max_tokens" else capacity
            self._limit = as_capacity(self._kind, limit, self._lengths)
        self._unit = _one_of("unit", unit, ("elements", "tokens"))
        self._stop = _one_of("stop", stop, ("first", "all"))
        if (sources is None) != (weights is None):
            raise ValueError(
                "weights need sources, the source of each element"
                if sources is None
                else "sources need weights, one for each source"
            )
        self._sources = self._weights = None
        if sources is not None:
            if not self._shuffle:
                raise ValueError("a mixture of sources is drawn at random: leave out shuffle=False")
            self._weights = _as_weights(weights)
            self._sources = _as_sources(sources, len(self._lengths), len(self._weights))
        self._plan = self._planned()
        self._progress = _Progress(0, 0)
        self._checksums: dict[str, Any] = {}
        if self._world_size > max(self._plan.count, 1):
            raise ValueError(
                f"there are {self._plan.count} batches, too few for world_size={shown(self._world_size)}: "
                f"use fewer ranks, or a smaller {self._kind}"
            )

    def __len__(self) -> int:
        """Return the number of batches of a whole epoch, for this rank; it is the same in every epoch."""
        return self._turns_from(0)

    def __iter__(self) -> Iterator[list[int]]:
        """Iterate over the batches of the epoch; after `load_state_dict`, over the rest of it."""
        # The epoch isn't read before the first batch is asked for: loaders call iter() early, and twice.
        progress = self._progress
        if progress.is_begun:
            progress = self._progress = _Progress(progress.epoch, 0)
        progress.is_begun = True
        start, count = progress.start, self._turns_from(progress.start)
        if count:
            batch = self._plan.of_epoch(self._seed, progress.epoch)
        for i in range(count):
            own = batch((start + i * self._world_size + self._rank) % self._plan.count)
            progress.taken = i + 1
            yield own

    def __repr__(self) -> str:
        plan = self._plan
        share = plan.filled / plan.size if plan.size else 1.0
        size = f"packs {share:.1%} full" if self._kind == "capacity" else f"{1 - share:.1%} padding"
        return (
            f"<BatchSampler of {len(self._lengths):,} elements"
            f"{f' from {len(self._weights)} sources' if self._weights else ''}: {self._kind}={self._limit}, "
            f"{len(self):,} batches"
            f"{f' for rank {self._rank} of {self._world_size}' if self._world_size > 1 else ''}, {size}>"
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
        if wanted != self._progress.epoch:
            self._progress = _Progress(wanted, 0)

    def state_dict(self, batches: SupportsIndex | None = None) -> dict[str, Any]:
        """Return the epoch and the number of batches that all ranks together had of it, for a checkpoint.

        Parameters
        ----------
        batches : int, optional
            The number of batches of this iteration that this rank has trained on. By default all that were
            handed out, but loaders with worker processes, among others, fetch batches ahead of the training.

        Returns
        -------
        dict
            Only strings, numbers, bools, and a list of numbers for `weights`. Another number of ranks can go
            on from it.

        Raises
        ------
        ValueError
            If `batches` is negative, or more than were handed out.
        TypeError
            If it is not an integer.
        """
        progress = self._progress
        taken = progress.taken
        if batches is not None:
            taken = integer("batches", batches, least=0)
            if taken > progress.taken:
                raise ValueError(
                    f"batches is {shown(taken)}, but only {progress.taken} were handed out in this iteration"
                )
        done = progress.start + taken * self._world_size
        if progress.is_begun and taken == self._turns_from(progress.start):
            done = self._plan.count  # also of those that are repeated or left out: nothing is left
        return {"epoch": progress.epoch, "batches": min(done, self._plan.count), **self._identity()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from a state: the next iteration begins with the first batch that no rank has had.

        Parameters
        ----------
        state : dict
            The result of `state_dict` on any rank. The number of ranks may be another one.

        Raises
        ------
        ValueError
            If the state is of other lengths or arguments, or of seqcore 0.1.
        TypeError
            If it is not a state of a BatchSampler.
        """
        if not isinstance(state, dict) or not {"epoch", "batches"} <= state.keys():
            raise TypeError(f"state must be a dict from BatchSampler.state_dict, got {shown(state)}")
        if "world_size" in state:
            raise ValueError(
                "the state is of a BatchSampler of seqcore 0.1, which divided elements into other batches: "
                f"begin the epoch anew, with set_epoch({shown(state['epoch'])})"
            )
        for name, own in self._identity().items():
            if not _is_equal(state.get(name), own):
                other = name in ("lengths", "sources") and name in state
                what = f"other {name}" if other else f"{name}={shown(state.get(name))}"
                mine = "" if other else f", this sampler has {name}={own}"
                raise ValueError(
                    f"the state is of a BatchSampler with {what}{mine}: make one like it to go on"
                )
        if self._weights is None and state.get("weights") is not None:
            raise ValueError("the state is of a BatchSampler with weights: make one like it to go on")
        epoch = integer("epoch", state["epoch"], least=0)
        batches = integer("batches", state["batches"], least=0)
        if batches > self._plan.count:
            raise ValueError(f"the state has {batches} batches, but an epoch has {self._plan.count}")
        self._progress = _Progress(epoch, batches)

    def __getstate__(self) -> dict[str, Any]:
        """Return the attributes to pickle; batches are divided again from them."""
        return {name: value for name, value in self.__dict__.items() if name not in ("_plan", "_checksums")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled sampler; what doesn't fit is refused, because pickles may be damaged."""
        try:
            arguments = {state["_kind"]: state["_limit"]}
            for name in _ARGUMENTS:  # no comprehension, as in __init__
                arguments[name] = state[f"_{name}"]
            own = BatchSampler(state["_lengths"], **arguments)
            own._progress = state["_progress"].checked(own)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ValueError(
                f"the pickle of a BatchSampler is damaged, or of seqcore 0.1: {shown_error(error)}"
            ) from error
        self.__dict__.update(state | own.__dict__)

    # -- the batches -----------------------------------------------------------------------------------

    def _planned(self):
        draws = None
        if self._weights is not None:
            draws = Draws(self._lengths, self._sources, self._weights, self._unit, self._stop)
        if not self._shuffle:
            return SortedBatches(self._lengths, self._kind, self._limit, self._drop_last)
        return MixedBatches(self._lengths, self._kind, self._limit, self._drop_last, draws)

    def _turns_from(self, start):
        """Return the number of batches of each rank, after so many that all have had."""
        left = self._plan.count - start
        return left // self._world_size if self._drop_last else -(-left // self._world_size)

    def _identity(self):
        """Return what a state must agree in: the data, as checksums, and the arguments but those on ranks."""
        if not self._checksums:  # which are taken once, because loaders ask for many states
            sums = {"lengths": zlib.crc32(self._lengths.data)}
            if self._sources is not None:
                sums["sources"] = zlib.crc32(self._sources.data)
            self._checksums = sums
        own = {
            "elements": len(self._lengths),
            **self._checksums,
            self._kind: self._limit,
            "shuffle": self._shuffle,
            "seed": self._seed,
            "drop_last": self._drop_last,
        }
        if self._weights is not None:
            weights = np.array(self._weights) / max(self._weights)
            own |= {
                "weights": (weights / math.fsum(weights)).tolist(),
                "unit": self._unit,
                "stop": self._stop,
            }
        return own


class _Progress:
    """The state of an iteration; each has its own, so that an old one never counts for a new one."""

    def __init__(self, epoch: int, start: int) -> None:
        self.epoch = epoch
        self.start = start  # batches of the epoch that all ranks had before
        self.taken = 0  # batches that this rank was given since
        self.is_begun = False

    def checked(self, sampler: BatchSampler) -> _Progress:
        """Return a copy of the progress of a pickle; raise an error if it doesn't fit a sampler."""
        own = _Progress(integer("epoch", self.epoch, least=0), integer("start", self.start, least=0))
        own.taken = integer("taken", self.taken, least=0)
        own.is_begun = boolean("is_begun", self.is_begun)
        if own.start > sampler._plan.count or own.taken > sampler._turns_from(own.start):
            raise ValueError(f"it has had {own.start} and {own.taken} batches, too many")
        return own


def _one_of(name, value, known):
    if not isinstance(value, str) or value not in known:
        raise ValueError(f"{name} must be {' or '.join(map(repr, known))}, got {shown(value)}")
    return value


def _as_weights(weights):
    """Return weights as a list of floats, or raise an error that names the wrong one."""
    try:
        if isinstance(weights, str | Mapping):
            raise TypeError
        own = [float(weight) for weight in weights]
    except (TypeError, ValueError, OverflowError):
        raise TypeError(f"weights must be a sequence of numbers, got {got(weights)}") from None
    for source, weight in enumerate(own):
        if not 0 <= weight < math.inf:
            raise ValueError(f"weights[{source}] is {weight:g}, but must be 0 or more, and finite")
    if not any(own):
        raise ValueError(f"weights must not all be 0, got {shown(weights)}")
    return own


def _as_sources(sources, n, count):
    """Return the source of each element, an array of our own."""
    given = integers("sources", sources)
    if given.ndim != 1 or len(given) != n:
        raise ValueError(f"sources must have the source of each of {n} elements, got shape {given.shape}")
    own = within_64_bits(given)
    wrong = np.flatnonzero((own < 0) | (own >= count))
    if len(wrong):
        at = int(wrong[0])
        raise ValueError(
            f"sources[{at}] is {given[at]}, but there are {count} weights, for sources 0 to {count - 1}"
        )
    return narrowed(own) if own.dtype != np.int32 else own.copy()


def _is_equal(value: Any, own: Any) -> bool:
    """Return whether a value of a state is an argument of the sampler; it may be anything."""
    if isinstance(own, list):
        if not isinstance(value, list | tuple) or len(value) != len(own):
            return False
        pairs = zip(value, own, strict=True)
        return all(
            isinstance(one, int | float) and math.isclose(one, two, rel_tol=1e-9) for one, two in pairs
        )
    if isinstance(own, str):
        return isinstance(value, str) and value == own
    if isinstance(own, bool):
        return isinstance(value, bool | np.bool_) and bool(value) == own
    return as_integer(value) == own
