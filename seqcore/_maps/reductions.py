"""Maps of NumPy's reductions, such as `np.sum`: one pass over a block of elements, as `reduce` does it.

A block that has an element without a result, such as the maximum of an empty one, runs element by element.
"""

from contextlib import nullcontext
from typing import Any

import numpy as np

from seqcore._arguments.reductions import is_reduction
from seqcore._maps.work import BlockWork
from seqcore.core.maps import reduced_unless_warned, split_equally
from seqcore.dtypes import STRING

KIND = type(np.sum)  # all of them are of it, which is quicker to compare
FEW = 6  # elements: for fewer the function is called for each
BLOCK = 1 << 20  # elements in a block, at most


def reduction_work(body, inputs, n):
    """Return the `ReductionWork` of a map, or None if the body isn't one of NumPy's reductions of numbers."""
    if type(body) is not KIND or n < FEW or len(inputs) != 1 or inputs[0].dtype == STRING:
        return None
    if not is_reduction(body):
        return None
    return ReductionWork(body, inputs, n, BLOCK)


class ReductionWork(BlockWork):
    """Blocks of elements of one sequence, each reduced to one array."""

    small = 1e-6  # below that a block takes less time than passing it on

    def run_block(self, plan, start, stop):
        inputs: Any = self.inputs[0]
        # What NumPy warns of it says of each element, which then run one by one. It warns of overflows too
        # when it rounds to 16 bits. Else np.errstate is left out: NumPy 2.4 crashes without memory for it.
        rounded = inputs.dtype.itemsize == 2 and inputs.dtype.kind not in "iu"
        try:
            with np.errstate(all="raise") if rounded else nullcontext():
                result = reduced_unless_warned(inputs[start:stop], self.body)
        except (ValueError, FloatingPointError, MemoryError):
            return None
        return None if result is None else (True, (split_equally(result, 0, 1, True),))
