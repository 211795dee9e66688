"""What a map is made of: units, which are run some at a time, here or elsewhere.

A map is run by an engine (`job`, `threads`, `executors`) that knows nothing but this: there is a work of
so many units, a stretch of them can be run, and a stretch can be sent away. `sequence_map`'s is
`ElementWork`, a unit of which is one element.
"""

import numpy as np

from seqcore._maps.outputs import Chunk, complete, fresh, types_told
from seqcore.core.calls import apply, apply_raw, put_results, rows
from seqcore.core.sequence import TensorSequence

SMALL_GRAPH = 4e-6  # seconds an element: most of them go into handing arrays over, which holds the GIL
GRAPH_ROWS = 1024  # of a graph that are run between two looks at the bound


def suitable_nbytes(body):
    """Bytes of elements that go to a body at once: with what it makes of them, they should stay in the cache.

    A ufunc goes through them once, whatever their number.
    """
    return 1 << 22 if isinstance(body, np.ufunc) else 1 << 19


def typical_nbytes(sequence):
    """Bytes of an element, as far as some of them tell."""
    some = sequence[:: len(sequence) // 1024 + 1]
    return some.nbytes // max(len(some), 1)


class Work:
    """What the engine knows of a map. A subclass has `n`, `run` and the names; what it holds must pickle.

    Attributes
    ----------
    body : callable
    inputs : tuple
        Sequences, of which each unit gets its own part, and whole tensors, read-only, which all get.
    n : int
        The number of units.
    in_batches : bool
        Whether the body runs many units at less cost for each: then a few tell little of what many take.
    first_settles : bool
        Whether the first unit must be back before others go to an executor, for it tells the types.
    small : float
        Seconds a unit, below which threads don't pay, for most of them go into what holds the GIL.
    """

    in_batches = False
    small = 0.0
    first_settles = False

    def run(self, start, stop, bound, dtypes, single):
        """Run the units from start to stop, as far as the bound allows, and return a `Chunk`; never raise.

        `dtypes` and `single` are what the outputs are known to be, or None. A chunk may bring sequences where
        they are not: if it is the first in the order of the map, it settles them. A failure lowers the bound.
        """
        raise NotImplementedError

    def part(self, start, stop):
        """A work of these units alone, which counts them from 0."""
        raise NotImplementedError

    def elements(self, start, stop):
        """How many elements the units from start to stop have: what progress counts in."""
        raise NotImplementedError

    def name(self, start, stop=None):
        """What a unit, or the units from start to stop, are called in an error."""
        raise NotImplementedError

    @property
    def nbytes(self):
        """Bytes of what the units have each for itself."""
        return sum(one.nbytes for one in self.inputs if isinstance(one, TensorSequence))

    @property
    def wholes(self):
        """The inputs that go to every unit."""
        return [one for one in self.inputs if not isinstance(one, TensorSequence)]

    def with_wholes(self, wholes):
        """The same work with other whole inputs: what stands for them on the way, or they themselves."""
        wholes = iter(wholes)
        inputs = (one if isinstance(one, TensorSequence) else next(wholes) for one in self.inputs)
        return self._with_inputs(tuple(inputs))

    def _with_inputs(self, inputs):
        raise NotImplementedError


class ElementWork(Work):
    """A body that is called for one element after the other."""

    def __init__(self, body, inputs, n):
        self.body, self.inputs, self.n = body, inputs, n
        if runs_many(body):
            self.in_batches, self.small = True, SMALL_GRAPH

    def part(self, start, stop):
        inputs = tuple(one[start:stop] if isinstance(one, TensorSequence) else one for one in self.inputs)
        return ElementWork(self.body, inputs, stop - start)

    def elements(self, start, stop):
        return stop - start

    def name(self, start, stop=None):
        return f"element {start}" if stop in (None, start + 1) else f"elements {start} to {stop - 1}"

    def _with_inputs(self, inputs):
        return ElementWork(self.body, inputs, self.n)

    def run(self, start, stop, bound, dtypes, single):
        results, sequences, error = [], None, None
        try:
            if self.in_batches:
                _run_graph(self.body, self.inputs, start, stop, bound, single, results)
            elif dtypes is None:
                apply_raw(self.body, self.inputs, start, min(start + 1, stop), bound, results)
            if dtypes is None and results and stop - start > 1:  # of one, whoever adds it can tell
                single, dtypes = _told_by(results[0], single)
            begun = start + len(results)
            if dtypes is not None:
                sequences = fresh(dtypes)
                put_results(sequences, single, results)
                if not self.in_batches:
                    apply(self.body, self.inputs, begun, stop, bound, sequences, single)
            elif not self.in_batches:
                apply_raw(self.body, self.inputs, begun, stop, bound, results)
        except _Unfit:
            bound.lower(start + 1)  # whoever adds this result will find the words for it
        except BaseException as caught:
            error = caught
        if sequences is not None:
            results = None
        count = len(results) if sequences is None else complete(sequences)
        if error is not None:
            bound.lower(start + count)
        try:
            return Chunk(start, count, error, results, sequences, single)
        finally:
            del error  # it refers to this frame


def runs_many(body):
    """Whether a body is a compiled graph, or anything else that can run many rows of arguments at once."""
    return hasattr(type(body), "run_many")  # of an object one could not tell: a mock has all attributes


class _Unfit(Exception):
    """A first result that is no tensor, whatever the types."""


def _told_by(result, single):
    """What the first result of a chunk says about the outputs, as (single, dtypes or None)."""
    if single is None:
        single = not isinstance(result, tuple)
    try:
        return single, types_told(result, single)
    except Exception:
        raise _Unfit from None


def _run_graph(body, inputs, start, stop, bound, single, results):
    """Append the graph's outputs for the elements from start to stop, and raise for the first that fails."""
    for at in range(start, stop, GRAPH_ROWS):
        if not bound.allows(at):
            break
        try:
            results += _unpacked(body.run_many(rows(inputs, at, min(at + GRAPH_ROWS, stop))), single)
        except BaseException as error:
            failed = at + getattr(error, "seqcore_element", 0)
            if failed > at:  # what came before it, its batch did not keep
                results += _unpacked(body.run_many(rows(inputs, at, failed)), single)
            raise


def _unpacked(results, single):
    return [result for (result,) in results] if single else results
