"""Maps whose body works number by number: whole blocks of elements at once, whatever their shapes.

A NumPy ufunc, and a graph of such operators, gives for the items of many elements in a row what it gives for
each element alone. So the items of a block go in as one array, and what comes back is cut as the elements
were. Whole tensors come along where they are broadcast along the elements' last axes::

    elements (3, 8), (5, 8)   whole ()      items as (64,)
    elements (3, 8), (5, 8)   whole (8,)    items as (8, 8), which keeps the axis that is met
    elements (8,), (5, 8)     whole (8,)    an element has nothing to stand in front: one by one

What doesn't go in one piece, and what fails, goes element by element, so that types, shapes and errors are
those of a serial loop.
"""

import numpy as np

from seqcore._maps.outputs import Chunk
from seqcore._maps.work import ElementWork, Work, suitable_nbytes, typical_nbytes
from seqcore._tensors import as_tensor
from seqcore.core.calls import absorb
from seqcore.core.batches import cut_as, items_of
from seqcore.core.layout import first_misfit, first_other_shape
from seqcore.core.sequence import TensorSequence

BLOCK = 1 << 17  # elements that go in at once, at most
NEVER = 1 << 62  # an extent that no element has
LARGE = 1 << 13  # bytes an element, from which on a call for each costs less than a copy


