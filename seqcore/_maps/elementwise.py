"""Elementwise bodies of maps: run on whole blocks of elements at once, whatever their shapes.

A NumPy ufunc, or a graph of such operators, gives the same values for many elements in one array as for each
element alone. So the values of a block are passed as one array, and the result is split like the elements.
Broadcast inputs are passed along if they broadcast along the last axes of the elements::

    elements (3, 8), (5, 8)   input ()       values as (64,)
    elements (3, 8), (5, 8)   input (8,)     values as (8, 8), which keeps the axis that is broadcast along
    elements (8,), (5, 8)     input (8,)     values as (6, 8)
    elements (8,), (5, 8)     input (1, 8)   the first result has one more axis than its element: one by one

For a ufunc, one sequence may broadcast to another in the same way, if its elements have one shape. They are
repeated for the rows of the other's elements::

    elements (3, 8), (5, 8)   and (), ()           values as (64,), the others repeated 24 and 40 times
    elements (3, 8), (5, 8)   and (8,), (8,)       values as (8, 8), the others (2, 8) repeated 3 and 5 times
    elements (3, 8), (5, 8)   and (1, 8), (1, 8)   the same
    elements (3, 8), (5, 8)   and (3, 1), (5, 1)   the others have two shapes: one by one
"""

import math

import numpy as np

from seqcore._arguments.tensors import as_tensor
from seqcore._maps.work import BlockWork, part_of, suitable_nbytes, typical_nbytes
from seqcore.core.arrow import first_misfit, first_other_shape, shapes_of
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
            found = plan.arguments(block)
            if found is None:
                return None
            arguments, like, items = found
            try:
                results = plan.run(arguments)
            except Exception:  # the body may raise anything
                return None
            sequences = _split(results, like, items)
        except (MemoryError, ValueError):  # single elements need less memory, and name one that is damaged
            return None
        return None if sequences is None else (len(results) == 1, sequences)


class BlockPlan:
    """The way in which a body runs on blocks of a map's inputs: the part that is the same for all blocks."""

    def __init__(self, run, shapes, extents, repeats=False):
        self.run = run
        self._shapes = shapes  # of the inputs that are broadcast to all elements
        self._extents = extents  # the shape that the elements of each input must have, or None
        self._repeats = repeats  # whether elements of one sequence may be repeated for the rows of another's

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
        """Return the arguments for a block of inputs; None if elements don't fit together.

        With them the sequence that has the shapes of the results, and how many items it has.
        """
        sequences = [one for one in block if isinstance(one, TensorSequence)]
        like, n = sequences[0], len(sequences[0])
        for one, extents in zip(block, self._extents, strict=True):
            if extents is None or not isinstance(one, TensorSequence):
                continue
            if first_misfit(one, len(extents), len(extents), extents) < n:
                return None
        others = _of_other_shapes(like, sequences)
        if others:
            if not self._repeats:
                return None
            like = max(sequences, key=lambda one: (one[0].ndim, one.nbytes // one.dtype.itemsize))
            others = _of_other_shapes(like, sequences)
            rank = like[0].ndim
            fit = all(first_misfit(one, one[0].ndim, one[0].ndim, one[0].shape) == n for one in others)
            if not fit or first_misfit(like, rank, rank, ()) < n:
                return None
        trailing = _trailing_of(like, [*self._shapes, *(one[0].shape for one in others)])
        if trailing is None:
            return None
        rows = _rows_of(like, len(trailing)) if others else None
        arguments = []
        for one in block:
            if not isinstance(one, TensorSequence):
                arguments.append(one)
            elif any(one is other for other in others):
                arguments.append(_repeated(one, len(trailing), rows))
            else:
                arguments.append(items_of(one).reshape(-1, *trailing))
        items = next(argument.size for one, argument in zip(block, arguments, strict=True) if one is like)
        return arguments, like, items


def _of_other_shapes(like, sequences):
    """Return the sequences whose elements don't all have the shapes of those of `like`."""
    return [one for one in sequences if one is not like and first_other_shape(like, one) < len(like)]


def _rows_of(sequence, naxes):
    """Return how many rows of so many axes each element has; all elements have one rank."""
    rank = sequence[0].ndim
    if rank == naxes + 1:
        return sequence.lengths()
    return math.prod(shapes_of(sequence, rank).T[: rank - naxes])


def _repeated(sequence, naxes, rows):
    """Return the values of elements of one shape as rows of so many axes, each repeated so often."""
    shape = sequence[0].shape
    row = ((1,) * naxes + shape)[len(shape) :]  # axes that are cut off have an extent of 1
    return np.repeat(items_of(sequence).reshape(len(sequence), *row), rows, axis=0)


def _split(results, like, items):
    """Return the results as sequences shaped like another; None if one has another number of items."""
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


def _trailing_of(like, shapes):
    """Return the last axes of elements that shapes broadcast along, or None if results would be larger."""
    trailing = _trailing(shapes)
    if trailing:
        # An axis that only 1s broadcast along may have any extent, but one for all elements.
        own = like[0].shape[-len(trailing) :]
        if len(own) < len(trailing):
            return None
        trailing = tuple(mine if extent < 0 else extent for extent, mine in zip(trailing, own, strict=True))
        if 0 in trailing:
            return None
    rank = max(map(len, shapes), default=0)  # else the result would have a higher rank
    return None if rank and first_misfit(like, rank, 64, trailing) < len(like) else trailing


def _trailing(shapes):
    """Return the extents of the last axes that shapes have together; -1 where all have 1."""
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
        return BlockPlan(lambda arguments: (ufunc(*arguments),), shapes, (None,) * len(inputs), True)
    return BlockPlan(lambda arguments: ufunc(*arguments), shapes, (None,) * len(inputs), True)
