"""Elementwise bodies of maps: run on whole blocks of elements at once, whatever their shapes.

A NumPy ufunc, or a graph of such operators, gives the same values for many elements in one array as for each
element alone. So the values of a block are passed as one array, and the result is split like the elements.
Broadcast inputs are passed along if they broadcast along the last axes of the elements::

    elements (3, 8), (5, 8)   input ()       values as (64,)
    elements (3, 8), (5, 8)   input (8,)     values as (8, 8), which keeps the axis that is broadcast along
    elements (8,), (5, 8)     input (8,)     an element lacks an axis in front: one by one
"""

import numpy as np

from seqcore._arguments.tensors import as_tensor
from seqcore._maps.work import BlockWork, part_of, suitable_nbytes, typical_nbytes
from seqcore.core.arrow import first_misfit, first_other_shape
from seqcore.core.maps import cut_as, items_of
from seqcore.core.sequence import TensorSequence

FEW = 64  # elements: for fewer a ufunc is called for each, which takes less time than to join and split them
BLOCK = 1 << 17  # elements in a block, at most
IMPOSSIBLE = 1 << 62  # an extent that no element has: nothing fits
LARGE = 1 << 13  # bytes an element: for larger ones a call costs less than a copy


def elementwise_work(body, inputs, n):
    """Return the `ElementwiseWork` of a map, or None if its body is not elementwise or blocks don't pay."""
    if isinstance(body, np.ufunc):
        if n < FEW or _ufunc_plan(body, inputs) is None:
            return None
    elif n == 0 or not hasattr(type(body), "flat_form"):
        return None
    nbytes = max(typical_nbytes(one) for one in inputs if isinstance(one, TensorSequence))
    if nbytes > LARGE:
        return None
    return ElementwiseWork(body, inputs, n, max(1, min(BLOCK, suitable_nbytes(body) // max(nbytes, 1))))


class ElementwiseWork(BlockWork):
    """Blocks of elements as one array each."""

    small = 1e-7  # below that most of the time is spent in splitting, which holds the GIL

    def plan(self, units):
        return BlockPlan.of(self.body, self.inputs, units)

    def run_block(self, plan, start, stop):
        block = part_of(self.inputs, start, stop)
        try:
            arguments = plan.arguments(block)
            if arguments is None:
                return None
            try:
                results = plan.run(arguments)
            except Exception:  # the body may raise anything
                return None
            sequences = plan.split(results, arguments, block)
        except (MemoryError, ValueError):  # single elements need less memory, and name one that is damaged
            return None
        return None if sequences is None else (len(results) == 1, sequences)


class BlockPlan:
    """The way in which a body runs on blocks of a map's inputs: the part that is the same for all blocks."""

    def __init__(self, run, shapes, extents):
        self.run = run
        self._extents = extents  # the shape that the elements of each input must have, or None
        self._rank = max(map(len, shapes), default=0)  # else the result would have a higher rank
        self._trailing = _trailing(shapes)
        if self._trailing:
            self._rank = max(self._rank, len(self._trailing) + 1)

    @classmethod
    def of(cls, body, inputs, elements):
        """Return the plan for a body, or None if it is not elementwise."""
        if isinstance(body, np.ufunc):
            return _ufunc_plan(body, inputs)
        broadcast = frozenset(i for i, one in enumerate(inputs) if not isinstance(one, TensorSequence))
        form = body.flat_form(tuple(one.dtype for one in inputs), broadcast, elements)
        if form is None:
            return None
        shapes = [*form.shapes, *(inputs[i].shape for i in broadcast)]
        return cls(form.run, shapes, form.extents)

    def arguments(self, block):
        """Return the arguments for a block of inputs, or None if elements don't fit together."""
        sequences = [one for one in block if isinstance(one, TensorSequence)]
        first, n = sequences[0], len(sequences[0])
        for one, extents in zip(block, self._extents, strict=True):
            if extents is None or not isinstance(one, TensorSequence):
                continue
            if first_misfit(one, len(extents), len(extents), extents) < n:
                return None
        if any(first_other_shape(first, other) < n for other in sequences[1:]):
            return None
        trailing = self._trailing
        if trailing:
            # An axis that only 1s broadcast along may have any extent, but one for all elements.
            own = first[0].shape[-len(trailing) :]
            if len(own) < len(trailing):
                return None
            pairs = zip(trailing, own, strict=True)
            trailing = tuple(mine if extent < 0 else extent for extent, mine in pairs)
            if 0 in trailing:
                return None
        if self._rank and first_misfit(first, self._rank, 64, trailing) < n:
            return None
        return [
            items_of(one).reshape(-1, *trailing) if isinstance(one, TensorSequence) else one for one in block
        ]

    def split(self, results, arguments, block):
        """Return the results as sequences shaped like the block's elements; None if one has another size."""
        like, items = next(
            (one, argument.size)
            for one, argument in zip(block, arguments, strict=True)
            if isinstance(one, TensorSequence)
        )
        sequences = []
        for result in results:
            try:
                array = as_tensor(result).reshape(-1)  # not the body's own array object
            except (TypeError, ValueError):
                return None  # its dtype is not supported
            if array.size != items:
                return None
            sequences.append(cut_as(array, like))
        return tuple(sequences)


def _trailing(shapes):
    """Return the extents of the last axes that broadcast inputs have; -1 where all have 1."""
    naxes = 0
    for shape in shapes:
        axes = [axis for axis, extent in enumerate(shape) if extent != 1]
        if axes:
            naxes = max(naxes, len(shape) - axes[0])
    trailing = [-1] * naxes
    for shape in shapes:
        for axis in range(1, min(naxes, len(shape)) + 1):
            if shape[-axis] != 1:
                if trailing[-axis] not in (-1, shape[-axis]):
                    return (IMPOSSIBLE,)  # they don't broadcast: calls with single elements raise
                trailing[-axis] = shape[-axis]
    return tuple(trailing)


def _ufunc_plan(ufunc, inputs):
    """Return the plan for a ufunc of numbers; None if it has a signature or returns objects."""
    if ufunc.signature is not None or ufunc.nin != len(inputs):
        return None
    dtypes = tuple(one.dtype for one in inputs)
    try:
        resolved = ufunc.resolve_dtypes((*dtypes, *[None] * ufunc.nout))
    except TypeError:
        return None
    if any(dtype.hasobject for dtype in (*dtypes, *resolved)):
        return None
    shapes = [one.shape for one in inputs if not isinstance(one, TensorSequence)]
    if ufunc.nout == 1:
        return BlockPlan(lambda arguments: (ufunc(*arguments),), shapes, (None,) * len(inputs))
    return BlockPlan(lambda arguments: ufunc(*arguments), shapes, (None,) * len(inputs))
