"""Maps over batches: a body gets several elements at once, joined or stacked, and its outputs are split.

::

    joined     [a b] [c]        one call with [a b c]       outputs of length 3, split into 2 and 1
    stacked    [a b] [c d]      one call with [[a b]        outputs of length 2, a row for each
                                               [c d]]

Stacked elements have one shape and come from any positions. The inputs are therefore put into the order of
the batches first, without a copy of the data, and the outputs into that of the sequence at the end.
"""

import math
from typing import Any

import numpy as np

from seqcore._arguments.tensors import as_tensor
from seqcore._maps.outputs import Chunk, dtypes_of, values_of
from seqcore._maps.work import Work, part_of, suitable_nbytes, typical_nbytes
from seqcore.core.arrow import first_misfit
from seqcore.core.maps import OutputError, chained, cut_batch, empty_sequences, split_equally, stack
from seqcore.core.sequence import TensorSequence

LEAST_NBYTES = 1 << 14  # bytes of a batch of automatic size, at least, for any number of workers


class BatchWork(Work):
    """A unit is a batch: the elements between two bounds, in the order of the batches.

    Parameters
    ----------
    body, inputs
        The body and inputs of the map, with sequences in the order of the batches.
    bounds : np.ndarray of int64
        The offsets of the batches: batch i has the elements bounds[i] to bounds[i + 1].
    stacked : bool
        If True, elements are stacked, otherwise joined.
    positions : np.ndarray of int64 or None
        The positions of the elements in the sequence; None if they are in its order.
    """

    first_sets_types = True  # if a body returns lists, the first batch sets the type for all

    def __init__(self, body, inputs, bounds, stacked, positions=None):
        self.body, self.inputs, self.bounds = body, inputs, bounds
        self.stacked, self.positions = stacked, positions
        self.n = len(bounds) - 1

    def part(self, start, stop):
        begin, end = self.bounds[start], self.bounds[stop]
        # Positions are left out: only the work that the map began with names units.
        bounds = self.bounds[start : stop + 1] - begin
        return BatchWork(self.body, part_of(self.inputs, begin, end), bounds, self.stacked)

    def elements(self, start, stop):
        return int(self.bounds[stop] - self.bounds[start])

    def name(self, start, stop=None):
        begin, end = self.bounds[start], self.bounds[start + 1 if stop is None else stop]
        # Batches of several shapes may alternate in the sequence.
        places = range(begin, end) if self.positions is None else sorted(self.positions[begin:end].tolist())
        if len(places) == 1:
            return f"element {places[0]}"
        if places[-1] - places[0] == len(places) - 1:
            return f"elements {places[0]} to {places[-1]}"
        return f"elements {', '.join(map(str, places[:8]))}{', …' if len(places) > 8 else ''}"

    def run(self, start, stop, bound, dtypes, single, is_first):
        parts: list[Any] = []
        error, done = None, start
        try:
            while done < stop and bound.allows(done) and not (parts and bound.is_late()):
                single, sequences = self._run_batch(done, dtypes, single)
                dtypes = dtypes_of(sequences)
                parts.append(sequences)
                done += 1
        except BaseException as caught:
            error = caught
        if error is not None:
            bound.lower(done)
        try:
            if parts:
                sequences = tuple(map(chained, map(list, zip(*parts, strict=True))))
            else:
                sequences = None if dtypes is None else empty_sequences(dtypes)
            return Chunk(start, done - start, error, None, sequences, single)
        finally:
            del error  # it refers to this frame

    def _run_batch(self, unit, dtypes, single):
        """Call the body with a batch; return whether it has one output, and a sequence for each output."""
        begin, end = self.bounds[unit], self.bounds[unit + 1]
        batch = part_of(self.inputs, begin, end)
        # Not by a comprehension: CPython 3.11 loses its arguments if the memory ends.
        arguments = list(map(self._argument, batch))
        result = self.body(*arguments)
        first, together = batch[0], arguments[0]
        if single is None:
            single = not isinstance(result, tuple)
        if isinstance(result, tuple) == single:
            given = f"a tuple of {len(result)}" if isinstance(result, tuple) else "one tensor"
            before = "one tensor" if single else f"a tuple of {len(dtypes)}" if dtypes else "a tuple"
            said = f"expected {before} as for the elements before, or as output_dtypes says"
            raise OutputError(None, TypeError(f"the body returned {given}, {said}"))
        try:
            values = values_of(result, single)
        except TypeError as error:
            raise OutputError(None, error) from None
        if dtypes is not None and len(values) != len(dtypes):
            reason = f"the body returned a tuple of {len(values)}, expected one of {len(dtypes)} as before"
            raise OutputError(None, TypeError(reason))
        sequences = []
        for k, value in enumerate(values):
            try:
                array = as_tensor(value, None if dtypes is None else dtypes[k])
                sequences.append(self._split_output(array, first, len(together)))
            except (TypeError, ValueError, OverflowError) as error:
                raise OutputError(None if single else k, error) from None
        return single, tuple(sequences)

    def _argument(self, one):
        if not isinstance(one, TensorSequence):
            return one
        return stack(one) if self.stacked else one.values()

    def _split_output(self, array, first, expected):
        """Split an output, of the expected length along axis 0, like the batch of the first sequence."""
        if array.ndim == 0 or array.shape[0] != expected:
            what = f"{len(first)} elements"
            how = "stacked" if self.stacked else f"joined to length {expected}"
            raise ValueError(
                f"the body returned shape {array.shape} for {what} {how}: expected length {expected} along "
                "axis 0; sequence_map calls a body with one whole element"
            )
        if self.stacked:
            return split_equally(array, 0, 1, True)
        return cut_batch(array, first)


