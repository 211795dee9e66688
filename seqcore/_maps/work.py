"""The work of a map: a number of units. Engines run some at a time, in any order and anywhere.

The engines (`job`, `threads`, `executors`) know only `Work`. Its kinds are elements, here, blocks of elements
(`elementwise`, `reductions`) and batches (`batches`). `mapping._work_of` says which one a map gets.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

import numpy as np

from seqcore._maps.outputs import Chunk, complete, dtypes_of, types_of
from seqcore.core.maps import Arguments, absorb, apply, apply_raw, empty_sequences, put_results, rows
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
    return tuple([one[start:stop] if isinstance(one, TensorSequence) else one for one in inputs])


def read_only(tensor):
    """Return the array read-only as an element of a sequence is: no holder of it can make it writeable."""
    return TensorSequence([tensor])[0]


class Work:
    """The interface of a map to the engines. A subclass has `n`, `run` and the names; it must pickle.

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
    small : float
        The seconds a unit below which threads don't help, because most of the time holds the GIL.
    """

    body: Callable[..., Any]
    inputs: tuple[TensorSequence[Any] | np.ndarray[Any, Any], ...]
    n: int
    in_batches = False
    small = 0.0
    first_sets_types = False

    def run(self, start, stop, bound, dtypes, single, is_first):
        """Run the units from start to stop, as far as the bound allows, and return a `Chunk`; never raise.

        If the bound has an end in time, the chunk may end soon after it, but has at least one unit.

        `dtypes` and `single` describe the outputs, or are None if not known yet. Then the chunk says which
        its first unit has, which are those of the map if `is_first`. A failure lowers the bound.
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
    """A body called for one element after the other; a compiled graph with many rows of arguments at once."""

    def __init__(self, body, inputs, n):
        self.body, self.inputs, self.n = body, inputs, n
        self.before = 0  # elements of the map before these
        self.runs_many = runs_many(body)
        if self.runs_many:
            self.in_batches, self.small = True, SMALL_GRAPH

    def part(self, start, stop):
        part = copy.copy(self)
        part.inputs, part.n = part_of(self.inputs, start, stop), stop - start
        part.before = self.before + start
        return part

    def elements(self, start, stop):
        return stop - start

    def name(self, start, stop=None):
        return f"element {start}" if stop in (None, start + 1) else f"elements {start} to {stop - 1}"

    def run(self, start, stop, bound, dtypes, single, is_first):
        results: list[Any] = []
        sequences = error = None
        try:
            arguments = Arguments(self.inputs, self.before)
            if self.runs_many:
                _run_rows(self.body, arguments, start, stop, bound, single, results)
            elif dtypes is None:
                apply_raw(self.body, arguments, start, min(start + 1, stop), bound, results)
            if dtypes is None and results:
                try:
                    single, dtypes = types_of(results[0], single, is_first)
                except Exception:
                    bound.lower(start + 1)
                    # `Outputs.add` raises the error for this result.
                    return Chunk(start, 1, None, results[:1], None, single, ends=True)
            begun = start + len(results)
            if results and bound.is_late():
                stop = begun
            if dtypes is None:
                if not self.runs_many:
                    apply_raw(self.body, arguments, begun, stop, bound, results)
            elif self.runs_many:
                sequences = empty_sequences(dtypes)
                put_results(sequences, single, results)
            else:
                sequences = empty_sequences(dtypes)
                apply(self.body, arguments, begun, stop, bound, sequences, single, results)
        except BaseException as caught:
            error = caught
        count = len(results) if sequences is None else complete(sequences)
        if error is not None:
            bound.lower(start + count)
        try:
            return Chunk(start, count, error, None if sequences else results, sequences, single)
        finally:
            del error  # it refers to this frame


class BlockWork(ElementWork):
    """A unit is an element, but units run a block at a time, in `run_block`.

    A block that can't run at once, or fails, runs element by element, so that types, shapes and errors are
    those of a serial loop.
    """

    def __init__(self, body, inputs, n, block):
        super().__init__(body, inputs, n)
        self.block, self.in_batches = block, True

    def plan(self, units):
        """Return what `run_block` needs for all blocks of so many units, or None if none can run at once."""
        return True

    def run_block(self, plan, start, stop):
        """Return whether there is one output, and the outputs' sequences; None if units run one by one."""
        raise NotImplementedError

    def run(self, start, stop, bound, dtypes, single, is_first):
        done, part, at = None, None, start
        try:
            plan = self.plan(stop - start)
            while done is None or (at < stop and bound.allows(at) and not bound.is_late()):
                end = min(stop, at + self.block)
                part = self._run_at_once(plan, at, end, bound, dtypes, single)
                if part is None:
                    part = super().run(at, end, bound, dtypes, single, is_first and at == start)
                done = part if done is None else _joined(done, part)
                if part.error is not None or part.count < end - at:
                    break
                if done.sequences is not None:
                    dtypes, single = dtypes_of(done.sequences), done.single
                at = end
        except BaseException as error:  # Ctrl-C: no later unit is started
            bound.lower(at)
            done = done or Chunk(start, 0)
            done.error = error
        try:
            return done
        finally:
            del done, part  # their error may refer to this frame

    def _run_at_once(self, plan, start, stop, bound, dtypes, single):
        if plan is None or not bound.allows(start):
            return None
        if (ran := self.run_block(plan, start, stop)) is None:
            return None
        is_single, sequences = ran
        if single not in (None, is_single) or dtypes not in (None, dtypes_of(sequences)):
            return None
        return Chunk(start, stop - start, None, None, sequences, is_single)


def _joined(done, part):
    """Join two consecutive chunks into the first one."""
    done.count += part.count
    done.error, part.error = part.error, None
    done.ends |= part.ends
    if done.sequences is not None and part.sequences is not None:
        for mine, more in zip(done.sequences, part.sequences, strict=True):
            absorb(mine, more)
    elif part.results:
        done.results = [*(done.results or ()), *part.results]
    return done


def runs_many(body):
    """Return whether a body can run many rows of arguments at once, as a compiled graph can."""
    # Not on the object, because a mock has all attributes; hasattr would be slow where there is none.
    return getattr(type(body), "run_many", None) is not None


def _run_rows(body, arguments, start, stop, bound, single, results):
    """Append the graph's outputs for the elements from start to stop; raise for the first that fails."""
    at, size = start, FIRST_ROWS if bound.until else GRAPH_ROWS
    while at < stop and bound.allows(at) and not (at > start and bound.is_late()):
        end = min(at + size, stop)
        try:
            results += _unpacked(body.run_many(rows(arguments, at, end)), single)
        except BaseException as error:
            failed = at + getattr(error, "seqcore_element", 0)
            if failed > at:  # the results before it were lost with its batch
                results += _unpacked(body.run_many(rows(arguments, at, failed)), single)
            raise
        at, size = end, min(2 * size, GRAPH_ROWS)


def _unpacked(results, single):
    return [result for (result,) in results] if single else results
