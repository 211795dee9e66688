"""The outputs of a map: finished chunks, added to the output sequences in order."""

from typing import Any

import numpy as np

from seqcore._arguments.shown import add_note, shown_error
from seqcore._arguments.tensors import as_tensor, has_type
from seqcore.core.maps import OutputError, absorb, empty_sequences, put_results
from seqcore.dtypes import ELEMENT_TYPES, STRING

_PLAIN = frozenset(ELEMENT_TYPES.values()) - {STRING}
_PYTHON_VALUES = (bool, int, float, complex, str, list, tuple)


class Chunk:
    """The outcome of some units: sequences, or a list of results where their types aren't known yet.

    Attributes
    ----------
    start, count : int
        The first unit, and the number of finished ones; an error belongs to the unit after them.
    error : BaseException or None
    results : list or None
    sequences : tuple of TensorSequence or None
    single : bool or None
        True if the body returns one tensor, False if it returns a tuple.
    ends : bool
        True if the last result is not a tensor: to add it raises, and no unit after it ran.
    note : str or None
        The traceback of an error in another process.
    began, seconds : float
        When a worker began, by its clock, and the time that it took.
    """

    __slots__ = (
        "began", "count", "ends", "error", "note", "results", "seconds", "sequences", "single", "start",
    )  # fmt: skip

    def __init__(self, start, count, error=None, results=None, sequences=None, single=None, ends=False):
        self.start, self.count, self.error = start, count, error
        self.results, self.sequences, self.single, self.ends = results, sequences, single, ends
        self.note, self.began, self.seconds = None, 0.0, 0.0


class Outputs:
    """The output sequences of a map, whose number and types the first unit sets."""

    def __init__(self, single, dtypes, name):
        self.single = single
        self.name = name  # a function that names units in messages
        self.sequences: Any = None if dtypes is None else empty_sequences(dtypes)
        self._types: Any = None  # of each output, None while it has only had lists without items
        self._waiting: list[Any] = []  # (unit of the first, results) while an output has no type

    @property
    def types(self):
        """The dtypes of the outputs, and whether there is one that is not in a tuple; None if not known."""
        sequences = self.sequences
        return None if sequences is None else dtypes_of(sequences), self.single

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
        self.sequences = empty_sequences(np.dtype(np.float64) if dtype is None else dtype for dtype in types)
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
        if self.types != (dtypes_of(chunk.sequences), chunk.single):
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


def dtypes_of(sequences):
    return tuple([one.dtype for one in sequences])


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


def types_of(result, single, is_first):
    """Return (single, dtypes) as the result of a unit has them.

    If the unit is not the first one of the map, dtypes are None where there are Python values, because the
    types of the first unit decide: a 1 may have to become a 1.0. They are also None where there is a list
    without items, which has no type.
    """
    if single is None:
        single = not isinstance(result, tuple)
    dtypes = []
    for value in values_of(result, single):
        if not is_first and isinstance(value, _PYTHON_VALUES) and not hasattr(value, "dtype"):
            return single, None
        if type(value) is np.ndarray and value.dtype in _PLAIN:  # the usual case, quickly
            dtypes.append(value.dtype)
        elif not has_type(value):
            return single, None
        else:
            dtypes.append(as_tensor(value).dtype)
    return single, tuple(dtypes)


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
