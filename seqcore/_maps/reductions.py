"""Maps of NumPy's reductions, such as `np.sum`: one pass over a block of elements, as `reduce` does it.

A block that has an element without a result, such as the maximum of an empty one, runs element by element, so
that results, warnings and errors are those of a serial loop.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import numpy as np

from seqcore._arguments.reductions import is_reduction
from seqcore._maps.outputs import Chunk
from seqcore._maps.work import ElementWork
from seqcore.core.operations import split_equally
from seqcore.core.sequence import TensorSequence
from seqcore.dtypes import STRING


def reduction_work(body, inputs, n):
    """Return the `ReductionWork` of a map, or None if the body isn't one of NumPy's reductions of numbers."""
    if len(inputs) != 1 or not is_reduction(body) or inputs[0].dtype == STRING:
        return None
    return ReductionWork(body, inputs, n)


class ReductionWork(ElementWork):
    """A unit is an element, but a range of units runs at once."""

    inputs: tuple[TensorSequence[Any]]
    in_batches = True
    small = 1e-6  # below that a range takes less time than passing it on

    def run(self, start, stop, bound, dtypes, single):
        block = self._run_block(start, stop, dtypes) if single is not False and bound.allows(start) else None
        return super().run(start, stop, bound, dtypes, single) if block is None else block

    def _run_block(self, start, stop, dtypes):
        """Run units at once; None if that is impossible or fails."""
        inputs = self.inputs[0]
        # NumPy warns of overflows when it rounds a result to 16 bits, and must do so for each element. Other
        # results aren't rounded, and np.errstate is left out: NumPy 2.4 crashes if it lacks memory for it.
        rounded = inputs.dtype.itemsize == 2 and inputs.dtype.kind not in "iu"
        try:
            with np.errstate(all="raise") if rounded else nullcontext():
                result = inputs[start:stop].reduce(self.body, axis=None)
        except (ValueError, FloatingPointError, MemoryError):
            return None
        if dtypes is not None and dtypes != (result.dtype,):
            return None
        sequences = (split_equally(result, 0, 1, True),)
        return Chunk(start, stop - start, None, None, sequences, True, in_blocks=stop - start)
