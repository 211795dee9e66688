"""The outputs of a map: finished chunks, added to the output sequences in order."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from seqcore._arguments.shown import add_note, shown_error
from seqcore._arguments.tensors import as_tensor, has_type
from seqcore.core.calls import OutputError, absorb, put_results
from seqcore.core.sequence import TensorSequence

_PYTHON_VALUES = (bool, int, float, complex, str, list, tuple)


@dataclass(slots=True)
class Chunk:
    """The result of some units: a list of results, or sequences, which may be the first to set the types."""

    start: int
    count: int  # finished units; an error belongs to the unit after them
    error: BaseException | None = None
    results: list | None = None
    sequences: tuple | None = None
    single: bool | None = None  # True if the body returns one tensor, False for a tuple
    note: str | None = None  # the traceback of an error in another process
    seconds: float = 0.0  # the time it took, if a worker measured it
    in_blocks: int = 0  # units that ran in blocks
    ends: bool = False  # True if the last result is not a tensor: to add it raises, and no unit after it ran


class Outputs:
    """The output sequences of a map, whose number and types the first unit sets."""

    def __init__(self, single, dtypes, name):
        self.single = single
        self.name = name  # a function that names units in messages
        self.sequences: Any = None
        self._types: Any = None  # of each output, None while it has only had lists without items
        self._waiting: list[Any] = []  # (unit of the first, results) while an output has no type
        if dtypes is not None:
            self.sequences = fresh(dtypes)

    @property
    def dtypes(self):
        return None if self.sequences is None else tuple(one.dtype for one in self.sequences)

    def add(self, chunk):
        """Add the next chunk; raise its error, which is the one that a serial loop would raise."""
        unit, error, chunk.error = chunk.start + chunk.count, chunk.error, None
        if chunk.note is not None:
            add_note(error, chunk.note)
        try:
            if chunk.sequences is not None:
                self._add_sequences(chunk)
            elif chunk.results:
                self._add_results(chunk)
            if error is not None:
                raise_for(error, self.name(unit))
        finally:
            del error  # it refers to this frame

    def finish(self):
        """Set the types that no result has set: those of lists without items."""
        if self.sequences is None and self._waiting:
            self._begin(self._types)

    def _add_results(self, chunk):
        if self.sequences is None:
            self._waiting.append((chunk.start, chunk.results))
            if self._find_types(chunk):
                self._begin(self._types)
        else:
            self._put(chunk.start, chunk.results)

    def _put(self, start, results):
        before = complete(self.sequences)
        try:
            put_results(self.sequences, self.single, results)
        except BaseException as error:
            raise_for(error, self.name(start + complete(self.sequences) - before))

    def _begin(self, types):
        """Make the outputs, and add the results that have waited for them."""
        self.sequences = fresh(np.dtype(np.float64) if dtype is None else dtype for dtype in types)
        waiting, self._waiting = self._waiting, []
        for start, results in waiting:
            self._put(start, results)

    def _find_types(self, chunk):
        """Return whether all outputs have a type: each that of its first value that isn't an empty list."""
        for unit, result in enumerate(chunk.results, chunk.start):
            try:
                if self.single is None:
                    self.single = not isinstance(result, tuple)
                if isinstance(result, tuple) == self.single:
                    self._types = self._types or [None]
                    return True  # to put it raises
                values = values_of(result, self.single)
                if self._types is None:
                    self._types = [None] * len(values)
                if len(values) != len(self._types):
                    return True
                for k, value in enumerate(values):
                    if self._types[k] is None and has_type(value):
                        self._types[k] = as_tensor(value).dtype
            except BaseException as error:
                raise_for(OutputError(None, error), self.name(unit))
            # Not by `in`, because a dtype of float64 equals None.
            if all(dtype is not None for dtype in self._types):
                return True
        return False

    def _add_sequences(self, chunk):
        if self.sequences is None and self._types is None:
            self.single, self.sequences = chunk.single, chunk.sequences
            return
        if self.sequences is None:
            types = [one.dtype for one in chunk.sequences]
            if len(types) == len(self._types):
                pairs = zip(self._types, types, strict=True)
                self._types = [other if own is None else own for own, other in pairs]
            self._begin(self._types)
        if (self.dtypes, self.single) != (tuple(one.dtype for one in chunk.sequences), chunk.single):
            # A worker that didn't know the types found other ones; its first result has the error.
            if complete(chunk.sequences) == 0:
                return
            first = tuple(one[0] for one in chunk.sequences)
            try:
                put_results(self.sequences, self.single, list(first) if chunk.single else [first])
            except BaseException as error:
                raise_for(error, self.name(chunk.start))
        for mine, more in zip(self.sequences, chunk.sequences, strict=True):
            absorb(mine, more)


def fresh(dtypes):
    return tuple(TensorSequence(dtype=dtype) for dtype in dtypes)


def complete(sequences):
    """Return how many elements all outputs have; the last output gets each element last."""
    return len(sequences[-1])


def values_of(result, single):
    """Return the result of a body as a tuple of values."""
    if not single and not result:
        raise TypeError("the body returned an empty tuple, expected a tensor or a tuple of them")
    if result is None:
        raise TypeError("the body returned None, expected a tensor: does it lack a return?")
    return (result,) if single else result


def output_types(result, single):
    """Return the output types that a first result sets; None if it has Python values.

    For those the types of a map that has begun elsewhere decide: a 1 may have to become a 1.0.
    """
    dtypes = []
    for value in values_of(result, single):
        if isinstance(value, _PYTHON_VALUES) and not hasattr(value, "dtype"):
            return None
        dtypes.append(as_tensor(value).dtype)
    return tuple(dtypes)


def raise_for(error, name):
    """Raise the error of a unit, with its name."""
    if isinstance(error, OutputError):
        output, reason = error.args
        which = "" if output is None else f", output {output}"
        if type(reason) in (TypeError, ValueError, OverflowError):
            raise type(reason)(f"{name} of the map{which}: {shown_error(reason)}") from reason
        error = reason  # its class may not be constructible from a message
    add_note(error, f"raised for {name} of a SequenceMap")
    try:
        raise error
    finally:
        del error
