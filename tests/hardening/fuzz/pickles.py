"""What pickle hands to seqcore, with up to four damages: all that doesn't fit is refused, the rest is right.

Whole pickles are no target: what they call is pickle's own affair, and NumPy's. This is seqcore's part.
"""

import itertools
import math

import numpy as np
from hardening.fuzz.tape import Tape, bits, filled, raised
from support.damage import every_other
from support.strategies import LAYOUTS, NAMES, dtype_of, laid_out

from seqcore import TensorSequence, split_to_sequence

# What restore may say no with.
REFUSALS = (TypeError, ValueError, IndexError)


class Own(TensorSequence):
    """With arguments of its `__new__`, and one that may not be given."""

    def __new__(cls, *arguments, **named):
        self = super().__new__(cls)
        self.given = arguments, named
        return self

    def __getnewargs_ex__(self):
        return (1, "two"), {"three": 3}


OTHERS = (
    None, "x", "int8", "int64", "string", "", b"abc", object, TensorSequence, Own, int, 0, 1.0, True, (), [],
    {}, ({},), ("a", 2), {"a": 1}, {1: 2}, range(3), np.zeros(3), np.zeros((2, 3), "int64"),
    np.array(["a", 5], object), np.ma.masked_array([[0, 0, 0]], mask=True), split_to_sequence,
)  # fmt: skip


# -- a state, and what is wrong with it ------------------------------------------------------------------


def sequence_of(tape):
    """A sequence of whole arrays, and of tables of each kind."""
    name = tape.pick(NAMES)
    pieces = TensorSequence(dtype=dtype_of(name) if tape.chance(2) else name)
    for _ in range(tape.between(0, 3)):
        array = laid_out(filled(name, tape.shape(), tape.byte()), tape.pick(LAYOUTS))
        if tape.chance(3) or array.ndim == 0:
            pieces.append(array)
        else:
            axis = tape.below(array.ndim)
            n = array.shape[axis]
            way = tape.below(4)
            if way == 0:
                pieces += split_to_sequence(array, axis=axis, keepdims=tape.below(2))
            elif way == 1:
                pieces += split_to_sequence(array, tape.between(1, 3), axis)
            else:
                ends = [0, *sorted(tape.between(0, n) for _ in range(tape.below(4))), n]
                pieces += split_to_sequence(array, np.diff(ends), axis)
            if way == 3:
                pieces.compact()
    if tape.chance(3):
        pieces = pieces[:: tape.pick([2, -1, 3, -2])]
    if tape.chance(3) and len(pieces):
        pieces = pieces[[tape.below(len(pieces)) for _ in range(tape.below(5))]]
    if tape.chance(3):
        return Own(pieces)
    return pieces


def damaged(tape, state):
    """The state, with something else at one place."""
    states = [*every_other(state, OTHERS)]
    return states[(tape.byte() << 8 | tape.byte()) % len(states)]


# -- what it should be -----------------------------------------------------------------------------------


class Unfit(Exception):
    """No sequence has such a state."""


def need(true):
    if not true:
        raise Unfit


def expected(cls, dtype, parts, order, positional=(), named=None):
    """The elements that a state stands for; Unfit where it stands for none."""
    need(type(cls) is type and issubclass(cls, TensorSequence))
    need(type(dtype) is str and dtype in NAMES)
    need(type(parts) is list)
    tables = [elements_of(part, dtype) for part in parts]
    need(isinstance(order, tuple | np.ndarray))
    if isinstance(order, tuple) and len(order) == 2 and isinstance(order[1], np.ndarray):
        elements = by_numbers(tables, *order)
    else:
        elements = by_runs(tables, order)
    need(type(positional) is tuple)
    need(named is None or (type(named) is dict and all(isinstance(name, str) for name in named)))
    return elements


def numbers_in(array, ndim=1):
    need(isinstance(array, np.ndarray) and array.dtype.kind in "iu" and array.ndim == ndim)
    numbers = np.asarray(array).astype(object)
    need(all(number < 1 << 63 for number in numbers.ravel()))
    return numbers.tolist()