def flat_work(body, inputs, n):
    """Return the `FlatWork` for a map, or None where the body is none for it or the elements are large."""
    ufunc = isinstance(body, np.ufunc)
    if n == 0 or not (ufunc or hasattr(type(body), "flat_form")):
        return None
    if ufunc and _ufunc_form(body, inputs) is None:
        return None
    nbytes = max(typical_nbytes(one) for one in inputs if isinstance(one, TensorSequence))
    if nbytes > LARGE:
        return None
    return FlatWork(body, inputs, n, max(1, min(BLOCK, suitable_nbytes(body) // max(nbytes, 1))))


class FlatWork(Work):
    """A unit is an element, as in `ElementWork`, but they run a block at a time."""

    in_batches = True
    small = 1e-7  # below that most of the time goes into cutting, which holds the GIL

    def __init__(self, body, inputs, n, block):
        self.body, self.inputs, self.n, self.block = body, inputs, n, block
        self.by_element = ElementWork(body, inputs, n)

    def part(self, start, stop):
        part = self.by_element.part(start, stop)
        return FlatWork(self.body, part.inputs, part.n, self.block)

    def elements(self, start, stop):
        return self.by_element.elements(start, stop)

    def name(self, start, stop=None):
        return self.by_element.name(start, stop)

    def _with_inputs(self, inputs):
        return FlatWork(self.body, inputs, self.n, self.block)

    def run(self, start, stop, bound, dtypes, single):
        try:
            return self._run(start, stop, bound, dtypes, single)
        except BaseException as error:  # Ctrl-C: nothing behind it is started
            bound.lower(start)
            return Chunk(start, 0, error)

    def _run(self, start, stop, bound, dtypes, single):
        form = Form.of(self.body, self.inputs, stop - start)
        if form is None:
            return self.by_element.run(start, stop, bound, dtypes, single)
        done, at = None, start
        while True:
            end = min(stop, at + self.block)
            part = self._run_block(form, at, end, dtypes, single) if bound.allows(at) else None
            if part is None:
                part = self.by_element.run(at, end, bound, dtypes, single)
            done = part if done is None else _joined(done, part)
            if end == stop or part.error is not None or part.count < end - at or not bound.allows(end):
                return done
            if done.sequences is not None:
                dtypes, single = tuple(one.dtype for one in done.sequences), done.single
            at = end

    def _run_block(self, form, start, stop, dtypes, single):
        """Run a block in one piece; None if that can't be, or fails: then its elements run one by one.

        Which of them fails, and with what, shows when they do.
        """
        block = [one[start:stop] if isinstance(one, TensorSequence) else one for one in self.inputs]
        try:
            arguments = form.arguments(block)
            if arguments is None:
                return None
            try:
                results = form.run(arguments)
            except Exception:  # whatever the body raises
                return None
            if single is None:
                single = len(results) == 1
            sequences = form.cut(results, arguments, block)
        except MemoryError:  # for a block in one piece; its elements need less
            return None
        if sequences is None or single != (len(results) == 1):
            return None
        if dtypes is not None and dtypes != tuple(one.dtype for one in sequences):
            return None
        return Chunk(start, stop - start, None, None, sequences, single, in_blocks=stop - start)


def _joined(done, part):
    """One chunk of two, the second of which begins where the first one ends."""
    done.count += part.count
    done.in_blocks += part.in_blocks
    done.error, part.error = part.error, None
    if done.sequences is not None and part.sequences is not None:
        for mine, more in zip(done.sequences, part.sequences, strict=True):
            absorb(mine, more)
    elif part.results:
        done.results = [*(done.results or ()), *part.results]
    return done


class Form:
    """How a body runs on blocks of a map's inputs, as far as that does not depend on the block."""

    def __init__(self, run, shapes, extents):
        self.run = run
        self._extents = extents  # for each input what its elements must have, or None
        self._rank = max(map(len, shapes), default=0)  # with a lower one, a result would be larger
        self._behind = _behind(shapes)
        if self._behind:
            self._rank = max(self._rank, len(self._behind) + 1)

    @classmethod
    def of(cls, body, inputs, elements):
        """The form for a body, or None."""
        if isinstance(body, np.ufunc):
            return _ufunc_form(body, inputs)
        whole = frozenset(i for i, one in enumerate(inputs) if not isinstance(one, TensorSequence))
        form = body.flat_form(tuple(one.dtype for one in inputs), whole, elements)
        if form is None:
            return None
        shapes = [*form.shapes, *(inputs[i].shape for i in whole)]
        return cls(form.run, shapes, form.extents)

    def arguments(self, block):
        """What the body gets for a block of inputs, or None where elements don't fit together."""
        sequences = [one for one in block if isinstance(one, TensorSequence)]
        first, n = sequences[0], len(sequences[0])
        for one, extents in zip(block, self._extents, strict=True):
            if extents is None or not isinstance(one, TensorSequence):
                continue
            if first_misfit(one, len(extents), len(extents), extents) < n:
                return None
        if any(first_other_shape(first, other) < n for other in sequences[1:]):
            return None
        behind = self._behind
        if behind:
            # What is met by 1 alone may have any extent, but one for all.
            own = first[0].shape[-len(behind) :]
            if len(own) < len(behind):
                return None
            behind = tuple(mine if extent < 0 else extent for extent, mine in zip(behind, own, strict=True))
            if 0 in behind:
                return None
        if self._rank and first_misfit(first, self._rank, 64, behind) < n:
            return None
        return [
            items_of(one).reshape(-1, *behind) if isinstance(one, TensorSequence) else one for one in block
        ]

    def cut(self, results, arguments, block):
        """Sequences of the results, shaped as the block's elements; None if one has another size."""
        like, items = next(
            (one, argument.size)
            for one, argument in zip(block, arguments, strict=True)
            if isinstance(one, TensorSequence)
        )
        sequences = []
        for result in results:
            try:
                array = as_tensor(result).reshape(-1)  # of our own: the body may have kept the other
            except (TypeError, ValueError):
                return None  # of a type that no element has
            if array.size != items:
                return None
            sequences.append(cut_as(array, like))
        return tuple(sequences)


def _behind(shapes):
    """The last axes that whole tensors meet: their extents, -1 where they have 1 alone."""
    naxes = 0
    for shape in shapes:
        met = [axis for axis, extent in enumerate(shape) if extent != 1]
        if met:
            naxes = max(naxes, len(shape) - met[0])
    behind = [-1] * naxes
    for shape in shapes:
        for axis in range(1, min(naxes, len(shape)) + 1):
            if shape[-axis] != 1:
                if behind[-axis] not in (-1, shape[-axis]):
                    return (NEVER,)  # these two never meet, as calls for the elements will say
                behind[-axis] = shape[-axis]
    return tuple(behind)


def _ufunc_form(ufunc, inputs):
    """The form of a ufunc of numbers; None if it has a signature, or gives objects."""
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
        return Form(lambda arguments: (ufunc(*arguments),), shapes, (None,) * len(inputs))
    return Form(lambda arguments: ufunc(*arguments), shapes, (None,) * len(inputs))
