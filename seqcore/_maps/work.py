"""The units of work of a map, which engines run some at a time.

The engines (`job`, `threads`, `executors`) know only this interface: a `Work` has a number of units, and a
range of units can be run, or cut off and sent to a worker. For `sequence_map` it is `ElementWork`, with one
unit for each element.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from seqcore._maps.outputs import Chunk, complete, fresh, output_types
from seqcore.core.calls import apply, apply_raw, put_results, rows
from seqcore.core.sequence import TensorSequence

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL_GRAPH = 4e-6  # seconds an element: most of it is spent in passing arrays, which holds the GIL
GRAPH_ROWS = 1024  # rows of a graph to run between two checks of the bound
FIRST_ROWS = 16  # … the first time, if the time is limited; then twice as many each time


def suitable_nbytes(body):
    """Return how many bytes of elements to pass to a body at once, so that they and the results fit the
    cache.

    A ufunc reads them once, whatever their number.
    """
    return 1 << 22 if isinstance(body, np.ufunc) else 1 << 19


def typical_nbytes(sequence):
    """Return the mean size of an element in bytes, from a sample."""
    some = sequence[:: len(sequence) // 1024 + 1]
    return some.nbytes // max(len(some), 1)


def part_of(inputs, start, stop):
    """Return the elements of each sequence from start to stop, and broadcast inputs as they are."""
    return tuple(one[start:stop] if isinstance(one, TensorSequence) else one for one in inputs)


class Work:
    """The interface of a map to the engines. A subclass has `n`, `run` and the names; its attributes must
    pickle.

    Attributes
    ----------
    body : callable
    inputs : tuple
        The sequences, whose parts the units get, and the broadcast inputs, which are read-only.
    n : int
        The number of units.
    in_batches : bool
        True if the body runs many units at a lower cost for each, so that a few don't predict the time for
        many.
    first_sets_types : bool
        True if the first unit must finish before others go to an executor, because it sets the types.
    least : int
        The number of units to run together, at least, where there is a choice.
    small : float
        The seconds a unit below which threads don't help, because most of the time holds the GIL.
    """

    body: Callable[..., Any]
    inputs: tuple[TensorSequence[Any] | np.ndarray[Any, Any], ...]
    n: int
    in_batches = False
    least = 1
    small = 0.0
    first_sets_types = False

    def run(self, start, stop, bound, dtypes, single):
        """Run the units from start to stop, as far as the bound allows, and return a `Chunk`; never raise.

        If the bound has an end in time, the chunk may end soon after it, but has at least one unit.

        `dtypes` and `single` describe the outputs, or are None if not known yet. Then a chunk may have
        sequences, which set them if it is the first in order. A failure lowers the bound.
        """
        raise NotImplementedError

    def part(self, start, stop):
        """Return a work of these units only, numbered from 0."""
        raise NotImplementedError

    def elements(self, start, stop):
        """Return how many elements the units from start to stop have, for progress."""
        raise NotImplementedError

    def name(self, start, stop=None):
        """Return the name of a unit, or of the units from start to stop, for messages."""
        raise NotImplementedError

    @property
    def nbytes(self):
        """The size in bytes of the sequences, without broadcast inputs."""
        return sum(one.nbytes for one in self.inputs if isinstance(one, TensorSequence))

    @property
    def broadcast_inputs(self):
        """The inputs that every unit gets."""
        return [one for one in self.inputs if not isinstance(one, TensorSequence)]

    def with_broadcast_inputs(self, tensors):
        """Return the same work with other broadcast inputs: the tensors, or the objects that replace them."""
        work, tensors = copy.copy(self), iter(tensors)
        work.inputs = tuple(one if isinstance(one, TensorSequence) else next(tensors) for one in self.inputs)
        return work


class ElementWork(Work):
    """A body called for one element after the other."""

    def __init__(self, body, inputs, n):
        self.body, self.inputs, self.n = body, inputs, n
        self.runs_many = runs_many(body)
        if self.runs_many:
            self.in_batches, self.small = True, SMALL_GRAPH

    def part(self, start, stop):
        part = copy.copy(self)
        part.inputs, part.n = part_of(self.inputs, start, stop), stop - start
        return part

    def elements(self, start, stop):
        return stop - start

    def name(self, start, stop=None):
        return f"element {start}" if stop in (None, start + 1) else f"elements {start} to {stop - 1}"

    def run(self, start, stop, bound, dtypes, single):
        results: list[Any] = []
        sequences = error = None
        ends = False
        try:
            if self.runs_many:
                _run_graph(self.body, self.inputs, start, stop, bound, single, results)
            elif dtypes is None:
                apply_raw(self.body, self.inputs, start, min(start + 1, stop), bound, results)
            if dtypes is None and results and stop - start > 1:  # for a single one, `Outputs.add` does it
                single, dtypes = _types_of_first(results[0], single)
            begun = start + len(results)
            if results and bound.is_late():
                stop = begun
            if dtypes is not None:
                sequences = fresh(dtypes)
                put_results(sequences, single, results)
                if not self.runs_many:
                    apply(self.body, self.inputs, begun, stop, bound, sequences, single)
            elif not self.runs_many:
                apply_raw(self.body, self.inputs, begun, stop, bound, results)
        except _InvalidResult:
            ends = True
            bound.lower(start + 1)  # `Outputs.add` raises the error for this result
        except BaseException as caught:
            error = caught
        count = len(results) if sequences is None else complete(sequences)
        if error is not None:
            bound.lower(start + count)
        try:
            return Chunk(start, count, error, None if sequences else results, sequences, single, ends=ends)
        finally:
            del error  # it refers to this frame


def runs_many(body):
    """Return whether a body can run many rows of arguments at once, as a compiled graph can."""
    return hasattr(type(body), "run_many")  # not on the object, because a mock has all attributes


class _InvalidResult(Exception):
    """The first result is not a tensor."""


def _types_of_first(result, single):
    """Return (single, dtypes or None) of the outputs, from the first result of a chunk."""
    if single is None:
        single = not isinstance(result, tuple)
    try:
        return single, output_types(result, single)
    except Exception:
        raise _InvalidResult from None


def _run_graph(body, inputs, start, stop, bound, single, results):
    """Append the graph's outputs for the elements from start to stop; raise for the first that fails."""
    at, size = start, FIRST_ROWS if bound.until else GRAPH_ROWS
    while at < stop and bound.allows(at) and not (at > start and bound.is_late()):
        end = min(at + size, stop)
        try:
            results += _unpacked(body.run_many(rows(inputs, at, end)), single)
        except BaseException as error:
            failed = at + getattr(error, "seqcore_element", 0)
            if failed > at:  # the results before it were lost with its batch
                results += _unpacked(body.run_many(rows(inputs, at, failed)), single)
            raise
        at, size = end, min(2 * size, GRAPH_ROWS)


def _unpacked(results, single):
    return [result for (result,) in results] if single else results
