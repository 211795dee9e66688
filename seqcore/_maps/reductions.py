"""Maps of NumPy's reductions, such as `np.sum`: one pass over a block of elements, as `reduce` does it.

A block that has an element without a result, such as the maximum of an empty one, runs element by element, so
that results, warnings and errors are those of a serial loop.
"""

import numpy as np

from seqcore._arguments.reductions import is_reduction
from seqcore._maps.outputs import Chunk
from seqcore._maps.work import ElementWork, Work
from seqcore.core.operations import split_equally
from seqcore.dtypes import STRING


def reduction_work(body, inputs, n):
    """Return the `ReductionWork` of a map, or None if the body isn't one of NumPy's reductions of numbers."""
    if len(inputs) != 1 or not is_reduction(body) or inputs[0].dtype == STRING:
        return None
    return ReductionWork(body, inputs, n)


class ReductionWork(Work):
    """A unit is an element, as in `ElementWork`, but a range of units runs at once."""

    in_batches = True
    small = 1e-6  # below that a range takes less time than passing it on

    def __init__(self, body, inputs, n):
        self.body, self.inputs, self.n = body, inputs, n
        self._one_by_one = ElementWork(body, inputs, n)

    def part(self, start, stop):
        return ReductionWork(self.body, self._one_by_one.part(start, stop).inputs, stop - start)

    def elements(self, start, stop):
        return stop - start

    def name(self, start, stop=None):
        return self._one_by_one.name(start, stop)

    def _with_inputs(self, inputs):
        return ReductionWork(self.body, inputs, self.n)

    def run(self, start, stop, bound, dtypes, single):
        block = self._run_block(start, stop, dtypes) if single is not False and bound.allows(start) else None
        return self._one_by_one.run(start, stop, bound, dtypes, single) if block is None else block

    def _run_block(self, start, stop, dtypes):
        """Run units at once; None if that is impossible or fails."""
        try:
            with np.errstate(all="raise"):
                result = self.inputs[0][start:stop].reduce(self.body, axis=None)
        except (ValueError, FloatingPointError, MemoryError):
            return None
        if dtypes is not None and dtypes != (result.dtype,):
            return None
        sequences = (split_equally(result, 0, 1, True),)
        return Chunk(start, stop - start, None, None, sequences, True, in_blocks=stop - start)