def elements_of(part, dtype):
    """The elements of one part, all of them."""
    need(type(part) is tuple and part and type(part[0]) is str)
    kind, *rest = part
    need(len(rest) == {"whole": 1, "even": 3, "offsets": 3, "views": 4, "shaped": 3}.get(kind))
    array = rest[0]
    need(isinstance(array, np.ndarray) and not isinstance(array, np.ma.MaskedArray))
    if dtype == "string":
        need(array.dtype.kind in "OU" and all(isinstance(item, str) for item in array.ravel().tolist()))
    else:
        need(array.dtype.newbyteorder("=") == dtype_of(dtype))
    array = np.asarray(array)
    if kind == "whole":
        return [array]
    if kind == "shaped":
        offsets, shapes = numbers_in(rest[1]), numbers_in(rest[2], 2)
        need(array.ndim == 1 and array.flags.c_contiguous and len(offsets) == len(shapes) + 1)
        need(0 < rest[2].shape[1] <= 64)
        return [
            of_shape(array, *ends, shape) for *ends, shape in zip(offsets, offsets[1:], shapes, strict=False)
        ]
    axis = rest[1]
    need(type(axis) is int and -1 <= axis < array.ndim and (axis >= 0 or kind == "even"))
    if kind == "even":
        length = rest[2]
        need(type(length) is int and length > 0 and array.ndim and (axis >= 0 or length == 1))
        if axis < 0:
            return [array[i, ...] for i in range(len(array))]
        n = array.shape[axis]
        spans = [(at, min(at + length, n)) for at in range(0, n, length)]
    elif kind == "offsets":
        offsets = numbers_in(rest[2])
        need(offsets and offsets[0] == 0 and offsets[-1] == array.shape[axis])
        spans = list(itertools.pairwise(offsets))
    else:
        starts, lengths = numbers_in(rest[2]), numbers_in(rest[3])
        spans = [(start, start + length) for start, length in zip(starts, lengths, strict=False)]
    need(all(0 <= start <= stop <= array.shape[axis] for start, stop in spans))
    return [array[(slice(None),) * axis + (slice(*span),)] for span in spans]


def of_shape(items, start, stop, shape):
    need(0 <= start <= stop <= len(items) and min(shape) >= 0 and math.prod(shape) == stop - start)
    need(math.prod(max(extent, 1) for extent in shape) * items.itemsize < 1 << 63)
    return items[start:stop].reshape(shape)


def by_numbers(tables, which, numbers):
    numbers = numbers_in(numbers)
    if which is None:
        need(len(tables) == 1)
        which = [0] * len(numbers)
    else:
        which = numbers_in(which)
    need(len(which) == len(numbers))
    need(all(0 <= part < len(tables) for part in which))
    need(all(0 <= number < len(tables[part]) for part, number in zip(which, numbers, strict=True)))
    return [tables[part][number] for part, number in zip(which, numbers, strict=True)]


def by_runs(tables, order):
    if isinstance(order, np.ndarray):
        order = numbers_in(order, 2)
        need(all(len(run) == 4 for run in order))
    elements = []
    for run in order:
        need(isinstance(run, list | tuple) and len(run) == 4 and all(type(number) is int for number in run))
        part, first, step, n = run
        need(0 <= part < len(tables) and n >= 1 and (step or n == 1))
        table = tables[part]
        need(0 <= first < len(table) and 0 <= first + (n - 1) * step < len(table))
        elements += [table[first + i * step] for i in range(n)]
    return elements


def run(data):
    tape = Tape(data)
    sequence = sequence_of(tape)
    make, arguments, *_ = sequence.__reduce_ex__(5)
    for _ in range(tape.below(5)):
        arguments = damaged(tape, arguments)
        if not isinstance(arguments, tuple):
            return
    try:
        elements = expected(*arguments)
    except (Unfit, TypeError):  # the latter of too many or too few arguments
        elements = None
    if elements is None:
        assert raised(REFUSALS, make, *arguments), f"taken, though it doesn't fit: {arguments}"
        return
    back = make(*arguments)
    back._check()
    assert type(back) is arguments[0]
    assert [element.shape for element in back] == [element.shape for element in elements]
    for got, wanted in zip(back, elements, strict=True):
        wanted = np.asarray(wanted)
        wanted = wanted.astype(object if back.dtype == object else back.dtype)
        assert bits(got) == bits(wanted)
    if isinstance(back, Own):
        positional, named = (*arguments[4:], *((), None)[len(arguments) - 4 :])
        assert back.given == (positional, named or {})
    again = back[:] + back[::-1]
    again.compact()
    assert len(again) == 2 * len(elements)


def seeds():
    for name in range(len(NAMES)):
        for damages in range(5):
            yield bytes([name, 0, 2, 2, 2, 3, 1, 0, 0, 1, 1, 2, 2, 4, 3, 0, 0, damages, *range(damages * 4)])


FOUND = ()
