"""Batches of a whole epoch, for BatchSampler: in order of length, or mixed anew in each epoch.

Mixed batches fill *slots*. The number of slots, and the length that each has space for, are the same in every
epoch, so that the number of batches is. Without a mixture of sources each element has its slot. With one, a
source's elements are sorted by length and divided into as many equal parts as an epoch draws elements from
it, and a slot is filled from a part.

The slots in order of falling length are divided into strata, which `core.training` mixes. For packs,
neighboring slots form rows. One best fit over the longest elements of rows says which rows go together: a
stratum is these rows, and each of its packs gets one element of each. That needs hardly more packs than best
fit over all elements: about as many as a row is wide.
"""

from __future__ import annotations

import math
from functools import partial
from operator import mul
from typing import TYPE_CHECKING, Any

import numpy as np

from seqcore._arguments.integers import LONGEST
from seqcore.core.training import (
    by_length,
    cut_by_padded,
    deal,
    exchange_last,
    narrowed,
    packed,
    sample,
    seeded,
    strata,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

WIDEST_ROW = 64  # of packs; rows are wider only if that costs less than 1 % of the packs
WINDOW = 16  # batches that are shuffled after they were spread over the epoch
MOST = 2**40  # elements that an epoch draws of a source
GOLDEN = (math.sqrt(5) - 1) / 2
LEFT, DEAL, SHIFT, WINDOWS, DRAW = range(5)  # streams of random numbers


class SortedBatches:
    """Batches in order of length, the same in each epoch.

    Attributes
    ----------
    count : int
        The number of batches.
    filled, size : int
        The sum of lengths in them, and with their padding or free space.
    """

    def __init__(self, lengths, kind, limit, drop_last):
        n = len(lengths)
        if kind == "capacity":
            self._positions, self._bounds = packed(lengths, limit, "best_fit_decreasing", LONGEST)
            self.count = len(self._bounds) - 1
            self.filled, self.size = _total(lengths), self.count * limit
            return
        rising, self._positions = by_length(lengths)
        if kind == "batch_size":
            bounds = np.minimum(np.arange(-(-n // min(limit, n + 1)) + 1) * min(limit, n + 1), n)
            is_full = n % limit == 0
        else:
            bounds = cut_by_padded(rising, limit)
            # The last batch isn't full if one more element would fit.
            longest = int(rising[-1]) if n else 0
            is_full = not longest or (n - int(bounds[-2]) + 1) * longest > limit
        self._bounds = bounds[:-1] if drop_last and not is_full else bounds
        self.count = len(self._bounds) - 1
        self.filled = _total(rising[: self._bounds[-1]])
        self.size = _dot(np.diff(self._bounds), rising[self._bounds[1:] - 1])

    def of_epoch(self, seed, epoch):
        """Return a function that gives batch i as a list of positions."""
        # Not a closure, here and below: without memory for its variables CPython 3.11 loses arguments.
        return partial(_sorted_batch, self._positions, self._bounds)


class MixedBatches:
    """Batches of elements of similar length, or packs, mixed anew in each epoch.

    Attributes
    ----------
    count : int
        The number of batches, in every epoch.
    filled, size : int
        The sum of the slots' lengths, and the most that it is with padding or free space.
    """

    size: int
    _slots: NDArray[Any]
    _firsts: NDArray[np.int64]
    _widths: NDArray[np.int64]
    _sources: Any

    def __init__(self, lengths, kind, limit, drop_last, draws=None):
        self._draws = draws
        falling, slots = by_length(lengths if draws is None else draws.lengths, True)
        self.filled = _total(falling)
        self._left = self._low = 0  # slots in the batch that isn't full, and the first that may get there
        if kind == "capacity":
            width = self._divide_into_packs(falling, slots, limit)
            where = np.arange(len(self._slots)) // width
        else:
            self._divide_by_length(falling, slots, kind == "batch_size" and limit, limit, drop_last)
            where = np.repeat(np.arange(len(self._firsts)), np.diff(self._firsts, append=len(slots)))
            where += np.arange(len(slots)) >= self._low  # those that may get elsewhere stay behind
        self._sources = None
        if draws is not None:  # one source after the other, in each stratum or row
            self._sources = draws.sources[self._slots]
            key = where * (int(self._sources.max(initial=0)) + 1) + self._sources
            order = by_length(narrowed(key))[1]
            self._slots, self._sources = self._slots[order], self._sources[order]
        if self._left and not drop_last:
            self._firsts = np.append(self._firsts, len(slots))
            self._widths = np.append(self._widths, 1)
        self._begins = np.cumsum(self._widths) - self._widths
        self.count = int(self._widths.sum())

    def _divide_by_length(self, falling, slots, size, limit, drop_last):
        n = len(falling)
        size = min(size, n + 1)
        self._slots = slots
        self._firsts, self._widths = strata(falling, size, LONGEST if size else limit)
        self.size = _dot(np.diff(self._firsts), falling[self._firsts[:-1]])
        self._left = left = n - int(self._firsts[-1])
        if left and drop_last:  # any elements are left out
            self.filled -= _total(falling[-left:])
        elif left:  # any of the shorter half, as far as they fit
            short = n // 2 if size else max(n // 2, n - falling[::-1].searchsorted(limit // left, "right"))
            self._low = min(n - left, int(short))
            self.size += left * int(falling[self._low])
        if left and size and not drop_last:  # or the longest ones, if that saves much padding
            firsts, widths = strata(falling[left:], size, LONGEST)
            firsts += left
            longest = left * int(falling[0]) + _dot(np.diff(firsts), falling[firsts[:-1]])
            if longest < self.size:
                self.size, self._left, self._low = longest, 0, 0
                self._firsts, self._widths = np.append([0], firsts), np.append([1], widths)

    def _divide_into_packs(self, falling, slots, limit):
        n = len(slots)
        width, rows, offsets = _rows_of_packs(falling, limit)
        nrows = -(-n // width)
        counts, widths = np.diff(offsets), np.full(len(offsets) - 1, width)
        holes = nrows * width - n  # in the last row
        if holes:
            at = int(np.flatnonzero(rows == nrows - 1)[0])
            pack = int(offsets.searchsorted(at, "right")) - 1
            if counts[pack] == 1:  # that row alone: it comes last, and the packs without an element are none
                rows = np.append(np.delete(rows, at), nrows - 1)
                counts = np.append(np.delete(counts, pack), 1)
                widths[-1] = width - holes
        padded = np.full(nrows * width, -1, slots.dtype)
        padded[:n] = slots
        self._firsts = np.concatenate([[0], np.cumsum(counts * widths)])
        self._widths = widths
        self._slots = padded.reshape(nrows, width)[rows].reshape(-1)[: self._firsts[-1]].copy()
        self.size = int(widths.sum()) * limit
        return width

    def of_epoch(self, seed, epoch):
        """Return a function that gives batch i as a list of positions."""
        order, sources = self._slots.copy(), None
        if self._draws is not None:
            order, sources = self._draws.of_epoch(seed, epoch)[order], self._sources.copy()
        exchange_last(order, self._low, self._left, seeded(seed, epoch, LEFT))
        step = (seeded(seed) + epoch) % 2**63
        deal(order, sources, self._firsts, self._widths, step, seeded(seed, epoch, DEAL))
        turns = self._turns(seed, epoch)
        return partial(_mixed_batch, order, turns, self._firsts, self._widths, self._begins)

    def _turns(self, seed, epoch):
        """Return which batch comes when: those of a stratum, and of a source, are spread over the epoch.

        Constant steps spread adjacent slots evenly. Shuffling within short windows hides the pattern.
        """
        n = self.count
        turns = (np.arange(n) * _even_step(n) + (seeded(seed, epoch, SHIFT) % n if n else 0)) % max(n, 1)
        window = WINDOW if self._sources is None else min(max(n // 64, 1), WINDOW)
        firsts = np.minimum(np.arange(-(-n // window) + 1) * window, n)
        deal(turns, None, firsts, np.diff(firsts), 0, seeded(seed, epoch, WINDOWS))
        return turns


class Draws:
    """Elements of sources by weight: how many of each an epoch has, and which.

    Attributes
    ----------
    lengths, sources : ndarray
        Of each slot the length that it has space for, and its source.
    """

    def __init__(self, lengths, sources, weights, unit, stop):
        positions = by_length(lengths, True)[1]
        order = positions[by_length(narrowed(sources[positions]))[1]]  # by source, then by falling length
        ends = np.cumsum(np.bincount(sources, minlength=len(weights)))
        members = np.split(order, ends[:-1])
        rates, largest = [], max(weights)  # of any scale, so that none gets too large or small to count with
        for source, (own, weight) in enumerate(zip(members, weights, strict=True)):
            if weight and not len(own):
                raise ValueError(
                    f"weights[{source}] is {weight:g}, but source {source} has no elements: use a weight of 0"
                )
            weight /= largest
            if weight and unit == "tokens":
                total = _total(lengths[own])
                if not total:
                    raise ValueError(
                        f"source {source} has only empty elements, which have no share of the tokens: use "
                        'unit="elements", or a weight of 0'
                    )
                weight *= len(own) / total
            rates.append(weight)
        used = np.flatnonzero(rates).tolist()
        choose = min if stop == "first" else max
        ends_it, epochs = used[0], len(members[used[0]]) / rates[used[0]]
        for source in used:
            uses = len(members[source]) / rates[source]
            if uses != epochs and uses == choose(uses, epochs):
                ends_it, epochs = source, uses
        # Of each source its number, its elements, how often all are drawn, and how many of them besides.
        self._parts = []
        slots, kinds = [], []
        for source in used:
            own = members[source]
            if epochs * rates[source] > MOST:
                raise ValueError(
                    f"an epoch would draw more than {MOST:,} elements of source {source}: use a "
                    'smaller weight, or stop="first"'
                )
            wanted = len(own) if source == ends_it else choose(len(own), round(epochs * rates[source]))
            passes, rest = divmod(wanted, len(own))
            self._parts.append((source, own, passes, rest))
            most = lengths[own]
            slots += [most] * passes + [most[np.arange(rest) * len(own) // max(rest, 1)]]
            kinds.append(np.full(wanted, source))
        self.lengths = narrowed(np.concatenate(slots))
        self.sources = np.concatenate(kinds).astype(order.dtype)

    def of_epoch(self, seed, epoch):
        """Return the position of the element in each slot, and behind them -1."""
        drawn = []
        for source, own, passes, rest in self._parts:
            drawn += [own] * passes
            drawn.append(own[sample(len(own), rest, seeded(seed, epoch, DRAW, source))])
        return np.concatenate([*drawn, np.array([-1], self.sources.dtype)])


def _sorted_batch(positions, bounds, i):
    return positions[bounds[i] : bounds[i + 1]].tolist()


def _mixed_batch(order, turns, firsts, widths, begins, i):
    stratum = begins.searchsorted(turns[i], "right") - 1
    first = firsts[stratum] + turns[i] - begins[stratum]
    positions = order[first : firsts[stratum + 1] : widths[stratum]]
    return positions[positions >= 0].tolist()


def _rows_of_packs(falling, limit):
    """Return the width of rows, and the rows of each pack, one pack after the other, with their offsets."""
    n = len(falling)
    # Packs that are needed at least: for all, and for those that are longer than half a pack.
    least = max(-(-_total(falling) // limit), n - int(falling[::-1].searchsorted(limit // 2, "right")))
    cheapest = max(least // 128, 2)
    width = max(WIDEST_ROW, cheapest)
    while True:
        rows, offsets = packed(np.ascontiguousarray(falling[::width]), limit, "best_fit_decreasing", LONGEST)
        count = (len(offsets) - 1) * width
        if width == cheapest or count <= 1.01 * least:
            break
        width = max(width // 2, cheapest)
    if least < 8:  # too few to mix them at any cost
        alone, its_offsets = packed(falling, limit, "best_fit_decreasing", LONGEST)
        if len(its_offsets) - 1 < min(count, 8):
            return 1, alone, its_offsets
    return width, rows, offsets


def _even_step(n):
    """Return a step that goes through 0 to n - 1, modulo n, so that any part of the way is spread evenly.

    It has no large quotients in Euclid's algorithm, as near the golden ratio.
    """
    around = max(round(n * GOLDEN), 1)
    return min(range(around, min(around + 50, max(n, 2))), key=partial(_unevenness, n))


def _unevenness(n, step):
    largest, left, right = 1, n, step
    while right:
        largest, left, right = max(largest, left // right), right, left % right
    return largest if left == 1 else n


def _total(lengths):
    """Return the sum of lengths, which may need more than 64 bits."""
    if lengths.itemsize == 4:
        return int(lengths.sum(dtype=np.int64))
    return (int((lengths >> 32).sum()) << 32) + int((lengths & 0xFFFFFFFF).sum())


def _dot(counts, lengths):
    if lengths.itemsize == 4:
        return int(counts @ lengths.astype(np.int64))
    return sum(map(mul, counts.tolist(), lengths.tolist()))