def joined_work(body, inputs, n, batch_size, workers):
    """Return the work of a map over batches that are joined along axis 0.

    Raises
    ------
    ValueError
        If elements can't be joined.
    """
    bounds = _bounds(body, inputs, n, batch_size, workers)
    if len(bounds) > 2:  # a single batch is checked when it is joined
        for k, one in enumerate(inputs):
            if isinstance(one, TensorSequence):
                _check_joinable(k, one, n)
    return BatchWork(body, inputs, bounds, False)


def _check_joinable(k, sequence, n):
    shape = sequence[0].shape
    if not shape:
        raise ValueError(
            f"the elements of input {k} have rank 0 and so no axis to join along: new_axis=1 stacks them"
        )
    at = first_misfit(sequence, len(shape), len(shape), shape[1:])
    if at < n:
        raise ValueError(
            f"element {at} of input {k} has shape {sequence[at].shape}, but element 0 has {shape}: to be "
            "joined along axis 0 they may differ in length only; new_axis=1 stacks elements of one shape"
        )


def stacked_work(body, inputs, n, batch_size, workers):
    """Return the work of a map over batches that are stacked, each of elements of one shape."""
    sequences = [one for one in inputs if isinstance(one, TensorSequence)]
    if n == 0 or all(_of_one_shape(one, n) for one in sequences):
        return BatchWork(body, inputs, _bounds(body, inputs, n, batch_size, workers), True)
    places: dict[tuple[tuple[int, ...], ...], list[int]] = {}
    for i, shapes in enumerate(zip(*(one.shapes for one in sequences), strict=True)):
        places.setdefault(shapes, []).append(i)
    batches = []
    for shapes, own in places.items():
        nbytes = sum(math.prod(s) * one.dtype.itemsize for s, one in zip(shapes, sequences, strict=True))
        size = batch_size or _chosen_size(suitable_nbytes(body), nbytes, len(own), workers)
        batches += [own[i : i + size] for i in range(0, len(own), size)]
    batches.sort()  # by their first elements, so that of several failures the first in order is raised
    positions = np.fromiter((i for batch in batches for i in batch), np.int64, n)
    bounds = np.cumsum([0, *map(len, batches)])
    inputs = tuple(one[positions] if isinstance(one, TensorSequence) else one for one in inputs)
    return BatchWork(body, inputs, bounds, True, positions)


def in_order(outputs, positions):
    """Return outputs in the order of the sequence, given the positions of their elements in it."""
    back = np.empty(len(positions), np.int64)
    back[positions] = np.arange(len(positions))
    return outputs[back]


def _of_one_shape(sequence, n):
    shape = sequence[0].shape
    return first_misfit(sequence, len(shape), len(shape), shape) == n


def _bounds(body, inputs, n, batch_size, workers):
    if batch_size is None:
        nbytes = sum(typical_nbytes(one) for one in inputs if isinstance(one, TensorSequence))
        batch_size = _chosen_size(suitable_nbytes(body), nbytes, n, workers)
    batch_size = min(batch_size, max(n, 1))
    return np.minimum(np.arange(0, n + batch_size, batch_size, dtype=np.int64)[: -(-n // batch_size) + 1], n)


def _chosen_size(most, nbytes, n, workers):
    """Return the number of elements in a batch: by bytes, with several batches for each worker."""
    size = max(1, most // max(nbytes, 1))
    if workers > 1:
        size = min(size, max(-(-n // (4 * workers)), LEAST_NBYTES // max(nbytes, 1), 1))
    return size
